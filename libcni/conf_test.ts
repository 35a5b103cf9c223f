import { assertEquals, assertThrows } from "@std/assert";
import { CniError, describeError } from "../base/error.ts";
import type { JsonObject } from "../base/json/json.ts";
import {
  appendPlugins,
  decodePluginConf,
  decodePluginConfs,
  listCapabilities,
  parseNetworkConf,
  parseNetworkConfList,
  toNetworkConfList,
} from "./conf.ts";
import { testRows } from "../tests/_harness/table.ts";

const text = new TextDecoder();

function encode(document: string | object): Uint8Array {
  return new TextEncoder().encode(
    typeof document === "string" ? document : JSON.stringify(document),
  );
}

Deno.test("parseNetworkConf() keeps the object and the bytes", () => {
  const bytes = encode(
    ` {"type":"ptp","name":"lan","cniVersion":"0.3.1","mtu":9000,"x":{"Y":null}}`,
  );
  const conf = parseNetworkConf(bytes);
  assertEquals(conf, {
    name: "lan",
    cniVersion: "0.3.1",
    plugin: {
      type: "ptp",
      name: "lan",
      cniVersion: "0.3.1",
      capabilities: {},
      document: {
        type: "ptp",
        name: "lan",
        cniVersion: "0.3.1",
        mtu: 9000,
        x: { Y: null },
      },
    },
    bytes,
  });
});

testRows("decodePluginConf() reads keys as the plugin will", [
  ["absent", `{"type":"a"}`, {}],
  ["null", `{"type":"a","name":null,"capabilities":null,"ipam":null}`, {}],
  ["in any case", `{"TYPE":"a","Name":"n","cniversion":"1.0.0"}`, {
    name: "n",
    cniVersion: "1.0.0",
  }],
  // Requests are sorted, so the plugin finds "Type" before "type".
  ["in alphabetical order", `{"type":"a","Type":"b"}`, {}],
  [
    "capabilities, which have only one spelling",
    `{"type":"a","Capabilities":{"mac":true,"Mac":false,"ips":null}}`,
    { capabilities: { mac: true, Mac: false, ips: false } },
  ],
], ([, document, expected]: [string, string, object]) => {
  const { document: _, ...read } = decodePluginConf(JSON.parse(document));
  assertEquals(read, {
    type: "a",
    name: "",
    cniVersion: "",
    capabilities: {},
    ...expected,
  });
});

testRows("decodePluginConf() refuses malformed configurations", [
  ["{}", "missing 'type'"],
  ["null", "missing 'type'"],
  [`{"type":""}`, "missing 'type'"],
  [`{"type":null}`, "missing 'type'"],
  ["[]", "Cannot decode it: expected an object, got an array"],
  [`{"type":5}`, "Cannot decode it: type: expected a string, got a number"],
  [
    `{"type":"a","capabilities":{"mac":"true"}}`,
    "Cannot decode it: capabilities.mac: expected a boolean, got a string",
  ],
  [
    `{"type":"a","ipam":{"type":5}}`,
    "Cannot decode it: ipam.type: expected a string, got a number",
  ],
  [
    `{"type":"a","dns":{"nameservers":"10.0.0.1"}}`,
    "Cannot decode it: dns.nameservers: expected an array, got a string",
  ],
], ([document, problem]: [string, string]) => {
  const error = assertThrows(
    () => decodePluginConf(JSON.parse(document)),
    CniError,
  );
  assertEquals(error.code, 7);
  assertEquals(
    describeError(error),
    `error parsing configuration: ${problem}`,
  );
});

Deno.test("parseNetworkConf() recognizes a list by its plugins", () => {
  const list = { name: "lan", plugins: [{ type: "ptp" }] };
  const error = assertThrows(() => parseNetworkConf(encode(list)), CniError);
  assertEquals(error.message, "error parsing configuration: missing 'type'");
  assertEquals(
    error.details,
    'a configuration with "plugins" is a list, and its file is named *.conflist',
  );
});

Deno.test("parseNetworkConfList() reads every key", () => {
  const bytes = encode({
    name: "lan",
    cniVersion: "0.4.0",
    cniVersions: ["1.0.0"],
    disableCheck: "TRUE",
    disableGC: true,
    loadOnlyInlinedPlugins: true,
    plugins: [{ type: "ptp", mtu: 9000 }, { Type: "tuning", name: "x" }],
  });
  const { plugins, ...list } = parseNetworkConfList(bytes);
  assertEquals(list, {
    name: "lan",
    cniVersion: "1.0.0",
    disableCheck: true,
    disableGc: true,
    loadOnlyInlinedPlugins: true,
    bytes,
  });
  assertEquals(plugins.map(({ type, name }) => [type, name]), [
    ["ptp", ""],
    ["tuning", "x"],
  ]);
  assertEquals(plugins.map(({ document }) => document), [
    { type: "ptp", mtu: 9000 },
    { Type: "tuning", name: "x" },
  ]);
});

