import {
  assert,
  assertEquals,
  assertInstanceOf,
  assertMatch,
  assertRejects,
  assertStringIncludes,
  assertThrows,
} from "@std/assert";
import {
  hasCommand,
  ignoreUnless,
  requireRoot,
} from "../testing/capabilities.ts";
import { type ExactProgram, PreparedProgram } from "./bench/process.ts";
import { fetchDeno } from "./compile/fetch_deno.ts";
import { getOwnTarget, type Target } from "./compile/target.ts";
import { exists } from "./exists.ts";
import { makeDenort, makeDenortFile } from "./mkdenort.ts";
import { parseElf } from "./mkdenort/elf.ts";
import { makeSampleElf, SAMPLE_ENTRY } from "./mkdenort/elf_sample.ts";
import { NO_ARGUMENTS_STATUS } from "./mkdenort/stub.ts";
import { eachRow, testRows } from "../tests/_harness/table.ts";

/** A program that runs the command in its first argument; by default it reports on itself. */
const PROBE = `
const [verb] = Deno.args;
const exits = {
  exit: () => Deno.exit(42),
  exitCode: () => { Deno.exitCode = 7; },
  throw: () => { throw new Error("on purpose"); },
  reject: () => { Promise.reject(new Error("on purpose")); },
  signal: () => { Deno.kill(Deno.pid, "SIGTERM"); },
  stdin: () => Deno.stdin.readable.pipeTo(Deno.stdout.writable),
  stderr: () => { Deno.stderr.writeSync(new TextEncoder().encode("oops")); },
  wait: () => { setTimeout(() => {}, 700); },
  child: () => {
    const { stdout } = new Deno.Command("env").outputSync();
    Deno.stdout.writeSync(stdout);
  },
};
(exits[verb] ?? report)();
function report() {
  console.log(JSON.stringify({
    args: Deno.args,
    cmdline: Deno.readTextFileSync("/proc/self/cmdline").split("\\0"),
    cwd: Deno.cwd(),
    env: Deno.env.toObject(),
  }));
}
`;

/** The report of the probe. */
interface Report {
  readonly args: string[];
  readonly cmdline: string[];
  readonly cwd: string;
  readonly env: Record<string, string>;
}

/** Variables that make an ordinary deno not run the program. */
const HOSTILE = {
  COMPLETE: "bash",
  DENO_COVERAGE_DIR: "/tmp/coverage",
  DENO_DIR: "/tmp/deno_dir",
  DENO_LOG: "trace",
  DENO_PERMISSION_BROKER_PATH: "/nonexistent",
  DENO_UNSTABLE_CONTROL_SOCK: "tcp:127.0.0.1:1",
  DENO_V8_FLAGS: "--help",
  FORCE_COLOR: "3",
  HOME: "/nowhere",
  JSR_URL: "nonsense",
  NODE_CHANNEL_FD: "77",
  NODE_OPTIONS: "--nonsense",
  NO_COLOR: "",
  NPM_CONFIG_REGISTRY: "::",
  OTEL_DENO: "true",
  SSLKEYLOGFILE: "/tmp/keys",
} as const;

/** Variables that do not concern deno, or only seem to. */
const HARMLESS = {
  DENO: "1",
  HOMES: "2",
  LD_BIND_NOW: "1",
  NODE: "3",
  PATH: "/usr/bin:/bin",
} as const;

