import {
  assert,
  assertEquals,
  assertMatch,
  assertStrictEquals,
  assertStringIncludes,
} from "@std/assert";
import * as z from "zod/mini";
import {
  assertFailure,
  CONFIG,
  CURRENT,
  current,
  ENV,
  type Operation,
  OPERATIONS,
  recorder,
  run,
  runCommand,
  SILENT,
} from "../tests/_harness/recorder.ts";
import { OWN_NETNS } from "../tests/_harness/surroundings.ts";
import { importFlags } from "../scripts/net.ts";
import { Cidr } from "../net/cidr.ts";
import { type Command, COMMANDS, type Environment } from "./args.ts";
import { CniError } from "./error.ts";
import type { Invocation, Invoker } from "./surroundings.ts";
import type { Call } from "./plugin.ts";
import { emptyResult, type Result } from "./result.ts";
import { netConf } from "./types.ts";
import { eachRow, testRows } from "../tests/_harness/table.ts";

const utf8 = new TextEncoder();

Deno.test("dispatch() calls the operation of the command, and no other", async (t) => {
  await eachRow(t, COMMANDS, async (command) => {
    const { plugin, calls } = current();
    assertEquals(await runCommand(plugin, command, CURRENT), SILENT);
    const [[operation, call] = []] = calls;
    assertEquals(calls.length, 1);
    assertEquals(operation, command.toLowerCase() as Operation);
    assertEquals(call?.command, command);
    assertEquals(call?.args, {
      containerId: "some-container-id",
      netns: "/proc/0/ns/net",
      ifName: "eth0",
      args: "some=extra;more=args",
      path: "/some/cni/path",
      netnsOverride: false,
    });
    assertEquals<unknown>(call?.config, CURRENT);
    assertEquals([call?.network, call?.cniVersion], ["skel-test", "1.1.0"]);
    assertEquals(call?.hostNetns, OWN_NETNS);
  });
});

Deno.test("dispatch() gives GC empty texts for what it is not told", async () => {
  const { plugin, calls } = current();
  const env = { CNI_COMMAND: "GC", CNI_PATH: "/some/cni/path" };
  assertEquals(await run(plugin, env, CURRENT), SILENT);
  assertEquals(calls[0]?.[1].args, {
    containerId: "",
    netns: "",
    ifName: "",
    args: "",
    path: "/some/cni/path",
    netnsOverride: false,
  });
});

Deno.test("dispatch() refuses a malformed environment", async (t) => {
  const characters = "interface name contains / or : or whitespace characters";
  const rows: [name: string, value: string, msg: string, details?: string][] = [
    [
      "CNI_CONTAINERID",
      "some-%%container-id",
      "invalid characters in containerID",
      "some-%%container-id",
    ],
    [
      "CNI_IFNAME",
      "1234567890123456",
      "interface name is too long",
      "interface name should be less than 16 characters",
    ],
    ["CNI_IFNAME", ".", "interface name is . or .."],
    ["CNI_IFNAME", "..", "interface name is . or .."],
    ["CNI_IFNAME", "test/test", characters],
    ["CNI_IFNAME", "test:test", characters],
    ["CNI_IFNAME", "test test", characters],
    ["CNI_PATH", "", "required env variables [CNI_PATH] missing"],
  ];
  await eachRow(t, rows, async ([name, value, msg, details]) => {
    const { plugin, calls } = recorder();
    const outcome = await run(plugin, {
      ...ENV,
      CNI_COMMAND: "ADD",
      [name]: value,
    }, "not looked at");
    assertEquals(outcome.json, {
      cniVersion: "1.1.0",
      code: 4,
      msg,
      ...details === undefined ? {} : { details },
    });
    assertEquals([outcome.exitCode, calls], [1, []]);
  }, ([name, value]) => `${name}=${value}`);
});

