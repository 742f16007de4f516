// Slow viewers, many diagrams, lost connections: none of them is felt by the run.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, describe, it } from "node:test";
import WebSocket from "ws";
import { badge, demoPath, ink, open, startBrowser, startRun, until } from "./lib.mjs";

const pause = (ms) => new Promise((done) => setTimeout(done, ms));
const memory = (pid) => Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8"))[1]) * 1024;

/// Both sockets of a viewer by script. `drawing`: gives credit back as a page would.
async function viewer(run, drawing, diagrams) {
  const headers = { authorization: `Bearer ${run.token("viewer")}` };
  const url = run.base.replace("http", "ws");
  const ctl = new WebSocket(`${url}ws/ctl`, { headers });
  const hello = await new Promise((done) => ctl.on("message", (d) => {
    const m = JSON.parse(String(d));
    if (m.say === "hello") done(m);
  }));
  const data = new WebSocket(`${url}ws/data`, { headers, perMessageDeflate: false });
  const got = [];
  data.on("message", (d) => {
    got.push({ at: Date.now(), diagram: d.readUInt32LE(8), step: Number(d.readBigInt64LE(16)), bytes: d.length });
    if (drawing) data.send("1");
  });
  await new Promise((done) => data.on("open", done));
  data.send(JSON.stringify({ say: "data", conn: hello.conn }));
  const look = (hidden) => ctl.send(JSON.stringify({ say: "view", hidden, open: diagrams.map((diagram) => ({ diagram, columns: 500 })) }));
  look(false);
  return { ctl, data, got, look, close: () => [ctl, data].forEach((s) => s.terminate()) };
}