interface Outcome {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** A compiled probe. */
interface Probe extends AsyncDisposable {
  /** Where it is, for itself alone. */
  readonly directory: string;
  readonly path: string;
  readonly denort: string;
  /** What starts it: the emulator, where this machine cannot run it, and its path. */
  readonly command: readonly string[];
}

const decode = (bytes: Uint8Array): string => new TextDecoder().decode(bytes);

/** Runs a command with an environment that has nothing but `env`. */
async function run(
  [command = "", ...args]: readonly string[],
  { env = {}, stdin = "" }: {
    readonly env?: Readonly<Record<string, string>>;
    readonly stdin?: string;
  } = {},
): Promise<Outcome> {
  await using child = new Deno.Command(command, {
    args,
    clearEnv: true,
    env,
    stdin: stdin === "" ? "null" : "piped",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  if (stdin !== "") await new Response(stdin).body?.pipeTo(child.stdin);
  const { code, stdout, stderr } = await child.output();
  return { code, stdout: decode(stdout), stderr: decode(stderr) };
}

/** Compiles a script with a stand-in for `denort`. */
async function compileScript(
  script: string,
  output: string,
  denort: string,
  ...rest: string[]
): Promise<void> {
  const { success, stderr } = await new Deno.Command(Deno.execPath(), {
    args: [
      ...["compile", "-A", "--no-check", "--no-config", "--no-code-cache"],
      ...["-o", output, ...rest.filter((arg) => arg.startsWith("--")), script],
      ...rest.filter((arg) => !arg.startsWith("--")),
    ],
    env: { DENORT_BIN: denort },
  }).output();
  assert(success, decode(stderr));
}

/** Creates a stand-in from `deno`, and the probe with it. */
async function makeProbe(
  deno: string,
  target: Target,
  emulator: readonly string[] = [],
): Promise<Probe> {
  const directory = await Deno.makeTempDir({ prefix: "denort_" });
  const denort = `${directory}/denort`;
  const script = `${directory}/probe.js`;
  const path = `${directory}/probe`;
  await makeDenortFile(deno, denort);
  await Deno.writeTextFile(script, PROBE);
  await compileScript(script, path, denort, `--target=${target}`);
  return {
    directory,
    path,
    denort,
    command: [...emulator, path],
    [Symbol.asyncDispose]: () => Deno.remove(directory, { recursive: true }),
  };
}

function readReport({ stdout, stderr, code }: Outcome): Report {
  assertEquals({ code, stderr }, { code: 0, stderr: "" });
  return JSON.parse(stdout);
}

/** Tries what must hold on every machine. */
async function tryProbe(t: Deno.TestContext, probe: Probe): Promise<void> {
  const { command, directory, path } = probe;

  await t.step("it sees the environment as the caller gave it", async () => {
    const env = { ...HOSTILE, ...HARMLESS };
    const report = readReport(await run([...command, "x"], { env }));
    assertEquals(report.env, env);
  });
  await t.step("it sees the arguments as the caller gave them", async () => {
    const args = ["--help", "-A", "--", "", "a b", "é", "--v8-flags=--help"];
    const report = readReport(await run([...command, ...args]));
    assertEquals(report.args, args);
    assertEquals(report.cmdline, [path, ...args, ""]);
  });
  await t.step("it starts with an empty environment", async () => {
    assertEquals(readReport(await run(command)).env, {});
  });
  await t.step("it starts in a directory that was deleted", async () => {
    const gone = `${directory}/gone`;
    const script = `mkdir ${gone}; cd ${gone}; rmdir ${gone}; exec "$@"`;
    const outcome = await run(["/bin/sh", "-c", script, "sh", ...command]);
    assertEquals(readReport(outcome).cwd, "/");
  });
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

/** Runs a program with any arguments and environment that the kernel accepts. */
function runExactly(
  program: Pick<ExactProgram, "path" | "argv" | "environment">,
): { readonly code: number; readonly stdout: string } {
  const stdout = Deno.makeTempFileSync();
  const files = { stdin: "/dev/null", stdout, stderr: "/dev/null" };
  using prepared = new PreparedProgram({ ...program, ...files });
  const { code } = prepared.run();
  const text = Deno.readTextFileSync(stdout);
  Deno.removeSync(stdout);
  return { code, stdout: text };
}

/** Tries what only the kernel can be asked for, and what only this machine runs. */
async function tryOddCalls(t: Deno.TestContext, probe: Probe): Promise<void> {
  const { path } = probe;
  const report = (environment: string[], argv = ["probe"]): Report =>
    readReport({ ...runExactly({ path, argv, environment }), stderr: "" });

  await t.step("argv[0] stays as it is", () => {
    const { cmdline } = report([], ["/opt/cni/bin/ptp", "x"]);
    assertEquals(cmdline, ["/opt/cni/bin/ptp", "x", ""]);
  });
  await t.step("argv[0] may be empty", () => {
    assertEquals(report([], ["", "x"]).args, ["x"]);
  });
  await t.step("an empty argv starts or fails, but does not crash", () => {
    // Linux before 5.18 gives us argc 0; after it, one empty argument.
    const { code } = runExactly({ path, argv: [], environment: [] });
    assert(code === 0 || code === NO_ARGUMENTS_STATUS, `status ${code}`);
  });
  await t.step("entries without = are not variables", () => {
    const { env } = report(["HOME", "HOMER", "", "=", "=x", "DENO_", "A=1"]);
    assertEquals(env, { A: "1" });
  });
  await t.step("of two variables with one name the first counts", () => {
    const twice = ["HOME=a", "HOME=b", "DENO_X=a", "DENO_X=b", "NO_COLOR=a"];
    const { env } = report(twice);
    assertEquals(env, { HOME: "a", DENO_X: "a", NO_COLOR: "a" });
  });
  await t.step("a variable may be long", () => {
    const value = "x".repeat(100_000);
    const { env } = report([`DENO_LONG=${value}`, `LONG=${value}`]);
    assertEquals(env, { DENO_LONG: value, LONG: value });
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
  const trace = ignoreUnless(hasCommand("strace"), "needs strace");
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
  const terminal = ignoreUnless(hasCommand("script"), "needs script");
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
  await t.step({
    ...requireRoot("it starts on a read-only root, whatever is in ~/.npmrc"),
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
  await using probe = await makeProbe(Deno.execPath(), getOwnTarget());
  await tryProbe(t, probe);
  await tryEnds(t, probe);
  await tryOddCalls(t, probe);
  await tryQuietness(t, probe);
  await tryUnsuitable(t, probe);
});

/** How long the npm registry may take to send 35 MB. */
const FETCH_TIMEOUT_MS = 20_000;

/** The other machine, libraries for it, and its deno, if this machine can run it. */
const arm64 = await findArm64();

async function findArm64(): Promise<
  { readonly emulator: readonly string[]; readonly deno: string } | string
> {
  if (getOwnTarget() !== "x86_64-unknown-linux-gnu") return "is tested above";
  const libraries = Deno.env.get("QEMU_LD_PREFIX") ?? "/usr/aarch64-linux-gnu";
  if (!hasCommand("qemu-aarch64")) return "needs qemu-user";
  if (!exists(`${libraries}/lib/libgcc_s.so.1`)) {
    return "needs libc6-arm64-cross and libgcc-s1-arm64-cross";
  }
  try {
    const limit = AbortSignal.timeout(FETCH_TIMEOUT_MS);
    const { path } = await fetchDeno("aarch64-unknown-linux-gnu", limit);
    return { emulator: ["qemu-aarch64", "-L", libraries], deno: path };
  } catch {
    return "needs deno for arm64 from the npm registry";
  }
}

Deno.test({
  name: `makeDenort() gives a runtime for arm64${
    typeof arm64 === "string" ? ` (skipped: ${arm64})` : ""
  }`,
  ignore: typeof arm64 === "string",
  fn: async (t) => {
    if (typeof arm64 === "string") return;
    const { deno, emulator } = arm64;
    const target = "aarch64-unknown-linux-gnu";
    await using probe = await makeProbe(deno, target, emulator);
    await tryProbe(t, probe);
  },
});

testRows("makeDenort() makes the executable start in its new segment", [
  62,
  183,
], (machine) => {
  const deno = makeSampleElf({ machine });
  const denort = makeDenort(deno);
  const { entry, segments } = parseElf(denort);
  assertEquals(segments.at(-1)?.type, 1);
  assertEquals(segments.at(-1)?.address, entry);
  assertEquals(denort, makeDenort(deno), "always the same");
  assertEquals(parseElf(deno).entry, SAMPLE_ENTRY);
}, (machine) => `machine ${machine}`);

Deno.test("makeDenort() refuses what is not a deno", () => {
  assertThrows(
    () => makeDenort(new TextEncoder().encode("#!/bin/sh\n".repeat(10))),
    Error,
    "expected ELF magic 0x7f454c46, found 0x23212f62",
  );
  assertThrows(
    () => makeDenort(makeSampleElf({ imports: ["setenv"] })),
    Error,
    'expected an import of "getcwd", found none',
  );
});

Deno.test("makeDenortFile() leaves nothing behind when it fails", async () => {
  const directory = await Deno.makeTempDir();
  const output = `${directory}/denort`;
  const error = await assertRejects(
    () => makeDenortFile("/bin/sh/nothing", output),
    Error,
    'Cannot make a stand-in for denort from "/bin/sh/nothing"',
  );
  assertInstanceOf(error.cause, Deno.errors.NotADirectory);
  await Deno.remove(directory); // fails if there is something in it
});
