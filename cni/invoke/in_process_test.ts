import {
  assertEquals,
  assertExists,
  assertRejects,
  assertStrictEquals,
  assertStringIncludes,
} from "@std/assert";
import { deadlineWhen } from "../../tests/_harness/eventually.ts";
import { PluginDirectory } from "../../tests/_harness/plugin_directory.ts";
import type { Environment } from "../../base/process/environment.ts";
import { CniError, type ErrorObject } from "../../base/error.ts";
import type { Plugin } from "../plugin.ts";
import { emptyResult, type Result } from "../result/result.ts";
import { findFileId } from "../../base/files/same_file.ts";
import { dispatch } from "../skel.ts";
import { netConf } from "../config/types.ts";
import { createInvoker } from "./in_process.ts";
import type {
  DispatchInput,
  DispatchOutput,
  Invocation,
  Invoker,
} from "../call/context.ts";
import { eachRow } from "../../tests/_harness/table.ts";

const STDIN = new TextEncoder().encode('{"name":"net1","cniVersion":"1.1.0"}');

/** Deno itself, which one test runs as a plugin, wants a directory to write to. */
const HOME = Deno.env.get("HOME") ?? "/tmp";

/** A plugin without any operation. */
function pluginNamed(name: string, operations: Partial<Plugin> = {}): Plugin {
  return {
    name,
    versions: ["1.1.0"],
    configSchema: () => netConf({}),
    ...operations,
  };
}

/** Makes an invocation of the type "plugin". */
function invocationIn(path: string, env: Environment = {}): Invocation {
  return {
    type: "plugin",
    env: {
      CNI_COMMAND: "STATUS",
      CNI_PATH: path,
      CNI_LOG_FILE: "stderr",
      HOME,
      ...env,
    },
    stdin: STDIN,
    hostNetns: "/proc/self/ns/net",
    onStderr(): void {},
  };
}

/** An invoker for one plugin of our own, and what it was asked to dispatch. */
function witness(
  output: DispatchOutput = { stdout: "in process", stderr: "", exitCode: 0 },
  callers: readonly string[] = [],
): { invoker: Invoker; runs: [Plugin, DispatchInput][] } {
  const runs: [Plugin, DispatchInput][] = [];
  const invoker = createInvoker(
    (plugin, input) => {
      runs.push([plugin, input]);
      return Promise.resolve(output);
    },
    (type) =>
      type === "plugin" ? Promise.resolve(pluginNamed(type)) : undefined,
    { callers },
  );
  return { invoker, runs };
}

Deno.test("createInvoker() dispatches in this process what is found as its own executable", async () => {
  using directory = new PluginDirectory();
  directory.addOwnExecutable("plugin");
  const { invoker, runs } = witness();
  const written: string[] = [];
  const invocation = {
    ...invocationIn(directory.path),
    onStderr: (text: string): unknown => written.push(text),
    onResult(): void {},
  };
  assertEquals(await invoker.invoke(invocation), "in process");
  const [[plugin, input] = []] = runs;
  assertEquals([runs.length, plugin?.name], [1, "plugin"]);
  assertEquals(input?.env, invocation.env);
  assertStrictEquals(input?.stdin(), STDIN);
  assertEquals(input.hostNetns, "/proc/self/ns/net");
  // It may have delegates of its own, on the same terms.
  assertStrictEquals(input.invoker, invoker);
  input.onStderr?.("log\n");
  assertEquals(written, ["log\n"]);
  assertStrictEquals(input.onResult, invocation.onResult);
});

Deno.test("createInvoker() counts the files of callers as its own", async () => {
  using directory = new PluginDirectory();
  const file = findFileId(directory.add("plugin", "echo process"));
  assertExists(file);
  const { invoker } = witness(undefined, [file]);
  const invocation = invocationIn(directory.path);
  assertEquals(await invoker.invoke(invocation), "in process");
});

Deno.test("createInvoker() runs any other executable as a process", async (t) => {
  using own = new PluginDirectory();
  using other = new PluginDirectory();
  own.addOwnExecutable("plugin");
  own.addOwnExecutable("foreign");
  other.add("plugin", "echo process");
  const rows: [name: string, path: string, expected: string][] = [
    ["another one alone", other.path, "process\n"],
    ["another one first", `${other.path}:${own.path}`, "process\n"],
    ["its own first", `${own.path}:${other.path}`, "in process"],
  ];
  await eachRow(t, rows, async ([, path, expected]) => {
    const { invoker, runs } = witness();
    assertEquals(await invoker.invoke(invocationIn(path)), expected);
    assertEquals(runs.length, expected === "in process" ? 1 : 0);
  });
  // As a process this very executable is deno, which greets and echoes.
  await t.step("its own, of a type that it does not have", async () => {
    const { invoker, runs } = witness();
    const invocation = { ...invocationIn(own.path), type: "foreign" };
    assertStringIncludes(await invoker.invoke(invocation), "net1");
    assertEquals(runs, []);
  });
});

Deno.test("createInvoker() heeds CNI_NO_INPROCESS=1", async (t) => {
  using directory = new PluginDirectory();
  directory.addOwnExecutable("plugin");
  const rows: [value: string, isInProcess: boolean][] = [
    ["1", false],
    ["", true],
    ["0", true],
    ["true", true],
  ];
  await eachRow(t, rows, async ([value, isInProcess]) => {
    const { invoker, runs } = witness();
    const env = { CNI_NO_INPROCESS: value };
    const stdout = await invoker.invoke(invocationIn(directory.path, env));
    assertEquals(stdout === "in process", isInProcess);
    assertEquals(runs.length, isInProcess ? 1 : 0);
  }, ([value]) => JSON.stringify(value));
});

