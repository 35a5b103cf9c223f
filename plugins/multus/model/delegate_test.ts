import { assertEquals, assertStrictEquals, assertThrows } from "@std/assert";
import { CniError } from "../../../base/error.ts";
import { eachRow, testRows } from "../../../tests/_harness/table.ts";
import { type Delegate, isList, loadDelegate, refuseSelf } from "./delegate.ts";

function encode(document: unknown): Uint8Array {
  const isText = typeof document === "string";
  return new TextEncoder().encode(isText ? document : JSON.stringify(document));
}

Deno.test("loadDelegate() distinguishes lists from single plugins by their type", async (t) => {
  const plugins = [{ type: "bridge" }];
  const rows: [string, object, boolean][] = [
    ["a type", { name: "n", type: "bridge" }, false],
    ["a type in another case", { name: "n", Type: "bridge" }, false],
    ["a type and plugins", { name: "n", type: "bridge", plugins }, false],
    ["plugins", { name: "n", plugins }, true],
    ["plugins and an empty type", { name: "n", type: "", plugins }, true],
  ];
  await eachRow(t, rows, ([, document, expected]) => {
    const { conf } = loadDelegate(encode(document));
    assertEquals([isList(conf), conf.name], [expected, "n"]);
  });
});

Deno.test("loadDelegate() keeps the bytes, and uses the given name", () => {
  const bytes = encode('{ "type":"bridge",\n "name" : "n" }');
  const byDefault = loadDelegate(bytes);
  assertStrictEquals(byDefault.conf.bytes, bytes);
  assertEquals([byDefault.name, byDefault.request], ["n", {}]);
  const request = { ifName: "ext0" };
  const told = loadDelegate(bytes, { name: "ns/nad", request });
  assertEquals([told.name, told.conf.name, told.request], [
    "ns/nad",
    "n",
    request,
  ]);
});

testRows("loadDelegate() refuses anything but a network", [
  ["no JSON", '{"type":', 6, "Cannot parse"],
  ["no object", [], 7, "expected an object"],
  ["null", null, 7, "neither 'type' nor 'plugins'"],
  ["neither type nor plugins", { name: "n" }, 7, "neither 'type'"],
  ["an empty list", { name: "n", plugins: [] }, 7, "no plugins in list"],
  ["a plugin without type", { name: "n", plugins: [{}] }, 7, "'type'"],
  ["null for a plugin", { name: "n", plugins: [null] }, 7, "'type'"],
  ["a list without name", { plugins: [{ type: "a" }] }, 7, "no name"],
  ["a type that is not a string", { name: "n", type: 5 }, 7, "type: expected"],
], ([, document, code, message]: [string, unknown, number, string]) => {
  const load = (): Delegate => loadDelegate(encode(document));
  assertEquals(assertThrows(load, CniError, message).code, code);
});

Deno.test("refuseSelf() detects multus among the types of a configuration", async (t) => {
  const inner = { type: "multus" };
  const rows: [object, boolean][] = [
    [{ type: "multus" }, true],
    [{ type: "multus-shim" }, true],
    [{ type: "multus-daemon" }, true],
    [{ TYPE: "multus" }, true],
    [{ plugins: [{ type: "bridge" }, inner] }, true],
    [{ type: "flannel", delegate: inner }, true],
    [{ type: "x", Delegates: [{ plugins: [inner] }] }, true],
    [{ type: "bridge", ipam: inner }, true],
    [{ type: "bridge" }, false],
    [{ type: "multus-like" }, false],
    [{ type: "bridge", name: "multus" }, false],
    [{ type: "bridge", labels: inner }, false],
    [{ type: "x", delegate: { type: ["multus"] } }, false],
    [{ type: "x", delegates: null }, false],
  ];
  await eachRow(t, rows, ([document, isSelf]) => {
    const text = JSON.stringify({ name: "n", ...document });
    const delegate = loadDelegate(new TextEncoder().encode(text));
    const refuse = (): void => refuseSelf(delegate);
    if (!isSelf) return refuse();
    const message = 'Cannot attach to network "n": multus would call itself';
    assertEquals(assertThrows(refuse, CniError, message).code, 7);
  }, ([document]) => JSON.stringify(document));
});
