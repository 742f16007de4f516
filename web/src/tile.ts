// A diagram on the page: heading with its tools, the plot, the legend with values.

import { retire } from "./cloud.js";
import { curveColour, onTheme } from "./colours.js";
import { el, text } from "./dom.js";
import type { Frame } from "./frames.js";
import { unitOf, value, whole } from "./numbers.js";
import { Plot, type Reading } from "./plot.js";
import type { Diagram, Scale, View } from "./words.js";

export interface Owner {
  /// What the tile shows changed: other data may be wanted.
  sight(): void;
  close(tile: Tile): void;
}

const DRAWN = new Set(["curve", "history", "scatter"]);

export class Tile {
  readonly node: HTMLElement;
  readonly plot: Plot;
  visible = true;
  private readonly body = el("div", { class: "plot" });
  private readonly legend = el("div", { class: "legend" });
  private readonly when = el("span", { class: "when" });
  private readonly readout = el("span", { class: "readout", "aria-live": "off" });
  private readonly tools = el("div", { class: "tools" });
  private readonly hold: HTMLButtonElement;
  private readonly values = new Map<number, HTMLElement>();
  private readonly hidden = new Set<number>();
  private readonly forget: () => void;
  private readonly watcher: ResizeObserver;
  private readonly scales: { x: Scale; y: Scale };
  private pending: Frame[] = [];

  constructor(private diagram: Diagram, private readonly owner: Owner) {
    this.scales = { x: diagram.xscale, y: diagram.yscale };
    this.plot = new Plot(this.body, diagram.kind, this.axes(), {
      cursor: (r) => this.showReading(r),
      sight: () => this.changed(),
    });
    this.hold = this.tool("auto", "Range: follow the data, or hold it as it is", () => {
      this.plot.setMode(this.plot.mode === "auto" ? "held" : "auto");
    });
    const axis = (which: "x" | "y"): HTMLButtonElement => {
      const button = this.tool(`${which} ${short(this.scales[which])}`, `Scale of the ${which} axis: linear or logarithmic`, () => {
        this.scales[which] = this.scales[which] === "log" ? "linear" : "log";
        text(button, `${which} ${short(this.scales[which])}`);
        this.plot.setAxes(this.axes());
      });
      return button;
    };
    const max = this.tool("⤢", "Large or small", () => {
      this.node.classList.toggle("large");
      max.setAttribute("aria-pressed", String(this.node.classList.contains("large")));
    });
    const close = this.tool("✕", "Close this diagram", () => this.owner.close(this));
    this.tools.append(axis("x"), axis("y"), this.hold, max, close);
    this.body.tabIndex = 0;
    this.body.setAttribute("role", "img");
    this.body.addEventListener("keydown", (e) => this.key(e));
    this.node = el("section", { class: `tile ${diagram.kind}`, "aria-label": diagram.title, "data-diagram": diagram.id },
      el("header", {}, el("h2", { title: diagram.title }, diagram.title), this.when, this.tools),
      this.body,
      el("footer", {}, this.legend, this.readout));
    if (!DRAWN.has(diagram.kind)) this.note(`A ${diagram.kind} is stored by the run; this page does not draw it yet.`);
    else this.note("no data yet");
    this.forget = onTheme(() => this.restyle());
    this.watcher = new ResizeObserver(() => {
      this.plot.resize();
      this.changed();
    });
    this.watcher.observe(this.body);
    this.entries();
  }

  get id(): number {
    return this.diagram.id;
  }

  /// The declaration came again, perhaps with more curves.
  update(diagram: Diagram): void {
    this.diagram = diagram;
    this.entries();
  }

  /// What the tile wants to be sent.
  view(): View {
    return { diagram: this.id, columns: this.plot.columns(), range: this.plot.range(), log: this.scales.x === "log" };
  }

  /// New data; drawn with the next picture of the browser.
  take(frames: Frame[]): void {
    for (const old of this.pending) if (old.kind === "cloud") retire(old);
    this.pending = frames;
  }

