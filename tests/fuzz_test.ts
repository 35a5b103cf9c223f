/**
 * Random calls of every plugin: whatever a plugin is given, it answers by one
 * document or nothing, in time, and leaves nothing behind.
 *
 * They are done in a process of its own, whose file system is read-only but for
 * a directory that goes with it: a path in a random configuration may be anybody's.
 * It is watched for calls that never come to an end.
 *
 * They are the same each time. `CNI_FUZZ_SEED` and `CNI_FUZZ_COUNT` choose
 * others: the first seed, and how many. The nightly workflow tries new ones. A
 * call that fails is shown with its seed, and whole, so that it can be added to
 * `tests/fuzz/hard_inputs.ts`.
 *
 * @module
 */

import { assert, assertEquals } from "@std/assert";
import { pluginNames } from "../plugins/registry.ts";
import { importFlags } from "../scripts/import_flags.ts";
import { canUseNetns } from "../testing/capabilities.ts";
import { listHardInputs } from "./fuzz/hard_inputs.ts";
import { type FuzzInput, makeInput } from "./fuzz/input.ts";
import { firstSeed, howManyInputs } from "./_harness/repetition.ts";

const FIRST_SEED = firstSeed(1);
const COUNT = howManyInputs(1_500);

/** How long the process may say nothing, which it does before each call. */
const STALL_MS = 10_000;

/**
 * Nothing may be written but to the directory; what is in there goes in the end.
 * Each mount is read-only by itself. A path that another mount covers is not.
 */
const CONFINE = `set -e
cut -d ' ' -f 5 /proc/self/mountinfo | while read -r path; do
  path=$(printf %b "$path")
  case $path in /proc | /proc/* | /dev | /dev/*) continue ;; esac
  ! mountpoint -q "$path" || mount -o remount,bind,ro "$path"
done
mount -t tmpfs cni-test /run
mount -t tmpfs cni-test "$TMPDIR"
cd "$TMPDIR"
exec "$@"`;

const ROOT = new URL("..", import.meta.url).pathname;

/** Starts the process that does the calls, in a directory. */
async function start(directory: string): Promise<Deno.ChildProcess> {
  const flags = (await importFlags())
    .map((flag) => flag.replace("=scripts/", `=${ROOT}scripts/`));
  const run = [Deno.execPath(), "run", "-A", "--no-check", ...flags]
    .concat(`${ROOT}tests/fuzz/run.ts`, String(FIRST_SEED), String(COUNT));
  const confine = ["unshare", "--mount", "--propagation", "private"]
    .concat("sh", "-c", CONFINE, "sh");
  const [program = "", ...args] = canUseNetns
    ? [...confine, ...run, "--namespaces"]
    : run;
  return new Deno.Command(program, {
    args,
    cwd: directory,
    env: { TMPDIR: directory },
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
}

/** Reads what the process says; kills it when it says nothing for too long. */
async function listen(
  child: Deno.ChildProcess,
): Promise<{ last: string; stalled: boolean }> {
  let [text, stalled] = ["", false];
  const kill = (): void => {
    stalled = true;
    child.kill("SIGKILL");
  };
  let timer = setTimeout(kill, STALL_MS);
  for await (const chunk of child.stdout.pipeThrough(new TextDecoderStream())) {
    clearTimeout(timer);
    timer = setTimeout(kill, STALL_MS);
    // Only the last line is of interest.
    text = (text + chunk).split("\n").slice(-2).join("\n");
  }
  clearTimeout(timer);
  return { last: text.trimEnd().split("\n").at(-1) ?? "", stalled };
}

/** Finds the input that the process was at. */
function findInput(name: string): FuzzInput | undefined {
  const [, seed] = /^seed (\d+)$/.exec(name) ?? [];
  return seed === undefined
    ? new Map(listHardInputs()).get(name)
    : makeInput(Number(seed));
}

Deno.test("every plugin prints one document or nothing for any input", async () => {
  const directory = await Deno.makeTempDir({ prefix: "cni-test-" });
  try {
    const child = await start(directory);
    const [{ last, stalled }, stderr, { success }] = await Promise.all([
      listen(child),
      new Response(child.stderr).text(),
      child.status,
    ]);
    const input = stalled ? JSON.stringify(findInput(last)) : "";
    assert(!stalled, `no end came of ${last}: ${input}`);
    assert(success, `${last}\n${stderr}`);
    checkTally(JSON.parse(last));
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
});

/**
 * Fails unless all plugins succeeded at times, and failed at times. Most of what could
 * succeed needs root.
 */
function checkTally(tally: Readonly<Record<string, number>>): void {
  const least = canUseNetns ? COUNT / pluginNames.length / 20 : 1;
  const rare = pluginNames.flatMap((name) => [`${name} 0`, `${name} 1`])
    .filter((kind) => (tally[kind] ?? 0) < least);
  assertEquals(rare, [], JSON.stringify(tally));
}