Deno.test("dispatch() refuses before it calls anything", async (t) => {
  const none = { ...CONFIG, cniVersion: undefined };
  const old = { ...CONFIG, cniVersion: "0.3.0" };
  const young = { ...CONFIG, cniVersion: "0.4.0" };
  const junk = { ...CONFIG, cniVersion: "junk" };
  const rows: [
    command: string,
    config: unknown,
    versions: string[],
    expected: { code: number; msg?: string; details?: string },
  ][] = [
    ["ADD", none, ["4.3.2"], {
      code: 1,
      msg: "incompatible CNI versions",
      details: 'config is "0.1.0", plugin supports ["4.3.2"]',
    }],
    ["CHECK", old, ["0.3.0", "0.4.0"], {
      code: 1,
      msg: "config version does not allow CHECK",
    }],
    ["CHECK", young, ["0.1.0", "0.2.0", "0.3.0"], {
      code: 1,
      msg: "plugin version does not allow CHECK",
    }],
    ["CHECK", junk, ["0.4.0"], { code: 6 }],
    ["CHECK", young, ["junk"], { code: 6 }],
    ["GC", young, ["0.4.0", "1.1.0"], {
      code: 1,
      msg: "config version does not allow GC",
    }],
    ["GC", CURRENT, ["1.0.0"], {
      code: 1,
      msg: "plugin version does not allow GC",
    }],
    ["GC", junk, ["1.1.0"], { code: 6 }],
    ["GC", CURRENT, ["junk"], { code: 6 }],
    ["STATUS", young, ["0.4.0", "1.1.0"], {
      code: 1,
      msg: "config version does not allow STATUS",
    }],
    ["STATUS", CURRENT, ["1.0.0"], {
      code: 1,
      msg: "plugin version does not allow STATUS",
    }],
    ["STATUS", junk, ["1.1.0"], { code: 6 }],
    ["STATUS", CURRENT, ["junk"], { code: 6 }],
    ...COMMANDS.map((command): typeof rows[number] => [
      command,
      { ...CURRENT, name: "te%%st" },
      ["1.1.0"],
      {
        code: 7,
        msg: "invalid characters found in network name",
        details: "te%%st",
      },
    ]),
    ["ADD", "", ["9.8.7"], { code: 6 }],
    ["ADD", "null", ["9.8.7"], { code: 7, msg: "missing network name" }],
    ["ADD", `${JSON.stringify(CONFIG)} junk`, ["9.8.7"], { code: 6 }],
    ["NOPE", CONFIG, ["9.8.7"], { code: 4, msg: "unknown CNI_COMMAND: NOPE" }],
    ["add", CONFIG, ["9.8.7"], { code: 4, msg: "unknown CNI_COMMAND: add" }],
    // What is wrong with the configuration comes first.
    ["NOPE", { name: "te%%st" }, ["9.8.7"], { code: 7 }],
    ["NOPE", "{{{", ["9.8.7"], { code: 6 }],
    // What is wrong with the version comes last.
    ["ADD", { name: "te%%st", cniVersion: 5 }, ["9.8.7"], { code: 7 }],
    ["NOPE", { ...CONFIG, cniVersion: 5 }, ["9.8.7"], {
      code: 4,
      msg: "unknown CNI_COMMAND: NOPE",
    }],
    ...COMMANDS.map((command): typeof rows[number] => [
      command,
      { ...CONFIG, cniVersion: 5 },
      ["9.8.7"],
      {
        code: 6,
        msg: "decoding version from network config: " +
          "cniVersion: expected a string",
      },
    ]),
  ];
  for (const [command, config, versions, expected] of rows) {
    const text = typeof config === "string" ? config : JSON.stringify(config);
    await t.step(`${command} ${text} [${versions}]`, async () => {
      const { plugin, calls } = recorder({ versions });
      assertFailure(await runCommand(plugin, command, text), expected);
      assertEquals(calls, []);
    });
  }
});

Deno.test("dispatch() takes a configuration without a version for 0.1.0", async () => {
  const { plugin, calls } = recorder({ versions: ["0.1.0"] });
  await runCommand(plugin, "ADD", { name: "skel-test" });
  assertEquals(calls.map(([, { cniVersion }]) => cniVersion), ["0.1.0"]);
});

Deno.test("dispatch() accepts keys in any case", async () => {
  const { plugin, calls } = recorder();
  const config = {
    NAME: "skel-test",
    CniVersion: "9.8.7",
    Ipam: { TYPE: "host-local" },
  };
  assertEquals(await runCommand(plugin, "ADD", config), SILENT);
  const call = calls[0]?.[1];
  assertEquals([call?.network, call?.cniVersion], ["skel-test", "9.8.7"]);
  assertEquals(call?.config.ipam?.type, "host-local");
});

