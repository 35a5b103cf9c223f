import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { eventually } from "../../tests/_harness/eventually.ts";
import { waitUntilDead } from "../../tests/_harness/process_group.ts";
import { testRows } from "../../tests/_harness/table.ts";
import type { ProcessEnd } from "./outcome.ts";
import {
  type Job,
  runAll,
  type RunOptions,
  runProcess,
  type RunResult,
  testFiles,
  type TestPlace,
} from "./run.ts";

const ROOT = new URL("../..", import.meta.url);

const GOOD = 'Deno.test("good", () => {});';
const FAILS = 'Deno.test("fails", () => { console.log("hints");' +
  ' throw new Error("Wrong"); });' +
  'Deno.test({ name: "skips (skipped: needs luck)", ignore: true, fn() {} });';
/** It waits for its output to be written, which deno does not do at its death. */
const DIES = 'Deno.test("first", () => {});' +
  'Deno.test("second", async (t) => { await t.step("step", async () => {' +
  " await new Promise((resolve) => setTimeout(resolve, 500));" +
  ' Deno.kill(Deno.pid, "SIGABRT"); }); });' +
  'Deno.test("third", () => {});';
const HANGS = 'Deno.test("hangs", async () => {' +
  " await new Promise((resolve) => setTimeout(resolve, 500));" +
  ' Deno.writeTextFileSync("hanging", ""); while (true); });';

const EVAL: Job = {
  name: "command",
  args: ["eval", "--no-config", 'console.log(Deno.env.get("WHERE"))'],
  kind: "command",
};

/** Runs files in a new directory. */
class Run implements Disposable {
  readonly directory = Deno.makeTempDirSync({ prefix: "cni-test-" });
  readonly printed: string[] = [];
  readonly progress: string[] = [];
  readonly stop = new AbortController();
  logged = "";

  constructor(files: Readonly<Record<string, string>>) {
    for (const [name, source] of Object.entries(files)) {
      Deno.writeTextFileSync(`${this.directory}/${name}`, source);
    }
  }

  /** @param jobs Files; those with a plus between them in one process */
  run(
    jobs: readonly (string | Job)[],
    options: Partial<RunOptions> = {},
  ): Promise<RunResult> {
    const toJob = (one: string | Job): Job =>
      typeof one === "string"
        ? testFiles({ name: one, paths: one.split("+") }, ["--no-config"])
        : one;
    return runAll(jobs.map(toJob), {
      root: new URL(`file://${this.directory}/`),
      env: { NO_COLOR: "1" },
      jobs: 2,
      stop: this.stop.signal,
      print: (text) => this.printed.push(text),
      onProgress: (text) => this.progress.push(text),
      log: (text) => this.logged += text,
      ...options,
    });
  }

  /** Returns the output about a file. */
  find(name: string): string {
    return this.printed.find((text) => text.includes(` ${name} `)) ?? "";
  }

  [Symbol.dispose](): void {
    Deno.removeSync(this.directory, { recursive: true });
  }
}

Deno.test("runAll() has a line for what passes, and a report of what fails", async () => {
  using run = new Run({ "good_test.ts": GOOD, "fails_test.ts": FAILS });
  const { tally, failures } = await run.run(["good_test.ts", "fails_test.ts"], {
    jobs: 1,
  });
  assertEquals(tally, { passed: 1, failed: 1, skipped: 1 });
  assertEquals(failures, [
    `fails
    Error: Wrong
    Alone: deno task test fails_test.ts --filter "fails"`,
  ]);
  const good = run.find("good_test.ts").replace(/\(.*\)/, "(time)");
  assertEquals(good, "ok     good_test.ts 1 passed (time)");
  const fails = run.find("fails_test.ts");
  assertStringIncludes(fails, "FAILED fails_test.ts 1 failed, 1 skipped (");
  assertStringIncludes(fails, "\n         skips (skipped: needs luck)\n");
  assertStringIncludes(fails, "\nhints\n");
  assertStringIncludes(fails, "\nerror: Error: Wrong\n");
  assertEquals(run.printed.indexOf(fails), 1, "one runs after the other");
  assertStringIncludes(run.logged, "==> good_test.ts\nrunning 1 test");
  assertStringIncludes(run.logged, "\ngood ... ok (");
  assertEquals(run.progress[0], "0 of 2: good_test.ts");
  assertEquals(run.progress.at(-1), "2 of 2, 1 failed: ");
});

