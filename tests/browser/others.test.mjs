// Another user of the same host: what they see of the list of processes, of the user's files and of the user's browser, and
// what a history of many points and a program behind its loop look like. With real runs, in Python.

import assert from "node:assert/strict";
import { execFileSync, spawn, spawnSync } from "node:child_process";
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import WebSocket from "ws";
import { badge, ink, open, repository, screenshot, startBrowser, until } from "./lib.mjs";

const python = join(repository, ".venv", "bin", "python");
const command = join(repository, ".venv", "bin", "forebay");
const NOBODY = { uid: 65534, gid: 65534 };
const skip = process.getuid() !== 0 && "needs root, to be another user";

/// A history of so many points before the loop's end, then the program works on until its standard input closes.
const PROGRAM = `
import sys, math, forebay as fb
with fb.open(sys.argv[1], "w") as run:
    h = run.diagram("energy", "history", x="t [s]", y="W [J]")
    n = int(sys.argv[2])
    for step in run.steps(n):
        t = step * 1e-3
        h.append(t, y=math.exp(-t / 50) + 0.3 * math.exp(-((t - n / 2000) / 5) ** 2))
        if n > 10**8 and sys.stdin.readline() == "":
            break
    print("over", flush=True)
    sys.stdin.read()
`;

class Program {
  constructor(room, points) {
    this.name = join(room, `run${points}`);
    this.environment = {
      ...process.env,
      FOREBAY_RUNTIME_DIR: join(room, "r"),
      FOREBAY_HOME: join(room, "home"),
      FOREBAY_SHM_PREFIX: `${process.env.FOREBAY_TEST_PREFIX ?? "forebay"}-others-${process.pid}`,
      FOREBAY_EXE: command,
    };
    this.child = spawn(python, ["-c", PROGRAM, this.name, String(points)], { env: this.environment, stdio: ["pipe", "pipe", "inherit"] });
    this.said = "";
    this.child.stdout.on("data", (piece) => (this.said += piece));
    this.ended = new Promise((done) => this.child.on("close", done));
  }

  forebay(...words) {
    return spawnSync(command, words, { env: this.environment, encoding: "utf8", timeout: 30_000 });
  }

  async links() {
    return until("the links", () => {
      const asked = this.forebay("monitor", this.name, "--json");
      return asked.status === 0 && JSON.parse(asked.stdout);
    });
  }

  async stop() {
    this.child.stdin.end();
    await this.ended;
  }
}

/// What `ps` shows to anybody.
const processes = () => execFileSync("ps", ["-eo", "args"], { ...NOBODY, encoding: "utf8", cwd: "/" });