Deno.test("dispatch() answers VERSION without a look at stdin", async (t) => {
  const stdin = (): never => {
    throw new Error("stdin was read");
  };
  for (const env of [{ CNI_COMMAND: "VERSION" }, { ...ENV, CNI_IFNAME: "/" }]) {
    await t.step(`${Object.keys(env).length} variables`, async () => {
      const { plugin, calls } = recorder();
      const outcome = await run(
        plugin,
        { ...env, CNI_COMMAND: "VERSION" },
        "",
        { stdin },
      );
      assertEquals(outcome.exitCode, 0);
      assertEquals(
        outcome.stdout,
        '{"cniVersion":"1.1.0","supportedVersions":["9.8.7","10.0.0"]}\n',
      );
      assertEquals(calls, []);
    });
  }
});

testRows("dispatch() introduces the plugin if no command is given", [{}, {
  ...ENV,
  CNI_COMMAND: "",
}], async (env) => {
  const written: string[] = [];
  const outcome = await run(recorder().plugin, env, "", {
    onStderr: (text) => written.push(text),
    stdin: () => {
      throw new Error("stdin was read");
    },
  });
  assertEquals([outcome.exitCode, outcome.stdout], [0, ""]);
  assertMatch(
    outcome.stderr,
    /^CNI test plugin v\d+\.\d+\.\d+\nCNI protocol versions supported: 9\.8\.7, 10\.0\.0\n$/,
  );
  assertEquals(written.join(""), outcome.stderr);
}, (env) => JSON.stringify(env));

Deno.test("dispatch() lets a plugin introduce itself, or not", async (t) => {
  await t.step("in its own words", async () => {
    const { plugin } = recorder({ about: "Any words" });
    assertEquals(
      (await run(plugin, {})).stderr,
      "Any words\n" +
        "CNI protocol versions supported: 9.8.7, 10.0.0\n",
    );
  });
  await t.step("in none: then the command is missing", async () => {
    const { plugin } = recorder({ about: "" });
    const outcome = await run(plugin, ENV);
    const msg = "required env variables [CNI_COMMAND] missing";
    assertFailure(outcome, { code: 4, msg });
    assertEquals(outcome.stderr, "");
  });
});

Deno.test("dispatch() reports that stdin cannot be read", async () => {
  const { plugin, calls } = recorder();
  const outcome = await runCommand(plugin, "ADD", "", {
    stdin: () => {
      throw new Error("banana");
    },
  });
  assertFailure(outcome, { code: 5, msg: "error reading from stdin: banana" });
  assertEquals(calls, []);
});

Deno.test("dispatch() shows what an operation throws", async (t) => {
  const typed = new CniError(1234, "potato", { details: "fried" });
  const rows: [name: string, error: unknown, expected: unknown][] = [
    ["a typed error", typed, { code: 1234, msg: "potato", details: "fried" }],
    ["any other error", new Error("potato"), { code: 999, msg: "potato" }],
    ["a text", "potato", { code: 999, msg: "potato" }],
    ["undefined", undefined, { code: 999, msg: "unknown error" }],
    [
      "a typed error, wrapped",
      new Error("Cannot cook", {
        cause: new Error("no fire", { cause: typed }),
      }),
      { code: 1234, msg: "potato", details: "Cannot cook: no fire: fried" },
    ],
  ];
  for (const [name, error, expected] of rows) {
    await eachRow(t, ["throws", "rejects"], async (how) => {
      for (const command of COMMANDS) {
        const fail = (): never | Promise<never> => {
          if (how === "throws") throw error;
          return Promise.reject(error);
        };
        const { plugin } = current(
          Object.fromEntries(OPERATIONS.map((name) => [name, fail])),
        );
        const outcome = await runCommand(plugin, command, CURRENT);
        assertEquals(outcome.json, {
          cniVersion: "1.1.0",
          ...expected as object,
        });
        assertEquals(outcome.exitCode, 1);
      }
    }, (how) => `${name}: ${how}`);
  }
});

