import { assertEquals, assertThrows } from "@std/assert";
import type { Environment } from "../../base/process/environment.ts";
import { CniError } from "../../base/error.ts";
import { execInvoker } from "../../cni/invoke/exec_invoker.ts";
import type { DispatchInput, DispatchOutput } from "../../cni/call/context.ts";
import { dispatch } from "../../cni/skel.ts";
import { readDebug, writeDebug } from "./testing.ts";
import { PluginDirectory } from "../../tests/_harness/plugin_directory.ts";
import { createNoop, type NoopResult } from "./plugin.ts";
import { eachRow } from "../../tests/_harness/table.ts";

const NETNS = "/proc/thread-self/ns/net";

function inputOf(env: Environment, stdin: () => Uint8Array): DispatchInput {
  return {
    env: {
      CNI_COMMAND: "DEL",
      CNI_CONTAINERID: "c1",
      CNI_IFNAME: "eth0",
      CNI_PATH: "/bin",
      ...env,
    },
    stdin,
    invoker: execInvoker,
    hostNetns: NETNS,
  };
}

function configOf(more: object): () => Uint8Array {
  const config = { name: "net1", cniVersion: "1.1.0", ...more };
  return () => new TextEncoder().encode(JSON.stringify(config));
}

function unread(): never {
  throw new Error("stdin was read");
}

/**
 * Runs noop and returns its output and exit status; undefined if it leaves
 * these to dispatch.
 */
async function run(
  input: DispatchInput,
): Promise<{ ending?: NoopResult; output: DispatchOutput }> {
  const endings: NoopResult[] = [];
  const noop = createNoop(input, (ending) => {
    endings.push(ending);
    throw new Error("the process ends here");
  });
  const output = await dispatch(noop, input);
  const [ending] = endings;
  return ending === undefined ? { output } : { ending, output };
}

Deno.test("createNoop() does not read the configuration if CNI_ARGS names the file", async (t) => {
  using directory = new PluginDirectory();
  const path = `${directory.path}/debug`;
  writeDebug(path, { ReportVersionSupport: ["9.8.7"] });
  const rows: [string, Environment, string][] = [
    ["no CNI_ARGS", {}, "0.-42.0"],
    ["a debug file", { CNI_ARGS: `DEBUG=${path}` }, "9.8.7"],
  ];
  await eachRow(t, rows, async ([, env, first]) => {
    const { output } = await run(
      inputOf({ CNI_COMMAND: "VERSION", ...env }, unread),
    );
    const [version] = JSON.parse(output.stdout).supportedVersions;
    assertEquals(version, first);
  });
});

Deno.test("createNoop() ignores an empty DEBUG", () => {
  const input = inputOf(
    { CNI_ARGS: "DEBUG=" },
    configOf({ debugFile: "/no/such/file" }),
  );
  assertThrows(
    () => createNoop(input, unread),
    CniError,
    'neither CNI_ARGS "DEBUG=" nor the configuration names one',
  );
});

Deno.test("noop exits as its debug file says", async (t) => {
  using directory = new PluginDirectory();
  const debugFile = `${directory.path}/debug`;
  const rows: [number | undefined, number][] = [[undefined, 0], [3, 3], [
    -1,
    0,
  ]];
  await eachRow(t, rows, async ([ExitWithCode, exitCode]) => {
    writeDebug(debugFile, { ReportResult: "text", ExitWithCode });
    const { ending } = await run(inputOf({}, configOf({ debugFile })));
    assertEquals(ending, { stdout: "text", exitCode });
  }, ([ExitWithCode]) => `ExitWithCode ${ExitWithCode}`);
});

Deno.test("noop refuses the host's namespace, on DEL after it recorded the call", async (t) => {
  using directory = new PluginDirectory();
  const debugFile = `${directory.path}/debug`;
  for (const [command, recorded] of [["ADD", undefined], ["DEL", "DEL"]]) {
    await t.step(String(command), async () => {
      writeDebug(debugFile, { ReportResult: "text" });
      const env = { CNI_COMMAND: String(command), CNI_NETNS: NETNS };
      const { ending, output } = await run(
        inputOf(env, configOf({ debugFile })),
      );
      assertEquals(ending, undefined);
      assertEquals(JSON.parse(output.stdout).code, 8);
      assertEquals(readDebug(debugFile)?.Command, recorded);
    });
  }
});
