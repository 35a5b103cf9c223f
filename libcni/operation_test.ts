import { assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { CniError, describeError, toCniError } from "../base/error.ts";
import { RecordingPlugins } from "../tests/_harness/recording_plugins.ts";
import { decodePluginConf, injectConf } from "./conf.ts";
import {
  buildRequest,
  type CniArgs,
  describeAttachment,
  describeFailedPlugin,
  dropRecycledNetns,
  formatCniArgs,
  hasVersion,
  listCniArgs,
  mayHaveVersion,
  pluginFailure,
  type RequestExtras,
  restoreArgs,
  runPlugin,
  type RuntimeConf,
} from "./operation.ts";
import { createTools } from "./api.ts";
import { eachRow, testRows } from "../tests/_harness/table.ts";
import type { JsonObject, JsonValue } from "../base/json/json.ts";
import {
  contextWith,
  OWN_NETNS as OWN,
} from "../tests/_harness/call_context.ts";
import { createLog } from "../base/log/log.ts";

Deno.test("runPlugin() passes the attachment, if any", async () => {
  using host = new RecordingPlugins();
  host.add("a", { STATUS: "env | grep ^CNI_ >&2; echo $OTHER >&2" });
  const other = `${host.directory.path}/other`;
  const tools = createTools({
    pluginDirs: [other, host.directory.path],
    env: { PATH: Deno.env.get("PATH") ?? "", OTHER: "x", CNI_IFNAME: "old" },
    onStderr: (text) => void (host.logged += text),
  });
  const stdin = new TextEncoder().encode("{}");
  const path = `${other}:${host.directory.path}`;
  const conf = host.conf({ args: [["A", "1"], ["B", "2"]] });
  await runPlugin(tools, { command: "ADD", type: "a", stdin, conf });
  assertEquals(host.calls, [{
    type: "a",
    command: "ADD",
    containerId: "c1",
    netns: "/run/netns/c1",
    ifName: "eth0",
    args: "A=1;B=2",
    path,
    stdin: {},
  }]);
  await runPlugin(tools, { command: "STATUS", type: "a", stdin });
  assertEquals(host.logged.trim().split("\n").sort(), [
    "CNI_ARGS=",
    "CNI_COMMAND=STATUS",
    "CNI_CONTAINERID=",
    "CNI_IFNAME=",
    "CNI_NETNS=",
    `CNI_PATH=${path}`,
    "x",
  ]);
});

Deno.test("describeFailedPlugin() puts the outer text into the message", async (t) => {
  const later = new CniError(11, "later", { details: "soon" });
  const plugin = decodePluginConf({ type: "a" });
  const failure = pluginFailure(plugin, "add", later);
  const rows: [name: string, error: unknown, expected: string, code: number][] =
    [
      [
        "a plugin of a list",
        failure,
        'plugin type="a" failed (add): later; soon',
        11,
      ],
      ["a plugin's own error", later, "later; soon", 11],
      ["an error of ours", new TypeError("oops"), "oops", 999],
      [
        "several",
        new AggregateError([failure, failure], "2 failed"),
        '2 failed; plugin type="a" failed (add): later: soon; ' +
        'plugin type="a" failed (add): later: soon',
        11,
      ],
    ];
  await eachRow(t, rows, ([, error, expected, code]) => {
    const said = describeFailedPlugin(error);
    assertEquals([said.toString(), said.code], [expected, code]);
  });
});

testRows("pluginFailure() names the failed plugin and keeps its error", [
  ["type", { type: "a" }, 'plugin type="a" failed (add): later'],
  [
    "type and name",
    { type: "a", name: "n" },
    'plugin type="a" name="n" failed (add): later',
  ],
], ([, document, text]: [string, { type: string; name?: string }, string]) => {
  const cause = new CniError(11, "later");
  const error = pluginFailure(
    decodePluginConf({ ...document }),
    "add",
    cause,
  );
  assertEquals(describeError(error), text);
  assertEquals(`${error}`, text);
  assertEquals(toCniError(error).code, 11);
});

testRows("hasVersion() and mayHaveVersion() differ on malformed versions", [
  ["0.4.0", true],
  ["1.1.0", true],
  ["0.3.1", false],
  ["", false],
  ["broken", undefined],
  ["1.0.0-rc1", undefined],
], ([cniVersion, expected]: [string, boolean | undefined]) => {
  assertEquals(mayHaveVersion({ cniVersion }, "0.4.0"), expected ?? false);
  const ask = (): boolean => hasVersion({ cniVersion }, "0.4.0");
  if (expected !== undefined) assertEquals(ask(), expected);
  else assertEquals(assertThrows(ask, CniError).code, 6);
}, ([cniVersion]) => JSON.stringify(cniVersion));

const CONF: RuntimeConf = { containerId: "c", netns: "/n", ifName: "eth0" };

testRows("formatCniArgs() and listCniArgs() agree on both forms of CNI_ARGS", [
  ["nothing", {}, "", []],
  ["pairs", { args: [["A", "1"], ["B", ""]] }, "A=1;B=", [
    ["A", "1"],
    ["B", ""],
  ]],
  ["text", { rawArgs: "A=1;B=x=y" }, "A=1;B=x=y", [["A", "1"], ["B", "x=y"]]],
  ["text before pairs", { args: [["A", "1"]], rawArgs: "B=2" }, "B=2", [
    ["B", "2"],
  ]],
  ["pairs with an empty text", { args: [["A", "1"]], rawArgs: "" }, "A=1", [
    ["A", "1"],
  ]],
], ([, keys, text, pairs]: [string, Partial<RuntimeConf>, string, CniArgs]) => {
  const conf = { ...CONF, ...keys };
  assertEquals(formatCniArgs(conf), text);
  assertEquals(listCniArgs(conf), pairs);
});

Deno.test("describeAttachment() keeps the input that DEL needs", () => {
  const bytes = new TextEncoder().encode("{}");
  const conf = { ...CONF, rawArgs: "A=1", capabilityArgs: { mac: "m" } };
  assertEquals(describeAttachment({ name: "net1", bytes }, conf), {
    network: "net1",
    containerId: "c",
    ifName: "eth0",
    netns: "/n",
    config: bytes,
    cniArgs: [["A", "1"]],
    capabilityArgs: { mac: "m" },
  });
});

Deno.test("restoreArgs() replaces args only if some were cached, and capabilityArgs always", async (t) => {
  const asked = { ...CONF, rawArgs: "B=2", capabilityArgs: { mac: "m" } };
  const config = new Uint8Array();
  await t.step("args", () => {
    const cached = {
      config,
      cniArgs: [["A", "1"]] as const,
      capabilityArgs: {},
    };
    assertEquals(restoreArgs(asked, cached), {
      ...CONF,
      args: [["A", "1"]],
      capabilityArgs: {},
    });
  });
  await t.step("no args", () => {
    const cached = { config, cniArgs: [], capabilityArgs: { ips: [] } };
    assertEquals(restoreArgs(asked, cached), {
      ...CONF,
      rawArgs: "B=2",
      capabilityArgs: { ips: [] },
    });
  });
});

Deno.test("injectConf() replaces and adds keys", async (t) => {
  const conf = { type: "ptp", mtu: 1500, dns: { domain: "a" } };
  const rows: [name: string, keys: Record<string, JsonValue>, JsonObject][] = [
    ["none", {}, conf],
    ["a new one", { args: { x: [1] } }, { ...conf, args: { x: [1] } }],
    ["an old one", { mtu: 9000 }, { ...conf, mtu: 9000 }],
    ["one of another type", { mtu: "x" }, { ...conf, mtu: "x" }],
    ["a whole object", { dns: { search: ["b"] } }, {
      ...conf,
      dns: { search: ["b"] },
    }],
    ["falsy ones", { mtu: 0, name: "", x: false }, {
      ...conf,
      mtu: 0,
      name: "",
      x: false,
    }],
    ["the type", { type: "bridge" }, { ...conf, type: "bridge" }],
  ];
  await eachRow(t, rows, ([, keys, expected]) => {
    const injected = injectConf(conf, keys);
    assertEquals(injected, expected);
    assertEquals(injectConf(injected, keys), expected);
    assertEquals(conf, { type: "ptp", mtu: 1500, dns: { domain: "a" } });
  });
});

Deno.test("injectConf() removes other spellings of a key", () => {
  const conf = { type: "ptp", Name: "a", cniversion: "0.1.0", MTU: 1 };
  assertEquals(injectConf(conf, { name: "lan", cniVersion: "1.0.0" }), {
    type: "ptp",
    MTU: 1,
    name: "lan",
    cniVersion: "1.0.0",
  });
});

Deno.test("injectConf() keeps keys that objects inherit", () => {
  const conf = JSON.parse(`{"type":"ptp","__proto__":{"mtu":1}}`);
  const injected = injectConf(conf, { name: "lan" });
  assertEquals(Object.keys(injected), ["type", "__proto__", "name"]);
  assertEquals(Object.getPrototypeOf(injected), Object.prototype);
  assertEquals(JSON.stringify(injected["__proto__"]), `{"mtu":1}`);
});

testRows("injectConf() refuses invalid keys and values", [
  [{ "": 1 }, "keys cannot be empty"],
  [{ mtu: null }, "key 'mtu' value must not be nil"],
  [{ type: "" }, "error parsing configuration: missing 'type'"],
  [
    { name: 5 },
    "error parsing configuration: Cannot decode it: name: expected a string, got a number",
  ],
], ([keys, message]: [Record<string, JsonValue>, string]) => {
  const error = assertThrows(
    () => injectConf({ type: "ptp" }, keys),
    CniError,
  );
  assertEquals(error.code, 7);
  assertEquals(describeError(error), message);
}, ([, message]) => message);

/** The input of a plugin of the network "lan". */
function request(plugin: JsonObject, extras?: RequestExtras): string {
  const list = { name: "lan", cniVersion: "1.0.0" };
  return new TextDecoder().decode(
    buildRequest(list, decodePluginConf(plugin), extras),
  );
}

testRows(
  "buildRequest() sets the network's name and version",
  [
    [
      "sorted",
      { type: "ptp", z: 1, "10": 2, "9": 3 },
      `{"10":2,"9":3,"cniVersion":"1.0.0","name":"lan","type":"ptp","z":1}`,
    ],
    [
      "in place of its own",
      { Type: "ptp", NAME: "own", cniVersion: "0.3.1" },
      `{"Type":"ptp","cniVersion":"1.0.0","name":"lan"}`,
    ],
    [
      "with what the file has of the runtime's own keys",
      { type: "ptp", args: { a: 1 }, prevResult: {}, runtimeConfig: { b: 2 } },
      `{"args":{"a":1},"cniVersion":"1.0.0","name":"lan","prevResult":{},` +
      `"runtimeConfig":{"b":2},"type":"ptp"}`,
    ],
  ],
  ([, plugin, expected]: [string, JsonObject, string]) =>
    assertEquals(request(plugin), expected),
);

Deno.test("buildRequest() sends an absent version as an empty one", () => {
  const bytes = buildRequest(
    { name: "lan", cniVersion: "" },
    decodePluginConf({ type: "ptp", cniVersion: "1.0.0" }),
  );
  assertEquals(
    new TextDecoder().decode(bytes),
    `{"cniVersion":"","name":"lan","type":"ptp"}`,
  );
});

Deno.test("buildRequest() passes on the result unchanged", () => {
  const prevResult = { cniVersion: "0.2.0", ip4: { ip: "10.0.0.2/24" }, x: 1 };
  const plugin = { type: "tuning", prevResult: { old: true } };
  assertEquals(JSON.parse(request(plugin, { prevResult })), {
    cniVersion: "1.0.0",
    name: "lan",
    prevResult,
    type: "tuning",
  });
});

Deno.test("buildRequest() passes capability arguments that the plugin declares", async (t) => {
  const offered = { mac: "02:00:00:00:00:01", ips: ["10.0.0.2"], aliases: [] };
  const rows: [string, JsonObject, JsonValue | undefined][] = [
    ["nothing wanted", {}, undefined],
    ["wanted", { capabilities: { mac: true, aliases: true } }, {
      mac: "02:00:00:00:00:01",
      aliases: [],
    }],
    ["unwanted", { capabilities: { mac: false } }, undefined],
    ["not there", { capabilities: { portMappings: true } }, undefined],
    ["in another case", { capabilities: { MAC: true } }, undefined],
    ["what every object has", { capabilities: { toString: true } }, undefined],
    ["instead of the file's", {
      capabilities: { ips: true },
      runtimeConfig: { mac: "x" },
    }, { ips: ["10.0.0.2"] }],
    ["the file's if there is nothing", {
      capabilities: { portMappings: true },
      runtimeConfig: { mac: "x" },
    }, { mac: "x" }],
  ];
  await eachRow(t, rows, ([, plugin, runtimeConfig]) => {
    const sent = request({ type: "ptp", ...plugin }, {
      capabilityArgs: offered,
    });
    assertEquals(JSON.parse(sent).runtimeConfig, runtimeConfig);
  });
});

Deno.test("buildRequest() ignores inherited capabilities", () => {
  const capabilityArgs = { toString: 1, constructor: 2, mac: null };
  const plugin = { type: "ptp", capabilities: { mac: true } };
  assertEquals(JSON.parse(request(plugin, { capabilityArgs })).runtimeConfig, {
    mac: null,
  });
});

testRows("buildRequest() sends the valid attachments under both keys", [
  ["not said", {}, undefined],
  ["none", { gc: { validAttachments: [] } }, []],
  ["some", {
    gc: { validAttachments: [{ containerId: "c1", ifName: "eth0" }] },
  }, [{ containerID: "c1", ifname: "eth0" }]],
], ([, extras, expected]: [string, RequestExtras, unknown]) => {
  const sent = JSON.parse(request({ type: "ptp" }, extras));
  assertEquals(sent["cni.dev/valid-attachments"], expected);
  assertEquals(sent["cni.dev/attachments"], expected);
});

/** Any file works here, because files are compared. */
const OTHER = "/proc/self/ns/mnt";

Deno.test("dropRecycledNetns() keeps DEL out of the runtime's own namespace", async (t) => {
  const allowed = { CNI_NETNS_OVERRIDE: "1" };
  const rows: [string, string, Record<string, string>, string][] = [
    ["its own", `/proc/${Deno.pid}/ns/net`, {}, ""],
    ["its own, where that is allowed", OWN, allowed, OWN],
    ["another", OTHER, {}, OTHER],
    ["one that no longer exists", "/proc/0/ns/net", {}, "/proc/0/ns/net"],
    ["none", "", {}, ""],
  ];
  await eachRow(t, rows, ([, netns, env, expected]) => {
    let logged = "";
    const log = createLog({}, (text) => void (logged += text));
    const conf = { containerId: "c1", netns, ifName: "eth0" };
    const kept = dropRecycledNetns({
      context: contextWith({ env }),
      log,
    }, conf);
    assertEquals(kept, { ...conf, netns: expected });
    if (expected === netns) assertEquals(logged, "");
    else assertStringIncludes(logged, `netns=${netns}`);
  });
});
