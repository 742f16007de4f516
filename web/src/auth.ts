// Who this page is: a link's code buys the key of a session, which this tab keeps and proves, and never sends.
//
//   #c=CODE --id--> challenge: the monitor proves the code --proof--> session: number and wrapped key

import { digest, hex, mac, nonce, unhex } from "./sha256.js";

interface Session { sid: string; key: Uint8Array }

const PLACE = `forebay:${location.pathname}`;
const STRANGER =
  "what answers here does not know this link: another program has the port, or the page was started anew. `forebay monitor RUN` prints a new link";
const ID = 5;

let session: Session | null = null;

/// The session of this tab, if it has one.
export function current(): Session | null {
  if (session) return session;
  try {
    const [sid, key] = (sessionStorage.getItem(PLACE) ?? "").split(" ");
    if (sid && key) session = { sid, key: unhex(key) };
  } catch {
    // A frame without storage keeps it in memory only.
  }
  return session;
}

export function forget(): void {
  session = null;
  try {
    sessionStorage.removeItem(PLACE);
  } catch {
    // Nothing was kept.
  }
}

async function ask(body: object): Promise<{ ok: true; said: Record<string, string> } | { ok: false; why: string }> {
  try {
    const answer = await fetch("auth", {
      method: "POST",
      headers: { "content-type": "application/json", "x-forebay": "1" },
      body: JSON.stringify(body),
    });
    if (!answer.ok) return { ok: false, why: await answer.text() };
    return { ok: true, said: (await answer.json()) as Record<string, string> };
  } catch {
    return { ok: false, why: "the monitor does not answer" };
  }
}

/// Begins a session with the code of a link; returns why not, if not.
export async function enter(code: string): Promise<string | null> {
  if (navigator.serviceWorker?.controller) {
    return "a script that another program left in this browser answers for this address; remove the site's data and open a new link";
  }
  const c = digest(code);
  const [id, nc, origin] = [code.slice(0, ID), nonce(), location.origin];
  const challenge = await ask({ id, nc });
  if (!challenge.ok) return challenge.why;
  const ns = challenge.said["ns"] ?? "";
  if (challenge.said["mac"] !== hex(mac(c, "S", nc, ns, origin))) return STRANGER;
  const begun = await ask({ id, nc, proof: { ns, mac: hex(mac(c, "C", nc, ns, origin)) } });
  if (!begun.ok) return begun.why;
  const mask = mac(c, "K", nc, ns);
  const key = unhex(begun.said["wrapped"] ?? "").map((b, i) => b ^ (mask[i] as number));
  session = { sid: begun.said["sid"] ?? "", key };
  try {
    sessionStorage.setItem(PLACE, `${session.sid} ${hex(key)}`);
  } catch {
    // See above.
  }
  return null;
}

/// What two sockets of this page say to prove that they are of this session.
export class Handshake {
  private readonly nc = nonce();
  private ns = "";

  constructor(private readonly session: Session, private readonly run: string) {}

  me(v: number): object {
    return { say: "me", v, sid: this.session.sid, nc: this.nc };
  }

  /// Our proof, or why what answers is not what we want.
  proof(prove: { ns: string; mac: string }): { proof: object } | { why: string } {
    this.ns = prove.ns;
    const [key, origin] = [this.session.key, location.origin];
    if (prove.mac !== hex(mac(key, "S", this.nc, this.ns, origin, this.run))) return { why: STRANGER };
    return { proof: { say: "proof", mac: hex(mac(key, "C", this.ns, this.nc, origin, this.run)) } };
  }

  data(conn: number): object {
    const key = mac(this.session.key, "conn", this.nc, this.ns);
    return { say: "data", conn, mac: hex(mac(key, "D", conn)) };
  }
}
