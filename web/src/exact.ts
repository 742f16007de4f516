// JSON whose integers stay what they are. A number of JavaScript is a double: beyond 2^53 not every integer is one,
// and seeds and identities are such integers. They are bigints here.

/// Reads JSON; values of parameters that are integers and that a double cannot hold become bigints.
export function lossless(text: string): unknown {
  // Only where a long integer stands may anything be lost.
  if (!/\d{16}/.test(text)) return JSON.parse(text);
  return JSON.parse(marked(text), (key, v: unknown) => {
    if (typeof v !== "string" || !v.startsWith(MARK)) return v;
    if (v.startsWith(MARK + MARK)) return v.slice(1);
    // A step or the end of a loop is for people: its last digits are of no account.
    return key === "value" ? BigInt(v.slice(1)) : Number(v.slice(1));
  });
}

/// Writes JSON; bigints as the integers that they are.
export function exact(value: unknown): string {
  const made = JSON.stringify(value, (_key, v: unknown) =>
    typeof v === "bigint" ? MARK + String(v) : typeof v === "string" && v.startsWith(MARK) ? MARK + v : v);
  return made.replace(STRINGS, (word) => {
    if (!word.startsWith(`"${MARK}`)) return word;
    return word.startsWith(`"${MARK}${MARK}`) ? `"${word.slice(2)}` : word.slice(2, -1);
  });
}

/// A character of no text that people write marks what was an integer; a text that begins with it has it twice.
const MARK = "\u{e000}";
const STRINGS = /"(?:[^"\\]|\\.)*"/gs;
const WORDS = /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?/gs;

function marked(text: string): string {
  return text.replace(WORDS, (word) => {
    if (word.startsWith('"')) return word.startsWith(`"${MARK}`) ? `"${MARK}${word.slice(1)}` : word;
    return /^-?\d+$/.test(word) && !Number.isSafeInteger(Number(word)) ? `"${MARK}${word}"` : word;
  });
}