Deno.test("dispatch() stamps errors with the configuration's version if it is one", async (t) => {
  const rows: [cniVersion: string | undefined, expected: string][] = [
    ["0.2.0", "0.2.0"],
    ["1.0.0", "1.0.0"],
    ["1.1.0", "1.1.0"],
    [undefined, "0.1.0"],
    ["9.8.7", "1.1.0"],
    ["junk", "1.1.0"],
  ];
  await eachRow(t, rows, async ([cniVersion, expected]) => {
    const { plugin } = recorder({ versions: [] });
    const outcome = await runCommand(plugin, "ADD", { ...CONFIG, cniVersion });
    assertEquals(outcome.json.cniVersion, expected);
  });
});

Deno.test("dispatch() succeeds where the plugin has no such operation", async (t) => {
  const { add: _, del, check, gc, status, ...plugin } = current().plugin;
  assert(del && check && gc && status);
  await eachRow(t, COMMANDS, async (command) => {
    assertEquals(await runCommand(plugin, command, CURRENT), SILENT);
  });
  await t.step("but not in a version without the command", async () => {
    const outcome = await runCommand(plugin, "GC", { name: "a" });
    assertFailure(outcome, {
      code: 1,
      msg: "config version does not allow GC",
    });
  });
});

Deno.test("dispatch() refuses a sandbox that is the plugin's own namespace", async (t) => {
  const own = { CNI_NETNS: OWN_NETNS };
  const rows: [string, Command, Environment, number, Operation[]][] = [
    ["before ADD", "ADD", own, 1, []],
    ["after DEL, which shall clean up", "DEL", own, 1, ["del"]],
    ["not on CHECK", "CHECK", own, 0, ["check"]],
    ["not on GC", "GC", own, 0, ["gc"]],
    ["not on STATUS", "STATUS", own, 0, ["status"]],
    [
      "another path to it",
      "ADD",
      {
        CNI_NETNS: `/proc/${Deno.pid}/ns/net`,
      },
      1,
      [],
    ],
    [
      "not ADD with override 1",
      "ADD",
      { ...own, CNI_NETNS_OVERRIDE: "1" },
      0,
      ["add"],
    ],
    [
      "not DEL with override TRUE",
      "DEL",
      { ...own, CNI_NETNS_OVERRIDE: "TRUE" },
      0,
      ["del"],
    ],
    ["not DEL without namespace", "DEL", { CNI_NETNS: "" }, 0, ["del"]],
    ["not DEL with one that is gone", "DEL", {}, 0, ["del"]],
    ["not another one", "ADD", { CNI_NETNS: "/proc/self/ns/mnt" }, 0, ["add"]],
  ];
  await eachRow(t, rows, async ([, command, env, exitCode, expected]) => {
    const { plugin, calls } = current({ add: () => emptyResult() });
    const all = { ...ENV, CNI_COMMAND: command, ...env };
    const outcome = await run(plugin, all, CURRENT);
    assertEquals(outcome.exitCode, exitCode);
    assertEquals(calls.map(([operation]) => operation), expected);
    if (exitCode === 0) return;
    assertFailure(outcome, {
      code: 8,
      msg: "plugin's netns and netns from CNI_NETNS should not be the same",
    });
  });
  await t.step("nor if its own cannot be read", async () => {
    const { plugin, calls } = current();
    const outcome = await runCommand(plugin, "ADD", CURRENT, {
      hostNetns: "/proc/0/ns/net",
    });
    assertFailure(outcome, { code: 8 });
    assertEquals(calls, []);
  });
  await t.step("the error of DEL comes first", async () => {
    const { plugin } = current({
      del: () => {
        throw new CniError(100, "busy");
      },
    });
    const env = { ...ENV, ...own, CNI_COMMAND: "DEL" };
    assertFailure(await run(plugin, env, CURRENT), { code: 100, msg: "busy" });
  });
});

const RESULT: Result = {
  ...emptyResult(),
  interfaces: [{ name: "eth0", sandbox: "/proc/0/ns/net" }],
  ips: [{ interface: 0, address: Cidr.parse("10.1.2.3/24") }],
};

