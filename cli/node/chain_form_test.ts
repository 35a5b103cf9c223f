import { assert, assertEquals, assertThrows } from "@std/assert";
import { CniError } from "../../base/error.ts";
import type { JsonObject } from "../../base/json/json.ts";
import { decodePluginConfs } from "../../libcni/conf.ts";
import {
  convertTo,
  type Form,
  formatPlugins,
  formOf,
  parseWritten,
  unfoldChains,
  type WrittenNetwork,
} from "./chain_form.ts";
import { eachRow, testRows } from "../../tests/_harness/table.ts";

function parse(document: object | string): WrittenNetwork {
  const text = typeof document === "string"
    ? document
    : JSON.stringify(document);
  return parseWritten(new TextEncoder().encode(text));
}

const LIST = {
  cniVersion: "1.0.0",
  cniVersions: ["0.4.0", "1.0.0"],
  name: "pods",
  disableCheck: "true",
  disableGC: false,
  loadOnlyInlinedPlugins: true,
  plugins: [
    { type: "ptp", capabilities: { ips: true }, ipam: { type: "host-local" } },
    { type: "bandwidth", capabilities: { ips: true, bandwidth: true } },
    { type: "sbr", capabilities: { mac: false }, name: "x", "": null },
  ],
  vendor: { x: [1, { y: null }] },
};

Deno.test("convertTo() moves the plugins of a list into a chain and keeps everything else", () => {
  const chain = convertTo("chain", parse(LIST));
  assertEquals(chain, {
    ...LIST,
    plugins: [{
      type: "chain",
      capabilities: { ips: true, bandwidth: true },
      plugins: LIST.plugins,
    }],
  });
  assertEquals(Object.keys(chain), Object.keys(LIST));
});

/** Creates plugins from types; a nested list is a chain: `["ptp", ["sbr"]]`. */
function pluginsOf(types: Types): JsonObject[] {
  return types.map((type) =>
    typeof type === "string"
      ? { type, x: type }
      : { type: "chain", plugins: pluginsOf(type) }
  );
}

type Types = readonly (string | Types)[];

testRows<[Types, Types]>("convertTo() moves plugins into a chain, and back", [
  [["ptp", "sbr"], [["ptp", "sbr"]]],
  [["bridge", "portmap", "sbr"], [["bridge", "portmap", "sbr"]]],
  [["portmap", "tuning"], [["portmap", "tuning"]]],
  [["ptp"], [["ptp"]]],
  [[["ptp", "sbr", "portmap"]], [["ptp", "sbr", "portmap"]]],
  [["ptp", ["bandwidth", "sbr"]], [["ptp", "bandwidth", "sbr"]]],
  [[["ptp", "sbr"], "portmap"], [["ptp", "sbr", "portmap"]]],
  [[["ptp", ["portmap", ["bandwidth", "sbr"]]]], [
    ["ptp", "portmap", "bandwidth", "sbr"],
  ]],
], ([from, to]) => {
  const network = parse({ name: "n", plugins: pluginsOf(from) });
  const chained = convertTo("chain", network);
  assertEquals(chained, { name: "n", plugins: pluginsOf(to) });
  const plain = { name: "n", plugins: pluginsOf(from.flat(9) as Types) };
  assertEquals(convertTo("list", network), plain);
  assertEquals(convertTo("list", parse(chained)), plain);
}, ([from]) => JSON.stringify(from));

Deno.test("convertTo() declares no capabilities if no plugin does", () => {
  const plugins = [{ type: "ptp", capabilities: {} }, { type: "sbr" }];
  assertEquals(convertTo("chain", parse({ name: "n", plugins })), {
    name: "n",
    plugins: [{ type: "chain", plugins }],
  });
});

Deno.test("convertTo() wraps a bare plugin in a list and keeps its keys", () => {
  const conf = { cniVersion: "0.4.0", type: "ptp", name: "n", mtu: 1400 };
  const list = { cniVersion: "0.4.0", name: "n", plugins: [conf] };
  const chain = { type: "chain", plugins: [conf] };
  assertEquals(convertTo("chain", parse(conf)), { ...list, plugins: [chain] });
  assertEquals(convertTo("list", parse(conf)), list);
});