Deno.test("runAll() runs files in one process, also if one does not load", async () => {
  const count = "globalThis.count = (globalThis.count ?? 0) + 1;";
  const counts = `${count} Deno.test("counts to " + count, () => {});`;
  using run = new Run({
    "a_test.ts": counts,
    "b_test.ts": 'throw new Error("not today");',
    "c_test.ts": counts,
  });
  const { tally, failures } = await run.run(["a_test.ts+b_test.ts+c_test.ts"]);
  assertEquals(tally, { passed: 2, failed: 1, skipped: 0 });
  assertStringIncludes(
    failures.join(),
    "b_test.ts loads\n    Error: not today",
  );
  assertStringIncludes(run.logged, "counts to 2");
});

/** A test that passes once another one of its kind runs beside it. */
function meet(own: string, other: string): string {
  return `
    Deno.test("meets", async () => {
      Deno.writeTextFileSync("${own}", "");
      const isThere = (path) => {
        try { return Deno.statSync(path).isFile; } catch { return false; }
      };
      for (let look = 0; !isThere("${other}"); look++) {
        if (look > 6000) throw new Error("nobody else is here");
        await new Promise((resolve) => setTimeout(resolve, 10));
      }
    });`;
}

Deno.test("runAll() runs two stress tests at a time, and others beside them", async () => {
  using run = new Run({
    "a_stress_test.ts": meet("a", "good"),
    "b_stress_test.ts": meet("b", "a"),
    "c_stress_test.ts": GOOD,
    "good_test.ts": meet("good", "b"),
  });
  const files = ["a_stress_test.ts", "b_stress_test.ts", "c_stress_test.ts"];
  const { tally } = await run.run([...files, "good_test.ts"], { jobs: 4 });
  assertEquals(tally, { passed: 4, failed: 0, skipped: 0 });
  assert(
    run.progress.every((text) => (text.match(/stress/g)?.length ?? 0) <= 2),
    run.progress.join("\n"),
  );
});

Deno.test("runAll() begins with what need not wait, then knows more variables", async () => {
  using run = new Run({
    "a_test.ts": 'Deno.test("a", () => { ' +
      'if (Deno.env.get("WHERE") !== "/bin") throw new Error("early"); });',
  });
  const place = Promise.withResolvers<TestPlace>();
  const running = run.run(["a_test.ts", EVAL], { place: place.promise });
  await eventually("it has run", () => run.find("command") !== "");
  assertStringIncludes(run.logged, "==> command\nundefined\n");
  const enter = ["env"];
  place.resolve({ enter, enterRootless: enter, env: { WHERE: "/bin" } });
  const { tally } = await running;
  assertEquals(tally, { passed: 2, failed: 0, skipped: 0 });
});

Deno.test("runAll() runs a job in a user namespace, or says why it cannot", async () => {
  using run = new Run({});
  const job: Job = { ...EVAL, needs: "rootless node" };
  const place = { enter: ["false"], env: {} };
  await run.run([job], {
    place: Promise.resolve({ ...place, enterRootless: ["env", "WHERE=there"] }),
  });
  assertStringIncludes(run.logged, "\nthere\n");
  const { tally } = await run.run([job], {
    place: Promise.resolve({ ...place, enterRootless: "needs a kernel" }),
  });
  assertEquals(tally, { passed: 0, failed: 0, skipped: 1 });
});

Deno.test("runAll() goes on after a file that dies, and says where it died", async () => {
  using run = new Run({ "dies_test.ts": DIES, "good_test.ts": GOOD });
  const { tally, failures } = await run.run(["dies_test.ts", "good_test.ts"]);
  assertEquals(tally, { passed: 1, failed: 1, skipped: 0 });
  const lines = failures.join("\n").split("\n");
  assertEquals(lines[0], "dies_test.ts died of SIGABRT");
  assertEquals(lines.at(-1), "      step ...");
});

Deno.test("runAll() says what was running when it was stopped, and what not", async () => {
  using run = new Run({ "good_test.ts": GOOD, "hangs_test.ts": HANGS });
  const running = run.run(["good_test.ts", "hangs_test.ts", "later_test.ts"], {
    jobs: 1,
  });
  await eventually(
    "the test hangs",
    () =>
      [...Deno.readDirSync(run.directory)].some(({ name }) =>
        name === "hanging"
      ),
  );
  run.stop.abort("the time is over");
  const { tally, failures } = await running;
  assertEquals(tally, { passed: 1, failed: 2, skipped: 0 });
  assertEquals(failures.map((failure) => failure.split("\n")[0]), [
    "hangs_test.ts was ended: the time is over",
    "Not run (1): the time is over",
  ]);
});

