// deno-lint-ignore-file no-sync-fn-in-async-fn -- nothing else waits during these calls

import { assertEquals } from "@std/assert";
import { readFormat } from "./program_format.ts";
import { eachRow } from "../../tests/_harness/table.ts";

/** Returns the beginning of a program that is there in full. */
function readOwnHeader(): Uint8Array<ArrayBuffer> {
  using file = Deno.openSync("/proc/self/exe");
  const bytes = new Uint8Array(4096);
  file.readSync(bytes);
  return bytes;
}

/** Changes the processor that a program is for. */
function forMachine(machine: number): Uint8Array<ArrayBuffer> {
  const bytes = readOwnHeader();
  new DataView(bytes.buffer).setUint16(18, machine, true);
  return bytes;
}

const EM_S390 = 22;

/** What such a program is here: where programs are emulated it is left to the kernel. */
function formatOfForeign(): string {
  const names = (directory: string): string[] => {
    try {
      return [...Deno.readDirSync(directory)].map(({ name }) => name);
    } catch {
      return [];
    }
  };
  const handlers = names("/proc/sys/fs/binfmt_misc");
  return handlers.length > 2 ? "program" : "foreign";
}

Deno.test("readFormat() tells programs from what a shell would take for scripts", async (t) => {
  const directory = Deno.makeTempDirSync({ prefix: "cni-test-" });
  const text = (content: string): Uint8Array<ArrayBuffer> =>
    new TextEncoder().encode(content);
  const whole = readOwnHeader();
  const rows: [name: string, content: Uint8Array, format: string][] = [
    ["an ELF file", whole, "program"],
    ["one without its table", whole.slice(0, 64), "incomplete"],
    ["one with half a header", whole.slice(0, 20), "incomplete"],
    ["one for another processor", forMachine(EM_S390), formatOfForeign()],
    [
      "the beginning of one for another processor",
      forMachine(EM_S390).slice(0, 64),
      formatOfForeign(),
    ],
    ["a script", text("#!/bin/sh\n"), "program"],
    ["a script of two bytes", text("#!"), "program"],
    ["nothing", text(""), "incomplete"],
    ["zeros", new Uint8Array(4096), "incomplete"],
    ["three zeros", new Uint8Array(3), "incomplete"],
    ["the first byte of a script", text("#"), "incomplete"],
    ["the first bytes of an ELF file", whole.slice(0, 3), "incomplete"],
    ["text", text("exit 0\n"), "other"],
    ["text of a byte", text(":"), "other"],
    ["a comment", text("# exit 0\n"), "other"],
    ["a script after a byte order mark", text("\ufeff#!/bin/sh\n"), "other"],
    ["a program for another system", text("MZ\x90\0"), "other"],
  ];
  try {
    await eachRow(t, rows, ([, content, format]) => {
      Deno.writeFileSync(`${directory}/file`, content);
      assertEquals(readFormat(`${directory}/file`), format);
    });
    await t.step("this program", () => {
      assertEquals(readFormat("/proc/self/exe"), "program");
    });
    await t.step("a file that is not there", () => {
      assertEquals(readFormat(`${directory}/none`), "program");
    });
  } finally {
    Deno.removeSync(directory, { recursive: true });
  }
});
