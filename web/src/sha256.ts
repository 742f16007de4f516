// SHA-256 and HMAC in plain script: the browser's own are missing where a page is not a "secure context", behind
// a plain http address or in a frame of one. (FIPS 180-4, RFC 2104.)

function constants(count: number, power: number): Uint32Array {
  // The first bits of the fractions of roots of primes.
  const out = new Uint32Array(count);
  for (let n = 2, i = 0; i < count; n++) {
    let prime = true;
    for (let d = 2; d * d <= n; d++) if (n % d === 0) prime = false;
    if (prime) out[i++] = (n ** power % 1) * 2 ** 32;
  }
  return out;
}

const K = constants(64, 1 / 3);
const BEGIN = constants(8, 1 / 2);

function block(state: Uint32Array, bytes: DataView, at: number): void {
  const w = new Uint32Array(64);
  const turn = (v: number, n: number): number => (v >>> n) | (v << (32 - n));
  for (let i = 0; i < 64; i++) {
    if (i < 16) {
      w[i] = bytes.getUint32(at + 4 * i);
      continue;
    }
    const [a, b] = [w[i - 15] as number, w[i - 2] as number];
    const s0 = turn(a, 7) ^ turn(a, 18) ^ (a >>> 3);
    const s1 = turn(b, 17) ^ turn(b, 19) ^ (b >>> 10);
    w[i] = (w[i - 16] as number) + s0 + (w[i - 7] as number) + s1;
  }
  let [a, b, c, d, e, f, g, h] = state as unknown as [number, number, number, number, number, number, number, number];
  for (let i = 0; i < 64; i++) {
    const t1 = h + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + ((e & f) ^ (~e & g)) + (K[i] as number) + (w[i] as number);
    const t2 = (turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
    [h, g, f, e, d, c, b, a] = [g, f, e, (d + t1) | 0, c, b, a, (t1 + t2) | 0];
  }
  for (const [i, v] of [a, b, c, d, e, f, g, h].entries()) state[i] = (state[i] as number) + v;
}

export function sha256(message: Uint8Array): Uint8Array {
  const size = Math.ceil((message.length + 9) / 64) * 64;
  const bytes = new DataView(new ArrayBuffer(size));
  new Uint8Array(bytes.buffer).set(message);
  bytes.setUint8(message.length, 0x80);
  bytes.setUint32(size - 4, message.length * 8);
  const state = BEGIN.slice();
  for (let at = 0; at < size; at += 64) block(state, bytes, at);
  const out = new DataView(new ArrayBuffer(32));
  state.forEach((v, i) => out.setUint32(4 * i, v));
  return new Uint8Array(out.buffer);
}

const utf8 = (text: string): Uint8Array => new TextEncoder().encode(text);
const joined = (a: Uint8Array, b: Uint8Array): Uint8Array => Uint8Array.from([...a, ...b]);

/// These words, said as only who has the key can; a key has 32 bytes.
export function mac(key: Uint8Array, ...words: (string | number)[]): Uint8Array {
  const pad = (by: number): Uint8Array => Uint8Array.from({ length: 64 }, (_, i) => (key[i] ?? 0) ^ by);
  return sha256(joined(pad(0x5c), sha256(joined(pad(0x36), utf8(words.join("|"))))));
}

export const digest = (text: string): Uint8Array => sha256(utf8(text));
export const hex = (bytes: Uint8Array): string => Array.from(bytes, (b) => b.toString(16).padStart(2, "0")).join("");
export const unhex = (text: string): Uint8Array => Uint8Array.from(text.match(/../g) ?? [], (b) => parseInt(b, 16));
export const nonce = (): string => hex(crypto.getRandomValues(new Uint8Array(16)));
