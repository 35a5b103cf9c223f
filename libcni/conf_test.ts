import { assertEquals, assertThrows } from "@std/assert";
import { CniError, describeError } from "../base/error.ts";
import type { JsonObject, JsonValue } from "../base/json/json.ts";
import {
  appendPlugins,
  decodePluginConf,
  decodePluginConfs,
  listCapabilities,
  parseDocument,
  parseNetworkConf,
  parseNetworkConfList,
  readBool,
  readPlugins,
  readText,
  readVersion,
  toNetworkConfList,
} from "./conf.ts";
import { eachRow, testRows } from "../tests/_harness/table.ts";

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

const PREFIX = "error parsing configuration list: ";

/** Asserts that reading is refused with a message, as an invalid configuration. */
function assertRefused(read: () => unknown, message: string): void {
  const error = assertThrows(read, CniError);
  assertEquals(error.code, 7);
  assertEquals(describeError(error), PREFIX + message);
}

Deno.test("parseDocument() distinguishes other JSON from malformed JSON", async (t) => {
  const rows: [bytes: string, code: number, message: string][] = [
    ["", 6, "Cannot parse it: it is empty"],
    ["{", 6, "Cannot parse it: unexpected end at line 1, column 2"],
    ["{} x", 6, "Cannot parse it: unexpected character"],
    ["\ufeff{}", 6, "Cannot parse it: unexpected character"],
    ["[]", 7, "Cannot decode it: expected an object, got an array"],
    ["5", 7, "Cannot decode it: expected an object, got a number"],
  ];
  await eachRow(t, rows, ([text, code, message]) => {
    const bytes = new TextEncoder().encode(text);
    const error = assertThrows(
      () => parseDocument("configuration list", bytes),
      CniError,
      PREFIX + message,
    );
    assertEquals(error.code, code);
  }, ([text]) => JSON.stringify(text));
  await t.step("null is an empty one", () => {
    const bytes = new TextEncoder().encode("null");
    assertEquals(parseDocument("configuration", bytes), {});
  });
});

Deno.test("readText() accepts only strings", async (t) => {
  assertEquals(readText({ name: "" }, "name"), "");
  assertEquals(readText({ Name: "a" }, "name"), undefined);
  const rows: [JsonValue, string][] = [
    [5, "number"],
    [null, "null"],
    [[], "array"],
    [{}, "object"],
    [true, "boolean"],
  ];
  await eachRow(t, rows, ([name, type]) => {
    assertRefused(
      () => readText({ name }, "name"),
      `invalid name type ${type}`,
    );
  }, ([, type]) => type);
});

testRows("readBool() accepts booleans, and strings in any case", [
  [{}, false],
  [{ disablecheck: true }, false],
  [{ disableCheck: true }, true],
  [{ disableCheck: false }, false],
  [{ disableCheck: "true" }, true],
  [{ disableCheck: "FALSE" }, false],
  [{ disableCheck: "True" }, true],
], ([document, expected]: [JsonObject, boolean]) => {
  assertEquals(readBool(document, "disableCheck"), expected);
}, ([document]) => JSON.stringify(document));

testRows<[JsonValue, string]>("readBool() refuses any other value", [
  ["Yes", `invalid value "yes" for disableGC`],
  ["", `invalid value "" for disableGC`],
  [1, "invalid type number for disableGC"],
  [null, "invalid type null for disableGC"],
  [[true], "invalid type array for disableGC"],
], ([disableGC, message]) => {
  assertRefused(() => readBool({ disableGC }, "disableGC"), message);
}, ([, message]) => message);

Deno.test("readPlugins() accepts a non-empty array, or its absence", async (t) => {
  assertEquals(readPlugins({}), undefined);
  assertEquals(readPlugins({ plugins: [null] }), [null]);
  const rows: [JsonValue, string][] = [
    [[], "no plugins in list"],
    [null, "invalid 'plugins' type null"],
    [{}, "invalid 'plugins' type object"],
  ];
  await eachRow(t, rows, ([plugins, message]) => {
    assertRefused(() => readPlugins({ plugins }), message);
  }, ([, message]) => message);
});

Deno.test("readVersion() chooses the newest supported version", async (t) => {
  const rows: [
    name: string,
    versions: { cniVersion?: string; cniVersions?: string[] },
    expected: string,
  ][] = [
    ["none", {}, ""],
    ["one, unchecked", { cniVersion: "1.2.3" }, "1.2.3"],
    ["a malformed one, unchecked", { cniVersion: "abc" }, "abc"],
    ["the newest", { cniVersions: ["1.1.0", "0.4.0", "1.0.0"] }, "1.1.0"],
    ["not alphabetically", { cniVersions: ["0.3.1", "0.10.0"] }, "0.10.0"],
    ["not a future version", { cniVersions: ["1.0.0", "99.0.0"] }, "1.0.0"],
    ["an empty list", { cniVersions: [] }, ""],
    ["only future versions", { cniVersions: ["99.0.0"] }, ""],
    ["both", { cniVersion: "1.1.0", cniVersions: ["0.4.0"] }, "1.1.0"],
    ["both, the list newer", {
      cniVersion: "0.4.0",
      cniVersions: ["1.0.0"],
    }, "1.0.0"],
    ["both, one of them a future version", {
      cniVersion: "9.0.0",
      cniVersions: ["0.4.0"],
    }, "0.4.0"],
    ["both, only future versions", {
      cniVersion: "9.0.0",
      cniVersions: ["99.0.0"],
    }, "9.0.0"],
    ["an empty string, which means 0.1.0", {
      cniVersion: "9.0.0",
      cniVersions: [""],
    }, ""],
  ];
  await eachRow(
    t,
    rows,
    ([, versions, expected]) => assertEquals(readVersion(versions), expected),
  );
});

testRows("readVersion() refuses versions that cannot be compared", [
  [
    { cniVersions: ["1.0.0", "1.0.f"] },
    `invalid cniVersions entry 1.0.f at index 1: Cannot parse version "1.0.f"`,
  ],
  [
    { cniVersion: "x", cniVersions: [] },
    `invalid cniVersion x: Cannot parse version "x"`,
  ],
  [{ cniVersion: 1 }, "invalid cniVersion type number"],
  [{ cniVersions: "1.0.0" }, "invalid type for cniVersions: string"],
  [{ cniVersions: null }, "invalid type for cniVersions: null"],
  [
    { cniVersions: ["1.0.0", 1] },
    "invalid type for cniVersions index 1: number",
  ],
], ([document, message]: [JsonObject, string]) => {
  assertRefused(() => readVersion(document), message);
}, ([, message]) => message);