Deno.test("dispatch() prints the result of ADD in the configuration's version", async (t) => {
  const address = "10.1.2.3/24";
  const link = { name: "eth0", sandbox: "/proc/0/ns/net" };
  const rows: [cniVersion: string | undefined, expected: unknown][] = [
    [undefined, { cniVersion: "0.1.0", ip4: { ip: address }, dns: {} }],
    ["0.2.0", { cniVersion: "0.2.0", ip4: { ip: address }, dns: {} }],
    ["0.4.0", {
      cniVersion: "0.4.0",
      interfaces: [link],
      ips: [{ version: "4", interface: 0, address }],
      dns: {},
    }],
    ["1.1.0", {
      cniVersion: "1.1.0",
      interfaces: [link],
      ips: [{ address, interface: 0 }],
    }],
  ];
  await eachRow(t, rows, async ([cniVersion, expected]) => {
    const { plugin } = current({ add: () => Promise.resolve(RESULT) });
    const outcome = await runCommand(plugin, "ADD", { ...CONFIG, cniVersion });
    assertEquals(outcome.json, expected);
    assertEquals(outcome.stdout, JSON.stringify(expected, null, 4));
    assertEquals([outcome.exitCode, outcome.stderr], [0, ""]);
  });
});

Deno.test("dispatch() prints nothing for what other operations return", async (t) => {
  const operations = OPERATIONS.map((name) => [name, () => RESULT]);
  const { plugin } = current(Object.fromEntries(operations));
  for (const command of COMMANDS.filter((command) => command !== "ADD")) {
    await t.step(command, async () => {
      assertEquals(await runCommand(plugin, command, CURRENT), SILENT);
    });
  }
});

Deno.test("dispatch() undoes an ADD whose result the version cannot express", async (t) => {
  const config = { ...CONFIG, cniVersion: "0.2.0" };
  const failure = { code: 1, msg: "cannot convert: no valid IP addresses" };
  await t.step("by DEL", async () => {
    const { plugin, calls } = current({ add: () => emptyResult() });
    assertFailure(await runCommand(plugin, "ADD", config), failure);
    assertEquals(calls.map(([operation]) => operation), ["add", "del"]);
  });
  await t.step("as far as DEL can", async () => {
    const { plugin } = current({
      add: () => emptyResult(),
      del: () => Promise.reject(new CniError(100, "busy")),
    });
    const outcome = await runCommand(plugin, "ADD", config);
    assertFailure(outcome, failure);
    assertMatch(
      outcome.stderr,
      /^level=error .*msg="Cannot undo ADD" error=busy\n$/,
    );
  });
  await t.step("as far as there is a DEL", async () => {
    const { del: _, ...plugin } = current({ add: () => emptyResult() }).plugin;
    assertFailure(await runCommand(plugin, "ADD", config), failure);
  });
});

Deno.test("dispatch() does without wrong keys on tear-down only", async (t) => {
  const config = { ...CURRENT, mtu: "big", prevResult: 5 };
  await eachRow(t, COMMANDS, async (command) => {
    const { plugin, calls } = current({
      configSchema: () => netConf({ mtu: z.optional(z.int()) }),
    });
    const outcome = await runCommand(plugin, command, config);
    if (command === "DEL" || command === "GC") {
      assertEquals(outcome.exitCode, 0);
      assertEquals<unknown>(calls.map(([, { config }]) => config), [CURRENT]);
      for (const problem of ["mtu: ", "prevResult: "]) {
        assertStringIncludes(outcome.stderr, problem);
      }
    } else {
      assertFailure(outcome, { code: 7 });
      assertEquals(calls, []);
    }
  });
});

Deno.test("dispatch() decodes prevResult when it is looked at", async (t) => {
  const look = (call: Call): Result => call.prevResult ?? emptyResult();
  const prevResult = { ips: [{ address: "10.1.2.3/24" }] };
  await t.step("in the configuration's version if it names none", async () => {
    const { plugin } = current({ add: look });
    const config = { ...CURRENT, prevResult };
    const outcome = await runCommand(plugin, "ADD", config);
    assertEquals(outcome.json, { cniVersion: "1.1.0", ...prevResult });
  });
  await t.step("once", async () => {
    const { plugin } = current({
      add(call): Result {
        assertStrictEquals(call.prevResult, call.prevResult);
        return look(call);
      },
    });
    const config = { ...CURRENT, prevResult };
    assertEquals((await runCommand(plugin, "ADD", config)).exitCode, 0);
  });
  await t.step("absent", async () => {
    const { plugin } = current({ add: look });
    const outcome = await runCommand(plugin, "ADD", CURRENT);
    assertEquals(outcome.json, { cniVersion: "1.1.0" });
  });
  const foreign = { ...CURRENT, prevResult: { cniVersion: "0.2.0" } };
  await t.step("of another family", async () => {
    const { plugin } = current({ add: look });
    assertFailure(await runCommand(plugin, "ADD", foreign), { code: 1 });
  });
  await t.step("not at all if nobody looks", async () => {
    const { plugin } = current({ add: () => emptyResult() });
    assertEquals((await runCommand(plugin, "ADD", foreign)).exitCode, 0);
  });
});

