// A real server for the tests: the program, a store of its own, a free port.

import { spawn, spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

const PROGRAM = resolve(process.env.UPLIFTMEM_BINARY ?? new URL("../../target/debug/upliftmem", import.meta.url).pathname);
/** The same answers on every machine, whichever models it has. */
const SETTINGS = ["--set", "embedder.kind=hash", "--set", "acquisition.probe_budget=24"];

/** Runs a command of the program in a directory. */
function run(directory, ...words) {
  const done = spawnSync(PROGRAM, [...SETTINGS, "--json", ...words], { cwd: directory, encoding: "utf8" });
  if (done.error) throw new Error(`${PROGRAM} can not be started: ${done.error.message}; build it with cargo build -p upliftmem`);
  if (done.status !== 0) throw new Error(`upliftmem ${words.join(" ")}: ${done.stderr}`);
  return done.stdout;
}

/** Starts a server; `keys` makes it ask for keys. */
export async function start({ keys = false } = {}) {
  const directory = mkdtempSync(join(tmpdir(), "upliftmem-web-"));
  run(directory, "init");
  const auth = keys ? ["--set", "server.auth=on"] : [];
  const child = spawn(PROGRAM, [...SETTINGS, ...auth, "--json", "serve", "--address", "127.0.0.1:0"], {
    cwd: directory,
    env: { ...process.env, UPLIFTMEM_LOG: "warn" },
    stdio: ["ignore", "pipe", "inherit"],
  });
  const url = await new Promise((found, failed) => {
    let text = "";
    child.stdout.on("data", (chunk) => {
      text += chunk;
      const address = /http:\/\/127\.0\.0\.1:\d+/.exec(text);
      if (address) found(address[0]);
    });
    child.on("error", failed);
    child.on("exit", (code) => failed(new Error(`the server stopped with ${code}`)));
  });
  return {
    url,
    run: (...words) => run(directory, ...words),
    async stop() {
      const gone = new Promise((done) => child.on("exit", done));
      child.kill("SIGTERM");
      await gone;
      rmSync(directory, { recursive: true, force: true });
    },
  };
}
