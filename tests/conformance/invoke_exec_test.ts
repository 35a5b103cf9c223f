import {
  assert,
  assertEquals,
  assertMatch,
  assertNotEquals,
  assertRejects,
  assertStringIncludes,
} from "@std/assert";
import { CniError } from "../../base/error.ts";
import { deadline, pause, waitUntil } from "../../base/deadline.ts";
import { execPlugin } from "../../cni/invoke/exec.ts";
import type { Invocation } from "../../cni/call/context.ts";
import { ifPossible } from "../../base/files/io.ts";
import { conformance } from "../_harness/conformance.ts";
import { deadlineWhen } from "../_harness/eventually.ts";
import { PluginDirectory } from "../_harness/plugin_directory.ts";
import {
  killIfAlive,
  listGroup,
  waitUntilDead,
} from "../_harness/process_group.ts";
import { CONFIG, exec, failureOf, PATH, run } from "./script_plugins.ts";

const utf8 = new TextEncoder();
const NOTHING = "netplugin failed with no error message";
const UNPARSED = "netplugin failed but error parsing its diagnostic message";

/** Much longer than anything takes here, and much less than scripts sleep, in ms. */
const LONG_MS = 30_000;

/**
 * Runs `script`, whose deadline passes when it has written to `$MARK`; checks
 * that the call does not wait for the script.
 *
 * @returns The error, and what was written
 */
async function checkDeadline(
  script: string,
  more: Partial<Invocation> = {},
): Promise<{ error: CniError; mark: string }> {
  using directory = new PluginDirectory();
  const path = `${directory.path}/mark`;
  const read = (): string =>
    ifPossible(() => Deno.readTextFileSync(path)) ?? "";
  const startMs = performance.now();
  const signal = deadlineWhen(() => read().endsWith("\n"));
  const env = { PATH, MARK: path };
  const error = await failureOf(script, { env, ...more, signal });
  const elapsedMs = performance.now() - startMs;
  assert(elapsedMs < LONG_MS, `it took ${elapsedMs} ms`);
  return { error, mark: read() };
}

conformance("invoke exec", {
  "stdin and the environment reach the plugin": async () => {
    const env = { PATH, CNI_COMMAND: "ADD" };
    const stdout = await run('echo "$CNI_COMMAND"; exec cat', { env });
    assertEquals(stdout, `ADD\n${CONFIG}`);
  },
  "what it prints is returned as it is": async () => {
    assertEquals(await run("printf ' {{{ \\n\\n'"), " {{{ \n\n");
  },
  "what it logs is forwarded if it succeeds": async () => {
    const written: string[] = [];
    const onStderr = (text: string): unknown => written.push(text);
    await run("echo one >&2; echo two >&2", { onStderr });
    assertEquals(written.join(""), "one\ntwo\n");
  },
  "an error as JSON is the error": async () => {
    const error = await failureOf(
      `echo log >&2; echo '{"code":100,"msg":"m","details":"d"}'; exit 1`,
    );
    assertEquals([error.code, error.message, error.details], [100, "m", "d"]);
  },
  "a log alone is in the error": async () => {
    const { message } = await failureOf("printf banana >&2; exit 1");
    assertEquals(message, 'netplugin failed: "banana": exit status 1');
  },
  "nothing at all is an error": async () => {
    const { message } = await failureOf("exit 1");
    assertEquals(message, `${NOTHING}: exit status 1`);
  },
  "the exit status is named": async () => {
    const { message } = await failureOf("exit 3");
    assertEquals(message, `${NOTHING}: exit status 3`);
  },
  "a signal is named as Go does": async () => {
    const names = {
      KILL: "killed",
      SEGV: "segmentation fault",
      TERM: "terminated",
      ABRT: "aborted",
    };
    for (const [signal, name] of Object.entries(names)) {
      const { message } = await failureOf(`ulimit -c 0; kill -${signal} $$`);
      assertEquals(message, `${NOTHING}: signal: ${name}`);
    }
  },
  "output that is not JSON is quoted, with the reason": async () => {
    const { message } = await failureOf("printf '{{{'; exit 1");
    assertMatch(message, /^netplugin failed but .* message "\{\{\{": .+/);
  },
  "JSON that is not an error gets a message and a code": async () => {
    for (const json of ["{}", '{"cniVersion":"1.0.0","ips":[]}']) {
      const { message, code } = await failureOf(`printf '${json}'; exit 1`);
      assertEquals(
        message,
        `${UNPARSED} ${JSON.stringify(json)}: it is not an error object`,
      );
      assertNotEquals(code, 0);
    }
  },
  "a long text is cut": async () => {
    const { message } = await failureOf(
      "head -c 1048576 /dev/zero | tr '\\0' x; exit 1",
    );
    assert(message.length < 10_000, `${message.length} characters`);
  },
  "path, time, status and log are in the details": async () => {
    const { details } = await failureOf("echo log >&2; echo {}; exit 3");
    assertMatch(
      details,
      /^\/.*\/plugin ended after \d+ ms: exit status 3; stderr: "log\\n"$/,
    );
  },
  "the error names a path that leads nowhere": async () => {
    const error = await assertRejects(() => exec("/no/plugin"), CniError);
    assertEquals(
      error.message,
      `${NOTHING}: fork/exec /no/plugin: no such file or directory`,
    );
  },
  "a busy program file is tried again, and then fails": async () => {
    using directory = new PluginDirectory();
    const path = `${directory.path}/plugin`;
    await Deno.copyFile("/bin/cat", path);
    using _open = await Deno.open(path, { write: true });
    const error = await assertRejects(() => exec(path), CniError);
    assertEquals(
      error.message,
      `${NOTHING}: fork/exec ${path}: text file busy`,
    );
  },
  "a program that was being written is started": async () => {
    using directory = new PluginDirectory();
    const path = `${directory.path}/plugin`;
    await Deno.copyFile("/bin/cat", path);
    const open = await Deno.open(path, { write: true });
    const input = {
      env: {},
      stdin: utf8.encode(CONFIG),
      onStderr(): void {},
    };
    const stdout = await execPlugin(path, input, () => {
      open.close();
      return Promise.resolve();
    });
    assertEquals(stdout, CONFIG);
  },
  "half of a program is not run": async () => {
    using directory = new PluginDirectory();
    for (const half of ["", "\0".repeat(512)]) {
      const path = directory.addFile("plugin", half);
      const { message } = await assertRejects(() => exec(path), CniError);
      assertEquals(message, `${NOTHING}: fork/exec ${path}: exec format error`);
    }
  },
  "a plugin need not read its input": async () => {
    const stdin = utf8.encode("x".repeat(1024 * 1024));
    assertEquals(await run("echo a", { stdin }), "a\n");
    assertEquals(await run("exec <&-; echo a", { stdin }), "a\n");
    const { message } = await failureOf("exit 1", { stdin });
    assertEquals(message, `${NOTHING}: exit status 1`);
  },
  "a plugin that reads as it writes 1 MiB does not block": async () => {
    const text = "x".repeat(1024 * 1024);
    assertEquals(await run("exec cat", { stdin: utf8.encode(text) }), text);
  },
  "a daemon that holds stdout delays only a moment": async () => {
    const startMs = performance.now();
    const stdout = await run("sleep 60 & echo $!");
    const elapsedMs = performance.now() - startMs;
    killIfAlive(Number(stdout));
    assert(elapsedMs < LONG_MS, `it took ${elapsedMs} ms`);
  },
});