Deno.test("dispatch() waits for a schema that is loaded", async () => {
  const { plugin, calls } = current({
    configSchema: () => Promise.resolve(netConf({ mtu: z.optional(z.int()) })),
  });
  assertFailure(await runCommand(plugin, "ADD", { ...CURRENT, mtu: "big" }), {
    code: 7,
  });
  assertEquals(calls, []);
});

Deno.test("dispatch() decodes the valid attachments when they are looked at", async (t) => {
  const key = "cni.dev/valid-attachments";
  const gc = async (config: object, look: boolean): Promise<unknown[]> => {
    const seen: unknown[] = [];
    const { plugin } = current({
      gc: (call) => void (look && seen.push(call.validAttachments)),
    });
    const { exitCode, json } = await runCommand(plugin, "GC", {
      ...CURRENT,
      ...config,
    });
    return exitCode === 0 ? seen : [json.code];
  };
  await t.step("some", async () => {
    const list = [{ containerID: "c", ifname: "eth0" }];
    assertEquals(await gc({ [key]: list }, true), [[
      { containerId: "c", ifName: "eth0" },
    ]]);
  });
  await t.step("none", async () => {
    assertEquals(await gc({ [key]: [] }, true), [[]]);
  });
  await t.step("not said", async () => {
    assertEquals(await gc({}, true), [undefined]);
  });
  await t.step("malformed: nothing may be taken for invalid", async () => {
    assertEquals(await gc({ [key]: [{}] }, true), [7]);
  });
  await t.step("malformed, and nobody looks", async () => {
    assertEquals(await gc({ [key]: [{}] }, false), []);
  });
});

Deno.test("dispatch() hands the result over where the printed one holds all of it", async (t) => {
  const rows: [Command, string, Result, Result[]][] = [
    ["ADD", "1.1.0", RESULT, [RESULT]],
    ["ADD", "1.0.0", RESULT, [RESULT]],
    ["ADD", "0.4.0", RESULT, []],
    ["ADD", "0.2.0", RESULT, []],
    ["ADD", "0.2.0", emptyResult(), []],
    ["DEL", "1.1.0", RESULT, []],
  ];
  for (const [command, cniVersion, result, expected] of rows) {
    const size = result === RESULT ? "" : ", empty";
    await t.step(`${command} ${cniVersion}${size}`, async () => {
      const seen: Result[] = [];
      const { plugin } = current({ add: () => result });
      await runCommand(plugin, command, { ...CONFIG, cniVersion }, {
        onResult: (value) => seen.push(value),
      });
      assertEquals(seen, expected);
    });
  }
});

/** Writes down what is delegated; answers with an address. */
function recordingInvoker(): { invoker: Invoker; invocations: Invocation[] } {
  const invocations: Invocation[] = [];
  const invoker: Invoker = {
    invoke(invocation): Promise<string> {
      invocations.push(invocation);
      invocation.onStderr("from the delegate\n");
      return Promise.resolve('{"ips":[{"address":"10.1.2.3/24"}]}');
    },
  };
  return { invoker, invocations };
}