testRows("parseNetworkConfList() accepts names that ADD will refuse", [
  [{ name: "" }, ""],
  [{ name: "../lan", plugins: [{ type: "ptp" }] }, "../lan"],
], ([document, name]: [object, string]) => {
  assertEquals(parseNetworkConfList(encode(document)).name, name);
}, ([document]) => JSON.stringify(document));

testRows("parseNetworkConfList() reports problems in the Go library's words", [
  ["{}", "error parsing configuration list: no name"],
  [`{"Name":"lan"}`, "error parsing configuration list: no name"],
  [
    `{"name":null}`,
    "error parsing configuration list: invalid name type null",
  ],
  [
    `{"name":"lan","loadOnlyInlinedPlugins":true}`,
    "error parsing configuration list: `loadOnlyInlinedPlugins` is true, and no 'plugins' key",
  ],
  [
    `{"name":"lan","plugins":[]}`,
    "error parsing configuration list: no plugins in list",
  ],
  [
    `{"name":"lan","plugins":[{"type":"ptp"},{}]}`,
    "failed to parse plugin config 1: error parsing configuration: missing 'type'",
  ],
  [
    `{"name":"lan","plugins":[null]}`,
    "failed to parse plugin config 0: error parsing configuration: missing 'type'",
  ],
], ([document, message]: [string, string]) => {
  const error = assertThrows(
    () => parseNetworkConfList(encode(document)),
    CniError,
  );
  assertEquals(error.code, 7);
  assertEquals(describeError(error), message);
});

Deno.test("decodePluginConfs() names the malformed plugin", () => {
  const [a] = decodePluginConfs([{ type: "a" }]);
  assertEquals(a?.type, "a");
  const error = assertThrows(
    () => decodePluginConfs([{ type: "a" }, {}]),
    CniError,
    "failed to parse plugin config 1: error parsing configuration: missing 'type'",
  );
  assertEquals(error.code, 7);
});

Deno.test("listCapabilities() lists declared capabilities without duplicates", () => {
  const plugins = decodePluginConfs([
    { type: "a", capabilities: { mac: true, ips: false } },
    { type: "b", capabilities: { ips: true, mac: true } },
    { type: "c" },
  ]);
  assertEquals(listCapabilities(plugins), ["mac", "ips"]);
});

testRows("toNetworkConfList() returns a list that parses to itself", [
  [
    { type: "ptp", name: "lan", cniVersion: "0.3.1", "9": 1, "10": 2 },
    `{"cniVersion":"0.3.1","name":"lan","plugins":[{"10":2,"9":1,` +
    `"cniVersion":"0.3.1","name":"lan","type":"ptp"}]}`,
  ],
  [
    { TYPE: "ptp" },
    `{"cniVersion":"","name":"","plugins":[{"TYPE":"ptp"}]}`,
  ],
], ([conf, bytes]: [JsonObject, string]) => {
  const bare = parseNetworkConf(encode(conf));
  const list = toNetworkConfList(bare);
  assertEquals(list.plugins, [bare.plugin]);
  assertEquals(text.decode(list.bytes), bytes);
  assertEquals(parseNetworkConfList(list.bytes), list);
}, ([, bytes]) => bytes);

Deno.test("appendPlugins() returns a self-contained list", () => {
  const bytes = encode({
    name: "lan",
    cniVersions: ["1.0.0"],
    plugins: [{ type: "ptp" }],
    other: 1,
  });
  const list = parseNetworkConfList(bytes);
  assertEquals(appendPlugins(list, []), list);
  const { plugin } = parseNetworkConf(encode({ type: "tuning" }));
  const complete = appendPlugins(list, [plugin]);
  assertEquals(complete.plugins.map(({ type }) => type), ["ptp", "tuning"]);
  assertEquals(complete.loadOnlyInlinedPlugins, false);
  assertEquals(
    text.decode(complete.bytes),
    `{"cniVersions":["1.0.0"],"loadOnlyInlinedPlugins":true,"name":"lan",` +
      `"other":1,"plugins":[{"type":"ptp"},{"type":"tuning"}]}`,
  );
  assertEquals(parseNetworkConfList(complete.bytes), {
    ...complete,
    loadOnlyInlinedPlugins: true,
  });
});
