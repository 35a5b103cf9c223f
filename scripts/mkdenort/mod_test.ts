import {
  assert,
  assertEquals,
  assertInstanceOf,
  assertMatch,
  assertRejects,
  assertStringIncludes,
  assertThrows,
} from "@std/assert";
import { parseElf } from "./elf.ts";
import { makeSampleElf, SAMPLE_ENTRY } from "./testing/sample_elf.ts";
import { makeDenort, makeDenortFile } from "./mod.ts";
import {
  compileScript,
  HARMLESS,
  HOSTILE,
  makeProbe,
  type Outcome,
  type Probe,
  readReport,
  type Report,
  run,
  tryProbe,
} from "./testing/probe.ts";
import { hasCommand, ignoreUnless } from "../../testing/capabilities.ts";
import { eachRow, testRows } from "../../tests/_harness/table.ts";

/** Returns how to skip a step unless there is a command. */
function needCommand(name: string): ReturnType<typeof ignoreUnless> {
  return ignoreUnless(hasCommand(name), `needs ${name}`);
}

const ends: {
  readonly verb: string;
  readonly code: number;
  readonly stdin?: string;
  readonly stdout?: string;
  readonly stderr?: string;
}[] = [
  { verb: "exit", code: 42 },
  { verb: "exitCode", code: 7 },
  { verb: "throw", code: 1, stderr: "Error: on purpose" },
  { verb: "reject", code: 1, stderr: "Error: on purpose" },
  { verb: "signal", code: 143 },
  { verb: "stdin", code: 0, stdin: "in and out", stdout: "in and out" },
  { verb: "stderr", code: 0, stderr: "oops" },
];

// deno-lint-ignore no-control-regex -- the terminal's own codes are meant
const COLOR = /\x1b/;

function assertNotMatch(text: string, unwanted: RegExp): void {
  assert(!unwanted.test(text), `${JSON.stringify(text)} has ${unwanted}`);
}

async function tryEnds(t: Deno.TestContext, probe: Probe): Promise<void> {
  for (const { verb, stdin = "", code, stdout = "", stderr = "" } of ends) {
    await t.step(`"${verb}" ends with ${code}`, async () => {
      const outcome = await run([probe.path, verb], { env: HOSTILE, stdin });
      assertEquals(outcome.code, code);
      assertEquals(outcome.stdout, stdout);
      assertStringIncludes(outcome.stderr, stderr);
      assertNotMatch(outcome.stderr, COLOR);
    });
  }
}

/** Replaces a deno by a program, with any arguments and environment that the kernel accepts. */
const EXECVE = `
const [path, argv, environment] = JSON.parse(Deno.args[0]);
const { symbols } = Deno.dlopen("libc.so.6", {
  execve: { parameters: ["buffer", "buffer", "buffer"], result: "i32" },
});
const texts = [];
const encode = (text) => {
  texts.push(new TextEncoder().encode(text + "\\0"));
  return texts.at(-1);
};
const list = (all) => BigUint64Array.of(...all.map(encode).map((text) =>
  Deno.UnsafePointer.value(Deno.UnsafePointer.of(text))), 0n);
symbols.execve(encode(path), list(argv), list(environment));
throw new Error("Cannot execute " + texts.length);
`;

async function runExactly(
  path: string,
  argv: readonly string[],
  environment: readonly string[],
): Promise<Outcome> {
  const call = JSON.stringify([path, argv, environment]);
  const script = `data:text/javascript,${encodeURIComponent(EXECVE)}`;
  return await run(
    [Deno.execPath(), "run", "-A", "--no-config", "--no-lock", script, call],
    { env: { DENO_DIR: "/dev/null/deno", DENO_NO_UPDATE_CHECK: "1" } },
  );
}

