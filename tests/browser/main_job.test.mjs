// The main job as a user meets it: demo.py with its servers and agent, watched and steered in
// Chromium until Quit ends it, and its run opened again by other tools.

import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, it } from "node:test";
import { ack, badge, ink, open, repository, screenshot, startBrowser, until } from "./lib.mjs";

const python = join(repository, ".venv", "bin", "python");
const command = join(repository, ".venv", "bin", "forebay");

describe("the main job in a browser", { timeout: 180_000 }, () => {
  const room = mkdtempSync(join(tmpdir(), "forebay-main-"));
  const name = join(room, "two_stream");
  const environment = {
    ...process.env,
    FOREBAY_RUNTIME_DIR: join(room, "r"),
    FOREBAY_HOME: join(room, "home"),
    FOREBAY_SHM_PREFIX: `${process.env.FOREBAY_TEST_PREFIX ?? "forebay"}-browser-${process.pid}`,
    FOREBAY_EXE: command,
  };
  const particles = process.env.FOREBAY_SHOTS ? "400000" : "20000";
  let demo;
  let browser;
  let said = "";
  let ended;

  const forebay = (...words) => spawnSync(command, words, { env: environment, encoding: "utf8", timeout: 30_000 });
  const links = () => JSON.parse(forebay("monitor", name, "--json").stdout);
  const operator = () => links().operator;
  const held = (page) => until("held", async () => (await badge(page)).startsWith("HELD at step"));
  const stepOf = async (page) => Number((await page.locator(".figure.step").textContent()).replace(/\s+\/.*$/, "").replace(/\D/g, ""));
  const steps = () => readdirSync(`${name}.fb/steps`).filter((f) => f.endsWith(".h5"));

  before(async () => {
    const file = join(repository, "examples", "01_two_stream", "demo.py");
    demo = spawn(python, [file, "--run", name, "--particles", particles, "--steps", "100000"], {
      env: environment,
      stdio: ["ignore", "pipe", "pipe"],
    });
    for (const stream of [demo.stdout, demo.stderr]) stream.on("data", (piece) => (said += piece));
    ended = new Promise((done) => demo.on("close", done));
    const printed = await until("the page's address is printed", () => said.match(/the page: (\S+)/)?.[1], 60_000);
    assert.equal(printed, links().viewer, "what is no terminal gets the viewers' link");
    browser = await startBrowser();
  });

  after(async () => {
    await browser?.close();
    if (demo.exitCode === null) demo.kill("SIGTERM");
    await ended;
    forebay("down");
    rmSync(room, { recursive: true, force: true });
  });

  it("shows phase space, field and energies with units, moving", async () => {
    const page = await open(browser, operator());
    await until("the instability has grown", async () => (await stepOf(page)) > 260, 90_000);
    const first = {};
    for (const id of [0, 1, 2]) first[id] = await until(`diagram ${id} is drawn`, async () => {
      const seen = await ink(page, id);
      return seen.coloured > 200 && seen;
    });
    assert.equal(first[0].hues, 2, "two beams in two colours");
    const text = await page.locator("body").innerText();
    for (const label of ["Phase space", "Electric field", "Energies"]) assert.ok(text.includes(label), label);
    for (const id of [0, 1, 2]) await until(`diagram ${id} moves`, async () => (await ink(page, id)).print !== first[id].print);
    assert.deepEqual(page.complaints, []);
    await screenshot(page, "main-job");
    await page.close();
  });

  it("obeys Stop, Step, Save, Wait and Run, from the page and from the command line", async () => {
    const page = await open(browser, operator());
    await page.locator(".verb.stop:enabled").click();
    await held(page);
    const at = await stepOf(page);
    const kept = steps().length;
    await page.fill(".steps", "3");
    await page.locator(".verb.step").click();
    await until("three steps further", async () => (await stepOf(page)) === at + 3 && (await badge(page)).startsWith("HELD"));
    await page.locator(".verb.save").click();
    await until("the step is a file", () => steps().length > kept && existsSync(`${name}.fb/steps/${String(at + 3).padStart(10, "0")}.h5`));
    const went = forebay("steer", name, "step", "2");
    assert.equal(went.status, 0, went.stderr);
    await until("two more", async () => (await stepOf(page)) === at + 5);
    await page.locator(".verb.wait").click();
    await page.locator(".verb.run").click();
    await until("running", async () => (await badge(page)) === "RUNNING");
    const frozen = await ink(page, 1);
    await until("the run goes on", async () => (await stepOf(page)) > at + 40);
    assert.equal((await ink(page, 1)).print, frozen.print, "Wait freezes the display, not the run");
    await page.locator(".verb.wait").click();
    await until("moving again", async () => (await ink(page, 1)).print !== frozen.print);
    await page.close();
  });

  it("changes the external field at a step boundary and shows it when confirmed", async () => {
    const page = await open(browser, operator());
    await page.fill(".parameter input", "0.05");
    await page.press(".parameter input", "Enter");
    await until("confirmed", async () => (await page.locator(".parameter output").textContent()) === "0.05");
    const note = page.locator(".parameter .note");
    await until("told at which step", async () => /applied at step \d+/.test(await note.textContent()));
    await page.close();
  });

  it("ends gracefully on Quit, and the run opens without Forebay", async () => {
    const page = await open(browser, operator());
    await page.locator(".verb.quit:enabled").click();
    await page.locator("dialog.quit button.danger").click();
    assert.equal(await ended, 0, said);
    assert.match(said, /growth rate\s+0\.\d+/);
    const h5 = "import h5py,sys; f=h5py.File(sys.argv[1]); print(f['electrons_beam1/position/x'].shape, f['E'].attrs['units'])";
    const last = steps().sort().at(-1);
    const read = spawnSync(python, ["-c", h5, `${name}.fb/steps/${last}`], { encoding: "utf8" });
    assert.match(read.stdout, /^\(\d+,\) m U wp\/e/, read.stderr);
    const rows = forebay("sql", name, "select count(*) as n from history");
    assert.equal(rows.status, 0, rows.stderr);
    await page.close();
  });
});
