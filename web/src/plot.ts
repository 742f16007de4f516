// One diagram drawn: uPlot makes axes, grid, zoom and crosshair; curves are lines of its series,
// clouds are copied in from the page's one painter.

import uPlot from "uplot";
import { paint } from "./cloud.js";
import { curveColour, styled } from "./colours.js";
import type { Cloud, Curve, Frame } from "./frames.js";
import { value } from "./numbers.js";
import { around, extent, ticks, union, type Range } from "./ranges.js";
import type { Kind, Scale } from "./words.js";

export interface Axes { x: string; y: string; xscale: Scale; yscale: Scale }
export type Mode = "auto" | "held" | "zoomed";

/// A value under the crosshair, for the legend.
export interface Reading { x: number; y: number; values: Map<number, number> | null }

export interface Watcher {
  /// The crosshair moved, or left.
  cursor(reading: Reading | null): void;
  /// What part is in sight changed.
  sight(): void;
}

const FONT = "11px system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif";
const LABEL_FONT = "12px system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif";

export class Plot {
  private u: uPlot | null = null;
  private frames = new Map<number, Frame>();
  private numbers: number[] = [];
  private hidden = new Set<number>();
  private x: Range = [0, 1];
  private y: Range = [0, 1];
  private full: Range | null = null;
  mode: Mode = "auto";

  constructor(
    private readonly host: HTMLElement, readonly kind: Kind, private axes: Axes, private readonly watcher: Watcher,
  ) {}

  /// New data of some curves.
  take(frames: Frame[]): void {
    for (const frame of frames) this.frames.set(frame.curve, frame);
    const numbers = [...this.frames.keys()].sort((a, b) => a - b);
    const more = numbers.length !== this.numbers.length;
    this.numbers = numbers;
    this.rescale(more);
    if (more || !this.u) this.build();
    else this.draw();
  }

  setAxes(axes: Axes): void {
    this.axes = axes;
    this.mode = "auto";
    this.rescale(true);
    if (this.frames.size) this.build();
  }

  setHidden(hidden: Set<number>): void {
    this.hidden = hidden;
    this.rescale(false);
    this.draw();
  }

  /// Keeps the range as it is, or follows the data again.
  setMode(mode: Mode): void {
    this.mode = mode;
    if (mode === "auto") this.rescale(true);
    this.draw();
    this.watcher.sight();
  }

  /// The abscissae in sight when they are not all.
  range(): Range | null {
    return this.mode === "zoomed" && this.kind !== "scatter" ? this.x : null;
  }

  columns(): number {
    return Math.round((this.u?.bbox.width ?? this.host.clientWidth) || 400);
  }

  resize(): void {
    const { clientWidth, clientHeight } = this.host;
    if (clientWidth < 60 || clientHeight < 60) return;
    if (this.u) this.u.setSize({ width: clientWidth, height: clientHeight });
    else if (this.frames.size) this.build();
  }

  /// Colours of the theme changed.
  restyle(): void {
    if (this.u) this.build();
  }

  destroy(): void {
    this.u?.destroy();
    this.u = null;
  }

  newest(): Frame | undefined {
    return this.frames.values().next().value;
  }

  curve(number: number): Frame | undefined {
    return this.frames.get(number);
  }

  private rescale(fresh: boolean): void {
    let x: Range | null = null;
    let y: Range | null = null;
    for (const [number, frame] of this.frames) {
      if (this.hidden.has(number)) continue;
      const [fx, fy] = extents(frame, this.axes);
      x = union(x, fx);
      y = union(y, fy);
    }
    this.full = x;
    if (this.mode !== "auto") return;
    this.x = around(x, this.axes.xscale, fresh ? null : this.x, this.kind === "scatter" ? "near" : "exact");
    this.y = around(y, this.axes.yscale, fresh ? null : this.y, "round");
  }

  private shape(): uPlot.AlignedData {
    // uPlot asks the data for ranges; ours are set, so two corners stand for them.
    return [[...this.x], ...this.numbers.map(() => [...this.y])] as uPlot.AlignedData;
  }

  private draw(): void {
    this.u?.setData(this.shape(), true);
  }

