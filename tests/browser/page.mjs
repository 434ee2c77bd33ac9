// Opens pages that `ctxlog export --format html` wrote in a real browser, and holds them to what the
// command line says. Started by tests/page.rs with a plan: the pages, and for each the windows and
// the stories that it has to show. Times are printed; nothing is asserted of them.

import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";

const plan = JSON.parse(readFileSync(process.argv[2], "utf8"));
const profile = mkdtempSync(join(tmpdir(), "ctxlog-browser-"));
const flags = [
  "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync",
];
const browser = await chromium.launchPersistentContext(profile, {
  executablePath: plan.browser, headless: true, args: flags, viewport: { width: 1280, height: 800 },
});
try {
  for (const what of plan.cases) await check(what);
} finally {
  await browser.close();
  rmSync(profile, { recursive: true, force: true });
}

async function check(what) {
  const page = await browser.newPage(), said = [], asked = [];
  page.on("console", (message) => said.push(`${message.type()}: ${message.text()}`));
  page.on("pageerror", (error) => said.push(`error: ${error}`));
  page.on("dialog", (dialog) => { said.push(`dialog: ${dialog.message()}`); dialog.dismiss(); });
  page.on("request", (request) => asked.push(request.url()));
  const address = pathToFileURL(what.page).href;
  await page.goto(address);
  await page.waitForSelector("#window button");
  const paint = await page.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0]?.startTime);
  await windows(page, what);
  const steps = await slide(page);
  await clicks(page, what);
  await keys(page, what);
  await compared(page, what);
  await together(page);
  if (what.hostile) await harmless(page, what);
  if (what.screenshot) await shoot(page, what);
  assert.deepEqual(said, [], `${what.name}: the console`);
  assert.deepEqual(asked.filter((url) => url !== address), [], `${what.name}: requests`);
  assert.equal(await page.title(), what.title, `${what.name}: the title`);
  console.log(
    `${what.name}: first paint ${Math.round(paint ?? 0)} ms; slider step median ${steps.median.toFixed(1)} ms, ` +
    `longest ${steps.longest.toFixed(1)} ms; ${what.windows.length} windows, ${what.whys.length} stories equal`);
  await page.close();
}

// Every row of a list, of which only those in sight are there at a time.
function ids(page, list) {
  return page.evaluate(async (list) => {
    const node = document.getElementById(list), found = new Map();
    for (let top = 0; ; top += node.clientHeight / 2) {
      node.scrollTop = top;
      node.dispatchEvent(new Event("scroll"));
      for (const row of node.querySelectorAll("button")) found.set(parseInt(row.style.top, 10), row.dataset.m);
      if (top + node.clientHeight >= node.scrollHeight) break;
    }
    node.scrollTop = 0;
    node.dispatchEvent(new Event("scroll"));
    return [...found.entries()].sort((a, b) => a[0] - b[0]).map(([, id]) => id);
  }, list);
}

function to(page, value) {
  return page.evaluate((value) => {
    const slider = document.getElementById("slider");
    slider.value = value;
    slider.dispatchEvent(new Event("input"));
  }, value);
}

// The slider moves the window: at each call it is what `ctxlog window --at it:N --json` says.
async function windows(page, what) {
  for (const { iteration, messages } of what.windows) {
    await to(page, iteration - 1);
    assert.equal((await page.textContent("#at")).split(" ")[0], `it:${iteration}`);
    assert.deepEqual(await ids(page, "window"), messages, `${what.name}: the window at it:${iteration}`);
  }
}

// How long it takes until a step of the slider is drawn and laid out.
function slide(page) {
  return page.evaluate(() => {
    const slider = document.getElementById("slider"), times = [];
    const last = Number(slider.max);
    for (let i = 0; i < 200; i++) {
      const begun = performance.now();
      slider.value = Math.round(last * i / 200);
      slider.dispatchEvent(new Event("input"));
      void document.body.offsetHeight;
      times.push(performance.now() - begun);
    }
    times.sort((a, b) => a - b);
    return { median: times[100], longest: times[199] };
  });
}

