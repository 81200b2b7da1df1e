// A server that asks for keys.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { join } from "node:path";
import { browser, open, SCREENSHOTS, settled } from "./browser.mjs";
import { caller } from "./seed.mjs";
import { start } from "./server.mjs";

let server, chrome;

before(async () => {
  [server, chrome] = await Promise.all([start({ keys: true }), browser()]);
});

after(async () => {
  await chrome?.close();
  await server?.stop();
});

const key = (...words) => JSON.parse(server.run("keys", "create", ...words)).key;

async function signIn(page, secret) {
  await page.getByLabel("Key").fill(secret);
  await page.getByRole("button", { name: "Open" }).click();
}

test("without a key nothing is shown; with one, what it reaches; signed out, nothing again", async () => {
  const admin = key("boss", "--permission", "admin", "--all-scopes");
  await caller(server.url, admin)("POST", "/v1/memories", { user_id: "ada", text: "Ada drinks tea." });
  const opened = await open(chrome.context, `${server.url}/memories`);
  const { page } = opened;
  await page.getByText("This server asks for a key.").waitFor();
  await page.screenshot({ path: join(SCREENSHOTS, "sign-in.png") });
  await signIn(page, "um_wrong");
  await page.getByText("the key is not known or was revoked").waitFor();
  await signIn(page, admin);
  await page.getByText("Ada drinks tea.").waitFor();
  await page.reload();
  await page.getByText("Ada drinks tea.").waitFor();
  await page.getByRole("link", { name: "Settings" }).click();
  await page.getByText("may do everything").waitFor();
  await page.getByText("boss", { exact: true }).waitFor();
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByText("Signed out.").waitFor();
  assert.equal(await page.getByText("Ada").count(), 0);
  // A browser reports each refused request by itself.
  opened.problems.splice(0, opened.problems.length, ...opened.problems.filter((problem) => !problem.includes("401")));
  await opened.check();
});

test("a key of one tenant that may only read sees its scope and offers no keys", async () => {
  const reader = key("reader", "--permission", "read", "--user-id", "ada");
  const opened = await open(chrome.context, server.url);
  const { page } = opened;
  await signIn(page, reader);
  await page.getByText("Nothing has been compared yet").waitFor();
  assert.deepEqual(await page.getByLabel("Scope").locator("option").allTextContents(), ["user: ada"]);
  await page.getByRole("link", { name: "Settings" }).click();
  await page.getByText("A key with the permission admin shows and makes keys.").waitFor();
  await page.getByRole("link", { name: "Training" }).click();
  await settled(page);
  assert.equal(await page.getByRole("button", { name: "Roll back" }).count(), 0);
  opened.problems.splice(0, opened.problems.length, ...opened.problems.filter((problem) => !problem.includes("401")));
  await opened.check();
});
