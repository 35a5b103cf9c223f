import { assertEquals, assertThrows } from "@std/assert";
import { CniError, ErrorCode } from "../error.ts";
import {
  ifPossible,
  removeIfThere,
  removeQuietly,
  unlessMissing,
  unlessUnreachable,
  withIoFailure,
} from "./io.ts";
import { whenSuperseded } from "../../tests/_harness/superseded.ts";
import { eachRow, testRows } from "../../tests/_harness/table.ts";

Deno.test("withIoFailure() names the action, with code 5", () => {
  assertEquals(withIoFailure("read", () => 7), 7);
  const error = assertThrows(
    () => withIoFailure('read "/x"', () => Deno.readTextFileSync("/no/such")),
    CniError,
  );
  assertEquals(error.code, ErrorCode.IoFailure);
  assertEquals(error.message, 'Cannot read "/x"');
});

Deno.test("unlessMissing() and unlessUnreachable() tolerate only missing files", async (t) => {
  const THROWN = "thrown", NONE = "none";
  const rows: [path: string, missing: string, unreachable: string][] = [
    ["/proc/sys/kernel/ostype", "Linux\n", "Linux\n"],
    ["/no/such/file", NONE, NONE],
    [`/${"n".repeat(300)}`, NONE, NONE],
    // A file instead of a directory, and a directory instead of a file.
    ["/proc/version/file", THROWN, NONE],
    ["/", THROWN, THROWN],
  ];
  await eachRow(t, rows, ([path, missing, unreachable]) => {
    const outcomeOf = (tolerate: typeof unlessMissing): string =>
      ifPossible(() => tolerate(() => Deno.readTextFileSync(path)) ?? NONE) ??
        THROWN;
    assertEquals(outcomeOf(unlessMissing), missing);
    assertEquals(outcomeOf(unlessUnreachable), unreachable);
  }, ([path]) => path.slice(0, 40));
});

testRows("ifPossible() returns undefined on any error", [
  ["a file", "/proc/sys/kernel/ostype", "Linux\n"],
  ["no file", "/no/such/file", undefined],
  ["a directory for a file", "/", undefined],
], ([, path, want]: [string, string, string | undefined]) => {
  assertEquals(ifPossible(() => Deno.readTextFileSync(path)), want);
});

Deno.test("removeIfThere() fails only if it cannot remove an existing file", () => {
  const directory = Deno.makeTempDirSync();
  const file = `${directory}/file`;
  Deno.writeTextFileSync(file, "");
  const error = assertThrows(() => removeIfThere(directory), CniError);
  assertEquals(error.code, ErrorCode.IoFailure);
  assertEquals(error.message, `Cannot remove "${directory}"`);
  removeIfThere(file);
  removeIfThere(file);
  removeIfThere(directory);
  assertThrows(() => Deno.statSync(directory), Deno.errors.NotFound);
});

Deno.test("removeQuietly() removes what it can", () => {
  const directory = Deno.makeTempDirSync();
  const file = `${directory}/file`;
  Deno.writeTextFileSync(file, "");
  removeQuietly(directory); // It is not empty.
  whenSuperseded(() => removeQuietly(file));
  assertEquals(Deno.statSync(file).isFile, true);
  removeQuietly(file);
  removeQuietly(file);
  removeQuietly(directory);
  assertThrows(() => Deno.statSync(directory), Deno.errors.NotFound);
});
