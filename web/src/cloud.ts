// Clouds of points in colours: one WebGL2 context for the whole page, drawn into and copied from
// for each diagram; browsers kill the oldest of many contexts. Without WebGL the same picture is
// made by the processor.

import { rgb } from "./colours.js";
import type { Cloud } from "./frames.js";
import { share, type Range } from "./ranges.js";
import type { Scale } from "./words.js";

export interface Shot {
  width: number;
  height: number;
  x: Range;
  y: Range;
  xscale: Scale;
  yscale: Scale;
  /// Diameter of a point in device pixels.
  size: number;
  clouds: { cloud: Cloud; colour: string }[];
}

/// Points are drawn in so many passes, each of every curve, so that none hides the others.
const PASSES = 4;

const VERTEX = `#version 300 es
in vec2 q;
uniform vec4 box;      // least x, x span, least y, y span of the quantised values
uniform vec4 sight;    // low x, x span, low y, y span on the axes (logarithms on log axes)
uniform bvec2 logarithmic;
uniform float size;
void main() {
  vec2 v = box.xz + q * box.yw;
  bool off = (logarithmic.x && v.x <= 0.0) || (logarithmic.y && v.y <= 0.0);
  if (logarithmic.x) v.x = log(max(v.x, 1e-37));
  if (logarithmic.y) v.y = log(max(v.y, 1e-37));
  vec2 at = (v - sight.xz) / sight.yw * 2.0 - 1.0;
  gl_Position = off ? vec4(2.0, 2.0, 0.0, 1.0) : vec4(at, 0.0, 1.0);
  gl_PointSize = size;
}`;

const FRAGMENT = `#version 300 es
precision highp float;
uniform vec4 colour;
uniform float size;
out vec4 pixel;
void main() {
  float a = 1.0;
  if (size > 2.5) {
    float r = length(gl_PointCoord - 0.5) * size;
    a = clamp(size * 0.5 - r + 0.5, 0.0, 1.0);
  }
  pixel = vec4(colour.rgb, 1.0) * colour.a * a;
}`;

interface Pen {
  gl: WebGL2RenderingContext;
  at: (name: string) => WebGLUniformLocation | null;
  program: WebGLProgram;
}

class Painter {
  private readonly canvas = document.createElement("canvas");
  private pen: Pen | null = null;
  private buffers = new WeakMap<Cloud, WebGLBuffer>();
  private registry: { ref: WeakRef<Cloud>; buffer: WebGLBuffer }[] = [];

  constructor() {
    this.canvas.addEventListener("webglcontextlost", (e) => {
      e.preventDefault();
      this.pen = null;
      this.mark();
    });
    this.canvas.addEventListener("webglcontextrestored", () => this.prepare());
    this.prepare();
  }

  private mark(): void {
    document.documentElement.dataset["renderer"] = this.pen ? "webgl2" : "canvas";
  }

  private prepare(): void {
    this.buffers = new WeakMap();
    this.registry = [];
    const gl = this.canvas.getContext("webgl2", { antialias: false, premultipliedAlpha: true, depth: false });
    this.pen = gl ? makePen(gl) : null;
    this.mark();
  }

  /// A picture of the size asked for in the upper left corner of what is returned; valid until
  /// the next call.
  draw(shot: Shot): { image: CanvasImageSource; top: number } {
    if (this.pen) return this.drawGl(this.pen, shot);
    return { image: drawCpu(shot), top: 0 };
  }

  private drawGl(pen: Pen, shot: Shot): { image: CanvasImageSource; top: number } {
    const { gl, at } = pen;
    if (this.canvas.width < shot.width) this.canvas.width = shot.width;
    if (this.canvas.height < shot.height) this.canvas.height = shot.height;
    gl.viewport(0, 0, shot.width, shot.height);
    gl.disable(gl.SCISSOR_TEST);
    gl.clearColor(0, 0, 0, 0);
    gl.clear(gl.COLOR_BUFFER_BIT);
    gl.useProgram(pen.program);
    const sight = (r: Range, s: Scale): [number, number] =>
      s === "log" ? [Math.log(r[0]), Math.log(r[1] / r[0])] : [r[0], r[1] - r[0]];
    gl.uniform4f(at("sight"), ...sight(shot.x, shot.xscale), ...sight(shot.y, shot.yscale));
    gl.uniform2i(at("logarithmic"), Number(shot.xscale === "log"), Number(shot.yscale === "log"));
    gl.uniform1f(at("size"), shot.size);
    for (let pass = 0; pass < PASSES; pass++) {
      for (const { cloud, colour } of shot.clouds) {
        const n = cloud.pairs.length / 2;
        const count = Math.floor((n - pass + PASSES - 1) / PASSES);
        if (count <= 0) continue;
        gl.bindBuffer(gl.ARRAY_BUFFER, this.buffer(gl, cloud));
        gl.enableVertexAttribArray(0);
        gl.vertexAttribPointer(0, 2, gl.UNSIGNED_SHORT, true, 4 * PASSES, 4 * pass);
        const [x0, x1, y0, y1] = cloud.box;
        gl.uniform4f(at("box"), x0, x1 - x0, y0, y1 - y0);
        gl.uniform4f(at("colour"), ...rgb(colour), opacity(n));
        gl.drawArrays(gl.POINTS, 0, count);
      }
    }
    return { image: this.canvas, top: this.canvas.height - shot.height };
  }

