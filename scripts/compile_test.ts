import {
  assert,
  assertEquals,
  assertNotEquals,
  assertRejects,
  assertStringIncludes,
  assertThrows,
} from "@std/assert";
import project from "../deno.json" with { type: "json" };
import { compile, ensureCompiled } from "./compile.ts";
import { bundle, LIBRARY_SOURCES, PROGRAM_SOURCES } from "./compile/bundle.ts";
import { fetchDeno, hexOfFile, provideDenort } from "./compile/runtime.ts";
import { checkBudget } from "./compile/executables.ts";
import type { Program } from "./compile/programs.ts";
import { ROOT, runDeno } from "./project.ts";
import { getOwnTarget, TARGETS } from "./compile/target.ts";
import type { Step } from "./compile/steps.ts";
import { exists } from "../base/files/io.ts";
import { HeaderField, viewOf, writeU64 } from "./mkdenort/elf.ts";
import { makeProbe, tryProbe } from "./mkdenort/testing/probe.ts";
import { importFlags, OFFLINE_IMPORT_MAP } from "./import_flags.ts";
import { hasCommand } from "../testing/capabilities.ts";
import { eachRow } from "../tests/_harness/table.ts";

/** A program that says by what name it was called, with what arguments, and waits for its stdin to end. */
const SOURCE = `
import { basename } from "@std/path/posix";
const [called = ""] = Deno.readTextFileSync("/proc/self/cmdline").split("\\0");
const print = (text: string): number =>
  Deno.stdout.writeSync(new TextEncoder().encode(text));
print(JSON.stringify([basename(called), ...Deno.args]));
const rest = new Uint8Array(1);
while (Deno.stdin.readSync(rest) !== null);
`;

/** Temporary files of one test. */
interface Files extends AsyncDisposable {
  readonly directory: string;
  readonly entry: string;
}

async function createFiles(source = SOURCE): Promise<Files> {
  const directory = await Deno.makeTempDir({ prefix: "compile_" });
  const entry = `${directory}/main.ts`;
  await Deno.writeTextFile(entry, source);
  return {
    directory,
    entry,
    [Symbol.asyncDispose]: () => Deno.remove(directory, { recursive: true }),
  };
}

/** Runs an executable, which must succeed, and returns what it printed. */
async function callProgram(path: string, ...args: string[]): Promise<unknown> {
  const command = new Deno.Command(path, { args, stdin: "null" });
  const { code, stdout, stderr } = await command.output();
  assertEquals(code, 0, new TextDecoder().decode(stderr));
  return JSON.parse(new TextDecoder().decode(stdout));
}

const ET_EXEC = 2, ET_DYN = 3;

/** Reads the kind and the machine of an executable. */
async function readElf(
  path: string,
): Promise<{ type: number; machine: number }> {
  using file = await Deno.open(path);
  const header = new Uint8Array(20);
  await file.read(header);
  const [type = 0, , machine = 0] = header.subarray(16);
  return { type, machine };
}

async function listNames(directory: string): Promise<string[]> {
  const entries = await Array.fromAsync(Deno.readDir(directory));
  return entries.map(({ name }) => name).sort();
}

/** Has an executable start where nothing is. */
const BREAK: Step = {
  name: "break",
  without: "starts",
  change(bytes): Uint8Array<ArrayBuffer> {
    const result = bytes.slice();
    writeU64(viewOf(result), HeaderField.entry, 8);
    return result;
  },
};
Deno.test("compile() makes one executable with many names", async (t) => {
  await using files = await createFiles();
  const { directory, entry } = files;
  const out = `${directory}/out`;
  const program: Program = {
    name: "sample",
    entry,
    links: ["first", "second-one"],
  };
  const made = await compile({ out, program });
  const digest = await hexOfFile(`${out}/sample`);

  await t.step("and says what it made", async () => {
    assertEquals(made.path, `${out}/sample`);
    assertEquals(await listNames(out), ["first", "sample", "second-one"]);
    assert(made.bundleSize < 10_000);
  });
  await t.step("that are one file", async () => {
    for (const link of ["first", "second-one"]) {
      assertEquals(await Deno.readLink(`${out}/${link}`), "sample");
    }
    const { size, mode } = await Deno.stat(`${out}/first`);
    assertEquals(size, made.size);
    assertEquals((mode ?? 0) & 0o777, 0o755);
  });
  await t.step("known by a symbolic link's name", async () => {
    assertEquals(await callProgram(`${out}/first`, "x"), ["first", "x"]);
    assertEquals(await callProgram(`${out}/second-one`), ["second-one"]);
  });
  await t.step("known by a hard link's name", async () => {
    await Deno.link(`${out}/sample`, `${directory}/hard`);
    assertEquals(await callProgram(`${directory}/hard`), ["hard"]);
  });
  await t.step("known by a copy's name", async () => {
    await Deno.copyFile(`${out}/first`, `${directory}/copy`);
    assertEquals(await callProgram(`${directory}/copy`), ["copy"]);
  });
  await t.step("with a fixed address", async () => {
    assertEquals((await readElf(`${out}/sample`)).type, ET_EXEC);
  });
  await t.step(
    "and the same bytes again, while the old one runs",
    async () => {
      await using child = new Deno.Command(`${out}/sample`, {
        stdin: "piped",
        stdout: "piped",
        stderr: "inherit",
      }).spawn();
      const { ino } = await Deno.stat(`${out}/sample`);
      const reader = child.stdout.getReader();
      await reader.read(); // it has started
      await compile({ out, program });
      assertNotEquals((await Deno.stat(`${out}/sample`)).ino, ino);
      assertEquals(await hexOfFile(`${out}/sample`), digest);
      await child.stdin.close();
      reader.releaseLock();
      await child.stdout.cancel();
      assertEquals((await child.status).code, 0);
    },
  );
});