Deno.test("convertTo() converts a bare chain to a list", () => {
  const plugins = [{ type: "ptp" }, { type: "sbr" }];
  const conf = { name: "n", type: "chain", capabilities: {}, plugins };
  assertEquals(formOf(parse(conf)), "chain");
  assertEquals(convertTo("list", parse(conf)), { name: "n", plugins });
  const chain = { name: "n", plugins: [{ type: "chain", plugins }] };
  assertEquals(convertTo("chain", parse(conf)), chain);
});

Deno.test("convertTo() returns a network unchanged if it already has the form", async (t) => {
  // More capabilities than its plugins declare, and an unused key.
  const chain = { type: "chain", capabilities: { mac: true }, note: "mine" };
  const plugins = [{ ...chain, plugins: LIST.plugins }];
  const rows: [name: string, form: Form, document: object][] = [
    ["a list", "list", LIST],
    ["a list of nothing", "list", { name: "n" }],
    ["a chain", "chain", { ...LIST, plugins }],
  ];
  await eachRow(t, rows, ([, form, document]) => {
    const network = parse(document);
    assert(convertTo(form, network) === network.document);
  });
});

testRows("formOf() returns chain for a list with a chain at any position", [
  [["ptp", "sbr"], "list"],
  [[["ptp", "sbr"]], "chain"],
  [["portmap", ["ptp", "sbr"]], "chain"],
  [[], "list"],
], ([types, form]: [Types, Form]) => {
  const document = { name: "n", plugins: pluginsOf(types) };
  const network = types.length === 0 ? { name: "n" } : document;
  assertEquals(formOf(parse(network)), form);
}, ([types]) => JSON.stringify(types));

Deno.test("formatPlugins() shows plugins inside their chains", () => {
  const plugins = pluginsOf([["ptp", ["sbr"]], "portmap"]);
  assertEquals(
    formatPlugins(decodePluginConfs(plugins)),
    "chain(ptp, chain(sbr)), portmap",
  );
});

Deno.test("convertTo() keeps every digit, even of numbers out of range", () => {
  const numbers = '{"a":1.0,"b":12345678901234567890,"c":1e400,"d":-0,"e":5}';
  const plugins = '{"type":"ptp","x":[1e3]},{"type":"sbr","mtu":1.50}';
  const list = `{"name":"n","x":${numbers},"plugins":[${plugins}]}`;
  const chain = JSON.stringify(convertTo("chain", parse(list)));
  assert(chain.includes(numbers) && chain.includes(plugins), chain);
  assertEquals(JSON.stringify(convertTo("list", parse(chain))), list);
});

/** Lists the configurations in the documentation, with their places. */
function* listExamples(): Iterable<[name: string, text: string]> {
  const docs = new URL("../../docs/", import.meta.url);
  for (const { name, isFile } of Deno.readDirSync(docs)) {
    if (!isFile) continue;
    const page = Deno.readTextFileSync(new URL(name, docs));
    for (const [, text = ""] of page.matchAll(/^```json\n([^]*?)^```/gm)) {
      yield [name, text];
    }
  }
  for (const name of ["10-ptp", "neighbors/10-neighbors"]) {
    const file = new URL(`examples/${name}.conflist`, docs);
    yield [name, Deno.readTextFileSync(file)];
  }
}

Deno.test("convertTo() and back restores all examples", async (t) => {
  let count = 0;
  for (const [name, text] of listExamples()) {
    const document = JSON.parse(text);
    if (document.name === undefined) continue;
    count++;
    await t.step(`${name} ${count}`, () => {
      const written = parse(text);
      const form = formOf(written);
      const converted = convertTo(form === "chain" ? "list" : "chain", written);
      const back = convertTo(form, parse(converted));
      const { name, cniVersion } = document;
      const expected = written.isBare
        ? { cniVersion, name, plugins: [document] }
        : document;
      assertEquals(back, expected);
    });
  }
  assert(count > 5, `${count} examples`);
});