  private buffer(gl: WebGL2RenderingContext, cloud: Cloud): WebGLBuffer {
    const known = this.buffers.get(cloud);
    if (known) return known;
    // A cloud that was replaced is collected; its buffer serves the next one.
    const free = this.registry.findIndex((r) => r.ref.deref() === undefined || retired.has(r.ref.deref() as Cloud));
    const buffer = free >= 0 ? this.registry.splice(free, 1)[0]!.buffer : gl.createBuffer();
    gl.bindBuffer(gl.ARRAY_BUFFER, buffer);
    gl.bufferData(gl.ARRAY_BUFFER, cloud.pairs, gl.DYNAMIC_DRAW);
    this.buffers.set(cloud, buffer);
    this.registry.push({ ref: new WeakRef(cloud), buffer });
    return buffer;
  }
}

const retired = new WeakSet<Cloud>();

/// A cloud that will not be drawn again: its buffer may serve another.
export function retire(cloud: Cloud): void {
  retired.add(cloud);
}

function opacity(n: number): number {
  return n > 20_000 ? 0.55 : n > 3000 ? 0.7 : 0.85;
}

function makePen(gl: WebGL2RenderingContext): Pen | null {
  const program = gl.createProgram();
  for (const [kind, source] of [[gl.VERTEX_SHADER, VERTEX], [gl.FRAGMENT_SHADER, FRAGMENT]] as const) {
    const shader = gl.createShader(kind);
    if (!shader) return null;
    gl.shaderSource(shader, source);
    gl.compileShader(shader);
    gl.attachShader(program, shader);
  }
  gl.bindAttribLocation(program, 0, "q");
  gl.linkProgram(program);
  if (!gl.getProgramParameter(program, gl.LINK_STATUS)) return null;
  gl.enable(gl.BLEND);
  gl.blendFunc(gl.ONE, gl.ONE_MINUS_SRC_ALPHA);
  const places = new Map<string, WebGLUniformLocation | null>();
  const at = (name: string): WebGLUniformLocation | null => {
    if (!places.has(name)) places.set(name, gl.getUniformLocation(program, name));
    return places.get(name) ?? null;
  };
  return { gl, at, program };
}

let sheet: HTMLCanvasElement | null = null;

/// The same picture without WebGL.
function drawCpu(shot: Shot): CanvasImageSource {
  sheet ??= document.createElement("canvas");
  const { width, height } = shot;
  sheet.width = width;
  sheet.height = height;
  const context = sheet.getContext("2d");
  if (!context) return sheet;
  const image = context.createImageData(width, height);
  const side = Math.max(1, Math.round(shot.size * 0.8));
  for (let pass = 0; pass < PASSES; pass++) {
    for (const { cloud, colour } of shot.clouds) {
      const ink = rgb(colour).map((c) => c * 255) as [number, number, number];
      const [x0, x1, y0, y1] = cloud.box;
      const a = opacity(cloud.pairs.length / 2);
      for (let i = 2 * pass; i < cloud.pairs.length; i += 2 * PASSES) {
        const x = x0 + ((cloud.pairs[i] ?? 0) / 65535) * (x1 - x0);
        const y = y0 + ((cloud.pairs[i + 1] ?? 0) / 65535) * (y1 - y0);
        const px = Math.round(share(x, shot.x, shot.xscale) * width - side / 2);
        const py = Math.round((1 - share(y, shot.y, shot.yscale)) * height - side / 2);
        dab(image, px, py, side, ink, a);
      }
    }
  }
  context.putImageData(image, 0, 0);
  return sheet;
}

function dab(image: ImageData, px: number, py: number, side: number, ink: [number, number, number], a: number): void {
  const { data, width, height } = image;
  for (let y = Math.max(0, py); y < Math.min(height, py + side); y++) {
    for (let x = Math.max(0, px); x < Math.min(width, px + side); x++) {
      const at = 4 * (y * width + x);
      const under = (data[at + 3] ?? 0) / 255;
      const over = a + under * (1 - a);
      for (let c = 0; c < 3; c++) {
        data[at + c] = ((ink[c] ?? 0) * a + (data[at + c] ?? 0) * under * (1 - a)) / over;
      }
      data[at + 3] = over * 255;
    }
  }
}

let painter: Painter | null = null;

/// Draws a cloud with the page's one painter.
export function paint(shot: Shot): { image: CanvasImageSource; top: number } {
  painter ??= new Painter();
  return painter.draw(shot);
}
