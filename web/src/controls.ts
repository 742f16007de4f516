// The control bar: Run, Step, Stop, Save, Wait, Quit, and in words what becomes of each press.

import { el, text } from "./dom.js";
import { whole } from "./numbers.js";
import type { Session } from "./session.js";
import { actWords, type Act, type LogLine, type Role, type RunState } from "./words.js";

export class Controls {
  readonly node: HTMLElement;
  private readonly words = el("span", { class: "ack", role: "status", "aria-live": "polite" });
  private readonly steps = el("input", { type: "number", min: 1, value: 1, "aria-label": "How many steps", class: "steps" });
  private readonly verbs = new Map<string, HTMLButtonElement>();
  private readonly hints = new Map<string, string>();
  private readonly wait: HTMLButtonElement;
  private state: RunState | null = null;
  private role: Role | null = null;
  private connected = false;
  private asked: { id: number; act: Act; at: number } | null = null;
  private lines = new Map<number, LogLine>();
  /// Counts presses: only what became of the last one stands in the bar.
  private presses = 0;
  /// Most steps of one Step, as the run says.
  private most = 1;

  /// `aside` takes what became of an earlier press and stands nowhere else.
  constructor(private readonly session: Session, private readonly frozen: (wait: boolean) => void, private readonly aside: (words: string) => void) {
    const verb = (name: string, label: string, hint: string, act: () => void): HTMLButtonElement => {
      const button = el("button", { type: "button", class: `verb ${name}`, title: hint, click: act }, label);
      this.verbs.set(name, button);
      this.hints.set(name, hint);
      return button;
    };
    this.wait = el("button", { type: "button", class: "verb wait", "aria-pressed": "false", title: "Freeze this display; the run goes on", click: () => {
      const on = this.wait.getAttribute("aria-pressed") !== "true";
      this.wait.setAttribute("aria-pressed", String(on));
      text(this.wait, on ? "Waiting" : "Wait");
      this.frozen(on);
    } }, "Wait");
    this.node = el("nav", { class: "controls", "aria-label": "Steering" },
      el("div", { class: "group" },
        verb("run", "Run", "Go on computing", () => void this.ask({ verb: "run" })),
        el("span", { class: "joined" },
          verb("step", "Step", "Go on for so many steps, then hold", () => this.step()),
          this.steps),
        verb("stop", "Stop", "Hold before the next step; nothing is lost", () => void this.ask({ verb: "stop" })),
        verb("save", "Save", "Do what the program registered for Save", () => void this.ask({ verb: "save" }))),
      el("div", { class: "group" }, this.wait),
      this.words,
      el("div", { class: "group end" }, verb("quit", "Quit…", "End the run", () => void this.quit())));
    // Nothing can be pressed before it is known whose page this is.
    this.enable();
    setInterval(() => this.patience(), 1000);
  }

  /// Who looks, and how many steps the run takes at a time.
  setRole(role: Role, most: number): void {
    this.role = role;
    this.most = most;
    this.steps.max = String(most);
    this.enable();
  }

  setConnected(connected: boolean): void {
    this.connected = connected;
    this.enable();
  }

  setState(state: RunState): void {
    this.state = state;
    this.enable();
  }

  private enable(): void {
    const over = ["OVER", "ENDED", "LOST"].includes(this.state?.state ?? "");
    const may = this.role === "operator" && this.connected && !over;
    for (const [name, button] of this.verbs) {
      button.disabled = !may;
      button.title = this.role === "viewer" ? "viewer: you look, the operator steers" : this.hints.get(name) ?? "";
      button.classList.toggle("now", (name === "run" && this.state?.state === "RUNNING") || (name === "stop" && this.state?.state === "HELD"));
    }
    this.steps.disabled = !may;
  }

  private step(): void {
    const n = Number(this.steps.value);
    if (Number.isInteger(n) && n >= 1 && n <= this.most) return void this.ask({ verb: "step", n });
    this.presses += 1;
    this.asked = null;
    this.say(`Step: "${this.steps.value}" is no number of steps; give a whole one from 1 to ${whole(this.most)}`, "refused");
  }

  /// Asks for an act and says in words what becomes of it. True when accepted.
  async ask(act: Act): Promise<boolean> {
    const press = ++this.presses;
    this.asked = null;
    this.say(`${actWords(act)}: asked…`, "queued");
    const answer = await this.session.act(act);
    const isLast = press === this.presses;
    if ("text" in answer) {
      const words = `${actWords(act)} refused: ${answer.text}`;
      if (isLast) this.say(words, "refused");
      else this.aside(words);
      return false;
    }
    // What becomes of an earlier one stands in the log.
    if (!isLast) return true;
    this.asked = { id: answer.id, act, at: Date.now() };
    const known = this.lines.get(answer.id);
    if (known) this.tell(known);
    else this.say(`${actWords(act)}: queued`, "queued");
    return true;
  }

  /// News of the steering log.
  heard(lines: LogLine[]): void {
    for (const line of lines) {
      this.lines.set(line.id, line);
      if (this.lines.size > 64) this.lines.delete(this.lines.keys().next().value as number);
      if (line.id === this.asked?.id) this.tell(line);
    }
  }

  private tell(line: LogLine): void {
    const name = actWords(this.asked?.act ?? line.act);
    const at = line.step === null ? "" : ` at step ${whole(line.step)}`;
    if (line.phase === "queued") this.say(`${name}: queued${at && `, to act${at}`}`, "queued");
    else if (line.phase === "applied") this.say(`${name}: applied${at}`, "applied");
    else this.say(`${name} refused${at}: ${line.text}`, "refused");
    if (line.phase !== "queued") this.asked = null;
  }

  private patience(): void {
    const late = this.asked ? Math.round((Date.now() - this.asked.at) / 1000) : 0;
    if (this.asked && late >= 5) this.say(`${actWords(this.asked.act)}: queued; no answer from the run for ${late} s`, "late");
  }

  private say(words: string, phase: string): void {
    text(this.words, words);
    this.words.dataset["phase"] = phase;
  }

  private async quit(): Promise<void> {
    const dialog = el("dialog", { class: "quit" });
    const choose = (value: string, label: string, look: string): HTMLButtonElement =>
      el("button", { type: "button", class: look, click: () => dialog.close(value) }, label);
    dialog.append(
      el("h2", {}, "End the run?"),
      el("p", {}, "Its loop ends after the step being computed, for everybody who watches. What was saved stays."),
      el("div", { class: "choices" },
        choose("", "Cancel", "verb"), choose("save", "Save, then quit", "verb"), choose("quit", "Quit", "verb danger")));
    document.body.append(dialog);
    dialog.showModal();
    await new Promise((done) => dialog.addEventListener("close", done, { once: true }));
    const choice = dialog.returnValue;
    dialog.remove();
    if (choice === "save" && !(await this.ask({ verb: "save" }))) return;
    if (choice) await this.ask({ verb: "quit" });
  }
}