  private build(): void {
    const { clientWidth: width, clientHeight: height } = this.host;
    if (width < 60 || height < 60) return;
    this.u?.destroy();
    this.u = new uPlot(this.options(width, height), this.shape(), this.host);
    this.watcher.sight();
  }

  private options(width: number, height: number): uPlot.Options {
    const series = this.numbers.map((number): uPlot.Series => ({
      stroke: () => curveColour(number),
      width: 1.75,
      points: { show: false },
      paths: (u) => this.line(u, number),
    }));
    const scale = (which: "x" | "y"): uPlot.Scale => ({
      time: false,
      distr: this.axes[which === "x" ? "xscale" : "yscale"] === "log" ? 3 : 1,
      range: () => [...this[which]],
    });
    return {
      width,
      height,
      series: [{}, ...series],
      scales: { x: scale("x"), y: scale("y") },
      axes: [this.axis("x"), this.axis("y")],
      legend: { show: false },
      padding: [10, 14, 0, 0],
      cursor: {
        points: { show: false },
        drag: { x: true, y: true, uni: 24, dist: 6, setScale: false },
        bind: {
          dblclick: () => () => {
            this.setMode("auto");
            return null;
          },
        },
      },
      hooks: {
        draw: [(u) => this.cloud(u)],
        setSelect: [(u) => this.zoom(u)],
        setCursor: [(u) => this.watcher.cursor(this.under(u))],
      },
    };
  }

  private axis(which: "x" | "y"): uPlot.Axis {
    const scale = which === "x" ? this.axes.xscale : this.axes.yscale;
    const grid = { stroke: styled("--grid"), width: 1 };
    const splits: uPlot.Axis.Splits = (u) => {
      const room = which === "x" ? u.bbox.width / devicePixelRatio / 70 : u.bbox.height / devicePixelRatio / 36;
      return ticks(this[which], scale, Math.max(2, Math.floor(room)));
    };
    return {
      stroke: styled("--axis"),
      font: FONT,
      labelFont: LABEL_FONT,
      label: this.axes[which],
      labelSize: 20,
      labelGap: 2,
      gap: 5,
      grid,
      ticks: { ...grid, size: 4 },
      splits,
      // uPlot would leave out all but some powers of ten; our ticks are chosen already.
      filter: (_u, at) => at,
      values: (_u, at) => at.map((v) => value(v, 6)),
      size: (_u, values) => {
        if (which === "x") return 28;
        const longest = (values ?? []).reduce((n, v) => Math.max(n, v.length), 2);
        return 14 + 6.6 * longest;
      },
    };
  }

  private line(u: uPlot, number: number): uPlot.Series.Paths | null {
    const frame = this.frames.get(number);
    if (frame?.kind !== "curve" || this.hidden.has(number)) return null;
    const { x, y } = frame;
    const path = new Path2D();
    const log = this.axes.yscale === "log";
    let pen = false;
    for (let i = 0; i < x.length; i++) {
      const vx = x[i] as number;
      const vy = y[i] as number;
      if (!Number.isFinite(vy) || !Number.isFinite(vx) || (log && vy <= 0) || (this.axes.xscale === "log" && vx <= 0)) {
        pen = false;
        continue;
      }
      const px = u.valToPos(vx, "x", true);
      const py = clamp(u.valToPos(vy, "y", true));
      if (pen) path.lineTo(px, py);
      else path.moveTo(px, py);
      pen = true;
    }
    return { stroke: path, fill: null, clip: null, flags: 3 } as unknown as uPlot.Series.Paths;
  }

  private cloud(u: uPlot): void {
    const clouds = this.numbers
      .map((number) => ({ cloud: this.frames.get(number), colour: curveColour(number), number }))
      .filter((c): c is { cloud: Cloud; colour: string; number: number } => c.cloud?.kind === "cloud" && !this.hidden.has(c.number));
    if (!clouds.length) return;
    const width = Math.round(u.bbox.width);
    const height = Math.round(u.bbox.height);
    if (width < 2 || height < 2) return;
    const n = clouds.reduce((sum, c) => sum + c.cloud.pairs.length / 2, 0);
    const size = devicePixelRatio * (n > 12_000 ? 1.6 : n > 2000 ? 2.4 : 3.6);
    const { image, top } = paint({ width, height, x: this.x, y: this.y, xscale: this.axes.xscale, yscale: this.axes.yscale, size, clouds });
    u.ctx.drawImage(image, 0, top, width, height, Math.round(u.bbox.left), Math.round(u.bbox.top), width, height);
  }

