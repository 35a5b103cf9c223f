import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { eventually } from "../../tests/_harness/eventually.ts";
import { checkTypes, type Job, testFiles, type TestPlace } from "./jobs.ts";
import {
  formatOutcome,
  runAll,
  type RunOptions,
  type RunResult,
} from "./run_all.ts";

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

const FLAGS = ["--no-config"];

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
    { testArgs = [], ...options }:
      & { readonly testArgs?: readonly string[] }
      & Partial<
        Pick<
          RunOptions,
          "jobs" | "verbose" | "more" | "measureIdle" | "place"
        >
      > = {},
  ): Promise<RunResult> {
    const toJob = (one: string | Job): Job =>
      typeof one === "string"
        ? testFiles({ name: one, paths: one.split("+") }, {
          flags: FLAGS,
          testArgs,
        })
        : one;
    return runAll(jobs.map(toJob), {
      root: new URL(`file://${this.directory}/`),
      env: { NO_COLOR: "1" },
      jobs: 2,
      verbose: false,
      durations: { whole: 60, files: {} },
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
  assertEquals(failures.map(({ name }) => name), [
    "fails => ./fails_test.ts:1:6",
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
});

Deno.test("runAll() runs files in one process, also if one does not load", async () => {
  const count = "globalThis.count = (globalThis.count ?? 0) + 1;";
  const counts = `${count} Deno.test("counts to " + count, () => {});`;
  using run = new Run({
    "a_test.ts": counts,
    "b_test.ts": 'throw new Error("not today");',
    "c_test.ts": counts,
  });
  const { tally, failures } = await run.run(
    ["a_test.ts+b_test.ts+c_test.ts"],
    { verbose: true },
  );
  assertEquals(tally, { passed: 2, failed: 1, skipped: 0 });
  assertEquals(
    failures.map(({ name, lines }) => [name.split(" => ")[0], lines[0]]),
    [["b_test.ts loads", "error: Error: not today"]],
  );
  assertStringIncludes(
    run.find("a_test.ts+b_test.ts+c_test.ts"),
    "counts to 2",
  );
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

Deno.test("runAll() begins more than its jobs while a processor is idle", async () => {
  using run = new Run({
    "a_test.ts": meet("a", "d"),
    "b_test.ts": meet("b", "c"),
    "c_test.ts": meet("c", "a"),
    "d_test.ts": meet("d", "b"),
  });
  const files = ["a_test.ts", "b_test.ts", "c_test.ts", "d_test.ts"];
  const { tally } = await run.run(files, { more: 2, measureIdle: () => 1 });
  assertEquals(tally, { passed: 4, failed: 0, skipped: 0 });
});

Deno.test("runAll() begins no more while all processors are busy", async () => {
  using run = new Run({ "good_test.ts": GOOD });
  const waits: Job = {
    ...checkTypes(FLAGS),
    args: ["eval", "--no-config", "setTimeout(() => {}, 1500)"],
  };
  const files = [waits, { ...waits, name: "more" }, "good_test.ts"];
  await run.run(files, { more: 2, measureIdle: () => 0.2 });
  const names = run.progress.map((text) => text.split(": ")[1]);
  assert(!names.includes("types more good_test.ts"), names.join("\n"));
});

Deno.test("runAll() begins with what need not wait, then knows more variables", async () => {
  using run = new Run({
    "a_test.ts": 'Deno.test("a", () => { ' +
      'if (Deno.env.get("CNI_BIN") !== "/bin") throw new Error("early"); });',
  });
  const place = Promise.withResolvers<TestPlace>();
  const soon: Job = {
    ...checkTypes(FLAGS),
    name: "soon",
    args: ["eval", "--no-config", 'console.log(Deno.env.get("CNI_BIN"))'],
  };
  const running = run.run(["a_test.ts", soon], {
    verbose: true,
    place: place.promise,
  });
  await eventually("it has run", () => run.find("soon") !== "");
  assertStringIncludes(run.find("soon"), `\n${Deno.env.get("CNI_BIN")}\n`);
  const enter = ["env"];
  place.resolve({ enter, enterRootless: enter, env: { CNI_BIN: "/bin" } });
  const { tally } = await running;
  assertEquals(tally, { passed: 2, failed: 0, skipped: 0 });
});

Deno.test("runAll() runs a job in a user namespace, or says why it cannot", async () => {
  using run = new Run({});
  const job: Job = {
    ...checkTypes(FLAGS),
    args: ["eval", "--no-config", 'console.log(Deno.env.get("WHERE"))'],
    needs: "rootless node",
  };
  const placed = (enterRootless: TestPlace["enterRootless"]) => ({
    verbose: true,
    place: Promise.resolve({ enter: ["false"], enterRootless, env: {} }),
  });
  await run.run([job], placed(["env", "WHERE=there"]));
  assertStringIncludes(run.find("types"), "\nthere\n");
  const { tally } = await run.run([job], placed("needs a kernel"));
  assertEquals(tally, { passed: 0, failed: 0, skipped: 1 });
});

Deno.test("runAll() runs two stress tests at a time, and others beside them", async () => {
  using run = new Run({
    "a_stress_test.ts": meet("a", "good"),
    "b_stress_test.ts": meet("b", "a"),
    "c_stress_test.ts": GOOD,
    "good_test.ts": meet("good", "b"),
  });
  const files = [
    "a_stress_test.ts",
    "b_stress_test.ts",
    "c_stress_test.ts",
    "good_test.ts",
  ];
  const { tally } = await run.run(files, { more: 2, measureIdle: () => 1 });
  assertEquals(tally, { passed: 4, failed: 0, skipped: 0 });
  assert(
    run.progress.every((text) => (text.match(/stress/g)?.length ?? 0) <= 2),
    run.progress.join("\n"),
  );
});

Deno.test("runAll() says how far it is", async () => {
  using run = new Run({ "good_test.ts": GOOD, "fails_test.ts": FAILS });
  const { seconds } = await run.run(["good_test.ts", "fails_test.ts"], {
    jobs: 1,
  });
  assertEquals(run.progress[0], "0 of 2, about 60 s left: good_test.ts");
  assertEquals(run.progress.at(-1), "2 of 2, 1 failed, about 10 s left: ");
  assertEquals(Object.keys(seconds), ["good_test.ts", "fails_test.ts"]);
});

Deno.test("runAll() gives deno what else it shall be told", async () => {
  using run = new Run({ "fails_test.ts": FAILS });
  const { tally } = await run.run(["fails_test.ts"], {
    testArgs: ["--filter", "skips"],
  });
  assertEquals(tally, { passed: 0, failed: 0, skipped: 1 });
});

Deno.test("runAll() shows everything if told to", async () => {
  using run = new Run({ "good_test.ts": GOOD });
  await run.run(["good_test.ts"], { verbose: true });
  assertStringIncludes(run.find("good_test.ts"), "\ngood ... ok (");
});

Deno.test("runAll() goes on after a file that dies, and says where it died", async () => {
  using run = new Run({ "dies_test.ts": DIES, "good_test.ts": GOOD });
  const { tally, failures } = await run.run(["dies_test.ts", "good_test.ts"]);
  assertEquals(tally, { passed: 2, failed: 1, skipped: 0 });
  assertEquals(failures.map(({ name }) => name), [
    'dies_test.ts died of SIGABRT in the test "second ... step"',
  ]);
  assertEquals(failures[0]?.lines.at(-1), "  step ...");
});

/** Fails for want of something, unless it has run before. */
const STARVES = 'Deno.test("starves", () => {' +
  ' try { Deno.statSync("before"); } catch {' +
  ' Deno.writeTextFileSync("before", "");' +
  ' throw new Error("unable to create worker threads"); } });';

Deno.test("runAll() runs a file again that the machine could not run", async () => {
  using run = new Run({ "good_test.ts": GOOD, "starves_test.ts": STARVES });
  const files = ["starves_test.ts", "good_test.ts"];
  const { tally, failures } = await run.run(files);
  assertEquals([tally, failures], [{ passed: 2, failed: 0, skipped: 0 }, []]);
  assertStringIncludes(
    run.find("starves_test.ts"),
    "\n         the machine ran out of threads or processes\n",
  );
  assertStringIncludes(run.printed.at(-1) ?? "", "ok     starves_test.ts 1");
});

Deno.test("runAll() runs no file a third time", async () => {
  const always = 'Deno.test("a", () => { throw new Error("os error 28"); });';
  using run = new Run({ "full_test.ts": always });
  const { tally, failures } = await run.run(["full_test.ts"]);
  assertEquals([tally.failed, failures.length], [1, 1]);
  assertEquals(run.printed.length, 2);
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
  const [unrun, ended] = failures;
  assertEquals(unrun, {
    name: "Not run (1): the time is over",
    lines: ["later_test.ts"],
  });
  assertEquals(
    ended?.name,
    'hangs_test.ts was ended in the test "hangs": the time is over',
  );
});

Deno.test("runAll() checks types, which counts as a test", async () => {
  using run = new Run({ "good_test.ts": `${GOOD} const n: number = "";` });
  const types = checkTypes(FLAGS);
  const { tally, failures } = await run.run([types, "good_test.ts"]);
  assertEquals(tally, { passed: 1, failed: 1, skipped: 0 });
  assertEquals(failures.map(({ name }) => name), [
    "types failed: exit code 1",
  ]);
  assert(run.find("types").includes("TS2322"));
});

Deno.test("formatOutcome() omits empty parts", () => {
  const none = { passed: 0, failed: 0, skipped: 0 };
  const outcome = {
    tally: none,
    conformance: none,
    rows: [],
    skipped: [],
    failures: [],
    trouble: undefined,
    limit: undefined,
    report: "",
  };
  assertEquals(formatOutcome("types", 1234, outcome), "ok     types (1.2 s)");
});
