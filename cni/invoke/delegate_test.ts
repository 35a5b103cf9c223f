import {
  assertEquals,
  assertMatch,
  assertRejects,
  assertStrictEquals,
} from "@std/assert";
import { COMMANDS } from "../call/args.ts";
import { CniError, ErrorCode, toCniError } from "../../base/error.ts";
import { createLog } from "../../base/log/log.ts";
import { emptyResult } from "../result/result.ts";
import { type DelegatedPlugin, delegateTo } from "./delegate.ts";
import type { CallContext, Invocation } from "../call/context.ts";
import { contextWith, OWN_NETNS } from "../../tests/_harness/call_context.ts";
import { eachRow, testRows } from "../../tests/_harness/table.ts";

/** The environment of the plugin that delegates. */
const ENV = {
  CNI_COMMAND: "ADD",
  CNI_CONTAINERID: "some-container-id",
  CNI_NETNS: "/some/netns/path",
  CNI_IFNAME: "eth7",
  CNI_ARGS: "a=b",
  CNI_PATH: "/some/cni/path",
  CNI_NETNS_OVERRIDE: "1",
  PATH: "/bin",
  TRACEPARENT: "00-1-2-03",
  TRACESTATE: "vendor=1",
  BAGGAGE: "user=7",
};

const STDIN = new TextEncoder().encode(' {"name":"net1"}\n');

/** A delegate, and what is asked of it. */
interface Witness {
  readonly delegate: DelegatedPlugin;
  readonly invocations: Invocation[];
  /** The log. */
  readonly lines: string[];
  /** The commands of the invocations. */
  commands(): (string | undefined)[];
}

/** Makes a delegate that answers as told: the text, or the error. */
function delegateThat(
  answer: (command: string) => string | Error,
  more: Partial<CallContext> = {},
  {
    type = "plugin",
    caller = "caller",
    cniVersion = "1.1.0",
    hasResult = false,
  } = {},
): Witness {
  const invocations: Invocation[] = [];
  const lines: string[] = [];
  const delegate = delegateTo(type, {
    caller,
    context: contextWith({
      invoker: {
        invoke(invocation): Promise<string> {
          invocations.push(invocation);
          const outcome = answer(invocation.env["CNI_COMMAND"] ?? "");
          return outcome instanceof Error
            ? Promise.reject(outcome)
            : Promise.resolve(outcome);
        },
      },
      env: ENV,
      onStderr: (text) => lines.push(text),
      ...more,
    }),
    stdin: STDIN,
    cniVersion,
    hasResult,
    log: createLog({}, (line) => lines.push(line)),
  });
  const commands = (): (string | undefined)[] =>
    invocations.map(({ env }) => env["CNI_COMMAND"]);
  return { delegate, invocations, lines, commands };
}

/** The methods of a delegate by the command that they run. */
const METHODS = {
  ADD: "add",
  CHECK: "check",
  DEL: "del",
  GC: "gc",
  STATUS: "status",
} as const;

Deno.test("delegateTo() runs the plugin with this call's input", async (t) => {
  await eachRow(t, COMMANDS, async (command) => {
    const before = { ...ENV };
    const { delegate, invocations } = delegateThat(() => "{}");
    await delegate[METHODS[command]]();
    const [invocation] = invocations;
    assertEquals(invocations.length, 1);
    assertEquals(invocation?.type, "plugin");
    assertEquals(invocation?.env, { ...ENV, CNI_COMMAND: command });
    assertStrictEquals(invocation?.stdin, STDIN);
    assertEquals(invocation.hostNetns, OWN_NETNS);
    assertEquals(ENV, before);
  });
  await t.step("adds the command to an environment without one", async () => {
    const { delegate, invocations } = delegateThat(() => "{}", { env: {} });
    await delegate.status();
    assertEquals(invocations[0]?.env, { CNI_COMMAND: "STATUS" });
  });
});

Deno.test("a delegate gets REPAIR only if it declares it", async (t) => {
  await t.step("it does", async () => {
    const { delegate, commands, invocations } = delegateThat(() =>
      '{"commands":["REPAIR"]}'
    );
    await delegate.repair();
    assertEquals(commands(), ["VERSION", "REPAIR"]);
    assertEquals(invocations[0]?.env["CNI_TOOL_ASKS"], "commands");
    assertEquals(invocations[1]?.env, { ...ENV, CNI_COMMAND: "REPAIR" });
  });
  await t.step("it does not", async () => {
    const { delegate, commands } = delegateThat(() => "{}");
    const text = 'plugin "plugin" cannot repair';
    await assertRejects(() => delegate.repair(), Error, text);
    assertEquals(commands(), ["VERSION"]);
  });
});

Deno.test("a delegated ADD logs that a result has to be converted", async (t) => {
  const line = (from: string, to: string): string =>
    'level=warn msg="Converting a result of a different version" ' +
    `delegate=plugin from=${from} to=${to}\n`;
  const rows: [from: string, to: string, lines: string[]][] = [
    ["0.2.0", "1.1.0", [line("0.2.0", "1.1.0")]],
    ["0.4.0", "1.0.0", [line("0.4.0", "1.0.0")]],
    ["1.0.0", "0.2.0", [line("1.0.0", "0.2.0")]],
    ["1.0.0", "1.1.0", []],
    ["0.3.0", "0.4.0", []],
    ["0.1.0", "0.2.0", []],
  ];
  await eachRow(t, rows, async ([from, to, expected]) => {
    const answer = JSON.stringify({ cniVersion: from });
    const { delegate, lines } = delegateThat(
      () => answer,
      {},
      { cniVersion: to },
    );
    await delegate.add();
    assertEquals(lines, expected);
  }, ([from, to]) => `${from} to ${to}`);
});