describe("another user of this host", { skip, timeout: 120_000 }, () => {
  const room = mkdtempSync(join(tmpdir(), "forebay-others-"));
  let program;
  let browser;
  before(async () => {
    chmodSync(room, 0o755);
    program = new Program(room, 10 ** 9);
    browser = await startBrowser();
  });
  after(async () => {
    await browser?.close();
    await program?.stop();
    rmSync(room, { recursive: true, force: true });
  });

  it("finds no way in, in the list of processes or in a file, while a link is opened", async () => {
    const { viewer } = await program.links();
    // A browser that notes what it is told to open, and opens it when we say so.
    const bin = join(room, "bin");
    mkdirSync(bin);
    writeFileSync(join(bin, "xdg-open"), `#!/bin/sh\necho "$1" > ${room}/told.part\nmv ${room}/told.part ${room}/told\nwhile [ -e "$1" ]; do sleep 0.05; done\n`, { mode: 0o755 });
    const environment = { ...program.environment, PATH: `${bin}:${process.env.PATH}` };
    const opening = spawn(command, ["monitor", program.name, "--open"], { env: environment, stdio: ["ignore", "pipe", "pipe"] });
    let printed = "";
    for (const stream of [opening.stdout, opening.stderr]) stream.on("data", (piece) => (printed += piece));
    const ended = new Promise((done) => opening.on("close", done));
    const file = await until("the browser is told", () => existsSync(join(room, "told")) && readFileSync(join(room, "told"), "utf8").trim());
    const code = /#c=([a-z2-7]{26})/.exec(readFileSync(file, "utf8"))[1];
    const seen = processes();
    assert.ok(seen.includes("xdg-open") && !seen.includes(code) && !seen.includes("#c="), "the list of processes");
    assert.equal(statSync(file).mode & 0o777, 0o600);
    const read = spawnSync("cat", [file], { ...NOBODY, encoding: "utf8", cwd: "/" });
    assert.match(read.stderr, /Permission denied/);
    // The browser opens the file, the file leads to the page.
    const page = await open(browser, `file://${file}`);
    await until("let in as operator", async () => page.evaluate(() => document.body.dataset.role === "operator"));
    assert.equal(await ended, 0, printed);
    assert.ok(!printed.includes(code) && printed.includes(viewer) && !printed.includes("operator"), `a log gets the viewers' link only: ${printed}`);
    assert.ok(!existsSync(file), "nothing is left of it");
    assert.equal(new URL(page.url()).hash, "");
    const late = await open(browser, `${page.url()}#c=${code}`);
    await late.locator("dialog.door").waitFor();
  });

  it("gets nothing from the user's browser that opens a page of theirs", async () => {
    const { operator } = await program.links();
    const page = await open(browser, operator);
    await until("let in", async () => page.evaluate(() => document.body.dataset.role === "operator"));
    assert.deepEqual(await page.context().cookies(), []);
    // Their server on another port of 127.0.0.1 shows an image of every path they like.
    const theirs = spawn(process.execPath, ["-e", `
      const http = require("node:http");
      const seen = [];
      const server = http.createServer((q, a) => {
        if (q.url === "/seen") return a.end(JSON.stringify(seen));
        seen.push(q.headers);
        a.setHeader("content-type", "text/html");
        a.end('<img src="${new URL(page.url()).pathname}x.png">');
      }).listen(0, "127.0.0.1", () => console.log(server.address().port));
      process.stdin.resume().on("end", () => process.exit());`], { ...NOBODY, cwd: "/", stdio: ["pipe", "pipe", "inherit"] });
    try {
      const port = await new Promise((done) => theirs.stdout.on("data", (d) => done(Number(d))));
      const visit = await browser.page();
      await visit.goto(`http://127.0.0.1:${port}/`);
      const seen = await until("the image was asked for", async () => {
        const all = await (await fetch(`http://127.0.0.1:${port}/seen`)).json();
        return all.length >= 2 && all;
      });
      for (const headers of seen) {
        assert.ok(!headers.cookie && !headers.authorization, JSON.stringify(headers));
        assert.ok(!JSON.stringify(headers).includes("#c="));
      }
      await visit.close();
    } finally {
      theirs.stdin.end();
    }
    await page.close();
  });

  it("does nothing with the port but read the empty page", async () => {
    const { viewer } = await program.links();
    const base = viewer.split("#")[0];
    const asked = execFileSync(process.execPath, ["-e", `
      (async () => {
        const post = { method: "POST", headers: { "x-forebay": "1", "content-type": "application/json" }, body: '{"verb":"quit"}' };
        console.log((await fetch("${base}state")).status, (await fetch("${base}act", post)).status);
      })()`], { ...NOBODY, encoding: "utf8", cwd: "/" });
    assert.equal(asked.trim(), "401 401");
  });
});