Deno.test("compile() fails if a step spoils the executable, and leaves nothing", async () => {
  await using files = await createFiles();
  const { directory, entry } = files;
  const program = { name: "sample", entry, links: [] };
  await assertRejects(
    () => compile({ out: `${directory}/out`, program, steps: [BREAK] }),
    Error,
    "VERSION ends with SIGSEGV",
  );
  assertEquals(await listNames(`${directory}/out`), []);
});

Deno.test("bundle() makes one script of all plugins without linking", async () => {
  const { path } = await bundle("main.ts", "unlinked", false);
  const command = [Deno.execPath(), "run", "-A", "--no-config", path];
  const { stdout } = await new Deno.Command("bash", {
    args: ["-c", 'exec -a ptp "$@"', "bash", ...command],
    env: { CNI_COMMAND: "VERSION" },
  }).output();
  await Deno.remove(path);
  assertStringIncludes(new TextDecoder().decode(stdout), "supportedVersions");
});

Deno.test("compile() makes an executable of a plugin from outside, and leaves a step out", async () => {
  await using files = await createFiles(`
    import { definePlugin, netConf, runMain } from "@cni/plugins";
    import { about } from "its/own/module.ts";
    import * as z from "schemas/mini";
    await Promise.resolve();
    const outside = definePlugin({
      name: "outside",
      versions: ["1.1.0", about],
      configSchema: () => netConf({ key: z.optional(z.int()) }),
    });
    if (import.meta.main) await runMain(outside);
  `);
  const { directory, entry } = files;
  await Deno.mkdir(`${directory}/lib`);
  await Deno.writeTextFile(
    `${directory}/lib/module.ts`,
    'export const about = "9";\n' +
      "if (import.meta.main) throw new Error();\n",
  );
  await Deno.writeTextFile(
    `${directory}/deno.jsonc`,
    `{
      // Where the library is does not matter to who compiles with it.
      "imports": {
        "@cni/plugins": "/nowhere/mod.ts",
        "its/own/": "./lib/",
        "schemas": "npm:zod@^4",
      },
    }`,
  );
  const program = { name: "outside", entry, links: [] };
  await compile({ out: directory, program, without: ["prelink"] });
  assertEquals((await readElf(`${directory}/outside`)).type, ET_DYN);
  const { stdout } = await new Deno.Command(`${directory}/outside`, {
    env: { CNI_COMMAND: "VERSION" },
  }).output();
  const { supportedVersions } = JSON.parse(new TextDecoder().decode(stdout));
  assertEquals(supportedVersions, ["1.1.0", "9"]);
});

