import { assert, assertEquals, assertThrows } from "@std/assert";
import { join } from "@std/path/posix";
import { CniError } from "../../../base/error.ts";
import type { LogFields } from "../../../base/log/log.ts";
import { type Delegate, loadDelegate } from "../model/delegate.ts";
import { ScratchCache } from "./scratch_cache.ts";
import { eachRow } from "../../../tests/_harness/table.ts";

/** Scratch files in a temporary directory, and the warnings about them. */
class Fixture implements Disposable {
  readonly root: string = Deno.makeTempDirSync({ prefix: "multus-scratch-" });
  readonly directory: string = join(this.root, "multus");
  readonly warnings: LogFields[] = [];
  readonly scratch: ScratchCache = new ScratchCache(this.directory, {
    warn: (_, fields = {}): void => {
      this.warnings.push(fields);
    },
  });

  /** Puts a file where a scratch file is. */
  plant(name: string, content: string | Uint8Array): void {
    Deno.mkdirSync(this.directory, { recursive: true });
    const bytes = typeof content === "string" ? encode(content) : content;
    Deno.writeFileSync(join(this.directory, name), bytes);
  }

  makeResults(): void {
    Deno.mkdirSync(join(this.directory, "results"), { recursive: true });
  }

  [Symbol.dispose](): void {
    Deno.removeSync(this.root, { recursive: true });
  }
}

function encode(text: string): Uint8Array {
  return new TextEncoder().encode(text);
}

function delegate(name: string, ifName?: string): Delegate {
  return loadDelegate(encode(JSON.stringify({ name, type: "t" })), {
    request: ifName === undefined ? {} : { ifName },
  });
}

const DELEGATES = [delegate("a"), delegate("b", "ext0"), delegate("c")];

Deno.test("ScratchCache keeps the networks of containers apart", () => {
  using fixture = new Fixture();
  const { scratch } = fixture;
  scratch.write("c1", DELEGATES);
  scratch.write("c2", [delegate("z")]);
  assertEquals(scratch.read("c1"), DELEGATES);
  assertEquals(scratch.read("c2"), [delegate("z")]);
  assertEquals(scratch.list(), ["c1", "c2"]);
  assertEquals(scratch.list((name) => name === "c1"), ["c2"]);
  scratch.remove("c1");
  assertEquals(scratch.read("c1"), undefined);
  assertEquals(scratch.list(), ["c2"]);
  assertEquals(fixture.warnings, []);
});

Deno.test("ScratchCache.write() replaces an earlier file", () => {
  using fixture = new Fixture();
  fixture.scratch.write("c1", DELEGATES);
  fixture.scratch.write("c1", [delegate("z")]);
  assertEquals(fixture.scratch.read("c1"), [delegate("z")]);
});

Deno.test("ScratchCache.write() creates files that only root can read", () => {
  using fixture = new Fixture();
  fixture.scratch.write("c1", DELEGATES);
  const modes = [fixture.directory, join(fixture.directory, "c1")]
    .map((path) => (Deno.statSync(path).mode ?? 0) & 0o777);
  assertEquals(modes, [0o700, 0o600]);
  // No temporary file is left.
  const names = [...Deno.readDirSync(fixture.directory)].map(({ name }) =>
    name
  );
  assertEquals(names, ["c1"]);
});

Deno.test("ScratchCache.write() fails if the directory is not writable", async (t) => {
  using fixture = new Fixture();
  fixture.plant("file", "");
  const { directory } = fixture;
  const rows: [string, string][] = [
    ["no directory", ""],
    ["a directory that is a file", join(directory, "file")],
  ];
  await eachRow(t, rows, ([, cniDir]) => {
    const error = assertThrows(
      () => new ScratchCache(cniDir).write("c1", DELEGATES),
      CniError,
      "Cannot write",
    );
    assertEquals(error.code, 5);
  });
  await t.step("a file that is a directory", () => {
    Deno.mkdirSync(join(fixture.directory, "taken"));
    const write = (): void => fixture.scratch.write("taken", DELEGATES);
    assertThrows(write, CniError, "Cannot write");
  });
});

Deno.test("ScratchCache.write() refuses container IDs that are names of its directories", () => {
  using fixture = new Fixture();
  for (const name of ["results", "locks"]) {
    const write = (): void => fixture.scratch.write(name, DELEGATES);
    assertEquals(assertThrows(write, CniError).code, 4);
  }
});