conformance("invoke deadline", {
  "a plugin that sleeps is killed": async () => {
    const { error: { message, details } } = await checkDeadline(
      "echo > $MARK; exec sleep 60",
    );
    assertEquals(message, `${NOTHING}: signal: killed`);
    assertMatch(details, /plugin was killed after \d+ ms: the deadline has/);
  },
  "all of one that ignores SIGTERM dies, with its child": async () => {
    const { error, mark } = await checkDeadline(
      `trap '' TERM
        sh -c "trap '' TERM; sleep 60; sleep 60" &
        echo $$ > $MARK
        sleep 60; sleep 60; wait`,
    );
    assertEquals(error.message, `${NOTHING}: signal: killed`);
    await waitUntilDead(Number(mark));
  },
  "a child with a session of its own is not waited for": async () => {
    const { error, mark } = await checkDeadline(
      "setsid sh -c 'echo $$ > $MARK; exec sleep 60' & sleep 60",
    );
    assertEquals(listGroup(Number(mark)), [Number(mark)]);
    killIfAlive(Number(mark));
    assertEquals(error.message, `${NOTHING}: signal: killed`);
  },
  "its log is in the error": async () => {
    const { error } = await checkDeadline(
      "echo 'waiting for a lease' >&2; echo > $MARK; exec sleep 60",
    );
    assertMatch(error.details, /stderr: "waiting for a lease\\n"$/);
  },
  "a plugin that does not read its input is killed": async () => {
    const stdin = utf8.encode("x".repeat(1024 * 1024));
    const { error } = await checkDeadline("echo > $MARK; exec sleep 60", {
      stdin,
    });
    assertEquals(error.message, `${NOTHING}: signal: killed`);
  },
  "nothing is started after it": async () => {
    using directory = new PluginDirectory();
    const script = `echo > ${directory.path}/started`;
    const signal = deadline(0);
    await waitUntil(new Promise<never>(() => {}), signal);
    const { code, message, details } = await failureOf(script, { signal });
    assertEquals(code, 999);
    assertEquals(message, `${NOTHING}: context deadline exceeded`);
    assertMatch(details, /plugin was not started: the deadline has passed$/);
    await assertRejects(() => Deno.stat(`${directory.path}/started`));
  },
  "a call that was cancelled before is not begun": async () => {
    const signal = AbortSignal.abort();
    const { message, details } = await failureOf("", { signal });
    assertEquals(message, `${NOTHING}: context canceled`);
    assertMatch(details, /plugin was not started: the call was cancelled$/);
  },
  "waiting for a busy program file ends with it": async () => {
    using directory = new PluginDirectory();
    const path = `${directory.path}/plugin`;
    await Deno.copyFile("/bin/cat", path);
    using _open = await Deno.open(path, { write: true });
    let pauses = 0;
    const pauseForLong = (signal?: AbortSignal): Promise<void> => {
      pauses++;
      return pause(LONG_MS, signal);
    };
    const error = await assertRejects(() =>
      execPlugin(path, {
        env: {},
        stdin: utf8.encode(CONFIG),
        onStderr(): void {},
        signal: deadlineWhen(() => pauses > 0),
      }, pauseForLong), CniError);
    assertEquals(pauses, 1);
    assertEquals(error.message, `${NOTHING}: context deadline exceeded`);
    assertStringIncludes(error.details, "Text file busy");
  },
  "a plugin that is done in time is not bothered": async () => {
    assertEquals(await run("exec cat", { signal: deadline(60_000) }), CONFIG);
  },
});