  private zoom(u: uPlot): void {
    const { left, top, width, height } = u.select;
    if (width < 2 && height < 2) return;
    const x: Range = [u.posToVal(left, "x"), u.posToVal(left + width, "x")];
    const y: Range = [u.posToVal(top + height, "y"), u.posToVal(top, "y")];
    u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    this.zoomTo(x, y);
  }

  private zoomTo(x: Range, y: Range): void {
    if (!(x[1] > x[0]) || !(y[1] > y[0])) return;
    this.x = x;
    this.y = y;
    this.setMode("zoomed");
  }

  /// Zooms about the middle: less than 1 goes in.
  zoomBy(factor: number): void {
    const u = this.u;
    if (!u) return;
    const about = (which: "x" | "y", size: number): Range => {
      const at = [size * (0.5 - factor / 2), size * (0.5 + factor / 2)].map((p) => u.posToVal(p, which));
      return [Math.min(...at), Math.max(...at)];
    };
    this.zoomTo(about("x", u.over.clientWidth), about("y", u.over.clientHeight));
  }

  /// Moves the crosshair, for those who use keys.
  moveCursor(dx: number, dy: number): void {
    const u = this.u;
    if (!u) return;
    const { clientWidth: w, clientHeight: h } = u.over;
    const left = (u.cursor.left ?? -1) < 0 ? w / 2 : (u.cursor.left ?? 0) + dx;
    const top = (u.cursor.top ?? -1) < 0 ? h / 2 : (u.cursor.top ?? 0) + dy;
    u.setCursor({ left: Math.min(w, Math.max(0, left)), top: Math.min(h, Math.max(0, top)) });
  }

  hideCursor(): void {
    this.u?.setCursor({ left: -10, top: -10 });
  }

  private under(u: uPlot): Reading | null {
    const { left, top } = u.cursor;
    if (left === undefined || top === undefined || left < 0 || top < 0) return null;
    const x = u.posToVal(left, "x");
    const y = u.posToVal(top, "y");
    if (this.kind === "scatter") return { x, y, values: null };
    const values = new Map<number, number>();
    for (const number of this.numbers) {
      const frame = this.frames.get(number);
      if (frame?.kind === "curve" && frame.x.length) values.set(number, nearest(frame, x));
    }
    return { x, y, values };
  }

  /// All of the abscissae, for who asks whether zooming hides some.
  whole(): Range | null {
    return this.full;
  }
}

function extents(frame: Frame, axes: Axes): [Range | null, Range | null] {
  if (frame.kind === "curve") {
    return [extent(frame.x, axes.xscale === "log"), extent(frame.y, axes.yscale === "log")];
  }
  if (frame.pairs.length === 0) return [null, null];
  const [x0, x1, y0, y1] = frame.box;
  const fit = (lo: number, hi: number, scale: Scale): Range | null =>
    scale === "log" ? (hi > 0 ? [lo > 0 ? lo : hi / 1e4, hi] : null) : [lo, hi];
  return [fit(x0, x1, axes.xscale), fit(y0, y1, axes.yscale)];
}

/// Canvas lines far outside lose precision; keep them near.
function clamp(v: number): number {
  return v < -1e5 ? -1e5 : v > 1e5 ? 1e5 : v;
}

function nearest(curve: Curve, x: number): number {
  let lo = 0;
  let hi = curve.x.length - 1;
  while (hi - lo > 1) {
    const mid = (lo + hi) >> 1;
    if ((curve.x[mid] as number) <= x) lo = mid;
    else hi = mid;
  }
  const pick = Math.abs((curve.x[hi] as number) - x) < Math.abs((curve.x[lo] as number) - x) ? hi : lo;
  return curve.y[pick] as number;
}