Deno.test("convertTo() refuses with a reason", async (t) => {
  const chainWith = (keys: object): object => ({
    name: "n",
    plugins: [{ type: "chain", plugins: [{ type: "a" }], ...keys }],
  });
  const rows: [string, Form, object, string][] = [
    [
      "no plugins",
      "chain",
      { name: "n" },
      "all its plugins are in files of their own",
    ],
    [
      "a version that chain does not support",
      "chain",
      { name: "n", cniVersion: "9.0.0", plugins: pluginsOf(["ptp", "sbr"]) },
      'chain does not support its version, "9.0.0"',
    ],
    [
      "a chain with a name",
      "list",
      chainWith({ name: "x", capabilities: {} }),
      'keys that a list cannot have: "name"',
    ],
    [
      "a chain with keys of its own",
      "list",
      chainWith({ args: {}, Plugins: [] }),
      'keys that a list cannot have: "args", "Plugins"',
    ],
    ["an empty chain", "list", chainWith({ plugins: [] }), "has no plugins"],
    [
      "an empty chain in a chain",
      "chain",
      { name: "n", plugins: pluginsOf(["ptp", ["sbr", []]]) },
      "its chain has no plugins",
    ],
    [
      "a chain with a name in one that is to be another",
      "chain",
      chainWith({ plugins: [{ type: "chain", name: "x", plugins: [] }] }),
      'keys that a list cannot have: "name"',
    ],
    ["a chain of nothing", "list", chainWith({ plugins: 5 }), "has no plugins"],
    [
      "a chain of something else",
      "list",
      chainWith({ plugins: [{}] }),
      "failed to parse plugin config 0: ",
    ],
  ];
  await eachRow(t, rows, ([, form, document, problem]) => {
    const network = parse(document);
    const error = assertThrows(
      () => convertTo(form, network),
      CniError,
      problem,
    );
    assertEquals(error.code, 7);
  });
});

testRows<[string, number]>("parseWritten() refuses malformed configurations", [
  ["", 6],
  ["{", 6],
  ["[]", 7],
  ["{}", 7],
  ['{"type":"a"}', 7],
  ['{"name":"../n","type":"a"}', 7],
  ['{"name":"n","plugins":[]}', 7],
  ['{"name":"n","plugins":[{}]}', 7],
], ([document, code]) => {
  const error = assertThrows(() => parse(document), CniError);
  assertEquals(error.code, code);
});

Deno.test("parseWritten() accepts a list with a type", () => {
  const list = { name: "n", type: "bridge", plugins: [{ type: "a" }] };
  assertEquals(parse(list).isBare, false);
  assertEquals(parse({ name: "n", Type: "bridge" }).isBare, true);
});

Deno.test("parseWritten() takes the type that a runtime takes", () => {
  const plugins = [{ type: "a" }];
  const chain = { name: "n", type: "chain", Type: "bridge", plugins };
  assertEquals(parse(chain).isBare, true);
  assertEquals(parse({ ...chain, type: null, Type: "chain" }).isBare, true);
  assertEquals(
    parse({ ...chain, type: "bridge", Type: "chain" }).isBare,
    false,
  );
});

Deno.test("convertTo() moves the socket of a chain in any spelling", () => {
  const socket = { DaemonSocket: "/run/a.sock" };
  const chain = { type: "chain", plugins: [{ type: "a" }], ...socket };
  assertEquals(convertTo("list", parse({ name: "n", plugins: [chain] })), {
    name: "n",
    plugins: [{ type: "a", daemonSocket: "/run/a.sock" }],
  });
});

Deno.test("unfoldChains() lists plugins at every depth", () => {
  const inner = { type: "chain", plugins: [{ type: "c" }] };
  const plugins = decodePluginConfs([
    { type: "a" },
    { type: "chain", plugins: [{ type: "b" }, inner] },
    { type: "chain" },
    { type: "other", plugins: [{ type: "d" }] },
  ]);
  assertEquals(
    unfoldChains(plugins).map(({ type }) => type),
    ["a", "chain", "b", "chain", "c", "chain", "other"],
  );
});