Deno.test("bundle() gives the same bytes in another directory", async () => {
  const directory = await Deno.makeTempDir();
  try {
    const other = `${directory}/deeper/down`;
    await Deno.mkdir(other, { recursive: true });
    const programs = PROGRAM_SOURCES
      .filter((path) => !path.startsWith("scripts/"));
    const parts = [...programs, ...LIBRARY_SOURCES, "scripts"];
    await new Deno.Command("cp", {
      args: ["-r", "--parents", ...parts, other],
      cwd: ROOT,
    }).output();
    const script = 'import { bundle } from "./scripts/compile/bundle.ts";' +
      'await bundle("main.ts", "same", true);';
    await Deno.writeTextFile(`${other}/make.ts`, script);
    const args = ["run", "-A", ...await importFlags(), "make.ts"];
    await runDeno(args, { cwd: other });
    await ensureCompiled();
    assertEquals(
      await Deno.readTextFile(`${other}/build/same.js`),
      await Deno.readTextFile(`${ROOT}build/cni.js`),
    );
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
});

Deno.test("bundle() disposes of what is used but once", async () => {
  const directory = await Deno.makeTempDir();
  try {
    const entry = `${directory}/main.ts`;
    await Deno.writeTextFile(
      entry,
      `const open = (name: string): Disposable & { name: string } => ({
        name,
        [Symbol.dispose]: () => console.log("closed", name),
      });
      function useOnce(): string {
        using lock = open("lock");
        return lock.name;
      }
      console.log("used", useOnce());`,
    );
    const { path } = await bundle(entry, "disposal", true);
    const { stdout } = await new Deno.Command(Deno.execPath(), {
      args: ["run", path],
    }).output();
    assertEquals(new TextDecoder().decode(stdout), "closed lock\nused lock\n");
    await Deno.remove(path);
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
});

const broken: [name: string, source: string, message: string][] = [
  ["that lacks an import", 'import "./missing.ts";', "missing.ts"],
  ["with a syntax error", "const const;", 'Cannot run "deno bundle"'],
  [
    "that asks where it is",
    "console.log(import.meta.url);",
    '"import.meta" is not understood',
  ],
];

Deno.test("compile() leaves nothing behind of a program", async (t) => {
  await eachRow(t, broken, async ([, source, message]) => {
    await using files = await createFiles(source);
    const { directory, entry } = files;
    const program = { name: "broken", entry, links: [] };
    await assertRejects(
      () => compile({ out: directory, program }),
      Error,
      message,
    );
    assertEquals(await listNames(directory), ["main.ts"]);
  });
});

const foreign = await findForeignTarget();
/** Where the libraries for arm64 are. */
const EMULATED_ROOT = Deno.env.get("QEMU_LD_PREFIX") ??
  "/usr/aarch64-linux-gnu";

/** Finds a target that is not this machine, if its runtime can be had. */
async function findForeignTarget(): Promise<
  typeof TARGETS[number] | undefined
> {
  const target = TARGETS.find((target) => target !== getOwnTarget());
  if (target === undefined) return undefined;
  try {
    await fetchDeno(target, AbortSignal.timeout(20_000));
    return target;
  } catch {
    return undefined;
  }
}

Deno.test({
  name: `compile() makes executables for another machine${
    foreign === undefined
      ? " (skipped: needs its deno from the npm registry)"
      : ""
  }`,
  ignore: foreign === undefined,
  fn: async () => {
    if (foreign === undefined) return;
    await using files = await createFiles();
    const { directory, entry } = files;
    const program = { name: "foreign", entry, links: [] };
    await compile({ out: directory, program, target: foreign });
    const { machine } = await readElf(`${directory}/foreign`);
    const machines = { x86_64: 62, aarch64: 183 };
    const [arch] = foreign.split("-") as [keyof typeof machines];
    assertEquals(machine, machines[arch]);
  },
});

const isEmulated = foreign === "aarch64-unknown-linux-gnu" &&
  hasCommand("qemu-aarch64") &&
  exists(`${EMULATED_ROOT}/lib/libgcc_s.so.1`);

Deno.test({
  name: `a stand-in for denort works on arm64${
    isEmulated
      ? ""
      : " (skipped: needs deno for arm64 from the npm registry, qemu-user, libc6-arm64-cross and libgcc-s1-arm64-cross)"
  }`,
  ignore: !isEmulated,
  fn: async (t) => {
    const target = "aarch64-unknown-linux-gnu";
    const { path } = await fetchDeno(target);
    const emulator = ["qemu-aarch64", "-L", EMULATED_ROOT];
    await using probe = await makeProbe(path, target, emulator);
    await tryProbe(t, probe);
  },
});

/** Sets variables until it is disposed of. */
function setVariables(variables: Record<string, string>): Disposable {
  const before = Object.keys(variables).map((name) =>
    [name, Deno.env.get(name)] as const
  );
  for (const [name, value] of Object.entries(variables)) {
    Deno.env.set(name, value);
  }
  return {
    [Symbol.dispose]: () => {
      for (const [name, value] of before) {
        if (value === undefined) Deno.env.delete(name);
        else Deno.env.set(name, value);
      }
    },
  };
}

const REAL = { env: {}, version: Deno.version.deno };

Deno.test("provideDenort() leaves the real one to deno compile", async (t) => {
  await t.step("if DENORT_BIN names it", async () => {
    using _ = setVariables({ DENORT_BIN: "/opt/denort" });
    assertEquals(await provideDenort(getOwnTarget()), REAL);
  });
  await t.step("if it was downloaded before", async () => {
    await using files = await createFiles();
    const { directory } = files;
    const release = `${directory}/dl/release/v${Deno.version.deno}`;
    await Deno.mkdir(release, { recursive: true });
    await Deno.writeTextFile(`${release}/denort-${getOwnTarget()}.zip`, "");
    using _ = setVariables({ DENO_DIR: directory, OFFLINE: "1" });
    assertEquals(await provideDenort(getOwnTarget()), REAL);
  });
});

Deno.test("provideDenort() makes a stand-in once", async () => {
  await using files = await createFiles();
  using _ = setVariables({ DENO_DIR: files.directory, OFFLINE: "1" });
  const { env, note } = await provideDenort(getOwnTarget());
  assertStringIncludes(note ?? "", `made from deno ${Deno.version.deno}`);
  const path = env["DENORT_BIN"] ?? "";
  const { ino } = await Deno.stat(path);
  assertEquals((await provideDenort(getOwnTarget())).env, env);
  assertEquals((await Deno.stat(path)).ino, ino);
});

Deno.test("ensureCompiled() makes nothing anew if nothing has changed", async () => {
  const directory = await ensureCompiled();
  const { ino } = await Deno.stat(`${directory}/ptp`);
  assertEquals(await ensureCompiled(), directory);
  assertEquals((await Deno.stat(`${directory}/ptp`)).ino, ino);
});

Deno.test("beside the executable is a bill of materials", async () => {
  const directory = await ensureCompiled();
  const sbom = JSON.parse(
    await Deno.readTextFile(`${directory}/sbom.cdx.json`),
  );
  assertEquals([sbom.bomFormat, sbom.specVersion], ["CycloneDX", "1.6"]);
  const components: { name: string; purl: string; hashes?: unknown }[] =
    sbom.components;
  const names = components.map(({ name }) => name);
  for (const name of ["deno", "v8", "zod", "js-yaml"]) {
    assert(names.includes(name), `${names}`);
  }
  for (const { purl, hashes } of components) {
    assertEquals(purl.startsWith("pkg:npm/"), hashes !== undefined, purl);
  }
});

Deno.test("deno.lock pins every npm package, and its digest", async () => {
  const { specifiers, npm } = JSON.parse(
    await Deno.readTextFile(`${ROOT}deno.lock`),
  );
  const wanted = Object.values(project.imports)
    .flatMap((target) => /^npm:(?:@[^/]+\/)?[^/]+/.exec(target)?.[0] ?? []);
  assert(wanted.length > 5);
  for (const specifier of wanted) assert(specifier in specifiers, specifier);
  for (const [name, { integrity }] of Object.entries<Locked>(npm)) {
    assert(/^sha512-[\w+/]{86}==$/.test(integrity), name);
  }
});

Deno.test("imports name exact versions, the same with and without jsr.io", async () => {
  const { imports }: { imports: Record<string, string> } = JSON.parse(
    await Deno.readTextFile(`${ROOT}${OFFLINE_IMPORT_MAP}`),
  );
  const targets = [project.imports, imports].flatMap(Object.values<string>)
    .filter((target) => !target.startsWith("./"));
  const versions = new Map<string, string>();
  for (const target of targets) {
    const [, name = "", version = ""] =
      /^(?:npm|jsr):\/?((?:@[^/@]+\/)?[^/@]+)@(\d+\.\d+\.\d+)(?:\/|$)/
        .exec(target) ?? [];
    assert(version !== "", target);
    assertEquals(versions.get(name) ?? version, version, target);
    versions.set(name, version);
  }
});

/** A package in `deno.lock`. */
interface Locked {
  readonly integrity: string;
}

Deno.test("checkBudget() refuses programs of ours that have grown too large", () => {
  checkBudget("main.ts", 1222 * 1024);
  checkBudget("/elsewhere/main.ts", 2 ** 30);
  assertThrows(
    () => checkBudget("main.ts", 1222 * 1024 + 1),
    Error,
    "it has 1251329 bytes of code, and may have 1251328",
  );
});