Deno.test("dispatch() lets a plugin delegate with the bytes that it was given", async (t) => {
  const text = ` {"cniVersion":"1.1.0","name":"a", "ipam":{"type":"ipam"},
    "big":12345678901234567890,"mtu":1.50e3}\n`;
  const bytes = utf8.encode(text);
  const stdin = (): Uint8Array => bytes;
  await t.step("to the IPAM plugin", async () => {
    const { invoker, invocations } = recordingInvoker();
    const { plugin } = current({ add: (call) => call.ipam.add() });
    const outcome = await runCommand(plugin, "ADD", "", { stdin, invoker });
    assertEquals(outcome.json.ips, [{ address: "10.1.2.3/24" }]);
    assertEquals(outcome.stderr, "from the delegate\n");
    const [invocation] = invocations;
    assertEquals([invocations.length, invocation?.type], [1, "ipam"]);
    assertStrictEquals(invocation?.stdin, bytes);
    assertEquals(invocation.env, { ...ENV, CNI_COMMAND: "ADD" });
    assertEquals(invocation.hostNetns, OWN_NETNS);
  });
  await t.step("to any other, by any command", async () => {
    const { invoker, invocations } = recordingInvoker();
    const { plugin } = current({
      add: async (call) => {
        await call.delegate("other").del();
        return emptyResult();
      },
    });
    await runCommand(plugin, "ADD", "", { stdin, invoker });
    const [invocation] = invocations;
    assertEquals(invocation?.type, "other");
    assertEquals(invocation?.env, { ...ENV, CNI_COMMAND: "DEL" });
  });
});

Deno.test("dispatch() hands log lines on as they come", async () => {
  const written: string[] = [];
  const { plugin } = current({
    del(call): void {
      call.log.info("first");
      assertEquals(written.length, 1);
      call.log.warn("second");
    },
  });
  const { stderr } = await runCommand(plugin, "DEL", CURRENT, {
    onStderr: (text) => written.push(text),
  });
  const common = "plugin=test command=DEL containerId=some-container-id " +
    "ifName=eth0 network=skel-test";
  assertEquals(written, [
    `level=info ${common} msg=first\n`,
    `level=warn ${common} msg=second\n`,
  ]);
  assertEquals(stderr, written.join(""));
});