/** Tries what only the kernel can be asked for. */
async function tryOddCalls(t: Deno.TestContext, probe: Probe): Promise<void> {
  const { path } = probe;
  const report = async (
    environment: string[],
    argv = ["probe"],
  ): Promise<Report> => readReport(await runExactly(path, argv, environment));

  await t.step("argv[0] stays as it is", async () => {
    const { cmdline } = await report([], ["/opt/cni/bin/ptp", "x"]);
    assertEquals(cmdline, ["/opt/cni/bin/ptp", "x", ""]);
  });
  await t.step("argv[0] may be empty", async () => {
    assertEquals((await report([], ["", "x"])).args, ["x"]);
  });
  await t.step(
    "an empty argv starts or fails, but does not crash",
    async () => {
      // Linux before 5.18 gives us argc 0, and we fail as a shell that does not find
      // the command; after it, one empty argument.
      const { code } = await runExactly(path, [], []);
      assert(code === 0 || code === 127, `status ${code}`);
    },
  );
  await t.step("entries without = are not variables", async () => {
    const { env } = await report([
      "HOME",
      "HOMER",
      "",
      "=",
      "=x",
      "DENO_",
      "A=1",
    ]);
    assertEquals(env, { A: "1" });
  });
  await t.step("of two variables with one name the first counts", async () => {
    const twice = ["HOME=a", "HOME=b", "DENO_X=a", "DENO_X=b", "NO_COLOR=a"];
    const { env } = await report(twice);
    assertEquals(env, { HOME: "a", DENO_X: "a", NO_COLOR: "a" });
  });
  await t.step("a variable may be long", async () => {
    const env = { DENO_LONG: "x".repeat(100_000), LONG: "y".repeat(100_000) };
    assertEquals(readReport(await run([path], { env })).env, env);
  });
  await t.step("children get the caller's environment as it is", async () => {
    const env = { ...HOSTILE, ...HARMLESS };
    const { stdout } = await run([path, "child"], { env });
    const lines = Object.entries(env).map((entry) => entry.join("="));
    assertEquals(stdout.trim().split("\n").sort(), lines.sort());
  });
}

