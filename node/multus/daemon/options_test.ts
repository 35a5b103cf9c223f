import { assertEquals, assertThrows } from "@std/assert";
import { parseFlags } from "../../../tests/_harness/tool_flags.ts";
import { UsageError } from "../../../tool/usage_error.ts";
import { DAEMON_FLAGS, readDaemonOptions } from "./options.ts";

function read(
  args: string[],
  env: Record<string, string>,
): ReturnType<typeof readDaemonOptions> {
  const flags = parseFlags("multus daemon", DAEMON_FLAGS, args);
  return readDaemonOptions({ flags, env });
}

Deno.test("readDaemonOptions() reads what is given, or takes the defaults", async (t) => {
  const defaults = {
    kubeconfig: "",
    socketDir: "/run/multus",
    nodeName: "",
    logLevel: "verbose",
  };
  const rows: [string, string[], Record<string, string>, object][] = [
    ["nothing", [], {}, {}],
    ["the node from the environment", [], { NODE_NAME: "n2" }, {
      nodeName: "n2",
    }],
    [
      "the better variable",
      [],
      { NODE_NAME: "n2", MULTUS_NODE_NAME: "n1" },
      { nodeName: "n1" },
    ],
    ["a variable that is empty", [], { MULTUS_NODE_NAME: "" }, {}],
    ["the node by its flag", ["--node-name=n3"], { NODE_NAME: "n2" }, {
      nodeName: "n3",
    }],
    [
      "all of it",
      ["--kubeconfig", "/k", "--socket-dir=/s/", "--log-level=DEBUG"],
      {},
      { kubeconfig: "/k", socketDir: "/s", logLevel: "debug" },
    ],
  ];
  for (const [name, args, env, expected] of rows) {
    await t.step(name, () => {
      const options = read(args, env);
      assertEquals(options, { ...defaults, ...expected });
    });
  }
});

Deno.test("readDaemonOptions() refuses what it cannot follow", async (t) => {
  const rows: [string[], string][] = [
    [
      ["--log-level=loud"],
      '--log-level must be debug, verbose, error or panic, not "loud"',
    ],
    [["--socket-dir="], "--socket-dir needs a value"],
    [["--config=/x"], "unknown flag --config"],
    [["stray"], 'unexpected argument "stray"'],
  ];
  for (const [args, problem] of rows) {
    await t.step(args.join(" "), () => {
      assertThrows(() => read(args, {}), UsageError, problem);
    });
  }
});