describe("viewers and the run", { timeout: 120_000 }, () => {
  let run;
  before(async () => (run = await startRun(demoPath(), ["--rate", "100", "--forever", "--more", "23"])));
  after(async () => run?.stop());

  const pace = async (ms) => {
    const [from, t0] = [(await run.state()).step, performance.now()];
    await pause(ms);
    return ((await run.state()).step - from) / ((performance.now() - t0) / 1000);
  };

  it("never queues for a viewer that does not draw: two messages and no more", async () => {
    const slow = await viewer(run, false, [0, 1, 2]);
    await until("two messages", () => slow.got.length === 2);
    const before = memory(run.child.pid);
    await pause(1500);
    assert.equal(slow.got.length, 2);
    assert.ok(memory(run.child.pid) - before < 8e6, "nothing piles up");
    // It draws at last, and sees the newest state, not the next one.
    const now = (await run.state()).step;
    slow.data.send("2");
    await until("two more", () => slow.got.length === 4);
    assert.ok(slow.got[3].step >= now - 3, `step ${slow.got[3].step} of ${now}`);
    // Credit cannot be earned by asking for it.
    slow.data.send("999");
    await pause(300);
    assert.ok(slow.got.length <= 6);
    slow.close();
  });

  it("gives every open diagram its turn, and nothing to a hidden page", async () => {
    const keen = await viewer(run, true, [0, 1, 2, 3]);
    await until("sixty pictures", () => keen.got.length > 60);
    const turns = [0, 1, 2, 3].map((d) => keen.got.filter((g) => g.diagram === d).length);
    assert.ok(Math.min(...turns) > 8, `each gets its share: ${turns}`);
    const times = keen.got.filter((g) => g.diagram === 0).map((g) => g.at);
    assert.ok(times.length / ((times.at(-1) - times[0]) / 1000) < 31, "thirty a second at most");
    keen.look(true);
    await pause(200);
    const before = keen.got.length;
    await pause(600);
    assert.equal(keen.got.length, before);
    keen.close();
  });

  it("answers a press at once while pictures stream to viewers that do not draw", async () => {
    const crowd = await Promise.all([true, false, false].map((drawing) => viewer(run, drawing, [0, 1, 2])));
    const ctl = new WebSocket(`${run.base.replace("http", "ws")}ws/ctl`, { headers: { authorization: `Bearer ${run.token("operator")}` } });
    const answers = new Map();
    ctl.on("message", (d) => {
      const m = JSON.parse(String(d));
      if (m.say === "accepted") answers.set(m.req, performance.now());
    });
    await new Promise((done) => ctl.on("open", done));
    const took = [];
    for (let req = 1; req <= 9; req++) {
      const asked = performance.now();
      ctl.send(JSON.stringify({ say: "cmd", req, act: { verb: "run" } }));
      await until("accepted", () => answers.has(req));
      took.push(answers.get(req) - asked);
      await pause(110);
    }
    const median = took.sort((a, b) => a - b)[4];
    assert.ok(median < 100, `${median.toFixed(1)} ms`);
    ctl.terminate();
    crowd.forEach((v) => v.close());
  });

  it("is not felt by the run, whoever looks and however they leave", async () => {
    const alone = await pace(1500);
    const crowd = await Promise.all([true, true, false, false].map((drawing) => viewer(run, drawing, [0, 1, 2])));
    const watched = await pace(1500);
    crowd.forEach((v) => v.close());
    const browser = await startBrowser();
    const page = await open(browser, await run.operator());
    await until("drawn", async () => (await ink(page, 0)).coloured > 100);
    await browser.close();
    const left = await pace(1000);
    for (const [what, p] of [["alone", alone], ["watched", watched], ["left", left]]) {
      assert.ok(p > 85 && p < 115, `${what}: ${p.toFixed(1)} of 100 steps/s`);
    }
    await until("nobody is counted any more", async () => (await run.state()).watching.length === 0);
  });

  it("draws 24 clouds with one WebGL context", async () => {
    const browser = await startBrowser();
    try {
      const page = await open(browser, await run.operator(), {
        viewport: { width: 1900, height: 3200 },
        before: () => {
          window.contexts = 0;
          const real = HTMLCanvasElement.prototype.getContext;
          HTMLCanvasElement.prototype.getContext = function (kind, ...rest) {
            if (kind.startsWith("webgl")) window.contexts += 1;
            return real.call(this, kind, ...rest);
          };
        },
      });
      const clouds = [0, ...Array.from({ length: 21 }, (_, i) => i + 3)];
      for (const id of clouds) await until(`cloud ${id}`, async () => (await ink(page, id)).hues === 2, 20_000);
      assert.equal(await page.locator(".tile").count(), 24);
      assert.equal(await page.evaluate(() => window.contexts), 1);
      await page.fill(".diagrams input[type=search]", "space 25");
      await page.locator(".catalogue li:not([hidden]) label").click();
      await until("the 25th opens", async () => (await ink(page, 25)).hues === 2, 20_000);
      assert.equal(await page.evaluate(() => window.contexts), 1);
      assert.deepEqual(page.complaints, []);
    } finally {
      await browser.close();
    }
  });
});

describe("a lost connection", { timeout: 60_000 }, () => {
  it("greys the page, tells the age of what is seen, and comes back", async () => {
    const run = await startRun(demoPath(), ["--forever"]);
    const browser = await startBrowser();
    try {
      const page = await open(browser, await run.operator());
      await until("drawn", async () => (await ink(page, 1)).coloured > 100);
      run.child.kill("SIGSTOP");
      await until("greyed", async () => page.evaluate(() => document.body.classList.contains("lost")), 20_000);
      await until("with its age", async () => /is \d+ s old/.test(await page.locator(".banner").textContent()));
      assert.equal(await badge(page), "was RUNNING", "what it does now, nobody knows");
      assert.ok((await ink(page, 1)).coloured > 100, "the last picture stays");
      assert.ok(await page.locator(".verb.stop").isDisabled());
      run.child.kill("SIGCONT");
      await until("back", async () => page.evaluate(() => document.body.dataset.link === "open"), 20_000);
      const before = await ink(page, 1);
      await until("moving", async () => (await ink(page, 1)).print !== before.print);
    } finally {
      run.child.kill("SIGCONT");
      await browser.close();
      await run.stop();
    }
  });
});
