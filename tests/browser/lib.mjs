// Helpers for tests in a real browser: start a program that prints its links as one line of JSON,
// start Chromium, open a page, look at what it drew.

import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { chromium } from "playwright-core";

export const repository = join(dirname(fileURLToPath(import.meta.url)), "..", "..");

/// Where Chromium is: FOREBAY_CHROMIUM, or where distributions put it.
export function browserPath() {
  const places = [process.env.FOREBAY_CHROMIUM, "/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];
  const found = places.find((p) => p && existsSync(p));
  if (!found) throw new Error("no Chromium found; install the package chromium or set FOREBAY_CHROMIUM");
  return found;
}

/// The example of the monitor, as cargo built it last; it is built when it is not there.
export function demoPath() {
  const target = process.env.CARGO_TARGET_DIR ?? join(repository, "target");
  const built = () => ["release", "debug"].map((p) => join(target, p, "examples", "two_stream")).filter(existsSync);
  if (!built().length) {
    const args = ["build", "--quiet", "--release", "--locked", "--package", "forebay-monitor", "--example", "two_stream"];
    const made = spawnSync("cargo", args, { cwd: repository, stdio: "inherit" });
    if (made.status !== 0) throw new Error(`cargo ${args.join(" ")} failed`);
  }
  return built().sort((a, b) => statSync(b).mtimeMs - statSync(a).mtimeMs)[0];
}

/// Starts a program that prints JSON lines; its first line has links and tokens, and each line it reads brings new
/// links. It ends when its standard input closes, so nothing stays behind even if the test dies.
export async function startRun(program, args = [], options = {}) {
  const child = spawn(program, args, { stdio: ["pipe", "pipe", "inherit"], ...options });
  const lines = [];
  const waiting = [];
  let rest = "";
  child.stdout.on("data", (piece) => {
    const parts = (rest + piece).split("\n");
    rest = parts.pop();
    for (const line of parts) {
      let said;
      try {
        said = JSON.parse(line);
      } catch {
        continue;
      }
      lines.push(said);
      for (const look of waiting.splice(0)) look();
    }
  });
  const ended = new Promise((done) => child.on("close", (code) => {
    for (const look of waiting.splice(0)) look();
    done(code);
  }));
  const line = async (match) => {
    for (;;) {
      const found = lines.find(match);
      if (found) return found;
      if (child.exitCode !== null) throw new Error(`${program} ended with ${child.exitCode} before it said so`);
      await new Promise((done) => waiting.push(done));
    }
  };
  const links = await line((l) => l.operator);
  const base = links.operator.split("#")[0];
  const token = (role) => links.tokens[role];
  let asked = 0;
  const script = (path, role = "operator", init = {}) =>
    fetch(base + path, { ...init, headers: { authorization: `Bearer ${token(role)}`, "x-forebay": "1", "content-type": "application/json", ...init.headers } });
  return {
    viewer: links.viewer,
    base,
    token,
    /// A new operator's link: each opens the page once.
    operator: async () => {
      const n = ++asked;
      child.stdin.write("\n");
      return (await line((l) => l.links === n)).operator;
    },
    child,
    line,
    ended,
    /// A request as a script makes it.
    script,
    state: async () => (await script("state")).json(),
    act: (act, role = "operator") => script("act", role, { method: "POST", body: JSON.stringify(act) }),
    stop: async () => {
      child.stdin.end();
      const late = setTimeout(() => child.kill("SIGKILL"), 5000);
      await ended;
      clearTimeout(late);
    },
  };
}

/// Chromium without a window, with a profile of its own that is removed.
export async function startBrowser(extra = []) {
  const profile = mkdtempSync(join(tmpdir(), "forebay-browser-"));
  const context = await chromium.launchPersistentContext(profile, {
    executablePath: browserPath(),
    headless: true,
    viewport: { width: 1440, height: 900 },
    args: ["--no-sandbox", "--disable-gpu", "--enable-unsafe-swiftshader", "--disable-quic", "--no-first-run", "--disable-background-networking",
      "--disable-component-update", "--disable-sync", ...extra],
  });
  return {
    context,
    page: () => context.newPage(),
    close: async () => {
      await context.close();
      rmSync(profile, { recursive: true, force: true });
    },
  };
}

/// Opens a link in a new page; collects what the page complains of in `page.complaints`.
export async function open(browser, link, options = {}) {
  const page = await browser.page();
  page.complaints = [];
  page.on("pageerror", (e) => page.complaints.push(String(e)));
  page.on("console", (m) => {
    if (m.type() === "error") page.complaints.push(m.text());
  });
  if (options.viewport) await page.setViewportSize(options.viewport);
  if (options.dark !== undefined) await page.emulateMedia({ colorScheme: options.dark ? "dark" : "light" });
  if (options.before) await page.addInitScript(options.before);
  await page.goto(link);
  return page;
}

/// Polls until `check` gives something true; fails with `what` after the deadline.
export async function until(what, check, ms = 15_000) {
  const deadline = Date.now() + ms;
  let last;
  for (;;) {
    try {
      last = await check();
      if (last) return last;
    } catch (e) {
      last = e;
    }
    if (Date.now() > deadline) throw new Error(`not within ${ms} ms: ${what} (last: ${last})`);
    await new Promise((done) => setTimeout(done, 40));
  }
}

/// What a diagram shows: how many pixels of its plot are coloured (neither background, grid nor
/// text), how many different colours, and a fingerprint of the picture.
export function ink(page, diagram) {
  return page.evaluate((id) => {
    const canvas = document.querySelector(`[data-diagram="${id}"] canvas`);
    if (!canvas) return { coloured: 0, hues: 0, print: 0 };
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    let coloured = 0;
    let print = 0;
    const hues = new Map();
    for (let i = 0; i < data.length; i += 4) {
      const [r, g, b, a] = [data[i], data[i + 1], data[i + 2], data[i + 3]];
      if (a < 60) continue;
      const most = Math.max(r, g, b);
      const least = Math.min(r, g, b);
      if (most - least < 70) continue;
      coloured += 1;
      print = (print * 31 + i) >>> 0;
      const d = most - least;
      const h = most === r ? ((g - b) / d + 6) % 6 : most === g ? (b - r) / d + 2 : (r - g) / d + 4;
      const bin = Math.round(h * 2) % 12;
      hues.set(bin, (hues.get(bin) ?? 0) + 1);
    }
    const many = [...hues.values()].filter((n) => n > coloured * 0.05).length;
    return { coloured, hues: many, print };
  }, diagram);
}

/// Saves a picture of the page when FOREBAY_SHOTS names a folder (or `folder` is given).
export async function screenshot(page, name, folder = process.env.FOREBAY_SHOTS) {
  if (!folder) return null;
  mkdirSync(folder, { recursive: true });
  const path = join(folder, `${name}.png`);
  await page.screenshot({ path });
  return path;
}

/// The text of the acknowledgement beside the buttons.
export const ack = (page) => page.locator(".ack").textContent();

/// The state in words.
export const badge = (page) => page.locator(".badge").textContent();
