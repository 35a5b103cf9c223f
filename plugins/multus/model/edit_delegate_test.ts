import {
  assert,
  assertEquals,
  assertStrictEquals,
  assertThrows,
} from "@std/assert";
import { CniError } from "../../../base/error.ts";
import { eachRow, testRows } from "../../../tests/_harness/table.ts";
import { type Delegate, isList, loadDelegate } from "./delegate.ts";
import {
  allowsClaims,
  injectClaim,
  injectCniArgs,
  injectCniVersion,
  injectDeviceId,
  injectEvidence,
  injectName,
  removeReserved,
  staysByPod,
} from "./edit_delegate.ts";

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

Deno.test("injectCniArgs() replaces other spellings, which plugins would read instead", () => {
  const document = {
    ...BARE,
    args: { x: 1 },
    ARGS: { CNI: { A: 1, z: 9 } },
  };
  const delegate = injectCniArgs(loadDelegate(encode(document)), { a: 2 });
  assertEquals(documentOf(delegate), {
    ...BARE,
    args: { cni: { a: 2, z: 9 } },
  });
});

/** The long s is an s for Go, and so for plugins. */
testRows(
  "keys of persistent addresses are found in any case",
  ["allowPersistentIPs", "AllowPersistentIPs", "allowPer\u017fistentIPs"],
  (key) => {
    const pod = { uid: "u", labels: {} };
    const documents = [
      { ...LIST, [key]: true },
      { ...LIST, plugins: [{ type: "x", [key]: true }] },
      { ...BARE, [key]: true, "CNI.dev/Pod": { uid: "forged" } },
    ];
    for (const document of documents) {
      const delegate = loadDelegate(encode(document), {
        request: { claim: "c" },
      });
      assert(allowsClaims(delegate));
      const { conf } = injectClaim(delegate, pod);
      for (const plugin of isList(conf) ? conf.plugins : [conf.plugin]) {
        const keys = Object.entries(plugin.document)
          .filter(([key]) => /persi|pod|args/i.test(key));
        assertEquals(Object.fromEntries(keys), {
          args: { cni: { "ipam-claim-reference": "c" } },
          allowPersistentIPs: true,
          "cni.dev/pod": pod,
        });
      }
    }
  },
  (key) => key,
);

Deno.test("staysByPod() finds the key in any case", () => {
  const load = (ipam: object): Delegate =>
    loadDelegate(encode({ ...BARE, IPAM: ipam }));
  assert(staysByPod(load({ Stay: "name" })));
  assert(!staysByPod(load({ Stay: null, other: "name" })));
  const edited = injectEvidence(load({}), { uid: "u", labels: {} });
  assertEquals(documentOf(edited), {
    ...BARE,
    IPAM: {},
    "cni.dev/pod": { uid: "u", labels: {} },
  });
});

Deno.test("removeReserved() removes all keys that identify a pod", () => {
  const reserved = {
    "cni.dev/pod": { uid: "forged" },
    "CNI.DEV/valid-attachments": [],
    "PrevResult": { ips: [{ address: "10.1.1.5/24" }] },
    args: { cni: { a: 1, "IPAM-claim-reference": "c" } },
  };
  const kept = { args: { cni: { a: 1 } } };
  const rows: [object, object][] = [
    [{ ...BARE, ...reserved }, { ...BARE, ...kept }],
    [
      { ...LIST, "cni.dev/x": 1, plugins: [{ type: "x", delegate: reserved }] },
      { ...LIST, plugins: [{ type: "x", delegate: kept }] },
    ],
  ];
  for (const [document, expected] of rows) {
    assertEquals(
      documentOf(removeReserved(loadDelegate(encode(document)))),
      expected,
    );
  }
  const harmless = loadDelegate(encode(LIST));
  assertStrictEquals(removeReserved(harmless), harmless);
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

testRows<[string, object, string]>("injectCniVersion() keeps other documents", [
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