// A click says why: the same as `ctxlog why mX --json` at the head.
async function clicks(page, what) {
  await to(page, await page.evaluate(() => Number(document.getElementById("slider").max)));
  for (const why of what.whys) {
    await page.fill("#find", why.message);
    await page.waitForFunction((id) => document.querySelector("#why h2")?.textContent.startsWith(id + " "), why.message);
    const panel = await page.textContent("#why");
    const has = (text) => assert.ok(panel.includes(text), `${what.name}: '${text}' of ${why.message} in: ${panel}`);
    assert.equal(await page.getAttribute("#why", "data-status"), why.status, why.message);
    has(`seen by${comma(why.seen_by.calls)} model call`);
    if (why.missed_by.calls) has(`missed by${comma(why.missed_by.calls)} model call`);
    for (const life of why.lives) {
      has(`s:${life.entered.seq}`);
      if (life.left) has(`s:${life.left.seq}  ${life.left.reason} after ${comma(life.calls)} call`);
      if (life.left?.strategy) has(life.left.strategy);
    }
    for (const r of why.refusals) has(`${comma(r.visits)} visit${r.visits === 1 ? "" : "s"}  ${r.reason}: `);
    assert.equal(panel.includes("bring back"), why.restore !== null, why.message);
    if (why.restore) has(why.restore.slice(0, 3).join(" "));
    if (why.redacted) has("[redacted]");
  }
  await page.fill("#find", "");
  await page.waitForTimeout(300);
  const row = page.locator("#window button").first();
  const id = await row.getAttribute("data-m");
  await row.click();
  assert.ok((await page.textContent("#why h2")).startsWith(id + " "), "a click on a row");
  await page.locator("#lane").click({ position: { x: 300, y: 8 } });
  assert.ok(/^m\d+ /.test(await page.textContent("#why h2")), "a click on a lane");
}

function comma(n) { return n.toLocaleString("en-US"); }

async function keys(page, what) {
  const at = async () => (await page.textContent("#at")).split(" ")[0];
  await page.locator("#window-title").click();
  await page.keyboard.press("Home");
  assert.equal(await at(), "it:1");
  if (what.windows.length < 2) return;
  await page.keyboard.press("ArrowRight");
  assert.equal(await at(), "it:2");
  await page.keyboard.press("Shift+ArrowLeft");
  assert.match(await at(), /^(s:\d+|it:1)$/);
  await page.keyboard.press("ArrowLeft");
  assert.equal(await at(), "it:1");
  await page.focus("#slider");
  await page.keyboard.press("ArrowRight");
  assert.equal(await at(), "it:2", "one step where the slider has the keys");
  await page.keyboard.press("End");
  assert.match(await page.textContent("#at"), /now$/);
}

// Two moments compared: what the two windows do not share, each way, and nothing where they are one.
async function compared(page, what) {
  if (what.windows.length < 2) return;
  const [a, b] = [what.windows[0], what.windows[what.windows.length - 1]];
  const only = (one, other) => one.messages.filter((m) => !other.messages.includes(m));
  for (const [from, at] of [[a, b], [b, a], [a, a]]) {
    await page.locator("#find").blur();
    await to(page, from.iteration - 1);
    await page.click("#compare");
    await to(page, at.iteration - 1);
    const counts = /(\d+) left, (\d+) came/.exec(await page.textContent("#changed-title"));
    assert.deepEqual([Number(counts[1]), Number(counts[2])], [only(from, at).length, only(at, from).length], `${what.name}: compared`);
    const listed = await ids(page, "changed");
    for (const m of [...only(from, at), ...only(at, from)]) assert.ok(listed.includes(m), `${what.name}: ${m} is listed`);
    await page.click("#compare");
  }
}

// Neighbours with one fate are one lane, and nothing else changes.
async function together(page) {
  const height = () => page.evaluate(() => document.getElementById("room").offsetHeight);
  const all = await height();
  await page.selectOption("#filter", "runs");
  assert.ok(await height() <= all);
  await page.selectOption("#filter", "all");
  assert.equal(await height(), all);
}

// What came from the conversation is text: it ran nothing and made no element.
async function harmless(page, what) {
  assert.equal(await page.evaluate(() => window.pwned), undefined);
  const elements = await page.evaluate(() => document.querySelectorAll("img, iframe, svg, object, embed, link, a, form").length);
  assert.equal(elements, 0, "elements that the page does not make");
  for (const { find, message, shown } of what.hostile) {
    await page.fill("#find", find);
    await page.waitForFunction((id) => document.querySelector(`#changed button[data-m="${id}"]`), message);
    await page.locator(`#changed button[data-m="${message}"]`).first().click();
    const words = (await page.locator("#why pre").allTextContents()).join("\n");
    assert.ok(words.includes(shown), `${shown} in: ${words.slice(0, 300)}`);
  }
  assert.equal(await page.evaluate(() => window.pwned), undefined);
}

async function shoot(page, what) {
  await page.fill("#find", what.pick);
  await page.waitForTimeout(300);
  await page.fill("#find", "");
  await page.waitForTimeout(300);
  await page.locator("#find").blur();
  await to(page, what.at - 1);
  await page.evaluate((m) => { [...document.querySelectorAll("#changed button")].find((b) => b.dataset.m === m)?.click(); }, what.pick);
  await page.screenshot({ path: what.screenshot });
}
