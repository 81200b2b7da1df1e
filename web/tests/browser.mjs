// A browser for the tests, and what every page must keep to.

import assert from "node:assert/strict";
import { existsSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium } from "playwright-core";

const PROGRAMS = [process.env.CHROMIUM, "/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];
export const SCREENSHOTS = process.env.SCREENSHOTS ?? new URL("./screenshots", import.meta.url).pathname;

/** Starts a browser with nothing remembered. */
export async function browser() {
  const executablePath = PROGRAMS.find((path) => path && existsSync(path));
  assert.ok(executablePath, "no Chromium; install the package chromium, or name it in CHROMIUM");
  const profile = mkdtempSync(join(tmpdir(), "upliftmem-browser-"));
  const context = await chromium.launchPersistentContext(profile, {
    executablePath,
    headless: true,
    viewport: { width: 1280, height: 860 },
    args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
  });
  context.setDefaultTimeout(15_000);
  mkdirSync(SCREENSHOTS, { recursive: true });
  return {
    context,
    async close() {
      await context.close();
      rmSync(profile, { recursive: true, force: true });
    },
  };
}

/** Opens a page; whatever it complains of or asks of others fails the test that calls `check`. */
export async function open(context, url) {
  const page = await context.newPage();
  const problems = [];
  const origin = new URL(url).origin;
  page.on("console", (message) => {
    if (message.type() === "error" || message.type() === "warning") problems.push(`console: ${message.text()}`);
  });
  page.on("pageerror", (error) => problems.push(`error: ${error.message}`));
  page.on("request", (request) => {
    if (new URL(request.url()).origin !== origin) problems.push(`request to ${request.url()}`);
  });
  await page.goto(url);
  await settled(page);
  return {
    page,
    problems,
    async check() {
      assert.deepEqual(problems, []);
      assert.equal(await page.evaluate(() => window.broken), undefined, "text became markup");
      await page.close();
    },
  };
}

/** Waits until nothing is loaded any more. */
export async function settled(page) {
  await page.locator("#main").waitFor();
  await page.waitForFunction(() => !document.querySelector(".loading, [aria-busy=true]"));
  await page.waitForLoadState("networkidle");
}

/** Whether anything sticks out to the side, or a control has no name. */
export async function wellFormed(page, where) {
  const faults = await page.evaluate(() => {
    const found = [];
    const { scrollWidth, clientWidth } = document.documentElement;
    if (scrollWidth > clientWidth) found.push(`the page is ${scrollWidth} wide in a window of ${clientWidth}`);
    for (const control of document.querySelectorAll("button, input, select, textarea, a[href]")) {
      const named = control.getAttribute("aria-label") || control.textContent?.trim() || control.labels?.length || control.title;
      if (!named) found.push(`no name: ${control.outerHTML.slice(0, 120)}`);
    }
    if (document.querySelectorAll("h1").length !== 1) found.push("not exactly one h1");
    return found;
  });
  assert.deepEqual(faults, [], where);
}
