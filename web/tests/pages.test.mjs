// Every page in a real browser against a real server.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { join } from "node:path";
import { browser, open, SCREENSHOTS, settled, wellFormed } from "./browser.mjs";
import { caller, HOSTILE, seed } from "./seed.mjs";
import { start } from "./server.mjs";

let server, chrome, ids, call;

before(async () => {
  [server, chrome] = await Promise.all([start(), browser()]);
  call = caller(server.url);
  ids = await seed(server.url);
});

after(async () => {
  await chrome?.close();
  await server?.stop();
});

const at = (path) => open(chrome.context, server.url + path);

/** The newest retrieval that gave memories. */
async function answered() {
  const { results } = await call("GET", "/v1/retrievals?order=newest&limit=100");
  return results.find((row) => !row.abstained) ?? assert.fail("every search abstained");
}

const PAGES = [
  ["overview", "/", "Uplift over time"],
  ["memories", "/memories", "Effect, 95 %"],
  ["memory", () => `/memories/${ids[0]}`, "History"],
  ["retrievals", "/retrievals", "Predicted uplift"],
  ["retrieval", async () => `/retrievals/${(await answered()).id}`, "What was injected"],
  ["probes", "/probes", "Queue"],
  ["training", "/training", "Calibration"],
  ["settings", "/settings", "Appearance"],
];

for (const [name, path, shows] of PAGES) {
  test(`${name} loads from its address, in light and dark, wide and narrow`, async () => {
    const opened = await at(typeof path === "string" ? path : await path());
    const { page } = opened;
    await page.getByText(shows).first().waitFor();
    for (const scheme of ["light", "dark"]) {
      await page.emulateMedia({ colorScheme: scheme });
      await page.screenshot({ path: join(SCREENSHOTS, `${name}-${scheme}.png`), fullPage: true });
    }
    await wellFormed(page, `${name}, wide`);
    await page.setViewportSize({ width: 390, height: 800 });
    await settled(page);
    await wellFormed(page, `${name}, narrow`);
    await page.screenshot({ path: join(SCREENSHOTS, `${name}-narrow.png`) });
    await opened.check();
  });
}

for (const [name, path, words] of [
  ["overview", "/", "Nothing has been compared yet"],
  ["memories", "/memories", "No memories in this scope"],
  ["retrievals", "/retrievals", "No search was answered"],
  ["probes", "/probes", "Nothing is waiting"],
  ["training", "/training", "Nothing was learned in this scope yet"],
]) {
  test(`an empty ${name} says what to do first`, async () => {
    const opened = await at(`${path}?agent_id=nobody`);
    await opened.page.getByText(words).waitFor();
    await wellFormed(opened.page, name);
    await opened.page.screenshot({ path: join(SCREENSHOTS, `empty-${name}.png`), fullPage: true });
    await opened.check();
  });
}

test("the overview says whether memory helps, and each point of the chart can be read", async () => {
  const opened = await at("/");
  const { page } = opened;
  const report = await call("GET", "/v1/reports/help");
  await page.getByText(report.verdict).waitFor();
  const points = page.locator(".chart .point");
  assert.ok((await points.count()) > 1);
  await points.nth(1).focus();
  const label = await points.nth(1).getAttribute("aria-label");
  assert.match(label, /uplift [+−]?\d\.\d{3}, .*comparison/);
  await page.locator(".tip").waitFor();
  await page.getByText("The same as a table").click();
  assert.equal(await page.locator("details table tbody tr").count(), await points.count());
  await opened.check();
});

test("memories are found by words, and markup in them stays text", async () => {
  const opened = await at("/memories");
  const { page } = opened;
  await page.getByPlaceholder("Words in the text").fill("HTML quotes");
  await page.waitForFunction(() => document.querySelectorAll("tbody tr").length === 1);
  assert.match(page.url(), /words=HTML/);
  assert.equal(await page.locator("tbody .memory-name").textContent(), HOSTILE);
  await page.locator("tbody .memory-name").click();
  await page.getByText("History").waitFor();
  await settled(page);
  assert.equal(await page.locator("blockquote").textContent(), HOSTILE);
  assert.equal(await page.locator("main img, main script, main blockquote b").count(), 0);
  await opened.check();
});

