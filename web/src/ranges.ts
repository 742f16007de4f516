// Ranges of axes: calm autoscaling, and places for ticks.

import type { Scale } from "./words.js";

export type Range = [number, number];

/// Least and greatest finite value, on a logarithmic axis of the positive ones only.
export function extent(values: Float64Array, log: boolean): Range | null {
  let lo = Infinity;
  let hi = -Infinity;
  for (const v of values) {
    if (!Number.isFinite(v) || (log && v <= 0)) continue;
    if (v < lo) lo = v;
    if (v > hi) hi = v;
  }
  return lo <= hi ? [lo, hi] : null;
}

export function union(a: Range | null, b: Range | null): Range | null {
  if (!a || !b) return a ?? b;
  return [Math.min(a[0], b[0]), Math.max(a[1], b[1])];
}

/// How closely an axis fits its data: ends exactly there, a little beyond, or at round numbers.
export type Fit = "exact" | "near" | "round";

/// A pleasant range around the data. An axis that already shows them well stays as it is, so
/// that a moving curve does not shake its axis.
export function around(data: Range | null, scale: Scale, before: Range | null, fit: Fit): Range {
  if (!data) return before ?? (scale === "log" ? [0.1, 10] : [0, 1]);
  if (scale === "log") return aroundLog(data, before, fit);
  if (fit === "exact" && data[1] > data[0]) return data;
  const size = data[1] - data[0] || Math.abs(data[0]) || 1;
  const full = fit === "near" ? 0.9 : 0.45;
  if (before && inside(data, before) && size > full * (before[1] - before[0])) return before;
  const pad = data[1] > data[0] ? 0.02 * size : size / 2;
  if (fit === "near") return [data[0] - pad, data[1] + pad];
  const unit = step(size, 8);
  return [Math.floor((data[0] - 2 * pad) / unit) * unit, Math.ceil((data[1] + 2 * pad) / unit) * unit];
}

function aroundLog(data: Range, before: Range | null, fit: Fit): Range {
  if (fit === "exact") return data[1] > data[0] ? data : [data[0] / 2, data[1] * 2];
  const lo = Math.floor(Math.log10(data[0]) + 1e-9);
  const hi = Math.ceil(Math.log10(data[1]) - 1e-9);
  const round: Range = [10 ** lo, 10 ** Math.max(hi, lo + 1)];
  return before && inside(data, before) && before[1] / before[0] <= 100 * (round[1] / round[0]) ? before : round;
}

function inside(a: Range, b: Range): boolean {
  return a[0] >= b[0] && a[1] <= b[1];
}

function step(size: number, most: number): number {
  const raw = size / most;
  const ten = 10 ** Math.floor(Math.log10(raw));
  for (const m of [1, 2, 2.5, 5]) if (m * ten >= raw) return m * ten;
  return 10 * ten;
}

/// Places of ticks.
export function ticks([lo, hi]: Range, scale: Scale, room: number): number[] {
  const out: number[] = [];
  if (scale === "log") {
    const from = Math.floor(Math.log10(lo) + 1e-9);
    const to = Math.ceil(Math.log10(hi) - 1e-9);
    const every = Math.max(1, Math.ceil((to - from) / Math.max(1, room)));
    const within = to - from <= 1 ? [1, 2, 3, 4, 5, 6, 7, 8, 9] : to - from <= 2 ? [1, 2, 5] : [1];
    for (let e = from; e <= to; e += every) {
      for (const m of within) {
        const v = m * 10 ** e;
        if (v >= lo * 0.999_999 && v <= hi * 1.000_001) out.push(v);
      }
    }
    return out;
  }
  const by = step(hi - lo, Math.max(2, room));
  for (let i = Math.ceil(lo / by - 1e-9); i * by <= hi + by * 1e-9; i++) out.push(i === 0 ? 0 : i * by);
  return out;
}

/// Where a value lies between the ends, from 0 to 1.
export function share(v: number, [lo, hi]: Range, scale: Scale): number {
  if (scale === "log") return v > 0 ? Math.log(v / lo) / Math.log(hi / lo) : -1;
  return (v - lo) / (hi - lo);
}