describe("a long history, and a program behind its loop", { timeout: 180_000 }, () => {
  const room = mkdtempSync(join(tmpdir(), "forebay-long-"));
  const points = 400_000;
  let program;
  let browser;
  before(async () => {
    program = new Program(room, points);
    await until("the loop is over", () => program.said.includes("over"), 120_000);
    browser = await startBrowser();
  });
  after(async () => {
    await browser?.close();
    await program?.stop();
    rmSync(room, { recursive: true, force: true });
  });

  /// Draws as a viewer by script sees it; the frame of the history when it is no longer coarse.
  async function drawn(base, range) {
    const headers = { authorization: `Bearer ${JSON.parse(program.forebay("monitor", program.name, "--token", "--json").stdout).token}` };
    const url = base.replace("http", "ws");
    const ctl = new WebSocket(`${url}ws/ctl`, { headers });
    const hello = await new Promise((done) => ctl.on("message", (d) => {
      const m = JSON.parse(String(d));
      if (m.say === "hello") done(m);
    }));
    const data = new WebSocket(`${url}ws/data`, { headers, perMessageDeflate: false });
    await new Promise((done) => data.on("open", done));
    data.send(JSON.stringify({ say: "data", conn: hello.conn }));
    let last = null;
    data.on("message", (d) => {
      last = d;
      data.send("1");
    });
    ctl.send(JSON.stringify({ say: "view", hidden: false, open: [{ diagram: 0, columns: 500, range, log: false }] }));
    const frame = await until("all points are drawn", () => {
      const n = last?.readUInt32LE(32) ?? 0;
      const [t, end] = n ? [last.readDoubleLE(64 + 8 * (n - 1)), range?.[1] ?? (points - 1) * 1e-3] : [0, 1];
      return n > 100 && t >= end && !(last[7] & 4) && last;
    }, 60_000);
    ctl.terminate();
    data.terminate();
    const n = frame.readUInt32LE(32);
    return Array.from({ length: n }, (_, i) => [frame.readDoubleLE(64 + 8 * i), frame.readDoubleLE(64 + 8 * (n + i))]);
  }

  const truth = (t) => Math.exp(-t / 50) + 0.3 * Math.exp(-(((t - points / 2000) / 5) ** 2));

  /// The largest distance of the line through the points from the truth.
  function error(line, from, to) {
    let worst = 0;
    let i = 1;
    for (let t = from; t <= to; t += (to - from) / 5000) {
      while (i < line.length - 1 && line[i][0] < t) i += 1;
      const [[t0, y0], [t1, y1]] = [line[i - 1], line[i]];
      worst = Math.max(worst, Math.abs(y0 + ((y1 - y0) * (t - t0)) / (t1 - t0 || 1) - truth(t)));
    }
    return worst;
  }

  it("is drawn within 1 % of the truth, whole and zoomed", async () => {
    const base = (await program.links()).viewer.split("#")[0];
    const end = (points - 1) * 1e-3;
    const whole = await drawn(base, null);
    assert.ok(whole[0][0] === 0 && whole.length < 4 * 501, `${whole.length} points`);
    // Steep at the left: a column is 0.8 s, in which the curve falls by 1.6 %.
    assert.ok(error(whole, 0, end) < 0.02, `off by ${error(whole, 0, end)}`);
    const near = await drawn(base, [100, 101]);
    assert.ok(near.filter(([t]) => t >= 100 && t <= 101).length > 900, "zoomed, every point is there");
    assert.ok(error(near, 100, 101) < 1e-6);
  });

  it("is shown as over at once, its buttons have nothing to press, and a shell hears so", async () => {
    const page = await open(browser, (await program.links()).operator);
    await until("the word", async () => (await badge(page)).startsWith("LOOP OVER"));
    await until("drawn", async () => (await ink(page, 0)).coloured > 100);
    assert.match(await page.locator(".figure.step").textContent(), /400\D000\D+400\D000/);
    assert.ok(await page.locator(".figure.eta").isHidden());
    for (const verb of ["run", "step", "stop", "save", "quit"]) assert.ok(await page.locator(`.verb.${verb}`).isDisabled(), verb);
    const refused = program.forebay("steer", program.name, "stop");
    assert.notEqual(refused.status, 0);
    assert.match(refused.stderr, /the loop is over/);
    assert.deepEqual(page.complaints, []);
    await screenshot(page, "loop-over");
    await page.close();
  });

  it("ends with its last step in sight and its colours kept", async () => {
    const page = await open(browser, (await program.links()).operator);
    await until("drawn", async () => (await ink(page, 0)).coloured > 100);
    await program.stop();
    await until("over", async () => /Over:/.test(await page.locator(".banner").textContent()));
    assert.match(await page.locator(".figure.step").textContent(), /400\D000/);
    assert.ok((await ink(page, 0)).coloured > 100);
    assert.equal(await page.evaluate(() => getComputedStyle(document.querySelector(".grid")).filter), "none");
    await page.close();
  });
});
