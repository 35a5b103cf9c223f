/**
 * A program that reports on itself, compiled with a stand-in.
 *
 * @module
 */

import { assert, assertEquals } from "@std/assert";
import { makeDenortFile } from "../mod.ts";

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
export interface Report {
  readonly args: string[];
  readonly cmdline: string[];
  readonly cwd: string;
  readonly env: Record<string, string>;
}

/** Variables that make an ordinary deno not run the program. */
export const HOSTILE = {
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
export const HARMLESS = {
  DENO: "1",
  HOMES: "2",
  LD_BIND_NOW: "1",
  NODE: "3",
  PATH: "/usr/bin:/bin",
} as const;

export interface Outcome {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** A compiled probe. */
export interface Probe extends AsyncDisposable {
  /** Where it is, for itself alone. */
  readonly directory: string;
  readonly path: string;
  readonly denort: string;
  /** What starts it: the emulator, where this machine cannot run it, and its path. */
  readonly command: readonly string[];
}

const decode = (bytes: Uint8Array): string => new TextDecoder().decode(bytes);

/** Runs a command with an environment that has nothing but `env`. */
export async function run(
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
export async function compileScript(
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

/**
 * Creates a stand-in from `deno`, and the probe with it.
 *
 * @param target By default this machine
 */
export async function makeProbe(
  deno: string,
  target?: string,
  emulator: readonly string[] = [],
): Promise<Probe> {
  const directory = await Deno.makeTempDir({ prefix: "denort_" });
  const denort = `${directory}/denort`;
  const script = `${directory}/probe.js`;
  const path = `${directory}/probe`;
  await makeDenortFile(deno, denort, ["--single-threaded"]);
  await Deno.writeTextFile(script, PROBE);
  const other = target === undefined ? [] : [`--target=${target}`];
  await compileScript(script, path, denort, ...other);
  return {
    directory,
    path,
    denort,
    command: [...emulator, path],
    [Symbol.asyncDispose]: () => Deno.remove(directory, { recursive: true }),
  };
}

export function readReport({ stdout, stderr, code }: Outcome): Report {
  assertEquals({ code, stderr }, { code: 0, stderr: "" });
  return JSON.parse(stdout);
}

/** Tries what must hold on every machine: one call, for it takes long in an emulator. */
export async function tryProbe(
  t: Deno.TestContext,
  { command, directory, path }: Probe,
): Promise<void> {
  await t.step(
    "it sees what the caller gave it, and needs no directory",
    async () => {
      const gone = `${directory}/gone`;
      const script =
        `/bin/mkdir ${gone}; cd ${gone}; /bin/rmdir ${gone}; exec "$@"`;
      const shell = ["/bin/sh", "-c", script, "sh"];
      const env = { ...HOSTILE, ...HARMLESS };
      const args = ["--help", "-A", "--", "", "a b", "é", "--v8-flags=--help"];
      const call = [...shell, ...command, ...args];
      const report = readReport(await run(call, { env }));
      const { PWD: _, OLDPWD: _old, ...seen } = report.env;
      assertEquals(seen, env);
      assertEquals(report.args, args);
      assertEquals(report.cmdline, [path, ...args, ""]);
      assertEquals(report.cwd, "/");
    },
  );
}