test("a memory is quarantined with a reason and released", async () => {
  const opened = await at(`/memories/${ids[5]}`);
  const { page } = opened;
  await page.getByRole("button", { name: "Quarantine" }).click();
  await page.getByLabel("Why").fill("it <i>harms</i>");
  await page.getByRole("dialog").getByRole("button", { name: "Quarantine" }).click();
  await page.getByText("Kept out of retrieval: it <i>harms</i>").waitFor();
  assert.equal((await call("GET", `/v1/memories/${ids[5]}`)).status, "quarantined");
  await page.goto(`${server.url}/memories?status=quarantined`);
  await page.locator("tbody tr").first().waitFor();
  assert.equal(await page.locator("tbody tr").count(), 1);
  await page.goBack();
  await page.getByRole("button", { name: "Release" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Release" }).click();
  await page.getByRole("button", { name: "Quarantine" }).waitFor();
  assert.equal((await call("GET", `/v1/memories/${ids[5]}`)).status, "active");
  await opened.check();
});

test("a memory is added, changed and superseded, and its history shows it", async () => {
  const opened = await at("/memories");
  const { page } = opened;
  await page.getByRole("button", { name: "Add a memory" }).click();
  await page.getByRole("textbox", { name: "Text" }).fill("The canary runs for ten minutes.");
  await page.getByRole("button", { name: "Add", exact: true }).click();
  await page.getByText("The canary runs for ten minutes.").click();
  await page.getByRole("button", { name: "Change the text" }).click();
  await page.getByRole("textbox", { name: "Text" }).fill("The canary runs for twenty minutes.");
  await page.getByRole("button", { name: "Save as new version" }).click();
  await page.locator(".history li").nth(1).waitFor();
  assert.deepEqual(await page.locator(".history li .badge").allTextContents(), ["superseded", "active"]);
  await page.getByRole("button", { name: "Supersede" }).click();
  await page.getByLabel("Id of the other memory").fill("not an id");
  await page.getByRole("dialog").getByRole("button", { name: "Supersede" }).click();
  await page.getByRole("dialog").getByRole("alert").waitFor();
  await page.getByLabel("Id of the other memory").fill(ids[0]);
  await page.getByRole("dialog").getByRole("button", { name: "Supersede" }).click();
  await page.getByText("Superseded by").waitFor();
  // The refused id is the only thing that the browser complained of.
  assert.equal(opened.problems.length, 1, opened.problems.join("\n"));
  opened.problems.length = 0;
  await opened.check();
});

test("a retrieval explains itself: gains add up, runners-up are shown, the outcome is there", async () => {
  const retrieval = await answered();
  const opened = await at(`/retrievals/${retrieval.id}`);
  const { page } = opened;
  const amount = (text) => Number(text.replace("−", "-"));
  const gains = await page.locator(".gain b").allTextContents();
  assert.equal(gains.length, retrieval.memories.length);
  const sum = gains.reduce((total, gain) => total + amount(gain), 0);
  assert.ok(Math.abs(sum - amount(await page.locator("tfoot .amount").textContent())) < 0.0006 * (gains.length + 1));
  await page.getByText("runner-up").first().waitFor();
  await page.getByText("Performance").waitFor();
  await page.getByText("Sets of 1").waitFor();
  await opened.check();
});

test("a search can be tried, and leads to its explanation", async () => {
  const opened = await at("/retrievals");
  const { page } = opened;
  await page.getByPlaceholder("What is the agent about to do?").fill("deploy the billing service to staging");
  await page.getByRole("button", { name: "Search" }).click();
  await page.waitForURL(/\/retrievals\/[0-9a-f-]{36}/);
  await page.getByText("no outcome was reported").waitFor();
  await opened.check();
});

test("probes show the queue, why each was chosen, and a new plan", async () => {
  const opened = await at("/probes");
  const { page } = opened;
  const { results } = await call("GET", "/v1/probes?state=waiting");
  assert.ok(results.length > 0, "the seed leaves probes waiting");
  assert.equal(await page.locator(".panel").nth(1).locator("tbody tr").count(), results.length);
  const batches = await call("GET", "/v1/probes/batches?order=newest");
  assert.equal(await page.locator("details.depth").count(), Math.min(5, batches.results.length));
  await page.getByText("Against, as retrieved now").first().waitFor();
  await page.getByLabel("State").selectOption("completed");
  await page.waitForURL(/state=completed/);
  await settled(page);
  assert.ok((await page.locator(".panel").nth(1).locator("tbody tr").count()) > 10);
  await page.getByLabel("Probes at most").fill("4");
  await page.getByRole("button", { name: "Plan a batch" }).click();
  await page.getByText(/looked at/).waitFor();
  await opened.check();
});

test("a scorer is rolled back, followed again, and two versions are compared", async () => {
  const opened = await at("/training");
  const { page } = opened;
  const before = (await call("GET", "/v1/training")).active;
  await page.getByRole("button", { name: "Roll back" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Roll back" }).click();
  await page.getByText("chosen by hand").waitFor();
  const rolled = (await call("GET", "/v1/training")).active;
  assert.ok(rolled.pinned && rolled.version < before.version);
  await page.getByText(`version ${rolled.version}`, { exact: true }).waitFor();
  await page.getByRole("button", { name: "Follow the newest" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Follow the newest" }).click();
  await page.getByText("follows the labels").waitFor();
  assert.equal((await call("GET", "/v1/training")).active.version, before.version);
  const marks = page.getByRole("checkbox");
  await marks.nth(0).check();
  await marks.nth(1).check();
  await page.locator(".compare").waitFor();
  await page.locator(".compare").getByRole("rowheader", { name: "labels" }).waitFor();
  await page.screenshot({ path: join(SCREENSHOTS, "training-compared.png"), fullPage: true });
  assert.ok((await page.locator(".bin").count()) > 1, "the calibration plot has bins");
  await opened.check();
});

test("a key is created, shown once, and revoked", async () => {
  const opened = await at("/settings");
  const { page } = opened;
  await page.getByRole("button", { name: "Create a key" }).click();
  await page.getByLabel("Name").fill("a worker");
  await page.getByLabel("agent_id").fill("default");
  await page.screenshot({ path: join(SCREENSHOTS, "dialog.png") });
  await page.getByRole("button", { name: "Create", exact: true }).click();
  const secret = await page.locator(".secret code").textContent();
  assert.ok(secret.length > 20);
  await page.getByText("agent_id default").waitFor();
  await page.screenshot({ path: join(SCREENSHOTS, "settings-key.png"), fullPage: true });
  await page.getByRole("button", { name: "I have it" }).click();
  assert.equal(await page.getByText(secret).count(), 0);
  await page.getByRole("button", { name: "Revoke a worker" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Revoke" }).click();
  await page.getByText("revoked", { exact: true }).waitFor();
  const { results } = await call("GET", "/v1/keys");
  assert.notEqual(results.find((key) => key.name === "a worker").revoked_at, null);
  await opened.check();
});

test("everything is reached by keys", async () => {
  const opened = await at("/");
  const { page } = opened;
  await page.keyboard.press("Tab");
  assert.equal(await page.evaluate(() => document.activeElement.textContent), "Skip to content");
  await page.keyboard.press("Enter");
  assert.equal(await page.evaluate(() => document.activeElement.id), "main");
  for (const [letter, heading] of [["m", "Memories"], ["r", "Retrievals"], ["p", "Probes"], ["t", "Training"], ["s", "Settings"], ["o", "Overview"]]) {
    await page.keyboard.press("g");
    await page.keyboard.press(letter);
    await page.getByRole("heading", { level: 1, name: heading }).waitFor();
    assert.equal(await page.locator("nav [aria-current=page] span").textContent(), heading);
  }
  await page.keyboard.press("/");
  await page.waitForFunction(() => document.activeElement?.matches("[data-search]"));
  await page.keyboard.type("gm/?");
  assert.equal(await page.getByPlaceholder("Words in the text").inputValue(), "gm/?", "typing is not a command");
  await page.evaluate(() => document.activeElement.blur());
  await page.keyboard.press("?");
  await page.getByRole("dialog", { name: "Keyboard" }).waitFor();
  await page.keyboard.press("Escape");
  await page.getByRole("dialog").waitFor({ state: "detached" });
  const outline = await page.evaluate(async () => {
    document.querySelector("nav a").focus({ focusVisible: true });
    return getComputedStyle(document.activeElement).outlineStyle;
  });
  assert.equal(outline, "solid", "the focus can be seen");
  await opened.check();
});

test("light and dark are remembered, whatever the system says", async () => {
  const opened = await at("/");
  const { page } = opened;
  const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  await page.emulateMedia({ colorScheme: "light" });
  const light = await ground();
  await page.getByRole("button", { name: "Switch between light and dark" }).click();
  const dark = await ground();
  assert.notEqual(dark, light);
  await page.reload();
  await settled(page);
  assert.equal(await ground(), dark);
  await page.goto(`${server.url}/settings`);
  await page.getByLabel("as the system").check();
  assert.equal(await ground(), light);
  await opened.check();
});

test("another scope is chosen, and an address that is no page says so", async () => {
  await call("POST", "/v1/memories", { user_id: "ada", text: "Ada drinks tea." });
  const opened = await at("/memories");
  const { page } = opened;
  await page.getByLabel("Scope").selectOption("user: ada");
  await page.getByText("Ada drinks tea.").waitFor();
  assert.match(page.url(), /user_id=ada/);
  await page.getByText("Ada drinks tea.").click();
  await page.getByText("History").waitFor();
  assert.match(page.url(), /user_id=ada/);
  await page.goto(`${server.url}/no/such/page`);
  await page.getByText("There is no such page").waitFor();
  await opened.check();
});

test("a failure is told in the server's words, with a way to go on", async () => {
  const opened = await at("/memories/00000000-0000-0000-0000-000000000000");
  await opened.page.getByRole("alert").getByText("not_found").waitFor();
  await opened.page.getByRole("button", { name: "Try again" }).waitFor();
  opened.problems.length = 0;
  await opened.check();
});