Deno.test("createInvoker() throws what a process would have made it throw", async (t) => {
  const rows: [string, string, string, { code: number; msg: string }][] = [
    [
      "the plugin's error",
      '{"cniVersion":"1.1.0","code":11,"msg":"later","details":"d"}',
      "log",
      { code: 11, msg: "later" },
    ],
    ["a log", "", "log", {
      code: 999,
      msg: 'netplugin failed: "log": exit status 1',
    }],
    ["nothing", "", "", {
      code: 999,
      msg: "netplugin failed with no error message: exit status 1",
    }],
  ];
  await eachRow(t, rows, async ([, stdout, stderr, expected]) => {
    using directory = new PluginDirectory();
    directory.addOwnExecutable("plugin");
    const { invoker } = witness({ stdout, stderr, exitCode: 1 });
    const inProcess = await failureOf(invoker, directory);
    assertEquals({ ...inProcess, ...expected }, inProcess);
    await Deno.remove(`${directory.path}/plugin`);
    directory.add(
      "plugin",
      `printf %s '${stdout}'; printf %s '${stderr}' >&2; exit 1`,
    );
    assertEquals(inProcess, await failureOf(invoker, directory));
  });
});

/** Runs the plugin, which fails; how long it took is not told. */
async function failureOf(
  invoker: Invoker,
  { path }: PluginDirectory,
): Promise<ErrorObject> {
  const error = await assertRejects(
    () => invoker.invoke(invocationIn(path)),
    CniError,
  );
  const object = error.toObject("");
  const details = object.details?.replace(/ \d+ ms/, " some ms");
  return details === undefined ? object : { ...object, details };
}

Deno.test("createInvoker() begins nothing once it is given up", async () => {
  using directory = new PluginDirectory();
  directory.addOwnExecutable("plugin");
  const { invoker, runs } = witness();
  const invocation = invocationIn(directory.path);
  const signal = AbortSignal.abort();
  const error = await assertRejects(
    () => invoker.invoke({ ...invocation, signal }),
    CniError,
    "netplugin failed with no error message: context canceled",
  );
  assertStringIncludes(
    error.details,
    `${directory.path}/plugin was not started`,
  );
  assertEquals(runs, []);
});

Deno.test("createInvoker() hands the deadline on to what it runs", async (t) => {
  const { signal } = new AbortController();
  await t.step("in this process", async () => {
    using directory = new PluginDirectory();
    directory.addOwnExecutable("plugin");
    const { invoker, runs } = witness();
    await invoker.invoke({ ...invocationIn(directory.path), signal });
    assertStrictEquals(runs[0]?.[1].signal, signal);
  });
  await t.step("as a process", async () => {
    using directory = new PluginDirectory();
    directory.add("plugin", `echo > ${directory.path}/begun; exec sleep 60`);
    const { invoker } = witness();
    const invocation = invocationIn(directory.path, { PATH: "/bin" });
    const begun = deadlineWhen(() => directory.read("begun") !== "");
    await assertRejects(
      () => invoker.invoke({ ...invocation, signal: begun }),
      CniError,
      "netplugin failed with no error message: signal: killed",
    );
  });
});

Deno.test("createInvoker() rejects for a plugin that is not in CNI_PATH", async () => {
  using directory = new PluginDirectory();
  const { invoker, runs } = witness();
  await assertRejects(
    () => invoker.invoke(invocationIn(directory.path)),
    CniError,
    `failed to find plugin "plugin" in path [${directory.path}]`,
  );
  assertEquals(runs, []);
});

Deno.test("createInvoker() lets plugins in one process delegate to each other", async () => {
  using directory = new PluginDirectory();
  const commands: string[] = [];
  const note = (name: string, env: string): void =>
    void commands.push(`${name} ${env}`);
  const plugins = [
    pluginNamed("outer", {
      async add(call): Promise<Result> {
        note("outer", call.command);
        await call.delegate("middle").check();
        return emptyResult();
      },
    }),
    pluginNamed("middle", {
      async check(call): Promise<void> {
        note("middle", call.command);
        await call.delegate("inner").status();
      },
    }),
    pluginNamed("inner", {
      status(call): void {
        note("inner", call.command);
        call.log.info("here");
        throw new CniError(50, "not available");
      },
    }),
  ];
  for (const { name } of plugins) directory.addOwnExecutable(name);
  const invoker = createInvoker(dispatch, (type) => {
    const plugin = plugins.find(({ name }) => name === type);
    return plugin && Promise.resolve(plugin);
  });
  const written: string[] = [];
  const error = await assertRejects(() =>
    invoker.invoke({
      ...invocationIn(directory.path),
      type: "outer",
      env: {
        CNI_COMMAND: "ADD",
        CNI_CONTAINERID: "c",
        CNI_NETNS: "/proc/0/ns/net",
        CNI_IFNAME: "eth0",
        CNI_PATH: directory.path,
        CNI_LOG_FILE: "stderr",
      },
      onStderr: (text) => written.push(text),
    }), CniError);
  assertEquals(commands, ["outer ADD", "middle CHECK", "inner STATUS"]);
  assertEquals(error.toObject("1.1.0"), {
    cniVersion: "1.1.0",
    code: 50,
    msg: "not available",
    details: 'plugin "middle" failed (CHECK): plugin "inner" failed (STATUS)',
  });
  assertEquals(written, [
    "level=info plugin=inner command=STATUS containerId=c ifName=eth0 " +
    "network=net1 msg=here\n",
  ]);
});
