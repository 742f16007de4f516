// The status bar: the state in words, step and pace, who watches; and the banner of a lost
// connection.

import { currentTheme, setTheme, type Theme } from "./colours.js";
import { el, text } from "./dom.js";
import { span, value, whole } from "./numbers.js";
import type { Link } from "./session.js";
import type { Role, RunInfo, RunState } from "./words.js";

const THEMES: Theme[] = ["auto", "light", "dark"];

export class Status {
  readonly node: HTMLElement;
  readonly banner = el("div", { class: "banner", role: "alert", hidden: true });
  private readonly title = el("h1", {}, "Forebay");
  private readonly badge = el("span", { class: "badge", "data-state": "CONNECTING", role: "status" }, "CONNECTING");
  private readonly figures = el("dl", { class: "figures" });
  private readonly cells = new Map<string, { item: HTMLElement; figure: HTMLElement }>();
  private readonly bar = el("i", {});
  private readonly who = el("button", { type: "button", class: "who" });
  private link: Link = { is: "connecting" };
  private progress: [number, number] | null = null;
  private unit = "";

  constructor(again: () => void, rename: (name: string) => void) {
    const theme = el("button", { type: "button", class: "theme", title: "Light or dark", click: () => {
      const next = THEMES[(THEMES.indexOf(currentTheme()) + 1) % THEMES.length] ?? "auto";
      setTheme(next);
      text(theme, `◐ ${next}`);
    } }, `◐ ${currentTheme()}`);
    this.who.addEventListener("click", () => {
      const name = prompt("How shall others see you?", "");
      if (name?.trim()) rename(name.trim());
    });
    for (const [key, label] of [["step", "step"], ["t", "t"], ["rate", "steps/s"], ["eta", "ETA"], ["ranks", "ranks"]] as const) {
      const figure = el("dd", {});
      const item = el("div", { class: `figure ${key}`, hidden: true }, el("dt", {}, label), figure);
      this.cells.set(key, { item, figure });
      this.figures.append(item);
    }
    this.node = el("header", { class: "status" }, this.title, this.badge, this.figures,
      el("div", { class: "right" }, this.who, theme), el("div", { class: "progress" }, this.bar));
    this.banner.addEventListener("click", (e) => {
      if ((e.target as HTMLElement).tagName === "BUTTON") again();
    });
    setInterval(() => this.showLink(), 1000);
  }

  setRun(run: RunInfo, role: Role): void {
    text(this.title, run.name || run.id);
    this.title.title = [run.program, run.host, `run ${run.id}`].filter(Boolean).join(" · ");
    document.title = `${run.name || run.id} – Forebay`;
    this.node.dataset["role"] = role;
  }

  /// How far the loop goes, and the unit of time as the histories have it.
  setProgress(progress: [number, number] | null, unit: string): void {
    this.progress = progress;
    this.unit = unit;
  }

  setState(s: RunState, role: Role): void {
    text(this.badge, this.words(s));
    this.badge.dataset["state"] = s.state;
    const end = this.progress?.[1];
    this.figure("step", s.step >= 0 ? `${whole(s.step)}${end === undefined ? "" : ` / ${whole(end)}`}` : "");
    this.figure("t", s.time === null ? "" : `${value(s.time, 4)} ${this.unit}`.trim());
    this.figure("rate", s.rate === null ? "" : value(s.rate, 3));
    this.figure("eta", s.eta === null ? "" : span(s.eta));
    this.figure("ranks", s.ranks > 1 ? String(s.ranks) : "");
    const part = end && s.step >= 0 ? Math.min(1, s.step / end) : 0;
    this.bar.style.width = `${(100 * part).toFixed(2)}%`;
    text(this.who, `${role} · ${s.watching.length} watching`);
    this.who.title = `${s.watching.map(([name, r]) => (name.startsWith(r) ? name : `${name} (${r})`)).join("\n")}\n\nClick to say who you are.`;
  }

  private words(s: RunState): string {
    switch (s.state) {
      case "HELD": return `HELD at step ${whole(s.step)}`;
      case "HOLDING": return "HOLDING: stops at the end of this step";
      case "STARTING": return "STARTING";
      case "OVER": return "LOOP OVER: the program works on";
      case "LOST": return "LOST: the process is gone";
      default: return s.state;
    }
  }

  private figure(key: string, words: string): void {
    const cell = this.cells.get(key);
    if (!cell) return;
    cell.item.hidden = words === "";
    text(cell.figure, words);
  }

  setLink(link: Link): void {
    this.link = link;
    this.showLink();
  }

  private showLink(): void {
    const { link } = this;
    // What a run that is over showed last is as true as ever: it keeps its colours.
    document.body.classList.toggle("lost", link.is === "lost");
    this.banner.classList.toggle("calm", link.is === "over");
    this.banner.hidden = link.is !== "lost" && link.is !== "over";
    if (link.is === "lost" && this.badge.dataset["state"] !== "UNKNOWN") {
      // What the run does now, nobody here knows.
      text(this.badge, this.badge.dataset["state"] === "CONNECTING" ? "NO CONNECTION" : `was ${this.badge.dataset["state"]}`);
      this.badge.dataset["state"] = "UNKNOWN";
    }
    if (link.is === "over") {
      this.banner.replaceChildren(`Over: ${link.why}. What you see are the last values.`);
    } else if (link.is === "lost") {
      const age = span(Math.max(0, Date.now() - link.since) / 1000);
      const wait = Math.max(0, Math.ceil((link.again - Date.now()) / 1000));
      this.banner.replaceChildren(`Connection lost. What you see is ${age} old. `,
        link.again && wait ? `Trying again in ${wait} s. ` : "Trying… ", el("button", { type: "button" }, "Try now"));
    }
  }
}
