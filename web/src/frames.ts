// The binary frames of the data socket (spec/monitor.md): read in place where the bytes allow it.

const HEADER = 64;
const CURVE = 2;
const POINTS = 3;
const DECIMATED = 2;
const COARSE = 4;

export interface Curve {
  kind: "curve";
  diagram: number;
  curve: number;
  step: number;
  time: number;
  decimated: boolean;
  /// Finer points are being read and come at once.
  coarse: boolean;
  x: Float64Array;
  y: Float64Array;
}

export interface Cloud {
  kind: "cloud";
  diagram: number;
  curve: number;
  step: number;
  time: number;
  decimated: boolean;
  /// Finer points are being read and come at once.
  coarse: boolean;
  /// Pairs of x and y in 65 536 steps of their ranges.
  pairs: Uint16Array;
  /// Least and greatest x, least and greatest y.
  box: [number, number, number, number];
}

export type Frame = Curve | Cloud;

/// All frames of one message; a frame of a type from a later version is passed over.
export function read(message: ArrayBuffer): Frame[] {
  const view = new DataView(message);
  const frames: Frame[] = [];
  let at = 0;
  while (at + HEADER <= message.byteLength) {
    if (view.getUint32(at, false) !== 0x4d4f4e31) throw new Error("not a frame of this version");
    const type = view.getUint8(at + 4);
    const n = view.getUint32(at + 32, true);
    const common = {
      diagram: view.getUint32(at + 8, true),
      curve: view.getUint32(at + 12, true),
      step: Number(view.getBigInt64(at + 16, true)),
      time: view.getFloat64(at + 24, true),
      decimated: (view.getUint8(at + 7) & DECIMATED) !== 0,
      coarse: (view.getUint8(at + 7) & COARSE) !== 0,
    };
    const body = at + HEADER;
    if (type === CURVE) {
      const x = new Float64Array(message, body, n);
      const y = new Float64Array(message, body + 8 * n, n);
      frames.push({ kind: "curve", ...common, x, y });
      at = body + 16 * n;
    } else if (type === POINTS) {
      const [x0, x1, y0, y1] = new Float64Array(message, body, 4) as unknown as [number, number, number, number];
      const pairs = new Uint16Array(message, body + 32, 2 * n);
      frames.push({ kind: "cloud", ...common, pairs, box: [x0, x1, y0, y1] });
      at = body + 32 + Math.ceil(n / 2) * 8;
    } else {
      break;
    }
  }
  return frames;
}
