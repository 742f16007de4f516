// Colours that people with any kind of colour vision tell apart (after Okabe and Ito), in a
// light and a dark tuning, and the theme of the page.

import { recall, remember } from "./dom.js";

const LIGHT = ["#0072b2", "#d55e00", "#009e73", "#a6499c", "#b8860b", "#3aa0d8", "#6b4c9a", "#5f6b76"];
const DARK = ["#58b4f0", "#ff9147", "#2fcf9f", "#e58fd0", "#f2c14e", "#8fd3ff", "#b79cff", "#aab4be"];

export type Theme = "auto" | "light" | "dark";

const system = matchMedia("(prefers-color-scheme: dark)");
let theme = (recall("theme") ?? "auto") as Theme;
const changed = new Set<() => void>();

export function isDark(): boolean {
  return theme === "dark" || (theme === "auto" && system.matches);
}

function apply(): void {
  document.documentElement.dataset["theme"] = isDark() ? "dark" : "light";
  for (const f of changed) f();
}

export function currentTheme(): Theme {
  return theme;
}

export function setTheme(next: Theme): void {
  theme = next;
  remember("theme", next);
  apply();
}

export function onTheme(f: () => void): () => void {
  changed.add(f);
  return () => changed.delete(f);
}

system.addEventListener("change", apply);
apply();

/// The colour of the n-th curve.
export function curveColour(n: number): string {
  const set = isDark() ? DARK : LIGHT;
  return set[n % set.length] ?? "#888888";
}

/// Red, green and blue from 0 to 1.
export function rgb(colour: string): [number, number, number] {
  const n = parseInt(colour.slice(1), 16);
  return [(n >> 16) / 255, ((n >> 8) & 255) / 255, (n & 255) / 255];
}

/// A colour of the style sheet.
export function styled(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}
