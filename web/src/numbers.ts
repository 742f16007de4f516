// Numbers and times for people.

const SUPER = "⁰¹²³⁴⁵⁶⁷⁸⁹";

function power(n: number): string {
  const digits = [...String(Math.abs(n))].map((d) => SUPER[Number(d)]).join("");
  return (n < 0 ? "⁻" : "") + digits;
}

/// A value with so many significant digits; powers of ten beyond 1e5 and below 1e-3.
export function value(v: number, digits = 4): string {
  if (!Number.isFinite(v)) return Number.isNaN(v) ? "–" : v > 0 ? "∞" : "−∞";
  if (v === 0) return "0";
  const exponent = Math.floor(Math.log10(Math.abs(v)) + 1e-12);
  if (exponent >= 5 || exponent < -3) {
    const mantissa = Number((v / 10 ** exponent).toPrecision(digits));
    const head = mantissa === 1 ? "" : mantissa === -1 ? "−" : `${String(mantissa).replace("-", "−")}·`;
    return `${head}10${power(exponent)}`;
  }
  return String(Number(v.toPrecision(digits))).replace("-", "−");
}

/// A whole number in groups of three.
export function whole(n: number): string {
  return String(Math.round(n)).replace(/\B(?=(\d{3})+(?!\d))/g, " ");
}

/// A span of time in seconds.
export function span(s: number): string {
  if (s < 1) return "< 1 s";
  if (s < 100) return `${Math.round(s)} s`;
  if (s < 5400) return `${Math.round(s / 60)} min`;
  if (s < 172_800) return `${(s / 3600).toFixed(1)} h`;
  return `${Math.round(s / 86_400)} days`;
}

/// A time of the day.
export function clock(ms: number): string {
  const d = new Date(ms);
  return [d.getHours(), d.getMinutes(), d.getSeconds()].map((n) => String(n).padStart(2, "0")).join(":");
}

/// The unit of a label `x [m]`, and the label without it.
export function unitOf(label: string): { name: string; unit: string } {
  const m = /^(.*?)\s*\[([^\]]*)\]\s*$/.exec(label);
  return m ? { name: m[1] ?? label, unit: m[2] ?? "" } : { name: label, unit: "" };
}
