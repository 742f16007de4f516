// Who is let in, and what viewers may do: a page that can stop a run is worth a lock.

import assert from "node:assert/strict";
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

  const login = async (role) => {
    const answer = await fetch(run.base + "login", {
      method: "POST",
      headers: { "content-type": "application/json", "x-forebay": "1" },
      body: JSON.stringify({ token: run.token(role) }),
    });
    return answer.headers.get("set-cookie");
  };

  it("refuses a wrong token everywhere", async () => {
    const wrong = { authorization: `Bearer ${"0".repeat(40)}` };
    for (const path of ["me", "state", "ws/ctl"]) assert.equal(await status(path, wrong), path === "ws/ctl" ? 400 : 401);
    assert.equal(await socket("ws/ctl", wrong), 401);
    assert.equal(await socket("ws/ctl"), 401);
    assert.equal(await status("act", { ...wrong, "x-forebay": "1", "content-type": "application/json" }, "POST", '{"verb":"quit"}'), 401);
    const json = { "x-forebay": "1", "content-type": "application/json" };
    assert.equal(await status("login", json, "POST", '{"token":"guess"}'), 401);
  });

  it("gives a cookie that no script reads and no other site sends, named after the run", async () => {
    const cookie = await login("viewer");
    assert.match(cookie, /^forebay-demo-\d+=[0-9a-f]{40}; HttpOnly; SameSite=Strict$/);
    assert.ok(!cookie.includes(run.token("viewer")));
  });

  it("refuses other sites' pages and other names of ours", async () => {
    const cookie = (await login("operator")).split(";")[0];
    const host = new URL(run.base).host;
    const ours = { cookie, origin: `http://${host}` };
    const ws = await socket("ws/ctl", ours);
    assert.equal(typeof ws, "object");
    ws.terminate();
    for (const origin of ["http://evil.example", "null", "http://localhost:1"]) {
      assert.equal(await socket("ws/ctl", { cookie, origin }), 403, origin);
      assert.equal(await socket("ws/ctl", { ...bearer("operator"), origin }), 403, origin);
      const post = { ...bearer("operator"), origin, "x-forebay": "1", "content-type": "application/json" };
      assert.equal(await status("act", post, "POST", '{"verb":"quit"}'), 403, origin);
    }
    assert.equal(await socket("ws/ctl", { cookie }), 403, "a browser always says where it comes from");
    assert.equal(await status("", { host: "evil.example" }), 403);
    assert.equal(await status("me", { ...bearer("operator"), host: `evil.example:${new URL(run.base).port}` }), 403);
    const bare = { ...bearer("operator"), "content-type": "application/json" };
    assert.equal(await status("act", bare, "POST", '{"verb":"quit"}'), 403, "a POST needs our header");
  });

  it("sends headers that forbid foreign scripts and frames", async () => {
    const answer = await fetch(run.base);
    const policy = answer.headers.get("content-security-policy");
    assert.match(policy, /default-src 'self'/);
    assert.match(policy, /object-src 'none'/);
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

  it("shows a viewer buttons that cannot be pressed, and asks a stranger for the token", async () => {
    const browser = await startBrowser();
    try {
      const stranger = await open(browser, run.base);
      await stranger.locator("dialog.door").waitFor();
      await stranger.fill("dialog.door input", run.viewer);
      await stranger.locator("dialog.door button").click();
      await until("let in", async () => (await badge(stranger)) === "RUNNING");
      for (const verb of ["run", "step", "stop", "save", "quit"]) assert.ok(await stranger.locator(`.verb.${verb}`).isDisabled(), verb);
      assert.ok(await stranger.locator(".verb.wait").isEnabled(), "Wait is its own");
      assert.ok(await stranger.locator(".parameter input").isDisabled());
      const wrong = await open(browser, `${run.base}#t=wrong`);
      await until("told why", async () => /not one of this run/.test(await wrong.locator("dialog.door").textContent()));
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
