import { assertEquals, assertThrows } from "@std/assert";
import { createLog } from "../../../base/log/log.ts";
import { ConfDirectory } from "../../../tests/_harness/conf_directory.ts";
import { NotYetError } from "./steps.ts";
import { Readiness } from "./readiness.ts";

function open(
  readinessFile: string,
  readinessTimeoutMs: number,
): { readiness: Readiness; lines: string[] } {
  const lines: string[] = [];
  const log = createLog({}, (line) => lines.push(line));
  return {
    readiness: new Readiness({ readinessFile, readinessTimeoutMs }, log),
    lines,
  };
}

Deno.test("Readiness.require() asks for nothing if there is no file to ask for", () => {
  const { readiness, lines } = open("", 1e6);
  readiness.require();
  assertEquals(lines, []);
});

Deno.test("Readiness.require() asks until the file was there once", () => {
  using directory = new ConfDirectory();
  const { readiness, lines } = open(`${directory.path}/ready`, 1e6);
  assertThrows(() => readiness.require(), NotYetError, "does not exist yet");
  const path = directory.add("ready", "");
  readiness.require();
  Deno.removeSync(path);
  readiness.require();
  assertEquals(lines, []);
});

Deno.test("Readiness.require() gives up in time, and says so once", async () => {
  const { readiness, lines } = open("/nowhere", 1);
  await new Promise((resolve) => setTimeout(resolve, 2));
  readiness.require();
  readiness.require();
  assertEquals(lines, [
    'level=warn msg="continued without the readiness indicator file" ' +
    "path=/nowhere waitedMs=1\n",
  ]);
});

Deno.test("Readiness.require() does not ask at all if it may not wait", () => {
  const { readiness, lines } = open("/nowhere", 0);
  readiness.require();
  assertEquals(lines, []);
});