  draw(): void {
    if (!this.pending.length) return;
    for (const frame of this.pending) {
      const old = this.plot.curve(frame.curve);
      if (old?.kind === "cloud") retire(old);
    }
    this.body.querySelector(".note")?.remove();
    this.plot.take(this.pending);
    this.pending = [];
    const newest = this.plot.newest();
    if (newest) {
      const at = newest.step >= 0 ? `step ${whole(newest.step)}` : "";
      text(this.when, newest.coarse ? `${at} · coarse, finer points are being read` : at);
      this.node.dataset["step"] = String(newest.step);
      this.body.setAttribute("aria-label", `${this.diagram.title}, ${this.diagram.y} over ${this.diagram.x}, at step ${newest.step}`);
    }
  }

  destroy(): void {
    this.forget();
    this.watcher.disconnect();
    this.plot.destroy();
    this.node.remove();
  }

  private axes(): { x: string; y: string; xscale: Scale; yscale: Scale } {
    return { x: this.diagram.x, y: this.diagram.y, xscale: this.scales.x, yscale: this.scales.y };
  }

  private tool(label: string, hint: string, act: () => void): HTMLButtonElement {
    return el("button", { type: "button", class: "tool", title: hint, "aria-label": `${hint} (${this.diagram.title})`, click: act }, label);
  }

  private note(words: string): void {
    this.body.append(el("p", { class: "note" }, words));
  }

  private changed(): void {
    if (this.hold) {
      const mode = this.plot.mode;
      text(this.hold, mode === "zoomed" ? "restore" : mode === "held" ? "held" : "auto");
      this.hold.classList.toggle("on", mode !== "auto");
    }
    this.owner.sight();
  }

  private entries(): void {
    this.values.clear();
    this.legend.replaceChildren(...this.diagram.curves.map(([number, name]) => {
      const figure = el("b", {});
      this.values.set(number, figure);
      const swatch = el("i", {});
      swatch.style.background = curveColour(number);
      const entry = el("button", { type: "button", class: "entry", title: "Show or hide", "aria-pressed": String(!this.hidden.has(number)), click: () => {
        if (!this.hidden.delete(number)) this.hidden.add(number);
        entry.setAttribute("aria-pressed", String(!this.hidden.has(number)));
        this.plot.setHidden(this.hidden);
      } }, swatch, name || unitOf(this.diagram.y).name, figure);
      return entry;
    }));
  }

  private restyle(): void {
    this.entries();
    this.plot.restyle();
  }

  private showReading(reading: Reading | null): void {
    const x = unitOf(this.diagram.x);
    const y = unitOf(this.diagram.y);
    for (const [number, figure] of this.values) {
      const v = reading?.values?.get(number);
      text(figure, v === undefined ? "" : value(v, 4));
    }
    if (!reading) return text(this.readout, "");
    const first = `${x.name} ${value(reading.x, 4)} ${x.unit}`.trim();
    text(this.readout, reading.values ? first : `${first}   ${y.name} ${value(reading.y, 4)} ${y.unit}`.trim());
  }

  private key(e: KeyboardEvent): void {
    const by = e.shiftKey ? 40 : 8;
    const acts: Record<string, () => void> = {
      ArrowLeft: () => this.plot.moveCursor(-by, 0),
      ArrowRight: () => this.plot.moveCursor(by, 0),
      ArrowUp: () => this.plot.moveCursor(0, -by),
      ArrowDown: () => this.plot.moveCursor(0, by),
      "+": () => this.plot.zoomBy(0.7),
      "-": () => this.plot.zoomBy(1 / 0.7),
      "0": () => this.plot.setMode("auto"),
      Escape: () => this.plot.hideCursor(),
    };
    const act = acts[e.key];
    if (!act || e.ctrlKey || e.metaKey || e.altKey) return;
    e.preventDefault();
    act();
  }
}

function short(scale: Scale): string {
  return scale === "log" ? "log" : "lin";
}
