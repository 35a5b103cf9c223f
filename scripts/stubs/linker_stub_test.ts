import {
  assert,
  assertEquals,
  assertStringIncludes,
  assertThrows,
} from "@std/assert";
import { LIBRARY_DIRECTORY } from "../../base/files/libraries.ts";
import { makeSampleElf } from "../mkdenort/testing/sample_elf.ts";
import { parseElf } from "../mkdenort/elf.ts";
import { attachCallStub } from "./call_stub.ts";
import { attachLinkerStub, LINKERS } from "./linker_stub.ts";
import { prelink } from "../prelink/prelink.ts";

/** An executable in a temporary directory of its own. */
class Executable implements AsyncDisposable {
  readonly directory = Deno.makeTempDirSync({ prefix: "cni-test-" });
  readonly path = `${this.directory}/deno`;

  /** Writes it. */
  constructor(bytes: Uint8Array) {
    Deno.writeFileSync(this.path, bytes, { mode: 0o755 });
  }

  /** Runs a script in it, and returns what that printed. */
  async run(
    script: string,
    options: Pick<Deno.CommandOptions, "env" | "clearEnv"> = {},
  ): Promise<string> {
    const { code, stdout, stderr } = await new Deno.Command(this.path, {
      args: ["eval", "--no-config", "--no-lock", script],
      ...options,
    }).output();
    const decoder = new TextDecoder();
    assertEquals(code, 0, decoder.decode(stderr));
    return decoder.decode(stdout).trim();
  }

  /** Runs nothing in it, and returns where the dynamic linker looked for libraries. */
  async listSearched(): Promise<string> {
    const { code, stderr } = await new Deno.Command(this.path, {
      args: ["eval", "--no-config", "--no-lock", ""],
      env: { LD_DEBUG: "libs" },
    }).output();
    assertEquals(code, 0);
    const text = new TextDecoder().decode(stderr);
    assertStringIncludes(text, "trying file=");
    return text;
  }

  /** Puts the libraries that this process has beside it. */
  async copyLibraries(): Promise<void> {
    const directory = `${this.directory}/${LIBRARY_DIRECTORY}`;
    await Deno.mkdir(directory);
    for (const path of listLibraries(await readMaps())) {
      const name = path.slice(path.lastIndexOf("/") + 1);
      await Deno.copyFile(path, `${directory}/${name}`);
    }
  }

  /** Removes it. */
  async [Symbol.asyncDispose](): Promise<void> {
    await Deno.remove(this.directory, { recursive: true });
  }
}

function readMaps(): Promise<string> {
  return Deno.readTextFile("/proc/self/maps");
}

/** Lists the libraries among the files that a process has mapped. */
function listLibraries(maps: string): string[] {
  const paths = maps.split("\n").map((line) => line.split(/\s+/)[5] ?? "");
  return [...new Set(paths.filter((path) => /\.so\.\d+$/.test(path)))].sort();
}

const PRINT_MAPS = 'console.log(Deno.readTextFileSync("/proc/self/maps"))';

const isKnown = Deno.build.os === "linux";

for (const isPrelinked of [false, true]) {
  Deno.test({
    name: `the linker stub starts a deno${isPrelinked ? ", prelinked" : ""}`,
    ignore: !isKnown,
    async fn(t): Promise<void> {
      const deno = await Deno.readFile(Deno.execPath());
      const bytes = attachCallStub(attachLinkerStub(deno), "b");
      await using executable = new Executable(
        isPrelinked ? prelink(bytes) : bytes,
      );
      const usual = listLibraries(await readMaps());
      await t.step("with the machine's libraries", async () => {
        assertEquals(listLibraries(await executable.run(PRINT_MAPS)), usual);
      });
      await t.step("and looks nowhere else first", async () => {
        const searched = await executable.listSearched();
        assertEquals(searched.includes(LIBRARY_DIRECTORY), false);
      });
      await executable.copyLibraries();
      const own = usual.map((path) =>
        `${executable.directory}/${LIBRARY_DIRECTORY}` +
        path.slice(path.lastIndexOf("/"))
      ).sort();
      await t.step("with the libraries beside it", async () => {
        assertEquals(listLibraries(await executable.run(PRINT_MAPS)), own);
      });
      await t.step("whatever the caller's LD_LIBRARY_PATH", async () => {
        const [directory = ""] = /^.*\//.exec(usual[0] ?? "") ?? [];
        const env = { LD_LIBRARY_PATH: directory };
        const maps = await executable.run(PRINT_MAPS, { env });
        assertEquals(listLibraries(maps), own);
      });
      await t.step("of which FFI finds libc", async () => {
        const found = await executable.run(
          'Deno.dlopen("libc.so.6", { getpid: { parameters: [], result: "i32" } });' +
            PRINT_MAPS,
        );
        assertEquals(listLibraries(found), own);
      });
      await t.step("with a program's arguments and environment", async () => {
        const script = "console.log(JSON.stringify(Deno.env.toObject()))";
        const env = {
          // Else it sets variables of its own.
          DENO_DISABLE_NODE_SHIM: "1",
          // A user who is not in /etc/passwd has no other directory.
          DENO_DIR: executable.directory,
          TWO: "2",
          EMPTY: "",
        };
        const found = await executable.run(script, { env, clearEnv: true });
        assertEquals(JSON.parse(found), env);
      });
      await t.step("by a link, in another directory", async () => {
        const link = `${executable.directory}/other`;
        await Deno.mkdir(link);
        await Deno.symlink("../deno", `${link}/deno`);
        const { stdout } = await new Deno.Command(`${link}/deno`, {
          args: ["eval", "--no-config", "--no-lock", PRINT_MAPS],
        }).output();
        assertEquals(listLibraries(new TextDecoder().decode(stdout)), own);
      });
    },
  });
}

Deno.test("attachLinkerStub() always gives the same, and changes nothing", async () => {
  const deno = await Deno.readFile(Deno.execPath());
  const before = deno.slice();
  const [one, two] = [1, 2].map(() => attachLinkerStub(deno));
  assert(one !== undefined && two !== undefined);
  // Not assertEquals(), which takes its time for 90 MiB.
  assertEquals(indexOfDifference(one, two), -1);
  assertEquals(indexOfDifference(deno, before), -1);
  const types = parseElf(one).segments.map(({ type }) => type);
  assertEquals(types.includes(3), false, "the kernel finds no PT_INTERP");
  assertThrows(() => attachLinkerStub(one), Error, "expected the dynamic");
});

function indexOfDifference(one: Uint8Array, two: Uint8Array): number {
  if (one.length !== two.length) return Math.min(one.length, two.length);
  return one.findIndex((byte, index) => byte !== two[index]);
}

Deno.test("attachLinkerStub() refuses what names no dynamic linker that it knows", () => {
  for (
    const [machine, linker] of [[62, LINKERS.x86_64], [
      183,
      LINKERS.aarch64,
    ]] as const
  ) {
    assertThrows(
      () => attachLinkerStub(makeSampleElf({ machine })),
      Error,
      `expected the dynamic linker "${linker}", found ""`,
    );
  }
});
