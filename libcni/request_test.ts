import { assertEquals, assertThrows } from "@std/assert";
import { CniError, describeError } from "../base/error.ts";
import type { JsonObject, JsonValue } from "../base/json/json.ts";
import { decodePluginConf } from "./conf.ts";
import { buildRequest, injectConf, type RequestExtras } from "./request.ts";
import { eachRow, testRows } from "../tests/_harness/table.ts";

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
