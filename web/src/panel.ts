// The side panel: parameters and own commands of the simulation, the list of diagrams, messages
// and the steering log.

import { el, text } from "./dom.js";
import { clock, value, whole } from "./numbers.js";
import { actWords, type Act, type Diagram, type LogLine, type Message, type Parameter, type Role, type Value } from "./words.js";

const LINES = 400;

function section(name: string, label: string, ...children: (Node | string)[]): HTMLElement {
  return el("section", { class: `side ${name}`, "aria-label": label }, el("h2", {}, label), ...children);
}

interface Row {
  node: HTMLElement;
  shown: HTMLElement;
  input: HTMLInputElement | HTMLSelectElement;
  set: HTMLButtonElement;
  note: HTMLElement;
  about: Parameter;
  asked: number | null;
}

/// Parameters: the shown value is the one that the run confirmed.
export class Parameters {
  readonly node: HTMLElement;
  private readonly list = el("div", { class: "parameters" });
  private readonly buttons = el("div", { class: "commands" });
  private rows = new Map<string, Row>();
  private may = false;

  constructor(private readonly act: (act: Act) => Promise<{ id: number } | { text: string }>, private readonly ask: (act: Act) => void) {
    this.node = section("steer", "Parameters", this.list, this.buttons);
    this.node.hidden = true;
  }

  setRole(role: Role): void {
    this.may = role === "operator";
    for (const row of this.rows.values()) row.input.disabled = row.set.disabled = !this.may;
    for (const b of this.buttons.querySelectorAll("button")) b.disabled = !this.may;
  }

  setCommands(commands: string[]): void {
    this.buttons.replaceChildren(...commands.map((name) =>
      el("button", { type: "button", class: "verb", disabled: !this.may, click: () => this.ask({ verb: "command", name }) }, name)));
    this.node.hidden = this.rows.size === 0 && commands.length === 0;
  }

  setItems(items: Parameter[]): void {
    for (const p of items) {
      const row = this.rows.get(p.name) ?? this.row(p);
      const changed = row.shown.textContent !== words(p.value);
      row.about = p;
      text(row.shown, words(p.value));
      if (changed) {
        row.shown.classList.remove("flash");
        void row.shown.offsetWidth;
        row.shown.classList.add("flash");
        if (document.activeElement !== row.input) row.input.value = String(p.value);
      }
    }
    this.node.hidden = this.rows.size === 0 && this.buttons.children.length === 0;
  }

  private row(p: Parameter): Row {
    const id = `p-${this.rows.size}`;
    const input = typeof p.value === "boolean"
      ? el("select", { id }, el("option", { value: "true" }, "true"), el("option", { value: "false" }, "false"))
      : el("input", { id, type: "text", inputmode: typeof p.value === "string" ? "text" : "decimal", autocomplete: "off", spellcheck: "false" });
    input.value = String(p.value);
    const shown = el("output", { for: id }, words(p.value));
    const note = el("p", { class: "note", "aria-live": "polite" });
    const set = el("button", { type: "submit", class: "verb" }, "Set");
    input.disabled = set.disabled = !this.may;
    const node = el("form", { class: "parameter", submit: (e) => {
      e.preventDefault();
      void this.submit(row);
    } },
      el("label", { for: id, title: p.help }, p.name),
      el("span", { class: "current" }, shown, p.units ? el("span", { class: "unit" }, p.units) : null),
      input, set,
      el("p", { class: "limits" }, [limits(p), p.help].filter(Boolean).join(" · ")), note);
    const row: Row = { node, shown, input, set, note, about: p, asked: null };
    this.rows.set(p.name, row);
    this.list.append(node);
    return row;
  }

  private async submit(row: Row): Promise<void> {
    const wanted = parse(row.about, row.input.value);
    if ("why" in wanted) return this.note(row, wanted.why, "refused");
    this.note(row, "asked…", "queued");
    const answer = await this.act({ verb: "set", name: row.about.name, value: wanted.value });
    if ("text" in answer) return this.note(row, answer.text, "refused");
    row.asked = answer.id;
    const known = this.early.get(answer.id);
    if (known) this.heard([known]);
    else this.note(row, "queued", "queued");
  }

  private early = new Map<number, LogLine>();

  /// What became of a change.
  heard(lines: LogLine[]): void {
    for (const line of lines) {
      if (line.act.verb !== "set") continue;
      this.early.set(line.id, line);
      if (this.early.size > 32) this.early.delete(this.early.keys().next().value as number);
      const row = this.rows.get(line.act.name);
      if (!row || (row.asked !== line.id && line.phase !== "applied")) continue;
      const at = line.step === null ? "" : ` at step ${whole(line.step)}`;
      if (line.phase === "queued") this.note(row, `queued${at && `, to act${at}`}`, "queued");
      else if (line.phase === "refused") this.note(row, `refused: ${line.text}`, "refused");
      else this.note(row, `${words(line.act.value)} applied${at} by ${line.who}`, "applied");
    }
  }

  private note(row: Row, words: string, phase: string): void {
    text(row.note, words);
    row.note.dataset["phase"] = phase;
  }
}

function words(v: Value): string {
  return typeof v === "number" && !Number.isInteger(v) ? value(v, 6) : String(v);
}

