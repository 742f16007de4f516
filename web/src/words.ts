// The messages of the control socket, as spec/monitor.md lists them.

export const VERSION = 2;

export type Role = "viewer" | "operator";
export type StateWord =
  | "STARTING" | "RUNNING" | "HOLDING" | "HELD" | "STEPPING" | "SAVING" | "QUITTING" | "OVER" | "ENDED" | "LOST";
export type Kind = "curve" | "history" | "scatter" | "vector" | "heatmap" | "contour" | "surface" | "scatter3d";
export type Scale = "linear" | "log";
/// Integers that a double cannot hold are bigints.
export type Value = number | bigint | boolean | string;

export type Act =
  | { verb: "run" | "stop" | "save" | "quit" }
  | { verb: "end"; why: string }
  | { verb: "step"; n: number }
  | { verb: "set"; name: string; value: Value }
  | { verb: "command"; name: string };

export interface RunInfo { id: string; name: string; program: string; host: string }

export interface Diagram {
  id: number;
  title: string;
  kind: Kind;
  x: string;
  y: string;
  xscale: Scale;
  yscale: Scale;
  curves: [number, string][];
}

export interface Parameter {
  name: string;
  value: Value;
  min: number | null;
  max: number | null;
  units: string;
  help: string;
}

export interface RunState {
  state: StateWord;
  step: number;
  time: number | null;
  rate: number | null;
  eta: number | null;
  ranks: number;
  watching: [string, Role][];
}

export interface Message { seq: number; level: number; step: number; text: string; at: number }

export interface LogLine {
  id: number;
  who: string;
  act: Act;
  phase: "queued" | "applied" | "refused";
  step: number | null;
  text: string;
  at: number;
}

export type FromRun =
  | { say: "hello"; v: number; run: RunInfo; role: Role; you: string; conn: number; steps: number }
  | { say: "prove"; ns: string; mac: string }
  | { say: "catalogue"; diagrams: Diagram[]; commands: string[]; progress: [number, number] | null }
  | { say: "parameters"; items: Parameter[] }
  | ({ say: "state" } & RunState)
  | { say: "messages"; items: Message[] }
  | { say: "steer"; items: LogLine[] }
  | { say: "accepted"; req: number; id: number }
  | { say: "refused"; req: number; code: string; text: string }
  | { say: "bye"; why: string };

export interface View { diagram: number; columns: number; range: [number, number] | null; log: boolean }

/// An act in words, as people would say it.
export function actWords(act: Act): string {
  switch (act.verb) {
    case "run": return "Run";
    case "stop": return "Stop";
    case "save": return "Save";
    case "quit": return "Quit";
    case "end": return `save, checkpoint and quit (${act.why})`;
    case "step": return act.n === 1 ? "Step" : `Step ${act.n}`;
    case "set": return `set ${act.name} = ${String(act.value)}`;
    case "command": return act.name;
  }
}
