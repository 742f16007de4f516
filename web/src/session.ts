// The connection to the run: its session, the two sockets, credits, and coming back after a loss.
//
//   link #c=CODE --auth--> session of this tab --me, prove, proof--> ctl socket --hello, conn--> data socket

import { current, enter, forget, Handshake } from "./auth.js";
import { exact, lossless } from "./exact.js";
import { read, type Frame } from "./frames.js";
import { VERSION, type Act, type FromRun, type View } from "./words.js";

export type Link =
  | { is: "connecting" }
  | { is: "open" }
  | { is: "lost"; since: number; again: number }
  | { is: "refused"; why: string }
  | { is: "over"; why: string };

export interface Listener {
  heard(message: FromRun): void;
  frames(frames: Frame[]): void;
  link(link: Link): void;
}

/// Silence after which the connection counts as lost, and an act as unanswered.
const SILENCE_MS = 5000;
const BACK_OFF = [300, 700, 1500, 3000, 6000, 10_000];

export class Session {
  private ctl: WebSocket | null = null;
  private data: WebSocket | null = null;
  private tries = 0;
  private lostSince = 0;
  private lastHeard = 0;
  private nextReq = 1;
  private view = "";
  private timer = 0;
  private handshake: Handshake | null = null;
  private isIn = false;
  private drawn = 0;
  private waiting = new Map<number, (answer: { id: number } | { text: string }) => void>();

  constructor(private readonly listener: Listener) {
    setInterval(() => this.watchdog(), 1000);
  }

  /// Takes the code out of the address bar, begins a session with it, and connects.
  async begin(): Promise<void> {
    const code = new URLSearchParams(location.hash.slice(1)).get("c");
    if (location.hash) history.replaceState(null, "", location.pathname + location.search);
    if (code) {
      const why = await enter(code);
      // A tab whose session lives may be reloaded with a link that was used.
      if (why && !current()) return this.listener.link({ is: "refused", why });
    }
    await this.connect();
  }

  async connect(): Promise<void> {
    clearTimeout(this.timer);
    this.listener.link(this.lostSince ? { is: "lost", since: this.lostSince, again: 0 } : { is: "connecting" });
    let there: Response;
    try {
      there = await fetch("./", { method: "HEAD", cache: "no-store", signal: AbortSignal.timeout(SILENCE_MS) });
    } catch {
      return this.retry();
    }
    if (there.status === 404) {
      return this.listener.link({ is: "over", why: "the run is shown no longer" });
    }
    if (!there.ok) return this.retry();
    const session = current();
    if (!session) {
      return this.listener.link({ is: "refused", why: "open the link that was printed when the run began, or a new one: `forebay monitor RUN`" });
    }
    const run = location.pathname.replace(/\/$/, "").split("/").pop() ?? "";
    const handshake = new Handshake(session, decodeURIComponent(run));
    const ctl = new WebSocket(address("ws/ctl"));
    this.ctl = ctl;
    this.handshake = handshake;
    this.isIn = false;
    ctl.onopen = () => ctl.send(JSON.stringify(handshake.me(VERSION)));
    ctl.onmessage = (e) => {
      if (this.ctl === ctl) this.heard(lossless(String(e.data)) as FromRun);
    };
    ctl.onclose = () => {
      if (this.ctl === ctl) this.retry();
    };
  }

  /// We are not let in, or do not want in: not tried again.
  private turnedAway(why: string): void {
    forget();
    this.close();
    this.listener.link({ is: "refused", why });
  }