Deno.test("ScratchCache.read() returns undefined for anything but a file", async (t) => {
  using fixture = new Fixture();
  fixture.plant("other", "x");
  fixture.makeResults();
  const made = new Deno.Command("mkfifo", {
    args: [join(fixture.directory, "pipe")],
  }).outputSync();
  assert(made.success);
  await eachRow(t, ["missing", "results", "pipe"], (name) => {
    assertEquals(fixture.scratch.read(name), undefined);
  });
  assertEquals(fixture.warnings, []);
});

Deno.test("ScratchCache.read() returns undefined for a broken file, with a warning", async (t) => {
  using fixture = new Fixture();
  const { scratch, warnings } = fixture;
  const one = `{"Bytes":"${encode(`{"name":"n","type":"t"}`).toBase64()}"}`;
  for (
    const text of ["", "\0\0\0\0", "[]", "null", "[null]", `[${one},null]`, one]
  ) {
    await t.step(JSON.stringify(text), () => {
      fixture.plant("c1", text);
      const before = warnings.length;
      assertEquals(scratch.read("c1"), undefined);
      assertEquals(warnings.length, before + 1);
      assert(String(warnings.at(-1)?.["error"]).includes("c1"));
    });
  }
});

Deno.test("ScratchCache.readUsable() keeps the names of interfaces", () => {
  using fixture = new Fixture();
  const { scratch, directory } = fixture;
  scratch.write("c1", DELEGATES);
  const file = join(directory, "c1");
  const entries = JSON.parse(Deno.readTextFileSync(file));
  const nameless = { ...entries[0], Bytes: btoa(`{"plugins":[{"type":"t"}]}`) };
  fixture.plant("c1", JSON.stringify([nameless, ...entries.slice(1)]));
  const { delegates, isComplete } = scratch.readUsable("c1");
  assertEquals(isComplete, false);
  assertEquals(delegates, [delegate("b", "ext0"), delegate("c", "net2")]);
  assertEquals(scratch.read("c1"), undefined);
});

Deno.test("ScratchCache.readUsable() reports whether the file is complete", () => {
  using fixture = new Fixture();
  const { scratch } = fixture;
  const nothing = { delegates: [], isComplete: false, owner: "" };
  assertEquals(scratch.readUsable("c1"), nothing);
  scratch.write("c1", DELEGATES);
  const all = { delegates: DELEGATES, isComplete: true, owner: "" };
  assertEquals(scratch.readUsable("c1"), all);
  scratch.write("c1", DELEGATES, "net");
  assertEquals(scratch.readUsable("c1"), { ...all, owner: "net" });
});

Deno.test("ScratchCache.remove() may be repeated", () => {
  using fixture = new Fixture();
  fixture.scratch.remove("c1");
  fixture.scratch.write("c1", DELEGATES);
  fixture.scratch.remove("c1");
  fixture.scratch.remove("c1");
  assertEquals(fixture.scratch.list(), []);
});

Deno.test("ScratchCache.remove() leaves its directories", () => {
  using fixture = new Fixture();
  fixture.makeResults();
  fixture.scratch.remove("results");
  assert(Deno.statSync(join(fixture.directory, "results")).isDirectory);
});

Deno.test("ScratchCache.list() leaves out other files", () => {
  using fixture = new Fixture();
  const { scratch, directory } = fixture;
  assertEquals(scratch.list(), []);
  scratch.write("c2", DELEGATES);
  scratch.write("c1", DELEGATES);
  fixture.plant("zeros", new Uint8Array(100));
  fixture.plant("empty", "");
  fixture.plant("spaced", " \n[");
  fixture.plant("10-net.conflist", `{"name":"n"}`);
  fixture.plant(".hidden", "[");
  fixture.makeResults();
  Deno.symlinkSync("nowhere", join(directory, "link"));
  assertEquals(scratch.list(), ["c1", "c2", "empty", "spaced", "zeros"]);
});

Deno.test("ScratchCache.isYounger() compares the age of a file", () => {
  using fixture = new Fixture();
  const { scratch, directory } = fixture;
  scratch.write("c1", DELEGATES);
  const time = new Date("2024-05-01T10:00:00Z");
  Deno.utimeSync(join(directory, "c1"), time, time);
  const at = (ms: number): boolean =>
    scratch.isYounger("c1", new Date(time.getTime() + ms));
  assertEquals([at(-1), at(0), at(1)], [true, false, false]);
  assertEquals(scratch.isYounger("missing", time), false);
});
