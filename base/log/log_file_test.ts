import {
  assert,
  assertEquals,
  assertMatch,
  assertStringIncludes,
  assertThrows,
} from "@std/assert";
import { importFlags } from "../../scripts/import_flags.ts";
import { eachAtOnce } from "../../tests/_harness/repetition.ts";
import { eventually } from "../../tests/_harness/eventually.ts";
import { contextWith } from "../../tests/_harness/call_context.ts";
import { CniError } from "../error.ts";
import { unlessMissing } from "../files/io.ts";
import { openRegularFile } from "../../ffi/file/regular_file.ts";
import { appendToLog as append, findLogPath, keepLog } from "./log_file.ts";
import { definePlugin, type Plugin } from "../../cni/plugin.ts";
import { dispatch } from "../../cni/skel.ts";
import type { DispatchInput } from "../../cni/call/context.ts";
import { netConf } from "../../cni/config/types.ts";
import { eachRow, testRows } from "../../tests/_harness/table.ts";

function appendToLog(path: string, records: readonly string[]): void {
  append(path, records, openRegularFile);
}

/** A directory for log files and settings. */
class Fixture implements Disposable {
  readonly directory = Deno.makeTempDirSync({ prefix: "cni-log-" });
  readonly path = `${this.directory}/var/log/plugins.log`;
  readonly settings = `${this.directory}/log.json`;

  read(path = this.path): string {
    return Deno.readTextFileSync(path);
  }

  [Symbol.dispose](): void {
    Deno.removeSync(this.directory, { recursive: true });
  }
}

Deno.test("findLogPath() takes the environment before the node's settings", async (t) => {
  const rows: [string | undefined, string | undefined, string | undefined][] = [
    [undefined, undefined, undefined],
    ["", undefined, undefined],
    ["/a", undefined, "/a"],
    [undefined, '{"logFile":"/b","x":1}', "/b"],
    ["", '{"logFile":"/b"}', "/b"],
    ["/a", '{"logFile":"/b"}', "/a"],
    ["/a", "not read", "/a"],
    [undefined, "{}", undefined],
    [undefined, '{"logFile":null,"x":1}', undefined],
  ];
  await eachRow(t, rows, ([env, settings, want]) => {
    using fixture = new Fixture();
    if (settings !== undefined) {
      Deno.writeTextFileSync(fixture.settings, settings);
    }
    const variables = env === undefined ? {} : { CNI_LOG_FILE: env };
    assertEquals(findLogPath(variables, fixture.settings), want);
  }, ([env, settings]) => `${env} ${settings}`);
});

testRows("findLogPath() says what is wrong with the settings", [
  ["{", 6, /^Cannot parse ".*\/log.json": /],
  ["[]", 7, /^Cannot decode ".*": logFile: expected a string$/],
  ['{"logFile":5}', 7, /: logFile: expected a string$/],
  ['{"logFile":"a.log"}', 7, /^Cannot log to "a.log": it is not an absolute/],
], ([settings, code, message]: [string, number, RegExp]) => {
  using fixture = new Fixture();
  Deno.writeTextFileSync(fixture.settings, settings);
  const error = assertThrows(
    () => findLogPath({}, fixture.settings),
    CniError,
  );
  assertEquals(error.code, code);
  assertMatch(error.message, message);
});

Deno.test("appendToLog() makes directory and file, for root alone", () => {
  using fixture = new Fixture();
  appendToLog(fixture.path, ["one\n", "two\n"]);
  appendToLog(fixture.path, ["three\n"]);
  assertEquals(fixture.read(), "one\ntwo\nthree\n");
  assertEquals((Deno.statSync(fixture.path).mode ?? 0) & 0o777, 0o600);
});

