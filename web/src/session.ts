// The connection to the run: login, the two sockets, credits, and coming back after a loss.
//
//   link #t=TOKEN --POST login--> cookie --GET me--> ctl socket --hello, key--> data socket

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

/// Silence after which the connection counts as lost.
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
  private drawn = 0;
  private waiting = new Map<number, (answer: { id: number } | { text: string }) => void>();

  constructor(private readonly listener: Listener) {
    setInterval(() => this.watchdog(), 1000);
  }

  /// Takes the token out of the address bar, shows it once, and connects.
  async begin(): Promise<void> {
    const token = new URLSearchParams(location.hash.slice(1)).get("t");
    if (location.hash) history.replaceState(null, "", location.pathname + location.search);
    if (token) {
      const why = await this.login(token);
      if (why) return this.listener.link({ is: "refused", why });
    }
    await this.connect();
  }

  /// Swaps a token for the cookie; returns why not, if not.
  async login(token: string): Promise<string | null> {
    try {
      const answer = await fetch("login", {
        method: "POST",
        headers: { "content-type": "application/json", "x-forebay": "1" },
        body: JSON.stringify({ token }),
      });
      return answer.ok ? null : await answer.text();
    } catch {
      return "the monitor does not answer";
    }
  }

  async connect(): Promise<void> {
    clearTimeout(this.timer);
    this.listener.link(this.lostSince ? { is: "lost", since: this.lostSince, again: 0 } : { is: "connecting" });
    let me: Response;
    try {
      me = await fetch("me", { signal: AbortSignal.timeout(SILENCE_MS) });
    } catch {
      return this.retry();
    }
    if (me.status === 401 || me.status === 403) {
      return this.listener.link({ is: "refused", why: await me.text() });
    }
    if (me.status === 404) {
      return this.listener.link({ is: "over", why: "the run is shown no longer" });
    }
    if (!me.ok) return this.retry();
    const ctl = new WebSocket(address("ws/ctl"));
    this.ctl = ctl;
    ctl.onmessage = (e) => this.heard(JSON.parse(String(e.data)) as FromRun);
    ctl.onclose = () => {
      if (this.ctl === ctl) this.retry();
    };
  }

  private heard(message: FromRun): void {
    this.lastHeard = Date.now();
    switch (message.say) {
      case "hello":
        if (message.v !== VERSION) {
          return this.listener.link({ is: "refused", why: "the monitor was renewed; reload this page" });
        }
        this.tries = 0;
        this.lostSince = 0;
        this.openData(message.key);
        this.listener.link({ is: "open" });
        if (this.view) this.ctl?.send(this.view);
        break;
      case "accepted":
        this.answer(message.req, { id: message.id });
        break;
      case "refused":
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

  private openData(key: string): void {
    const data = new WebSocket(address(`ws/data?key=${key}`));
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
    this.ctl.send(JSON.stringify({ say: "cmd", req, act }));
    return new Promise((done) => {
      this.waiting.set(req, done);
      setTimeout(() => this.answer(req, { text: "no answer from the monitor for 5 s" }), 5000);
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