/** How a process ended. */
interface Ending {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

const ROOT = new URL("..", import.meta.url);

/** An environment in which ptp looks for its IPAM plugin and does nothing else. */
const PROCESS_ENV = { ...ENV, CNI_COMMAND: "STATUS" };

/** The command that runs ptp as a process. */
async function ptpCommand(): Promise<[string, ...string[]]> {
  const flags = await importFlags();
  const script = 'import { runMain } from "./cni/skel.ts";' +
    'import { ptp } from "./plugins/ptp/plugin.ts";' +
    "runMain(ptp);";
  return [Deno.execPath(), "eval", ...flags, script];
}

/**
 * Runs ptp by a shell, which can do to environment and streams what Deno
 * cannot.
 *
 * @param script Runs `"$@"`; `$STDIN` is a file with the configuration
 */
async function runPtp(script: string, stdin: string): Promise<Ending> {
  const file = await Deno.makeTempFile();
  try {
    await Deno.writeTextFile(file, stdin);
    const { code, stdout, stderr } = await new Deno.Command("sh", {
      args: ["-c", script, "sh", ...await ptpCommand()],
      cwd: ROOT,
      env: { ...PROCESS_ENV, STDIN: file },
    }).output();
    const decode = (bytes: Uint8Array): string =>
      new TextDecoder().decode(bytes);
    return { code, stdout: decode(stdout), stderr: decode(stderr) };
  } finally {
    await Deno.remove(file);
  }
}

Deno.test("runMain() answers by one error document, whatever it is run with", async (t) => {
  const config = JSON.stringify({ ...CURRENT, ipam: { type: "none" } });
  const pad = "a".repeat(10 * 1024 * 1024);
  const reached = { code: 999, msg: /failed to find plugin "none"/ };
  const rows: [string, string, string, { code: number; msg: RegExp }][] = [
    ["stdin without a line feed", '"$@" < "$STDIN"', config, reached],
    ["stdin with one", '"$@" < "$STDIN"', `${config}\n`, reached],
    [
      "10 MB of stdin",
      'cat "$STDIN" | "$@"',
      config.replace("{", `{"pad":"${pad}",`),
      reached,
    ],
    [
      "a variable that is not UTF-8",
      'env "X=$(printf "\\377")" "$@" < "$STDIN"',
      config,
      reached,
    ],
    [
      "a variable whose name is not UTF-8",
      'env "$(printf "X\\377")=1" "$@" < "$STDIN"',
      config,
      reached,
    ],
    [
      "an interface name that is not UTF-8",
      'env CNI_COMMAND=ADD "CNI_IFNAME=$(printf "\\377")" "$@" < "$STDIN"',
      config,
      { code: 4, msg: /\[CNI_IFNAME\] missing/ },
    ],
    ["no stdin", '"$@" <&-', "", { code: 6, msg: /it is empty/ }],
    ["a folder as stdin", '"$@" < /', "", { code: 5, msg: /Is a directory/ }],
    ["no stderr", '"$@" < "$STDIN" 2>&-', config, reached],
  ];
  await eachRow(t, rows, async ([, script, stdin, expected]) => {
    const { code, stdout, stderr } = await runPtp(script, stdin);
    assertEquals([code, stderr], [1, ""]);
    const error = JSON.parse(stdout);
    assertEquals(error.code, expected.code, stdout);
    assertMatch(error.msg, expected.msg);
  });
});

Deno.test("runMain() tells by its exit status that nobody got the answer", async (t) => {
  await t.step("a full disk", async () => {
    const script = 'CNI_COMMAND=VERSION "$@" > /dev/full';
    const { code, stderr } = await runPtp(script, "");
    assertEquals(code, 1);
    assertMatch(stderr, /^Cannot write to stdout: No space left .*\n$/);
  });
  await t.step("a reader that is gone", async () => {
    const [path, ...args] = await ptpCommand();
    const child = new Deno.Command(path, {
      args,
      cwd: ROOT,
      env: PROCESS_ENV,
      stdin: "piped",
      stdout: "piped",
      stderr: "piped",
    }).spawn();
    await child.stdout.cancel();
    const writer = child.stdin.getWriter();
    await writer.write(utf8.encode(JSON.stringify(CURRENT)));
    await writer.close();
    const stderr = await new Response(child.stderr).text();
    assertEquals((await child.status).code, 1);
    assertMatch(stderr, /^Cannot write to stdout: Broken pipe .*\n$/);
  });
  await t.step("but not that nobody got the log", async () => {
    const script = 'CNI_COMMAND= "$@" 2> /dev/full';
    assertEquals((await runPtp(script, "")).code, 0);
  });
});

/** Runs a plugin with this ADD as a process, which it does not wait for itself. */
async function runAdd(add: string): Promise<Ending> {
  const modules = ["skel", "types", "result"].map((name) =>
    `import * as ${name} from "${new URL(`${name}.ts`, import.meta.url)}";`
  );
  const program = `${modules.join("\n")}
    skel.runMain({ name: "test", versions: ["1.1.0"], add: ${add},
      configSchema: () => types.netConf({}) });`;
  const flags = await importFlags();
  const child = new Deno.Command(Deno.execPath(), {
    args: ["eval", ...flags, "--ext=ts", program],
    cwd: ROOT,
    env: { ...ENV, CNI_COMMAND: "ADD" },
    stdin: "piped",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  const writer = child.stdin.getWriter();
  await writer.write(utf8.encode(JSON.stringify(CURRENT)));
  await writer.close();
  const { code, stdout, stderr } = await child.output();
  const [out = "", err = ""] = [stdout, stderr]
    .map((bytes) => new TextDecoder().decode(bytes));
  return { code, stdout: out, stderr: err };
}

Deno.test("runMain() keeps what a plugin says to the console out of its answer", async () => {
  const { code, stdout, stderr } = await runAdd(`() => {
    console.log("found %d links", 3);
    return result.emptyResult();
  }`);
  assertEquals([code, JSON.parse(stdout)], [0, { cniVersion: "1.1.0" }]);
  assertEquals(stderr, "found 3 links\n");
});

Deno.test("runMain() does not succeed if the plugin never comes to an end", async () => {
  const { code, stdout } = await runAdd("() => new Promise(() => {})");
  assertEquals([code, stdout], [1, ""]);
});

Deno.test("runMain() prints a result that is larger than a pipe", async () => {
  const { code, stdout } = await runAdd(`() => ({
    ...result.emptyResult(),
    interfaces: Array.from({ length: 9999 }, (_, i) => ({ name: "eth" + i })),
  })`);
  assertEquals([code, JSON.parse(stdout).interfaces.length], [0, 9999]);
});