/** Runs a script in the root directory. */
async function run(
  script: string,
  onText?: (text: string) => void,
  stop = new AbortController().signal,
): Promise<ProcessEnd> {
  return await runProcess([Deno.execPath(), "eval", "--no-config", script], {
    cwd: "/",
    env: { CNI_TEST_VARIABLE: "given" },
    stop,
    ...onText === undefined ? {} : { onText },
  });
}

Deno.test("runProcess() returns both outputs in order", async () => {
  const shown: string[] = [];
  const end = await run(
    "console.log(Deno.cwd()); console.error('two');" +
      "console.log(Deno.env.get('CNI_TEST_VARIABLE')); Deno.exit(3);",
    (text) => shown.push(text),
  );
  assertEquals(end.output, "/\ntwo\ngiven\n");
  assertEquals(shown.join(""), end.output);
  const { code, signal, stopped, leftBehind } = end;
  assertEquals({ code, signal, stopped, leftBehind }, {
    code: 3,
    signal: null,
    stopped: undefined,
    leftBehind: false,
  });
});

Deno.test("runProcess() names the signal that killed a process", async () => {
  const end = await run("Deno.kill(Deno.pid, 'SIGABRT')");
  assertEquals([end.signal, end.stopped], ["SIGABRT", undefined]);
});

testRows<[string, string, Deno.Signal]>(
  "runProcess() ends a process that hangs, and its children",
  [
    ["gently", "", "SIGTERM"],
    ["by force", "Deno.addSignalListener('SIGTERM', () => {});", "SIGKILL"],
  ],
  async ([, listen, signal]) => {
    const stop = new AbortController();
    const end = await run(
      `${listen} new Deno.Command('sleep', { args: ['60'] }).spawn();` +
        "console.log(Deno.pid); while (true);",
      () => stop.abort("the time is over"),
      stop.signal,
    );
    assertEquals([end.signal, end.stopped], [signal, "the time is over"]);
    await waitUntilDead(Number(end.output));
  },
);

Deno.test("runProcess() starts nothing to last if it is to stop already", async () => {
  const stop = AbortSignal.abort("never mind");
  const end = await run("while (true);", undefined, stop);
  assertEquals(end.stopped, "never mind");
});

Deno.test("runProcess() does not wait for what a process left behind", async () => {
  const end = await run(
    "new Deno.Command('sleep', { args: ['60'] }).spawn();" +
      "console.log(Deno.pid); Deno.exit(0);",
  );
  assertEquals([end.leftBehind, end.code], [true, 0]);
  await waitUntilDead(Number(end.output));
});

/** Runs a process until the time is over, in a process that hears signals. */
async function runUntil(
  limitMs: number,
  onReady: (child: Deno.ChildProcess) => void,
): Promise<string> {
  const script =
    'import { createStop, runProcess } from "./scripts/test/run.ts";' +
    'const hang = "console.log(Deno.pid); while (true);";' +
    'const command = [Deno.execPath(), "eval", "--no-config", hang];' +
    'const end = await runProcess(command, { cwd: "/", env: {},' +
    `stop: createStop(${limitMs}), onText: (text) => console.log(text) });` +
    "console.log(end.stopped);";
  await using child = new Deno.Command(Deno.execPath(), {
    args: ["eval", "--no-lock", script],
    cwd: ROOT,
    stdout: "piped",
  }).spawn();
  let text = "";
  for await (const part of child.stdout.pipeThrough(new TextDecoderStream())) {
    if (text === "") onReady(child);
    text += part;
  }
  if (/^\d/.test(text)) await waitUntilDead(parseInt(text));
  return text.trim().split("\n").at(-1) ?? "";
}

testRows(
  "createStop() hears what ends this process, which takes its own along",
  ["SIGINT", "SIGTERM", "SIGHUP"] as const,
  async (signal) => {
    const text = await runUntil(60_000, (child) => child.kill(signal));
    assertEquals(text, `${signal} has come`);
  },
);

Deno.test("createStop() says which limit is over", async () => {
  const text = await runUntil(50, () => {});
  assertEquals(text, "the limit of 0.05 s for all tests is over");
});
