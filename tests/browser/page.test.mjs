// The page against a real computation: what it draws, what its buttons do, and in what words.

import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { ack, badge, demoPath, ink, open, screenshot, startBrowser, startRun, until } from "./lib.mjs";

describe("the page of a run", { timeout: 120_000 }, () => {
  let run;
  let browser;
  before(async () => {
    run = await startRun(demoPath(), ["--rate", "40", "--forever"]);
    browser = await startBrowser();
  });
  after(async () => {
    await browser?.close();
    await run?.stop();
  });

  const field = (page) => page.locator(".parameter", { hasText: "e_external" });
  const held = (page) => until("held", async () => (await badge(page)).startsWith("HELD at step"));
  const stepOf = async () => (await run.state()).step;

  it("draws three diagrams that are not blank and that move", async () => {
    const page = await open(browser, await run.operator());
    await until("the beams have grown", async () => (await stepOf()) > 120, 30_000);
    const first = {};
    for (const id of [0, 1, 2]) first[id] = await until(`diagram ${id} is drawn`, async () => {
      const seen = await ink(page, id);
      return seen.coloured > 300 && seen;
    });
    assert.equal(first[0].hues, 2, "two beams in two colours");
    assert.equal(first[1].hues, 1);
    assert.equal(first[2].hues, 2);
    const legend = (id) => page.locator(`[data-diagram="${id}"] .entry`).allTextContents();
    assert.deepEqual(await legend(0), ["beam 1", "beam 2"]);
    assert.deepEqual(await legend(1), ["E"], "an only curve without a name is called as its axis");
    for (const id of [0, 1, 2]) await until(`diagram ${id} moves`, async () => (await ink(page, id)).print !== first[id].print);
    assert.equal(await page.evaluate(() => document.documentElement.dataset.renderer), "webgl2");
    assert.match(await page.locator(".figure.step").textContent(), /\d/);
    assert.match(await page.locator(".figure.rate").textContent(), /steps\/s/);
    assert.equal(new URL(page.url()).hash, "", "the code is wiped from the address bar");
    assert.deepEqual(page.complaints, []);
    await screenshot(page, "wide-light");
    await page.close();
  });

  it("stops, steps, runs, saves and says at which step", async () => {
    const page = await open(browser, await run.operator());
    await page.locator(".verb.stop:enabled").click();
    await held(page);
    assert.match(await until("acknowledged", async () => (await ack(page)).includes("applied") && (await ack(page))), /^Stop: applied at step \d/);
    const at = await stepOf();
    await page.fill(".steps", "5");
    await page.locator(".verb.step").click();
    await until("five steps further", async () => (await stepOf()) === at + 5);
    await held(page);
    await page.locator(".verb.save").click();
    await until("the program has saved", async () => (await page.locator(".journal").textContent()).includes("saved: field energy"));
    await page.locator(".verb.run").click();
    await until("running again", async () => (await badge(page)) === "RUNNING");
    await until("going on", async () => (await stepOf()) > at + 8);
    assert.match(await page.locator(".journal").textContent(), /operator \d+ Step 5 applied at step/);
    await page.close();
  });

  it("freezes the display on Wait while the run goes on", async () => {
    const page = await open(browser, await run.operator());
    await until("drawn", async () => (await ink(page, 0)).coloured > 300);
    await page.locator(".verb.wait").click();
    const before = await ink(page, 0);
    const from = await stepOf();
    await until("the run goes on", async () => (await stepOf()) > from + 20);
    assert.equal((await ink(page, 0)).print, before.print);
    await page.locator(".verb.wait").click();
    await until("moving again", async () => (await ink(page, 0)).print !== before.print);
    await page.close();
  });

  it("shows a parameter changed only when the run has confirmed it", async () => {
    const page = await open(browser, await run.operator());
    const shown = () => field(page).locator("output").textContent();
    await until("shown", async () => (await shown()) === "0");
    await field(page).locator("input").fill("7");
    await field(page).locator("button").click();
    await until("refused here", async () => (await field(page).locator(".note").textContent()).includes("outside"));
    assert.equal(await shown(), "0");
    const refusal = await run.act({ verb: "set", name: "e_external", value: 7 });
    assert.equal(refusal.status, 400, "and refused by the monitor");
    assert.match((await refusal.json()).text, /greatest value 1 V\/m/);
    await field(page).locator("input").fill("0.25");
    await field(page).locator("input").press("Enter");
    await until("confirmed", async () => (await shown()) === "0.25");
    assert.match(await field(page).locator(".note").textContent(), /0.25 applied at step \d+ by operator/);
    await page.locator(".commands button").click();
    await until("the command acted", async () => (await page.locator(".journal").textContent()).includes("the beams begin anew"));
    await page.close();
  });

  it("carries every digit of an integer to the run and back", async () => {
    const page = await open(browser, await run.operator());
    const seed = page.locator(".parameter", { hasText: "seed" });
    for (const n of ["9007199254740993", "-9223372036854775807", "18446744073709551615", "17"]) {
      await seed.locator("input").fill(n);
      await seed.locator("input").press("Enter");
      await until(`${n} is shown as it is`, async () => (await seed.locator("output").textContent()) === n);
      await until("and acknowledged", async () => (await seed.locator(".note").textContent()).startsWith(`${n} applied at step`));
    }
    await seed.locator("input").fill("9007199254740993.5");
    await seed.locator("button").click();
    await until("refused", async () => /more digits than a number can carry/.test(await seed.locator(".note").textContent()));
    assert.match(await page.locator(".journal").textContent(), /set seed = 9007199254740993 applied/);
    assert.deepEqual(page.complaints, []);
    await page.close();
  });

  it("says of the last press what became of it, whatever comes later of an earlier one", async () => {
    const page = await open(browser, await run.operator(), {
      before: () => {
        // The first act never reaches the monitor, as if the line had swallowed it.
        const real = WebSocket.prototype.send;
        let swallowed = false;
        WebSocket.prototype.send = function (words) {
          if (!swallowed && typeof words === "string" && words.includes('"verb":"save"')) return void (swallowed = true);
          return real.call(this, words);
        };
      },
    });
    await page.locator(".verb.save:enabled").click();
    await page.locator(".verb.stop").click();
    await held(page);
    assert.match(await ack(page), /^Stop: applied at step/);
    await until("the first one is given up", async () => (await page.locator(".journal").textContent()).includes("Save refused: no answer"), 8000);
    assert.match(await ack(page), /^Stop: applied at step/);
    for (const nonsense of ["", "0", "-5", "1.5", "1e20"]) {
      await page.fill(".steps", nonsense);
      await page.locator(".verb.step").click();
      await until(`"${nonsense}" is no number of steps`, async () => /is no number of steps/.test(await ack(page)));
    }
    assert.ok((await badge(page)).startsWith("HELD"));
    await page.locator(".verb.run").click();
    await until("running again", async () => (await badge(page)) === "RUNNING");
    await page.close();
  });

  it("zooms, restores, holds ranges and changes scales", async () => {
    const page = await open(browser, await run.operator());
    const tile = page.locator('[data-diagram="1"]');
    await until("drawn", async () => (await ink(page, 1)).coloured > 100);
    const box = await tile.locator(".u-over").boundingBox();
    await page.mouse.move(box.x + box.width * 0.3, box.y + box.height * 0.3);
    assert.match(await until("values under the crosshair", () => tile.locator(".readout").textContent()), /^x \d/);
    await page.mouse.down();
    await page.mouse.move(box.x + box.width * 0.6, box.y + box.height * 0.7, { steps: 5 });
    await page.mouse.up();
    const range = tile.locator(".tool", { hasText: /auto|held|restore/ });
    await until("zoomed", async () => (await range.textContent()) === "restore");
    await range.click();
    await until("restored", async () => (await range.textContent()) === "auto");
    await range.click();
    assert.equal(await range.textContent(), "held");
    const y = tile.locator(".tool", { hasText: "y lin" });
    await y.click();
    assert.equal(await tile.locator(".tool", { hasText: "y log" }).count(), 1);
    await page.close();
  });

  it("closes and opens diagrams from a list that can be searched", async () => {
    const page = await open(browser, await run.operator());
    await until("three tiles", async () => (await page.locator(".tile").count()) === 3);
    await page.locator('[data-diagram="1"] .tool', { hasText: "✕" }).click();
    assert.equal(await page.locator(".tile").count(), 2);
    await page.locator(".catalogue label", { hasText: "electric field" }).click();
    await until("open again", async () => (await ink(page, 1)).coloured > 100);
    await page.close();
  });

  it("is usable by keys alone", async () => {
    const page = await open(browser, await run.operator());
    await page.locator(".verb.run:enabled").waitFor();
    assert.equal(await page.locator(".verb.run").getAttribute("title"), "Go on computing");
    await page.keyboard.press("Tab");
    const reached = [];
    for (let i = 0; i < 30; i++) {
      reached.push(await page.evaluate(() => document.activeElement.className + " " + document.activeElement.textContent));
      await page.keyboard.press("Tab");
    }
    for (const wanted of ["verb run", "verb step", "verb stop", "verb save", "verb wait", "verb quit", "plot"]) {
      assert.ok(reached.some((r) => r.includes(wanted)), `${wanted} is reached: ${reached.join(" | ")}`);
    }
    await page.locator('[data-diagram="1"] .plot').focus();
    await until("drawn", async () => (await ink(page, 1)).coloured > 100);
    await page.keyboard.press("ArrowRight");
    await until("the crosshair came", async () => (await page.locator('[data-diagram="1"] .readout').textContent()) !== "");
    await page.close();
  });

  it("fits a narrow screen and a dark room", async () => {
    const page = await open(browser, await run.operator(), { dark: true, viewport: { width: 390, height: 844 } });
    await until("drawn", async () => (await ink(page, 0)).coloured > 100);
    assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), "dark");
    const over = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    assert.ok(over <= 0, `nothing hangs out at the side (${over} px)`);
    await screenshot(page, "narrow-dark");
    await page.setViewportSize({ width: 1440, height: 900 });
    await until("drawn wide", async () => (await ink(page, 2)).coloured > 300);
    await screenshot(page, "wide-dark");
    await page.close();
  });

  it("weighs at most 120 KB and fetches nothing from elsewhere", async () => {
    const page = await browser.page();
    const client = await page.context().newCDPSession(page);
    await client.send("Network.enable");
    await client.send("Network.setCacheDisabled", { cacheDisabled: true });
    let bytes = 0;
    const hosts = new Set();
    client.on("Network.loadingFinished", (e) => (bytes += e.encodedDataLength));
    page.on("request", (r) => r.url().startsWith("data:") || hosts.add(new URL(r.url()).host));
    await page.goto(await run.operator());
    await until("drawn", async () => (await ink(page, 1)).coloured > 100);
    assert.ok(bytes > 10_000 && bytes <= 120 * 1024, `${bytes} bytes`);
    assert.deepEqual([...hosts], [new URL(run.base).host]);
    await page.close();
  });

  it("draws the same without WebGL", async () => {
    const page = await open(browser, await run.operator(), {
      before: () => {
        const real = HTMLCanvasElement.prototype.getContext;
        HTMLCanvasElement.prototype.getContext = function (kind, ...rest) {
          return kind === "webgl2" ? null : real.call(this, kind, ...rest);
        };
      },
    });
    await until("two beams in two colours", async () => {
      const seen = await ink(page, 0);
      return seen.coloured > 300 && seen.hues === 2;
    });
    assert.equal(await page.evaluate(() => document.documentElement.dataset.renderer), "canvas");
    await page.close();
  });

  // Last: it ends the run.
  it("asks before it quits, then says that the run is over and keeps the last picture", async () => {
    const page = await open(browser, await run.operator());
    await until("drawn", async () => (await ink(page, 2)).coloured > 100);
    await page.locator(".verb.quit").click();
    await page.locator("dialog.quit button", { hasText: "Cancel" }).click();
    assert.equal((await run.state()).state, "RUNNING");
    await page.locator(".verb.quit").click();
    await page.locator("dialog.quit button.danger").click();
    assert.ok((await run.line((l) => l.ended)).ended > 0);
    assert.equal(await run.ended, 0);
    await until("the page says so", async () => /Over:/.test(await page.locator(".banner").textContent()));
    assert.equal(await badge(page), "ENDED");
    assert.ok((await ink(page, 2)).coloured > 100);
    await page.close();
  });
});
