import { assertEquals } from "@std/assert";
import { createLog, type LogFields } from "./log.ts";
import { testRows } from "../../tests/_harness/table.ts";

/** Returns what a message is written as. */
function lineOf(message: string, fields?: LogFields, common = {}): string {
  const lines: string[] = [];
  createLog(common, (line) => lines.push(line)).warn(message, fields);
  assertEquals(lines.length, 1);
  return lines.join("");
}

Deno.test("createLog() writes level, common fields, message and fields", () => {
  const lines: string[] = [];
  const log = createLog({ plugin: "ptp" }, (line) => lines.push(line));
  log.info("done");
  log.warn("Cannot do", { tries: 3 });
  log.error("failed", { error: "no such device" });
  assertEquals(lines, [
    "level=info plugin=ptp msg=done\n",
    'level=warn plugin=ptp msg="Cannot do" tries=3\n',
    'level=error plugin=ptp msg=failed error="no such device"\n',
  ]);
});

Deno.test("createLog() leaves out what is not there", () => {
  assertEquals(
    lineOf("m", { a: undefined, b: "", c: 0, d: false, e: null }, {
      containerId: "",
    }),
    "level=warn msg=m c=0 d=false e=null\n",
  );
});

testRows("createLog() writes one line, whatever a value holds", [
  ["a word", "eth0", "eth0"],
  ["a path", "/run/netns/a:b", "/run/netns/a:b"],
  ["another script", "größe", "größe"],
  ["a blank", "a b", '"a b"'],
  ["a quote", 'a"b', '"a\\"b"'],
  ["an equals sign", "a=b", '"a=b"'],
  ["a line feed", "a\nlevel=error", '"a\\nlevel=error"'],
  ["a carriage return", "a\rb", '"a\\rb"'],
  ["an escape sequence", "\x1b[31mred", '"\\u001b[31mred"'],
  ["a NUL", "a\0b", '"a\\u0000b"'],
  ["an array", ["a", "b"], "a,b"],
], ([, value, written]: [string, unknown, string]) => {
  assertEquals(
    lineOf("m", { value }),
    `level=warn msg=m value=${written}\n`,
  );
});

testRows("createLog() writes the lines from CNI_LOG_LEVEL on", [
  [undefined, "iwe"],
  ["", "iwe"],
  ["unknown", "iwe"],
  ["debug", "diwe"],
  ["INFO", "iwe"],
  ["warn", "we"],
  ["error", "e"],
], ([level, want]: [string | undefined, string]) => {
  const env = level === undefined ? {} : { CNI_LOG_LEVEL: level };
  let written = "";
  const log = createLog({}, (_, { msg }) => written += msg, env);
  log.debug("d");
  log.info("i");
  log.warn("w");
  log.error("e");
  assertEquals(written, want);
});

Deno.test("createLog() writes JSON lines with the time for CNI_LOG_FORMAT=json", () => {
  let text = "";
  const env = { CNI_LOG_FORMAT: "json" };
  const log = createLog(
    { plugin: "ptp", ifName: "" },
    (line) => text += line,
    env,
  );
  log.warn("a\nb", { tries: 3, isLast: false, address: new URL("http://x/") });
  assertEquals(text.trimEnd().split("\n").length, 1);
  const { time, ...record } = JSON.parse(text);
  assertEquals(new Date(time).toISOString(), time);
  assertEquals(record, {
    level: "warn",
    plugin: "ptp",
    msg: "a\nb",
    tries: 3,
    isLast: false,
    address: "http://x/",
  });
});