testRows("keepLog() shortens the longest values of a record above 8 KiB", [
  ["text", { msg: "x".repeat(20_000) }],
  ["several values", { msg: "x".repeat(9000), stack: "y".repeat(9000) }],
  ["characters of several bytes", { msg: "ä\n€\0".repeat(5000) }],
  ["an end with short characters", {
    msg: "\0".repeat(5000) + "x".repeat(5000),
  }],
], async ([, fields]: [string, Record<string, string>]) => {
  for (const CNI_LOG_FORMAT of ["json", "text"]) {
    using fixture = new Fixture();
    const record = { level: "error", ...fields, network: "net1" } as const;
    const env = { CNI_LOG_FILE: fixture.path, CNI_LOG_FORMAT };
    await keepLog([record], env);
    const { length: size } = new TextEncoder().encode(fixture.read());
    assert(size > 8 * 1024 - 100 && size <= 8 * 1024, `${size} bytes`);
    if (CNI_LOG_FORMAT === "text") {
      assertMatch(fixture.read(), /^level=error msg=.*…"? network=net1\n$/);
      continue;
    }
    const { network, msg } = JSON.parse(fixture.read());
    assertEquals([network, msg.at(-1)], ["net1", "…"]);
  }
});

Deno.test("appendToLog() takes no more than twice a megabyte", () => {
  using fixture = new Fixture();
  const record = (i: number): string => `${`${i}`.padEnd(1023, "x")}\n`;
  appendToLog(
    fixture.path,
    Array.from({ length: 1024 }, (_, i) => record(i)),
  );
  assertEquals(Deno.statSync(fixture.path).size, 1024 * 1024);
  appendToLog(fixture.path, [record(1024)]);
  assertEquals(Deno.statSync(`${fixture.path}.1`).size, 1024 * 1024);
  assertEquals(fixture.read(), record(1024));
  appendToLog(
    fixture.path,
    Array.from({ length: 1500 }, (_, i) => record(i)),
  );
  const files = [...Deno.readDirSync(`${fixture.directory}/var/log`)];
  assertEquals(files.map(({ name }) => name).sort(), [
    "plugins.log",
    "plugins.log.1",
  ]);
  for (const { name } of files) {
    const { size } = Deno.statSync(`${fixture.directory}/var/log/${name}`);
    assert(size <= 1024 * 1024, `${name} has ${size} bytes`);
  }
});

Deno.test("appendToLog() follows no link, and writes to nothing but files", async (t) => {
  const rows: [name: string, make: (fixture: Fixture) => void][] = [
    ["a link", ({ path, directory }) => {
      Deno.writeTextFileSync(`${directory}/other`, "kept");
      Deno.symlinkSync(`${directory}/other`, path);
    }],
    [
      "a link that leads nowhere",
      ({ path, directory }) => Deno.symlinkSync(`${directory}/none`, path),
    ],
    ["a directory", ({ path }) => Deno.mkdirSync(path)],
    ["a pipe", ({ path }) => {
      new Deno.Command("mkfifo", { args: [path] }).outputSync();
    }],
  ];
  await eachRow(t, rows, ([name, make]) => {
    using fixture = new Fixture();
    Deno.mkdirSync(`${fixture.directory}/var/log`, { recursive: true });
    make(fixture);
    const error = assertThrows(
      () => appendToLog(fixture.path, ["x\n"]),
      CniError,
    );
    assertEquals(error.code, 5);
    assertStringIncludes(error.details, "it is not a regular file");
    const names = [...Deno.readDirSync(fixture.directory)].map((e) => e.name);
    assertEquals(names.includes("none"), false);
    if (name === "a link") {
      assertEquals(fixture.read(`${fixture.directory}/other`), "kept");
    }
  });
});

Deno.test("appendToLog() loses and mixes no records of many processes", async () => {
  using fixture = new Fixture();
  const module = new URL("log_file.ts", import.meta.url);
  const opener = new URL("../../ffi/file/regular_file.ts", import.meta.url);
  const flags = await importFlags();
  // Together a little more than fits: one of them renames the file.
  await eachAtOnce(["a", "b", "c", "d"], 4, async (letter) => {
    const script = `import { appendToLog } from "${module}";
      import { openRegularFile } from "${opener}";
      for (let i = 0; i < 400; i++) {
        appendToLog("${fixture.path}", ["${letter}".repeat(1000) + i + "\\n"], openRegularFile);
      }`;
    const { success } = await new Deno.Command(Deno.execPath(), {
      args: ["eval", ...flags, script],
      cwd: new URL("../..", import.meta.url),
    }).output();
    assert(success);
  });
  const lines = [`${fixture.path}.1`, fixture.path]
    .flatMap((path) => fixture.read(path).split("\n").slice(0, -1));
  assertEquals(lines.length, 1600);
  assertEquals(new Set(lines).size, 1600);
  for (const line of lines) assertMatch(line, /^(a+|b+|c+|d+)\d+$/);
});

const warner = definePlugin({
  name: "warner",
  configSchema: () => netConf({}),
  versions: ["1.0.0"],
  add: () => ({ interfaces: [], ips: [], routes: [], dns: {} }) as never,
  del: ({ log }) => log.warn("Cannot find\nthe link", { link: "eth0" }),
});

/** Runs DEL of a plugin that logs a warning. */
async function delWith(
  env: Record<string, string>,
  keepsLog = false,
  { plugin = warner, ...more }: Partial<DispatchInput> & { plugin?: Plugin } =
    {},
): Promise<{ exitCode: number; stderr: string }> {
  return await dispatch(plugin, {
    keepsLog,
    ...contextWith({
      env: {
        CNI_COMMAND: "DEL",
        CNI_CONTAINERID: "c1",
        CNI_IFNAME: "eth0",
        CNI_PATH: "/bin",
        ...env,
      },
    }),
    ...more,
    stdin: () =>
      new TextEncoder().encode(
        '{"cniVersion":"1.0.0","name":"net1","type":"warner"}',
      ),
  });
}

const LINE = "level=warn plugin=warner command=DEL containerId=c1 " +
  'ifName=eth0 network=net1 msg="Cannot find\\nthe link" link=eth0\n';

Deno.test("dispatch() appends what a plugin logs to the log file", async () => {
  using fixture = new Fixture();
  const env = { CNI_LOG_FILE: fixture.path };
  const { exitCode, stderr } = await delWith(env);
  assertEquals([exitCode, stderr], [0, LINE]);
  await delWith(env);
  const lines = fixture.read().split("\n");
  assertEquals(lines.length, 3);
  for (const line of lines.slice(0, -1)) {
    const [, time = "", rest] = /^time=(\S+) (.*)$/.exec(line) ?? [];
    assertEquals(`${rest}\n`, LINE);
    assertMatch(time, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
  }
});

Deno.test("dispatch() succeeds if the log file cannot be written", async (t) => {
  using fixture = new Fixture();
  for (
    const path of ["/proc/version/x", "relative", fixture.directory, "/a\0b"]
  ) {
    await t.step(path, async () => {
      const { exitCode, stderr } = await delWith({ CNI_LOG_FILE: path });
      assertEquals(exitCode, 0);
      assertMatch(stderr.slice(LINE.length), /^level=warn msg="Cannot log" /);
    });
  }
});

Deno.test("dispatch() logs while a call waits, which a runtime may kill", async () => {
  using fixture = new Fixture();
  for (
    const [path, find] of [
      [fixture.path, () => unlessMissing(() => fixture.read()) ?? ""],
      ["stderr", (stderr: string) => stderr],
    ] as const
  ) {
    let stderr = "";
    const waiting = definePlugin({
      name: "waiting",
      configSchema: () => netConf({}),
      versions: ["1.0.0"],
      add: () => Promise.reject(new Error("unused")),
      del: async ({ log }) => {
        for (const text of ["Waiting", "Still waiting"]) {
          log.warn(text);
          await eventually(text, () => find(stderr).includes(text));
        }
      },
    });
    const output = await delWith({ CNI_LOG_FILE: path }, true, {
      plugin: waiting,
      onStderr: (text) => stderr += text,
    });
    assertEquals(output.exitCode, 0);
    assertEquals(find(stderr).split("\n").length, 3);
  }
});

const broken = definePlugin({
  name: "broken",
  configSchema: () => netConf({}),
  versions: ["1.0.0"],
  add(): never {
    throw new TypeError("no name", { cause: new Error("below") });
  },
});

/** Runs ADD of a plugin with a bug. */
async function addWith(
  env: Record<string, string>,
): Promise<{ stdout: string; stderr: string }> {
  return await dispatch(broken, {
    ...contextWith({
      env: {
        CNI_COMMAND: "ADD",
        CNI_CONTAINERID: "c1",
        CNI_IFNAME: "eth0",
        CNI_NETNS: "/nonexistent",
        CNI_PATH: "/bin",
        ...env,
      },
    }),
    stdin: () =>
      new TextEncoder().encode(
        '{"cniVersion":"1.0.0","name":"net1","type":"broken"}',
      ),
  });
}

Deno.test("dispatch() shows where a plugin failed only at CNI_LOG_LEVEL=debug", async () => {
  using fixture = new Fixture();
  const { stdout, stderr } = await addWith({ CNI_LOG_FILE: fixture.path });
  assertEquals(stderr, "");
  assertEquals(JSON.parse(stdout).msg, "no name");
  const env = { CNI_LOG_FILE: fixture.path, CNI_LOG_LEVEL: "debug" };
  const debugged = await addWith(env);
  assertEquals(debugged.stdout, stdout);
  const place =
    /TypeError: no name\n\s+at .*add \(.*log_file_test\.ts:\d+:\d+\)/;
  assertMatch(debugged.stderr, place);
  assertStringIncludes(debugged.stderr, "[cause]: Error: below");
  const line = /level=debug plugin=broken command=ADD .* stack="TypeError: no/;
  assertMatch(fixture.read(), line);
  const json = await addWith({ ...env, CNI_LOG_FORMAT: "json" });
  assertMatch(JSON.parse(json.stderr).stack, place);
});

Deno.test("dispatch() keeps JSON records for CNI_LOG_FORMAT=json", async () => {
  using fixture = new Fixture();
  const { stderr } = await delWith({
    CNI_LOG_FILE: fixture.path,
    CNI_LOG_FORMAT: "json",
  });
  assertEquals(fixture.read(), stderr);
  const { time, ...record } = JSON.parse(stderr);
  assertMatch(time, /Z$/);
  assertEquals(record, {
    level: "warn",
    plugin: "warner",
    command: "DEL",
    containerId: "c1",
    ifName: "eth0",
    network: "net1",
    msg: "Cannot find\nthe link",
    link: "eth0",
  });
});

Deno.test("dispatch() succeeds if no journal runs", async () => {
  const isThere = (path: string): boolean => {
    try {
      return Deno.statSync(path).isSocket === true;
    } catch {
      return false;
    }
  };
  const { exitCode, stderr } = await delWith({ CNI_LOG_FILE: "journal" });
  assertEquals(exitCode, 0);
  const said = isThere("/run/systemd/journal/socket")
    ? /^$/
    : /^level=warn msg="Cannot log" error="connect: ENOENT"\n$/;
  assertMatch(stderr.slice(LINE.length), said);
});

testRows("dispatch() holds warnings back from stderr if the log has them", [
  ["a log", {}, false, true],
  ["a level", { CNI_LOG_LEVEL: "info" }, true, true],
  ["no log", { CNI_LOG_FILE: "stderr" }, true, false],
  [
    "a log that cannot be written",
    { CNI_LOG_FILE: "/proc/none/log" },
    true,
    false,
  ],
], async (
  [, env, isShown, isKept]: [string, Record<string, string>, boolean, boolean],
) => {
  using fixture = new Fixture();
  const { stderr } = await delWith(
    { CNI_LOG_FILE: fixture.path, ...env },
    true,
  );
  assertEquals(stderr.includes("level=warn plugin=warner"), isShown);
  const kept = unlessMissing(() => fixture.read()) ?? "";
  assertEquals(kept.includes("level=warn plugin=warner"), isKept);
});
