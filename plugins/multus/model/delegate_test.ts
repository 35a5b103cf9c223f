import {
  assert,
  assertEquals,
  assertInstanceOf,
  assertStrictEquals,
  assertThrows,
} from "@std/assert";
import { CniError } from "../../../cni/error.ts";
import { eachRow, testRows } from "../../../tests/_harness/table.ts";
import {
  type Delegate,
  inContext,
  injectCniArgs,
  injectCniVersion,
  injectDeviceId,
  injectName,
  isList,
  loadDelegate,
  NetworkError,
  refuseSelf,
} from "./delegate.ts";

function encode(document: unknown): Uint8Array {
  const isText = typeof document === "string";
  return new TextEncoder().encode(isText ? document : JSON.stringify(document));
}

function textOf({ conf }: Delegate): string {
  return new TextDecoder().decode(conf.bytes);
}

function documentOf(delegate: Delegate): unknown {
  return JSON.parse(textOf(delegate));
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

Deno.test("injectName() keeps bytes with a name", () => {
  const bytes = encode('{ "name": "n" , "type": "bridge" }');
  assertStrictEquals(injectName(bytes, "nad"), bytes);
});

Deno.test("injectName() sets a name, with the keys in order", async (t) => {
  const expected = '{"a":[{"b":1,"c":2}],"name":"nad","type":"bridge"}';
  const rows = [
    '{"type":"bridge", "a":[{"c":2,"b":1}]}',
    '{"type":"bridge", "name":"", "a":[{"c":2,"b":1}]}',
    '{"type":"bridge", "name":null, "a":[{"c":2,"b":1}]}',
  ];
  await eachRow(t, rows, (text) => {
    const bytes = injectName(encode(text), "nad");
    assertEquals(new TextDecoder().decode(bytes), expected);
  });
});

const LIST = {
  cniVersion: "0.3.1",
  name: "n",
  unknown: { z: 1, a: [null] },
  plugins: [
    { type: "sriov", vlan: 5, "x.y/z": { deep: [1, { w: "v" }] } },
    { type: "tuning", sysctl: { "net.core.somaxconn": "500" } },
  ],
};
const BARE = { cniVersion: "0.3.1", name: "n", type: "sriov", vlan: 5 };
const DEVICE = { resourceName: "intel.com/sriov", deviceId: "0000:00:01.0" };
const SET = { deviceID: "0000:00:01.0", pciBusID: "0000:00:01.0" };

Deno.test("injectDeviceId() sets both keys in a single plugin, and the device in the delegate", () => {
  const delegate = injectDeviceId(loadDelegate(encode(BARE)), DEVICE);
  assertEquals(documentOf(delegate), { ...BARE, ...SET });
  const { resourceName, deviceId } = delegate;
  assertEquals({ resourceName, deviceId }, DEVICE);
});

Deno.test("injectDeviceId() sets both keys in every plugin of a list, and keeps everything else", () => {
  const delegate = injectDeviceId(loadDelegate(encode(LIST)), DEVICE);
  const plugins = LIST.plugins.map((plugin) => ({ ...plugin, ...SET }));
  assertEquals(documentOf(delegate), { ...LIST, plugins });
  assert(isList(delegate.conf));
  const parsed = delegate.conf.plugins.map(({ document }) => document);
  assertEquals(parsed, plugins);
});

Deno.test("injectDeviceId() replaces existing keys, in any case", () => {
  const document = { ...BARE, deviceid: "old", PciBusID: "old" };
  const delegate = injectDeviceId(loadDelegate(encode(document)), DEVICE);
  assertEquals(documentOf(delegate), { ...BARE, ...SET });
});

Deno.test("injectCniArgs() merges key by key", async (t) => {
  const cniArgs = { a: 2, b: { c: null } };
  const rows: [string, object, object][] = [
    ["no args", {}, { cni: cniArgs }],
    ["null", { args: null }, { cni: cniArgs }],
    ["other args", { args: { x: 1 } }, { x: 1, cni: cniArgs }],
    [
      "args.cni",
      { args: { x: 1, cni: { a: 1, z: 9 } } },
      { x: 1, cni: { a: 2, b: { c: null }, z: 9 } },
    ],
  ];
  for (const [name, extra, args] of rows) {
    await t.step(`${name} in a bare plugin`, () => {
      const delegate = loadDelegate(encode({ ...BARE, ...extra }));
      const edited = injectCniArgs(delegate, cniArgs);
      assertEquals(documentOf(edited), { ...BARE, args });
    });
    await t.step(`${name} in a list`, () => {
      const [first, second] = LIST.plugins;
      const document = { ...LIST, plugins: [{ ...first, ...extra }, second] };
      const edited = injectCniArgs(loadDelegate(encode(document)), cniArgs);
      const plugins = [
        { ...first, args },
        { ...second, args: { cni: cniArgs } },
      ];
      assertEquals(documentOf(edited), { ...LIST, plugins });
    });
  }
});

testRows("injectCniArgs() refuses args that are not objects", ["text", [1], {
  cni: "text",
}], (args) => {
  const delegate = loadDelegate(encode({ ...BARE, args }));
  const error = assertThrows(
    () => injectCniArgs(delegate, { a: 1 }),
    CniError,
    "is not an object",
  );
  assertEquals(error.code, 7);
}, (args) => JSON.stringify(args));

Deno.test("injectCniVersion() sets the version of lists without one", async (t) => {
  const { cniVersion: _, ...unversioned } = LIST;
  const rows: [string, object, string][] = [
    ["no version", unversioned, "1.0.0"],
    ["an empty version", { ...LIST, cniVersion: "" }, "1.0.0"],
    ["a version", LIST, "0.3.1"],
  ];
  await eachRow(t, rows, ([, document, cniVersion]) => {
    const delegate = loadDelegate(encode(document));
    const versioned = injectCniVersion(delegate, "1.0.0");
    assertEquals(documentOf(versioned), { ...LIST, cniVersion });
    assertEquals(versioned.conf.cniVersion, cniVersion);
  });
});

testRows<[string, object, string]>("injectCniVersion() keeps everything else", [
  ["a list that offers versions", {
    ...LIST,
    cniVersion: "",
    cniVersions: ["0.4.0"],
  }, "1.0.0"],
  ["a bare plugin", { name: "n", type: "bridge" }, "1.0.0"],
  ["no version to give", { name: "n", plugins: LIST.plugins }, ""],
], ([, document, version]) => {
  const delegate = loadDelegate(encode(document));
  assertStrictEquals(injectCniVersion(delegate, version), delegate);
});

Deno.test("refuseSelf() detects multus by the types in a configuration", async (t) => {
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

const EVENT = { reason: "NoNetworkFound", message: "event" } as const;

Deno.test("inContext() keeps code, details and event message", () => {
  const missing = inContext(
    "b",
    inContext("a", new NetworkError(11, "m", EVENT)),
  );
  assertInstanceOf(missing, NetworkError);
  assertEquals([missing.code, missing.message, missing.event], [
    11,
    "b: a: m",
    EVENT,
  ]);
  const other = inContext("a", new CniError(7, "m", { details: "d" }));
  assertEquals([other.code, other.message, other.details], [7, "a: m", "d"]);
  const unknown = inContext("a", new TypeError("m"));
  assertEquals([unknown.code, unknown.message], [999, "a: m"]);
});
