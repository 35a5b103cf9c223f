import { assertEquals, assertThrows } from "@std/assert";
import { CniError } from "../../../cni/error.ts";
import { readDaemonOptions } from "./options.ts";

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
      const options = readDaemonOptions(args, env);
      assertEquals(options, { ...defaults, ...expected });
    });
  }
  await t.step("help", () => {
    assertEquals(readDaemonOptions(["--help"], {}), undefined);
  });
});

Deno.test("readDaemonOptions() refuses what it cannot follow", async (t) => {
  const rows: [string[], string][] = [
    [["--log-level=loud"], '--log-level: "loud" is none of debug, verbose'],
    [["--socket-dir="], "--socket-dir needs a value"],
    [["--config=/x"], 'there is no "--config=/x"'],
    [["stray"], 'there is no "stray"'],
  ];
  for (const [args, problem] of rows) {
    await t.step(args.join(" "), () => {
      assertThrows(() => readDaemonOptions(args, {}), CniError, problem);
    });
  }
});