Deno.test("a delegated ADD takes a result that is at hand as it is", async () => {
  const result = emptyResult();
  const { delegate } = delegateThat(() => "", {
    invoker: {
      invoke({ onResult }): Promise<string> {
        onResult?.(result);
        return Promise.resolve("not looked at");
      },
    },
  });
  assertStrictEquals(await delegate.add(), result);
});

testRows("a delegated ADD refuses a malformed result, and cleans up", [
  ["white space", "\n", 6],
  ["a text", '"a"', 6],
  ["a wrong address", '{"ips":[{"address":"10.1.2.3"}]}', 6],
  ["an unknown version", '{"cniVersion":"9.8.7"}', 1],
], async ([, answer, code]: [string, string, number]) => {
  const { delegate, commands } = delegateThat(() => answer);
  const error = toCniError(await assertRejects(() => delegate.add()));
  assertEquals(error.code, code, error.message);
  assertMatch(error.details, /plugin "plugin" failed \(ADD\)/);
  assertEquals(commands(), ["ADD", "DEL"]);
});

const noAddress = new CniError(11, "no address", { details: "pool is full" });

Deno.test("a delegated ADD leaves an ADD that fails to the plugin", async () => {
  // It undid what it did; what it holds may be of an earlier attachment.
  const { delegate, commands, lines } = delegateThat(() => noAddress);
  const error = toCniError(await assertRejects(() => delegate.add()));
  assertEquals(error.toObject("1.1.0"), {
    cniVersion: "1.1.0",
    code: 11,
    msg: "no address",
    details: 'plugin "plugin" failed (ADD): pool is full',
  });
  assertEquals([commands(), lines], [["ADD"], []]);
});

Deno.test("a delegated ADD logs a clean-up that fails, and throws why it was needed", async () => {
  const { delegate, commands, lines } = delegateThat((command) =>
    command === "ADD" ? "[]" : new CniError(5, "disk is full")
  );
  const error = toCniError(await assertRejects(() => delegate.add()));
  assertEquals(error.code, ErrorCode.DecodingFailure);
  assertEquals([commands(), lines], [["ADD", "DEL"], [
    'level=error msg="Cannot clean up after plugin \\"plugin\\"" ' +
    'error="plugin \\"plugin\\" failed (DEL): disk is full"\n',
  ]]);
});

Deno.test("a delegated plugin is given up when the call is", async (t) => {
  const { signal } = new AbortController();
  await eachRow(t, COMMANDS, async (command) => {
    const { delegate, invocations } = delegateThat(() => "{}", {
      env: { CNI_COMMAND: command },
      signal,
    });
    await delegate[METHODS[command]]();
    assertStrictEquals(invocations[0]?.signal, signal);
  });
  await t.step("but not what cleans up after it", async () => {
    const { delegate, invocations } = delegateThat(() => "[]", {
      signal: AbortSignal.abort(),
    });
    await assertRejects(() => delegate.add());
    const [add, del] = invocations;
    assertEquals([add?.signal?.aborted, del?.signal?.aborted], [true, false]);
  });
  await t.step("or never", async () => {
    const { delegate, invocations } = delegateThat(() => "[]");
    await assertRejects(() => delegate.add());
    assertEquals(invocations.map(({ signal }) => signal), [
      undefined,
      undefined,
    ]);
  });
});

testRows(
  "a delegated plugin does not call the plugin that calls it",
  ["add", "check", "status"] as const,
  async (command) => {
    const { delegate, invocations } = delegateThat(
      () => "{}",
      {},
      { caller: "plugin" },
    );
    const error = toCniError(await assertRejects(() => delegate[command]()));
    assertEquals(error.code, ErrorCode.InvalidNetworkConfig);
    assertEquals(error.message, 'plugin "plugin" cannot delegate to itself');
    assertEquals(invocations, []);
  },
);

testRows("DEL and GC of a plugin that no ADD can have run do nothing", [
  ["the plugin itself", "caller", 0],
  ["no name", "", 0],
  ["a path", "a/b", 0],
  ["a directory", "..", 0],
  ["a NUL", "a\0b", 0],
  ["a name that is too long", "ä".repeat(128), 0],
  ["the longest name", "a".repeat(255), 1],
  ["a plugin that is not installed", "none", 1],
], async ([, type, calls]: [string, string, number]) => {
  for (const command of ["del", "gc"] as const) {
    const { delegate, invocations, lines } = delegateThat(
      () => "",
      {},
      { type },
    );
    await delegate[command]();
    assertEquals(invocations.length, calls);
    assertEquals(lines.length, 1 - calls);
    await assertRejects(() =>
      delegateThat(() => "", {}, { type }).delegate.add()
    );
  }
});

Deno.test("DEL of a plugin fails if its type was changed after ADD", async () => {
  const run = (type: string): Promise<void> =>
    delegateThat(() => new Error("refused"), {}, { type, hasResult: true })
      .delegate.del();
  await assertRejects(() => run("a/b"), Error, 'plugin "a/b" failed (DEL)');
  await assertRejects(() => run("caller"), Error, "failed (DEL)");
});

testRows(
  "a delegated plugin names plugin and command",
  COMMANDS,
  async (command) => {
    const { delegate, commands } = delegateThat(() => noAddress);
    const error = await assertRejects(
      () => delegate[METHODS[command]](),
      Error,
      `plugin "plugin" failed (${command})`,
    );
    assertStrictEquals(error.cause, noAddress);
    assertEquals(commands(), [command]);
  },
);
