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
import { makeSampleElf, SAMPLE_ENTRY } from "./elf_sample.ts";
import { checkArguments, makeDenort, makeDenortFile } from "./mod.ts";
import {
  compileScript,
  HARMLESS,
  HOSTILE,
  makeProbe,
  type Probe,
  run,
  tryProbe,
} from "./probe_sample.ts";
import { eachRow, testRows } from "./rows_sample.ts";

/** Returns how to skip a step unless there is a command. */
function needCommand(
  name: string,
): { readonly ignore: boolean; readonly suffix: string } {
  const directories = (Deno.env.get("PATH") ?? "").split(":");
  const ignore = !directories.some((directory) => {
    try {
      return Deno.statSync(`${directory}/${name}`).isFile;
    } catch {
      return false;
    }
  });
  return { ignore, suffix: ignore ? ` (skipped: needs ${name})` : "" };
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
  await t.step({
    name: "it starts on a read-only root, whatever is in ~/.npmrc" +
      (Deno.uid() === 0 ? "" : " (skipped: needs root)"),
    ignore: Deno.uid() !== 0,
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
  await using probe = await makeProbe(Deno.execPath());
  await tryProbe(t, probe);
  await tryEnds(t, probe);
  await tryQuietness(t, probe);
  await tryUnsuitable(t, probe);
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

Deno.test("makeDenort() puts V8's flags into the command line", () => {
  const deno = makeSampleElf();
  const read = (v8Flags?: readonly string[]): string =>
    new TextDecoder("latin1").decode(
      makeDenort(deno, v8Flags === undefined ? {} : { v8Flags }),
    );
  assertStringIncludes(
    read(["--max-lazy", "--jitless"]),
    "\0--ext=js\0--v8-flags=--max-lazy,--jitless\0",
  );
  assertStringIncludes(read(), "\0--ext\0js\0");
});

Deno.test("checkArguments() wants a stack that stays aligned, and room for it", () => {
  checkArguments(["run", "x"]);
  const expected = "expected an even number, up to 64";
  assertThrows(() => checkArguments(["run"]), Error, expected);
  assertThrows(() => checkArguments(Array(66).fill("x")), Error, expected);
});

Deno.test("the package imports nothing from outside", async () => {
  const directory = decodeURIComponent(new URL(".", import.meta.url).pathname);
  for await (const { name } of Deno.readDir(directory)) {
    if (!name.endsWith(".ts")) continue;
    const text = await Deno.readTextFile(directory + name);
    for (
      const [, path = ""] of text.matchAll(
        /^(?:import|\}|export).* from "(.*)";$/gm,
      )
    ) {
      assertMatch(path, /^(?:\.\/|@std\/)/, name);
    }
  }
});
