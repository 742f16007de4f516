// Who is let in, and what viewers may do: a page that can stop a run is worth a lock.

import assert from "node:assert/strict";
import { createHash, createHmac, randomBytes } from "node:crypto";
import { request } from "node:http";
import { after, before, describe, it } from "node:test";
import WebSocket from "ws";
import { badge, demoPath, open, startBrowser, startRun, until } from "./lib.mjs";

describe("the lock of the page", { timeout: 60_000 }, () => {
  let run;
  before(async () => (run = await startRun(demoPath(), ["--forever"])));
  after(async () => run?.stop());

  /// The status of a plain request with exactly these headers.
  const status = (path, headers = {}, method = "GET", body = undefined) =>
    new Promise((done, fail) => {
      const url = new URL(run.base + path);
      const asked = request({ host: url.hostname, port: url.port, path: url.pathname + url.search, method, headers }, (answer) => {
        answer.resume();
        done(answer.statusCode);
      });
      asked.on("error", fail);
      asked.end(body);
    });

  /// Opens a socket; resolves with it, or with the status of the refusal.
  const socket = (path, headers = {}) =>
    new Promise((done) => {
      const ws = new WebSocket((run.base + path).replace("http", "ws"), { headers, perMessageDeflate: false });
      ws.heard = [];
      ws.on("message", (data, binary) => ws.heard.push(binary ? data : JSON.parse(String(data))));
      ws.on("open", () => done(ws));
      ws.on("unexpected-response", (_req, answer) => {
        answer.resume();
        done(answer.statusCode);
      });
      ws.on("error", () => {});
    });

  const bearer = (role) => ({ authorization: `Bearer ${run.token(role)}` });
  const said = (ws, say) => until(say, () => ws.heard.find((m) => m.say === say));

  const host = () => new URL(run.base).host;
  const json = { "x-forebay": "1", "content-type": "application/json" };
  const auth = async (body, headers = {}) =>
    fetch(`${run.base}auth`, { method: "POST", headers: { ...json, origin: `http://${host()}`, ...headers }, body: JSON.stringify(body) });

  const sha256 = (text) => createHash("sha256").update(text).digest();
  const mac = (key, ...words) => createHmac("sha256", key).update(words.join("|")).digest("hex");
  const nonce = () => randomBytes(16).toString("hex");

  /// What the page does with a link, by hand: the session's number and key.
  const enter = async (link) => {
    const code = link.split("#c=")[1];
    const [c, id, nc, origin] = [sha256(code), code.slice(0, 5), nonce(), `http://${host()}`];
    const challenge = await auth({ id, nc });
    if (challenge.status !== 200) return challenge.status;
    const { ns, mac: theirs } = await challenge.json();
    assert.equal(theirs, mac(c, "S", nc, ns, origin), "the monitor proves itself first");
    const answer = await auth({ id, nc, proof: { ns, mac: mac(c, "C", nc, ns, origin) } });
    if (answer.status !== 200) return answer.status;
    const { sid, wrapped, role } = await answer.json();
    const mask = Buffer.from(mac(c, "K", nc, ns), "hex");
    return { sid, role, key: Buffer.from(Buffer.from(wrapped, "hex").map((b, i) => b ^ mask[i])) };
  };

  /// Opens a control socket with a session; resolves with it once it was answered.
  const knock = async ({ sid, key }, lie = {}) => {
    const [nc, origin] = [nonce(), `http://${host()}`];
    const name = run.base.split("/").at(-2);
    const ws = await socket("ws/ctl", { origin });
    ws.send(JSON.stringify({ say: "me", v: 2, sid, nc }));
    const first = await until("an answer", () => ws.heard[0]);
    if (first.say !== "prove") return ws;
    if (lie.key === undefined) assert.equal(first.mac, mac(key, "S", nc, first.ns, origin, name));
    ws.send(JSON.stringify({ say: "proof", mac: mac(lie.key ?? key, "C", first.ns, nc, origin, name) }));
    await until("in or out", () => ws.heard[1]);
    ws.keyOfData = Buffer.from(mac(key, "conn", nc, first.ns), "hex");
    return ws;
  };

  it("refuses a wrong token everywhere", async () => {
    const wrong = { authorization: `Bearer ${"0".repeat(40)}` };
    for (const path of ["me", "state", "ws/ctl"]) assert.equal(await status(path, wrong), path === "ws/ctl" ? 400 : 401);
    assert.equal(await socket("ws/ctl", wrong), 401);
    assert.equal(await status("act", { ...wrong, "x-forebay": "1", "content-type": "application/json" }, "POST", '{"verb":"quit"}'), 401);
    assert.equal((await auth({ id: "aaaaa", nc: nonce() })).status, 401);
    assert.equal((await auth({ id: "aaaaa", nc: "short" })).status, 401);
  });

  it("begins a session with a code that is proved and never sent, and sets no cookie", async () => {
    const seen = [];
    const link = await run.operator();
    const code = link.split("#c=")[1];
    const real = globalThis.fetch;
    globalThis.fetch = async (url, init) => {
      const answer = await real(url, init);
      seen.push(`${url} ${init.body} ${await answer.clone().text()} ${JSON.stringify([...answer.headers])}`);
      return answer;
    };
    const session = await enter(link).finally(() => (globalThis.fetch = real));
    assert.equal(session.role, "operator");
    assert.equal(seen.length, 2);
    for (const words of seen) {
      assert.ok(!words.includes(code) && !words.includes(session.key.toString("hex")) && !words.includes("set-cookie"), words);
    }
    const ws = await knock(session);
    assert.equal((await said(ws, "hello")).role, "operator");
    const data = await socket("ws/data", { origin: `http://${host()}` });
    const { conn } = await said(ws, "hello");
    data.send(JSON.stringify({ say: "data", conn, mac: mac(ws.keyOfData, "D", conn) }));
    ws.send(JSON.stringify({ say: "view", hidden: false, open: [{ diagram: 2, columns: 300 }] }));
    await until("a picture", () => data.heard.length > 0);
    assert.equal(await enter(link), 401, "an operator's link opens the page once");
    assert.equal((await enter(run.viewer)).role, "viewer");
    assert.equal((await enter(run.viewer)).role, "viewer", "that of viewers again and again");
    ws.terminate();
    data.terminate();
  });

  it("lets nobody in with another key, another session's data socket, or a replayed proof", async () => {
    const session = await enter(run.viewer);
    const wrong = await knock(session, { key: randomBytes(32) });
    assert.equal(wrong.heard[1].say, "refused");
    const raised = await knock({ ...session, sid: `02${session.sid.slice(2)}` }, { key: session.key });
    assert.equal(raised.heard.at(-1).say, "refused", "a viewer's key makes no operator");
    const ws = await knock(session);
    const { conn } = await said(ws, "hello");
    const data = await socket("ws/data", { origin: `http://${host()}` });
    const closed = new Promise((done) => data.on("close", done));
    data.send(JSON.stringify({ say: "data", conn, mac: mac(session.key, "D", conn) }));
    await closed;
    const silent = await socket("ws/ctl", { origin: `http://${host()}` });
    await new Promise((done) => silent.on("close", done));
    ws.terminate();
  });

  it("refuses other sites' pages and other names of ours", async () => {
    const ws = await knock(await enter(run.viewer));
    await said(ws, "hello");
    ws.terminate();
    for (const origin of ["http://evil.example", "null", "http://localhost:1"]) {
      assert.equal(await socket("ws/ctl", { origin }), 403, origin);
      assert.equal((await auth({ id: "aaaaa", nc: nonce() }, { origin })).status, 403, origin);
      assert.equal(await socket("ws/ctl", { ...bearer("operator"), origin }), 403, origin);
      const post = { ...bearer("operator"), origin, "x-forebay": "1", "content-type": "application/json" };
      assert.equal(await status("act", post, "POST", '{"verb":"quit"}'), 403, origin);
    }
    assert.equal(await socket("ws/ctl"), 403, "a browser always says where it comes from");
    assert.equal(await status("", { host: "evil.example" }), 403);
    assert.equal(await status("me", { ...bearer("operator"), host: `evil.example:${new URL(run.base).port}` }), 403);
    const bare = { ...bearer("operator"), "content-type": "application/json" };
    assert.equal(await status("act", bare, "POST", '{"verb":"quit"}'), 403, "a POST needs our header");
  });

  it("sends headers that forbid foreign scripts and frames", async () => {
    const answer = await fetch(run.base);
    const policy = answer.headers.get("content-security-policy");
    assert.match(policy, /default-src 'none'/);
    assert.match(policy, /worker-src 'none'/);
    assert.ok(!policy.includes("unsafe"));
    assert.equal(answer.headers.get("x-content-type-options"), "nosniff");
    assert.equal(answer.headers.get("referrer-policy"), "no-referrer");
    assert.equal(answer.headers.get("access-control-allow-origin"), null);
  });

  it("lets a viewer look and refuses its Quit", async () => {
    const ws = await socket("ws/ctl", bearer("viewer"));
    assert.equal((await said(ws, "hello")).role, "viewer");
    for (const [req, verb] of ["quit", "stop", "run", "save"].entries()) {
      ws.send(JSON.stringify({ say: "cmd", req: req + 1, act: { verb } }));
      const refusal = await until(`${verb} refused`, () => ws.heard.find((m) => m.say === "refused" && m.req === req + 1));
      assert.equal(refusal.code, "Refused");
      assert.match(refusal.text, /operator's link/);
    }
    assert.equal((await run.act({ verb: "quit" }, "viewer")).status, 403);
    assert.equal((await run.state()).state, "RUNNING");
    ws.terminate();
  });

  it("shows a viewer buttons that cannot be pressed, and asks a stranger for a link", async () => {
    const browser = await startBrowser();
    try {
      const stranger = await open(browser, run.base);
      await stranger.locator("dialog.door").waitFor();
      await stranger.fill("dialog.door input", run.viewer);
      await stranger.locator("dialog.door button").click();
      await until("let in", async () => (await badge(stranger)) === "RUNNING");
      for (const verb of ["run", "step", "stop", "save", "quit"]) assert.ok(await stranger.locator(`.verb.${verb}`).isDisabled(), verb);
      assert.ok(await stranger.locator(".verb.wait").isEnabled(), "Wait is its own");
      assert.ok(await stranger.locator(".parameter input").first().isDisabled());
      const wrong = await open(browser, `${run.base}#c=wrong`);
      await until("told why", async () => /was used already/.test(await wrong.locator("dialog.door").textContent()));
      assert.deepEqual(await stranger.context().cookies(), []);
      await stranger.reload();
      await until("a reload goes on with the session", async () => (await badge(stranger)) === "RUNNING");
      const other = await open(browser, run.base);
      await other.locator("dialog.door").waitFor();
    } finally {
      await browser.close();
    }
  });

  it("takes ten acts a second from one page and no more", async () => {
    const ws = await socket("ws/ctl", bearer("operator"));
    await said(ws, "hello");
    for (let req = 1; req <= 40; req++) ws.send(JSON.stringify({ say: "cmd", req, act: { verb: "run" } }));
    const answers = await until("all answered", () => {
      const all = ws.heard.filter((m) => m.req > 0);
      return all.length === 40 && all;
    });
    assert.ok(answers.filter((a) => a.say === "accepted").length <= 15);
    assert.match(answers.find((a) => a.say === "refused").text, /slow down/);
    ws.terminate();
  });

  it("survives nonsense and ends a connection that sends too much", async () => {
    const ws = await socket("ws/ctl", bearer("operator"));
    await said(ws, "hello");
    for (const nonsense of ["", "{", "[]", '{"say":"cmd"}', '{"say":"cmd","req":1,"act":{"verb":"exec"}}', '{"say":"view","open":[{"diagram":-1}],"hidden":0}']) ws.send(nonsense);
    await until("each answered", () => ws.heard.filter((m) => m.say === "refused").length === 6);
    const closed = new Promise((done) => ws.on("close", done));
    ws.send(`{"say":"name","name":"${"x".repeat(100_000)}"}`);
    await closed;
    assert.equal((await run.state()).state, "RUNNING");
  });
});