/** System calls that change files or reach out, as strace shows them. */
const CHANGES = [
  /^\d+ +open\w*\(.*O_(WRONLY|RDWR|CREAT|TRUNC)/,
  /^\d+ +(mkdir|rmdir|unlink|rename|symlink|link|mknod|utime)\w*\(/,
  /^\d+ +f?(truncate|chmod|chown)\w*\(/,
  /^\d+ +(creat|socket|connect|bind|listen)\(/,
];

/** Nothing can exist below `/dev/null`, so that is where deno's caches have to go. */
function isChange(call: string): boolean {
  return CHANGES.some((change) => change.test(call)) &&
    !call.includes('"/dev/null/deno');
}

/** Tries that it leaves the machine alone. */
async function tryQuietness(t: Deno.TestContext, probe: Probe): Promise<void> {
  const { directory, path } = probe;
  const trace = needCommand("strace");
  await t.step({
    name: `it writes no file and opens no socket${trace.suffix}`,
    ignore: trace.ignore,
    fn: async () => {
      const log = `${directory}/strace`;
      const env = { ...HOSTILE, ...HARMLESS };
      const { code, stderr } = await run(
        ["strace", "-f", "-o", log, path, "wait"],
        { env },
      );
      assertEquals({ code, stderr }, { code: 0, stderr: "" });
      const calls = (await Deno.readTextFile(log)).split("\n");
      assert(calls.some((call) => call.includes('"/proc/self/exe"')));
      assertEquals(calls.filter(isChange), []);
    },
  });
  const terminal = needCommand("script");
  await t.step({
    name: `it says nothing of its own on a terminal${terminal.suffix}`,
    ignore: terminal.ignore,
    fn: async () => {
      const script = ["script", "-qec", `${path} throw`, "/dev/null"];
      const env = { ...HARMLESS, TERM: "xterm" };
      const { code, stdout } = await run(script, { env });
      assertEquals(code, 1);
      assertMatch(stdout, /^error: Uncaught \(in promise\) Error: on purpose/);
      assertNotMatch(stdout, COLOR);
    },
  });
  const canRemount = canRemountRoot();
  await t.step({
    name: "it starts on a read-only root, whatever is in ~/.npmrc" +
      (canRemount ? "" : " (skipped: needs root, and / as a mount point)"),
    ignore: !canRemount,
    fn: async () => {
      await Deno.writeTextFile(`${directory}/.npmrc`, "registry=::nonsense");
      const script = "mount --make-rprivate / && " +
        'mount -o remount,bind,ro / && ! touch /denort_test && exec "$@"';
      const { stdout } = await run(
        ["unshare", "-m", "/bin/sh", "-c", script, "sh", path],
        { env: { HOME: directory, PATH: HARMLESS.PATH } },
      );
      assertEquals(JSON.parse(stdout).env.HOME, directory);
    },
  });
}

/** Reports whether this process may remount `/`, which in a chroot may be no mount. */
function canRemountRoot(): boolean {
  const args = ["-m", "mount", "-o", "remount,bind,ro", "/"];
  const stdio = { stdout: "null", stderr: "null" } as const;
  return Deno.uid() === 0 &&
    new Deno.Command("unshare", { args, ...stdio }).outputSync().success;
}

/** Programs that the stand-in cannot run, and its error for each. */
const unsuitable: {
  readonly name: string;
  readonly files: Readonly<Record<string, string>>;
  readonly flags?: readonly string[];
  readonly message: string;
}[] = [
  {
    name: "two files",
    files: { "main.js": 'import "./other.js";', "other.js": "1" },
    message: "the program must be one file",
  },
  {
    name: "built-in arguments",
    files: { "main.js": "1" },
    flags: ["built-in"],
    message: "arguments cannot be built in",
  },
  {
    name: "a module",
    files: { "main.js": "export {};" },
    message: "SyntaxError: Unexpected token 'export'",
  },
];

async function tryUnsuitable(t: Deno.TestContext, probe: Probe): Promise<void> {
  const { directory, denort } = probe;
  await eachRow(t, unsuitable, async ({ files, flags = [], message }) => {
    for (const [file, text] of Object.entries(files)) {
      await Deno.writeTextFile(`${directory}/${file}`, text);
    }
    const [script, output] = [`${directory}/main.js`, `${directory}/main`];
    await compileScript(script, output, denort, ...flags);
    const { code, stderr } = await run([output]);
    assertEquals(code, 1);
    assertStringIncludes(stderr, message);
  }, ({ name }) => `it refuses ${name}`);
  await t.step("it reports a missing program", async () => {
    const { code, stderr } = await run([denort]);
    assertEquals(code, 1);
    assertStringIncludes(stderr, "denort stand-in: no program is attached");
  });
}

Deno.test("makeDenort() gives a runtime that runs a program and nothing else", async (t) => {
  await using probe = await makeProbe(Deno.execPath());
  await tryProbe(t, probe);
  await tryOddCalls(t, probe);
  await tryEnds(t, probe);
  await tryQuietness(t, probe);
  await tryUnsuitable(t, probe);
});

testRows("makeDenort() makes the executable start in its new segment", [
  62,
  183,
], (machine) => {
  const deno = makeSampleElf({ machine });
  const denort = makeDenort(deno, []);
  const { entry, segments } = parseElf(denort);
  assertEquals(segments.at(-1)?.type, 1);
  assertEquals(segments.at(-1)?.address, entry);
  assertEquals(denort, makeDenort(deno, []), "always the same");
  assertEquals(parseElf(deno).entry, SAMPLE_ENTRY);
}, (machine) => `machine ${machine}`);

Deno.test("makeDenort() refuses what is not a deno", () => {
  assertThrows(
    () => makeDenort(new TextEncoder().encode("#!/bin/sh\n".repeat(10)), []),
    Error,
    "expected ELF magic 0x7f454c46, found 0x23212f62",
  );
  assertThrows(
    () => makeDenort(makeSampleElf({ imports: ["setenv"] }), []),
    Error,
    'expected an import of "getcwd", found none',
  );
});

Deno.test("makeDenortFile() leaves nothing behind when it fails", async () => {
  const directory = await Deno.makeTempDir();
  const output = `${directory}/denort`;
  const error = await assertRejects(
    () => makeDenortFile("/bin/sh/nothing", output, []),
    Error,
    'Cannot make a stand-in for denort from "/bin/sh/nothing"',
  );
  assertInstanceOf(error.cause, Deno.errors.NotADirectory);
  await Deno.remove(directory); // fails if there is something in it
});

Deno.test("makeDenort() puts V8's flags into the command line", () => {
  const denort = makeDenort(makeSampleElf(), ["--max-lazy", "--jitless"]);
  assertStringIncludes(
    new TextDecoder("latin1").decode(denort),
    "\0--ext=js\0--v8-flags=--max-lazy,--jitless\0",
  );
});