  private heard(message: FromRun): void {
    this.lastHeard = Date.now();
    switch (message.say) {
      case "prove": {
        const answer = this.handshake?.proof(message) ?? { why: "" };
        if ("why" in answer) return this.turnedAway(answer.why);
        this.ctl?.send(JSON.stringify(answer.proof));
        return;
      }
      case "hello":
        this.isIn = true;
        this.tries = 0;
        this.lostSince = 0;
        this.openData(message.conn);
        this.listener.link({ is: "open" });
        if (this.view) this.ctl?.send(this.view);
        break;
      case "accepted":
        this.answer(message.req, { id: message.id });
        break;
      case "refused":
        if (!this.isIn) {
          if (message.code !== "Full") return this.turnedAway(message.text);
          this.close();
          return this.listener.link({ is: "refused", why: message.text });
        }
        this.answer(message.req, { text: message.text });
        break;
      case "bye": {
        this.close();
        this.listener.heard(message);
        this.listener.link({ is: "over", why: message.why });
        return;
      }
    }
    this.listener.heard(message);
  }

  private answer(req: number, answer: { id: number } | { text: string }): void {
    this.waiting.get(req)?.(answer);
    this.waiting.delete(req);
  }

  private openData(conn: number): void {
    const data = new WebSocket(address("ws/data"));
    const words = JSON.stringify(this.handshake?.data(conn));
    data.onopen = () => data.send(words);
    data.binaryType = "arraybuffer";
    this.data = data;
    this.drawn = 0;
    data.onmessage = (e) => {
      this.drawn += 1;
      this.listener.frames(read(e.data as ArrayBuffer));
    };
    data.onclose = () => {
      // When the monitor leaves, its farewell may still be on the way by the other socket.
      setTimeout(() => {
        if (this.data === data) this.ctl?.close();
      }, 500);
    };
  }

  /// Everything received has been drawn: the credit goes back.
  creditBack(): void {
    if (this.drawn > 0 && this.data?.readyState === WebSocket.OPEN) {
      this.data.send(String(this.drawn));
      this.drawn = 0;
    }
  }

  /// Asks for an act; resolves with its number in the log, or the text of the refusal.
  act(act: Act): Promise<{ id: number } | { text: string }> {
    if (this.ctl?.readyState !== WebSocket.OPEN) return Promise.resolve({ text: "there is no connection to the run" });
    const req = this.nextReq++;
    this.ctl.send(exact({ say: "cmd", req, act }));
    return new Promise((done) => {
      const silence = { text: `no answer from the monitor for ${SILENCE_MS / 1000} s` };
      const late = setTimeout(() => this.answer(req, silence), SILENCE_MS);
      this.waiting.set(req, (answer) => {
        clearTimeout(late);
        done(answer);
      });
    });
  }

  /// Tells what is in sight, if that changed.
  look(open: View[], hidden: boolean): void {
    const words = JSON.stringify({ say: "view", open, hidden });
    if (words === this.view) return;
    this.view = words;
    if (this.ctl?.readyState === WebSocket.OPEN) this.ctl.send(words);
  }

  name(name: string): void {
    if (this.ctl?.readyState === WebSocket.OPEN) this.ctl.send(JSON.stringify({ say: "name", name }));
  }

  /// Milliseconds since the monitor said anything.
  silence(): number {
    return this.lastHeard ? Date.now() - this.lastHeard : 0;
  }

  private watchdog(): void {
    // The monitor speaks at least once a second; silence means that the way is cut. A socket
    // whose other end is stopped never says that it closed: give it up here.
    if (this.ctl?.readyState === WebSocket.OPEN && this.silence() > SILENCE_MS) this.retry();
  }

  private close(): void {
    const { ctl, data } = this;
    this.ctl = null;
    this.data = null;
    ctl?.close();
    data?.close();
    for (const done of this.waiting.values()) done({ text: "the connection was lost before the answer came" });
    this.waiting.clear();
  }

  private retry(): void {
    this.close();
    this.lostSince ||= this.lastHeard || Date.now();
    const wait = BACK_OFF[Math.min(this.tries++, BACK_OFF.length - 1)] ?? 10_000;
    this.listener.link({ is: "lost", since: this.lostSince, again: Date.now() + wait });
    this.timer = window.setTimeout(() => void this.connect(), wait);
  }
}

/// Relative to the page, so that a proxy's prefix stays.
function address(path: string): string {
  const url = new URL(path, location.href);
  url.protocol = location.protocol === "https:" ? "wss:" : "ws:";
  return url.href;
}
