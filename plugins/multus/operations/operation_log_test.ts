import { assert, assertEquals, assertMatch, assertRejects } from "@std/assert";
import { join } from "@std/path/posix";
import { CniError } from "../../../base/error.ts";
import {
  findLogLevel,
  type LogConfig,
  OperationLog,
  operationRecord,
} from "./operation_log.ts";
import { testRows } from "../../../tests/_harness/table.ts";

const CONFIG: LogConfig = {
  logLevel: "debug",
  logToStderr: true,
  logOptions: {
    maxAgeDays: 5,
    maxSizeMegabytes: 1,
    maxBackups: 5,
    compress: true,
  },
};
const SUBJECT = {
  command: "ADD",
  args: { containerId: "c1", netns: "/run/netns/a", ifName: "eth0" },
  k8s: {
    podNamespace: "test",
    podName: "web-0",
    infraContainerId: "c1",
    podUid: "u-1",
  },
} as const;

/** A log, and what it wrote to stderr. */
function open(
  config: Partial<LogConfig> = {},
): { log: OperationLog; lines: string[] } {
  const lines: string[] = [];
  const log = new OperationLog(
    { ...CONFIG, ...config },
    (text) => lines.push(text),
  );
  return { log, lines };
}

/** A directory that is removed in the end. */
class Directory implements Disposable {
  readonly path: string = Deno.makeTempDirSync({ prefix: "multus-log-" });
  readonly logFile: string = join(this.path, "multus.log");

  fillLog(): void {
    Deno.writeFileSync(this.logFile, new Uint8Array(1 << 20));
  }

  list(): string[] {
    return [...Deno.readDirSync(this.path)].map(({ name }) => name).sort();
  }

  [Symbol.dispose](): void {
    Deno.removeSync(this.path, { recursive: true });
  }
}

Deno.test("OperationLog writes the time, the level, the message and the fields", () => {
  const { log, lines } = open();
  log.verbose("attached", { network: "a b", pod: "test/web-0", nothing: "" });
  assertEquals(lines.length, 1);
  assertMatch(
    lines[0] ?? "",
    /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z \[verbose\] msg=attached network="a b" pod=test\/web-0\n$/,
  );
});

Deno.test("OperationLog writes one line for any content", () => {
  const { log, lines } = open();
  log.error("a\nb", { error: "c\r\nd\u2028" });
  assertEquals(lines.join("").split("\n").length, 2);
});

testRows<[string, string[]]>("OperationLog filters by level", [
  ["panic", []],
  ["error", ["error", "error"]],
  ["verbose", ["error", "error", "verbose", "verbose"]],
  ["debug", ["error", "error", "verbose", "verbose", "debug"]],
  ["DEBUG", ["error", "error", "verbose", "verbose", "debug"]],
], ([logLevel, written]) => {
  const { log, lines } = open({ logLevel });
  log.error("e");
  log.warn("w");
  log.info("i");
  log.verbose("v");
  log.debug("d");
  const levels = lines.map((line) => /\[(\w+)\]/.exec(line)?.[1]);
  assertEquals(levels, written);
});

Deno.test("OperationLog marks warnings as the Go version does", () => {
  const { log, lines } = open({ logLevel: "error" });
  log.warn("no pod", { pod: "a" });
  assertMatch(lines[0] ?? "", / \[error\] msg="warning: no pod" pod=a\n$/);
});

Deno.test("OperationLog reports an unknown level, and logs errors", () => {
  const { log, lines } = open({ logLevel: "loud" });
  log.verbose("v");
  log.error("e");
  assertEquals(lines.length, 2);
  assertMatch(lines[0] ?? "", /unknown level.* logLevel=loud used=error\n$/);
  assertMatch(lines[1] ?? "", / \[error\] msg=e\n$/);
});

Deno.test("OperationLog writes to its file, and to stderr if configured", () => {
  using directory = new Directory();
  const { logFile } = directory;
  for (const logToStderr of [true, false]) {
    const { log, lines } = open({ logFile, logToStderr });
    log.error("e");
    assertEquals(lines.length, logToStderr ? 1 : 0);
  }
  const written = Deno.readTextFileSync(logFile).trimEnd().split("\n");
  assertEquals(written.map((line) => line.slice(-13)), [
    "[error] msg=e",
    "[error] msg=e",
  ]);
});

Deno.test("OperationLog reports an unwritable file once", async () => {
  using directory = new Directory();
  const logFile = directory.path;
  const { log, lines } = open({ logFile, logToStderr: false });
  log.error("one");
  log.error("two");
  await log.finish();
  assertEquals(lines.length, 1);
  assertMatch(lines[0] ?? "", /^level=warn .*"Cannot write the log file"/);
  assert(lines[0]?.includes(logFile));
});

testRows(
  "OperationLog.finish() compresses unless a pod waits",
  [["ADD", false], ["DEL", true]] as const,
  async ([command, compressed]) => {
    using directory = new Directory();
    const { logFile } = directory;
    const { log, lines } = open({ logFile, logToStderr: false });
    directory.fillLog();
    log.report({ ...SUBJECT, command });
    await log.finish();
    const [name = "", ...others] = directory.list();
    assertMatch(name, compressed ? /^multus-.*\.log\.gz$/ : /^multus-.*\.log$/);
    assertEquals(others, ["multus.log"]);
    assertEquals(lines, []);
  },
);

Deno.test("OperationLog.finish() does nothing without a log", async () => {
  using directory = new Directory();
  const logFile = join(directory.path, "a", "multus.log");
  const { log, lines } = open({ logFile });
  await log.finish();
  assertEquals([directory.list(), lines], [[], []]);
});

Deno.test("OperationLog.report() writes the operation's line with its times", async () => {
  const { log, lines } = open();
  assertEquals(await log.time("a", () => Promise.resolve(7)), 7);
  const failing = (): Promise<never> => Promise.reject(new Error("no"));
  await assertRejects(() => log.time("ns/b", failing), Error, "no");
  log.report(SUBJECT);
  assertMatch(
    lines[0] ?? "",
    / \[verbose\] msg=done command=ADD containerId=c1 ifName=eth0 netns=\/run\/netns\/a pod=test\/web-0 podUid=u-1 ms=\d+ networks="a=\d+ ns\/b=\d+"\n$/,
  );
});

Deno.test("OperationLog.report() writes a failure at level error", () => {
  const { log, lines } = open({ logLevel: "error" });
  log.report(SUBJECT);
  log.report(SUBJECT, new CniError(11, "no answer", { details: "timeout" }));
  assertEquals(lines.length, 1);
  assertMatch(
    lines[0] ?? "",
    / \[error\] msg=failed command=ADD .* code=11 error="no answer: timeout"\n$/,
  );
});

Deno.test("operationRecord() has no pod fields without a pod", () => {
  const args = { containerId: "", netns: "", ifName: "" };
  const record = operationRecord({ command: "STATUS", args }, {
    ms: 12.6,
    networks: [{ name: "a", ms: 0.4 }],
  });
  assertEquals(record, {
    command: "STATUS",
    containerId: "",
    ifName: "",
    netns: "",
    pod: "",
    podUid: "",
    ms: 13,
    networks: "a=0",
  });
});

Deno.test("findLogLevel() ignores case", () => {
  assertEquals(findLogLevel("debug"), "debug");
  assertEquals(findLogLevel("Panic"), "panic");
  assertEquals(findLogLevel("info"), undefined);
  assertEquals(findLogLevel(""), undefined);
});
