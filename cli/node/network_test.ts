// deno-lint-ignore-file no-sync-fn-in-async-fn -- nothing else waits during these calls

import { assert, assertEquals, assertThrows } from "@std/assert";
import { CniError } from "../../base/error.ts";
import type { CniCall } from "../flags.ts";
import {
  getNetwork,
  readArgs,
  readDirectories,
  readNetworkFile,
  UnknownNetworkError,
} from "./network.ts";
import { callWith } from "../../tests/_harness/tool_call.ts";
import { eachRow, testRows } from "../../tests/_harness/table.ts";

Deno.test("readDirectories() reads flags, then the environment, then defaults", async (t) => {
  const env = { CNI_PATH: "/a:/b", NETCONFPATH: "/c" };
  const flags = { "cni-path": "/x", "conf-dir": "/y", "cache-dir": "/z" };
  const rows: [name: string, call: CniCall, want: unknown][] = [
    [
      "flags",
      callWith({ env, flags }),
      { pluginDirs: ["/x"], confDir: "/y", cacheDir: "/z", flags },
    ],
    ["environment", callWith({ env }), {
      pluginDirs: ["/a", "/b"],
      confDir: "/c",
      cacheDir: "/var/lib/cni",
      flags: {},
    }],
    ["custom", callWith({ env: { CNI_PATH: "", NETCONFPATH: "" } }), {
      pluginDirs: ["/opt/cni/bin"],
      confDir: "/etc/cni/net.d",
      cacheDir: "/var/lib/cni",
      flags: {},
    }],
  ];
  await eachRow(
    t,
    rows,
    ([, call, want]) => assertEquals(readDirectories(call), want as object),
  );
});

testRows(
  "readArgs() reads CNI_ARGS, CAP_ARGS and the interface's name",
  [
    ["nothing", callWith({}), { args: [], capabilityArgs: {}, ifName: "eth0" }],
    [
      "all of them",
      callWith({
        env: { CNI_ARGS: "a=1;b=2", CAP_ARGS: '{"x":[1]}', CNI_IFNAME: "n" },
      }),
      {
        args: [["a", "1"], ["b", "2"]],
        capabilityArgs: { x: [1] },
        ifName: "n",
      },
    ],
    [
      "a flag",
      callWith({ env: { CNI_IFNAME: "n" }, flags: { "ifname": "m" } }),
      {
        args: [],
        capabilityArgs: {},
        ifName: "m",
      },
    ],
    ["null", callWith({ env: { CAP_ARGS: "null" } }), {
      args: [],
      capabilityArgs: {},
      ifName: "eth0",
    }],
  ],
  ([, call, want]: [string, CniCall, ReturnType<typeof readArgs>]) =>
    assertEquals(readArgs(call), want),
);

Deno.test("readArgs() refuses malformed variables", async (t) => {
  const rows: [env: Record<string, string>, message: string][] = [
    [{ CNI_ARGS: "a" }, 'invalid CNI_ARGS pair "a"'],
    [{ CNI_ARGS: "a=1;" }, 'invalid CNI_ARGS pair ""'],
    [
      { CAP_ARGS: "[]" },
      "Cannot decode CAP_ARGS: expected an object, with capabilities as its keys",
    ],
    [
      { CAP_ARGS: "1" },
      "Cannot decode CAP_ARGS: expected an object, with capabilities as its keys",
    ],
  ];
  await eachRow(t, rows, ([env, message]) => {
    const error = assertThrows(() => readArgs(callWith({ env })), CniError);
    assertEquals(error.message, message);
  }, ([, message]) => message);
  const broken = callWith({ env: { CAP_ARGS: "{" } });
  const { message } = assertThrows(() => readArgs(broken), CniError);
  assert(message.startsWith("Cannot parse CAP_ARGS: "), message);
});

Deno.test("getNetwork() accepts a name or a path", async (t) => {
  const directory = Deno.makeTempDirSync();
  try {
    const list = '{"cniVersion":"1.1.0","name":"one","plugins":[{"type":"p"}]}';
    const bare = '{"cniVersion":"1.0.0","name":"two","type":"q"}';
    Deno.writeTextFileSync(`${directory}/1.conflist`, list);
    Deno.writeTextFileSync(`${directory}/2.conf`, bare);
    Deno.writeTextFileSync(`${directory}/3.txt`, list);
    Deno.writeTextFileSync(`${directory}/4.conf`, bare.replace("two", "t/wo"));
    const directories = {
      pluginDirs: [],
      confDir: directory,
      cacheDir: directory,
    };
    const rows: [network: string, type: string][] = [
      ["one", "p"],
      ["two", "q"],
      [`${directory}/1.conflist`, "p"],
      [`${directory}/2.conf`, "q"],
      [`${directory}/3.txt`, "p"],
    ];
    await eachRow(t, rows, ([network, type]) => {
      const { plugins } = getNetwork(directories, network);
      assertEquals(plugins.map((plugin) => plugin.type), [type]);
    });
    assertThrows(
      () => getNetwork(directories, "deno.json"),
      UnknownNetworkError,
      "; did you mean the file ./deno.json?",
    );
    assertThrows(
      () => readNetworkFile(`${directory}/4.conf`),
      CniError,
      "name",
    );
    assertThrows(
      () => readNetworkFile(`${directory}/5.conf`),
      CniError,
      "error reading",
    );
  } finally {
    Deno.removeSync(directory, { recursive: true });
  }
});