function limits(p: Parameter): string {
  const unit = p.units ? ` ${p.units}` : "";
  if (p.min !== null && p.max !== null) return `${value(p.min, 6)} to ${value(p.max, 6)}${unit}`;
  if (p.min !== null) return `at least ${value(p.min, 6)}${unit}`;
  if (p.max !== null) return `at most ${value(p.max, 6)}${unit}`;
  return "";
}

/// The value, or why it cannot be; the monitor and the simulation check again.
function parse(p: Parameter, raw: string): { value: Value } | { why: string } {
  if (typeof p.value === "boolean") return { value: raw === "true" };
  if (typeof p.value === "string") return { value: raw };
  const text = raw.trim();
  if (typeof p.value === "bigint" || (Number.isInteger(p.value) && /^[-+]?\d+$/.test(text))) {
    if (!/^[-+]?\d+$/.test(text)) return { why: `"${raw}" is not an integer` };
    const v = BigInt(text.replace("+", ""));
    if ((p.min !== null && v < p.min) || (p.max !== null && v > p.max)) return { why: `${raw} is outside ${limits(p)}` };
    return { value: Number.isSafeInteger(Number(v)) ? Number(v) : v };
  }
  const v = Number(text.replace(",", "."));
  // A fraction that a double cannot carry would be an integer when it arrives.
  if (Number.isInteger(v) && /^[-+]?\d+[.,]\d*[1-9]\d*$/.test(text)) return { why: `${raw} has more digits than a number can carry` };
  if (text === "" || !Number.isFinite(v)) return { why: `"${raw}" is not a number` };
  if ((p.min !== null && v < p.min) || (p.max !== null && v > p.max)) return { why: `${raw} is outside ${limits(p)}` };
  return { value: v };
}

/// All diagrams of the run, with a search.
export class Catalogue {
  readonly node: HTMLElement;
  private readonly search = el("input", { type: "search", placeholder: "search", "aria-label": "Search diagrams", input: () => this.filter() });
  private readonly list = el("ul", { class: "catalogue" });

  constructor(private readonly toggle: (id: number, open: boolean) => void) {
    this.node = section("diagrams", "Diagrams", this.search, this.list);
  }

  set(diagrams: Diagram[], isOpen: (id: number) => boolean): void {
    this.search.hidden = diagrams.length < 6;
    this.list.replaceChildren(...diagrams.map((d) => {
      const box = el("input", { type: "checkbox", checked: isOpen(d.id), change: () => this.toggle(d.id, box.checked) });
      return el("li", { "data-words": `${d.title} ${d.kind} ${d.x} ${d.y} ${d.curves.map((c) => c[1]).join(" ")}`.toLowerCase() },
        el("label", {}, box, el("span", {}, d.title), el("small", {}, d.kind)));
    }));
    this.filter();
  }

  private filter(): void {
    const wanted = this.search.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const node of this.list.children) {
      const item = node as HTMLElement;
      const has = item.dataset["words"] ?? "";
      item.hidden = !wanted.every((w) => has.includes(w));
    }
  }
}

/// Messages of the run and acts of people, newest first, in one list that can be searched.
export class Journal {
  readonly node: HTMLElement;
  private readonly search = el("input", { type: "search", placeholder: "search", "aria-label": "Search messages", input: () => this.filter() });
  private readonly list = el("ol", { class: "journal", "aria-live": "off" });
  private readonly acts = new Map<number, HTMLElement>();

  constructor() {
    this.node = section("log", "Messages and steering", this.search, this.list);
  }

  messages(items: Message[]): void {
    for (const m of items) {
      this.add(el("li", { class: `message level-${m.level}` }, el("time", {}, clock(m.at)),
        el("span", { class: "text" }, m.text), el("small", {}, m.step >= 0 ? `step ${whole(m.step)}` : "")));
    }
  }

  /// What is to be known and stands in no log.
  aside(words: string): void {
    this.add(el("li", { class: "act refused" }, el("time", {}, clock(Date.now())), el("span", { class: "text" }, el("em", {}, words))));
  }

  steering(items: LogLine[]): void {
    for (const line of items) {
      const at = line.step === null ? "" : ` at step ${whole(line.step)}`;
      const said = line.phase === "refused" ? `refused${at}: ${line.text}` : `${line.phase}${at}`;
      const node = el("li", { class: `act ${line.phase}` }, el("time", {}, clock(line.at)),
        el("span", { class: "text" }, el("b", {}, line.who), ` ${actWords(line.act)} `, el("em", {}, said)));
      const old = this.acts.get(line.id);
      this.acts.set(line.id, node);
      if (old) old.replaceWith(node);
      else this.add(node);
    }
  }

  /// A new connection tells everything again.
  clear(): void {
    this.list.replaceChildren();
    this.acts.clear();
  }

  private add(node: HTMLElement): void {
    this.list.prepend(node);
    this.match(node);
    while (this.list.children.length > LINES) this.list.lastElementChild?.remove();
    if (this.acts.size > LINES) this.acts.delete(this.acts.keys().next().value as number);
  }

  private match(node: HTMLElement): void {
    node.hidden = !node.textContent?.toLowerCase().includes(this.search.value.toLowerCase());
  }

  private filter(): void {
    for (const node of this.list.children) this.match(node as HTMLElement);
  }
}
