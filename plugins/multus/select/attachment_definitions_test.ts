import { assert, assertEquals, assertMatch, assertRejects } from "@std/assert";
import { CniError } from "../../../base/error.ts";
import type { JsonObject } from "../../../base/json/json.ts";
import { KubeError } from "../../../kube/kube_error.ts";
import { ConfDirectory } from "../../../tests/_harness/conf_directory.ts";
import {
  type DefinitionConfig,
  DefinitionStore,
} from "../testing/definitions.ts";
import { eachRow, testRows } from "../../../tests/_harness/table.ts";
import type { AttachmentRequest, Delegate } from "../model/delegate.ts";
import { NetworkError } from "../model/network_error.ts";
import {
  AttachmentDefinitions,
  type DefinitionsConfig,
  type DeviceSource,
} from "./attachment_definitions.ts";

function keys(count: number): { namespace: string; name: string }[] {
  return Array.from({ length: count }, (_, index) => ({
    namespace: "ns",
    name: `net${index}`,
  }));
}

function storeOf(count: number): DefinitionStore {
  const definitions = keys(count).map(({ name }) =>
    [`ns/${name}`, { type: name }] as const
  );
  return new DefinitionStore(Object.fromEntries(definitions));
}

Deno.test("AttachmentDefinitions.get() fetches each definition once", async () => {
  const store = storeOf(2);
  using definitions = new AttachmentDefinitions(store);
  const [first, second] = keys(2);
  assert(first && second);
  definitions.prefetch([first, second, first]);
  const [one, other] = [
    await definitions.get(first),
    await definitions.get(first),
  ];
  assertEquals(one, other);
  assertEquals(one.spec?.config, '{"type":"net0"}');
  assertEquals(store.requests, ["ns/net0", "ns/net1"]);
});

testRows(
  "prefetch() fetches concurrently, up to a limit",
  [[3, 3], [30, 8]] as const,
  async ([count, peak]) => {
    const store = storeOf(count);
    const release = store.hold();
    using definitions = new AttachmentDefinitions(store);
    definitions.prefetch(keys(count));
    release();
    for (const key of keys(count)) await definitions.get(key);
    assertEquals([store.requests.length, store.peak], [count, peak]);
  },
);

testRows("AttachmentDefinitions.get() reports the cause", [
  ["not found", new KubeError("x", { status: 404 }), 7],
  ["forbidden", new KubeError("x", { status: 403 }), 7],
  ["no answer", new KubeError("x", { status: 0, isTimeout: true }), 11],
  ["an overloaded server", new KubeError("x", { status: 503 }), 11],
], async ([, failure, code]: [string, KubeError, number]) => {
  const store = new DefinitionStore();
  store.fail("ns/net0", failure);
  using definitions = new AttachmentDefinitions(store);
  const [key] = keys(1);
  assert(key);
  const error = await assertRejects(
    () => definitions.get(key),
    NetworkError,
  );
  const event =
    "cannot find a network-attachment-definition (net0) in namespace (ns): x";
  assertEquals([error.code, error.event.message, error.message], [
    code,
    event,
    `getKubernetesDelegate: ${event}`,
  ]);
});

Deno.test("AttachmentDefinitions aborts requests in flight on disposal", async () => {
  const store = storeOf(20);
  const release = store.hold();
  {
    using definitions = new AttachmentDefinitions(store);
    definitions.prefetch(keys(20));
    await Promise.resolve();
  }
  assertEquals(store.aborted, 8);
  release();
  // What waited for its turn gets it, and does nothing.
  for (let turn = 0; turn < 100; turn++) await Promise.resolve();
  assertEquals(store.requests.length, 8);
});

Deno.test("AttachmentDefinitions aborts with its signal", async () => {
  const store = storeOf(1);
  const controller = new AbortController();
  using definitions = new AttachmentDefinitions(store, controller.signal);
  controller.abort(new Error("time is up"));
  await assertRejects(
    () => definitions.get({ namespace: "ns", name: "net0" }),
    NetworkError,
    "time is up",
  );
  assertEquals(store.requests, []);
});

interface Setting extends DeviceSource {
  readonly podRequests?: "any";
  readonly requireDevices?: boolean;
  readonly confDir?: string;
  readonly request?: AttachmentRequest;
  readonly resourceName?: string;
}

const CONFIG: DefinitionsConfig = {
  confDir: "/no/such/directory",
  definitionTypes: ["*"],
  definitionKeys: [],
  trustedNamespaces: [],
  requireDevices: false,
  podRequests: "offered",
  podArgs: ["x"],
};

async function resolve(
  config: DefinitionConfig,
  setting: Setting = {},
): Promise<Delegate> {
  const { confDir = CONFIG.confDir, request = {} } = setting;
  const store = new DefinitionStore();
  store.put("ns/nad", config, setting.resourceName);
  using definitions = new AttachmentDefinitions(store);
  const selection = { namespace: "ns", name: "nad", request };
  return await definitions.resolve(selection, {
    config: {
      ...CONFIG,
      confDir,
      requireDevices: setting.requireDevices ?? false,
      podRequests: setting.podRequests ?? "offered",
    },
    takeDevice: setting.takeDevice,
    hasDevice: setting.hasDevice,
    log: console,
  });
}

function textOf({ conf }: Delegate): string {
  return new TextDecoder().decode(conf.bytes);
}

function documentOf(delegate: Delegate): JsonObject {
  return JSON.parse(textOf(delegate));
}

Deno.test("AttachmentDefinitions.resolve() keeps the bytes, and names the delegate after the definition", async () => {
  const text = '{ "type": "macvlan",\n "name": "n" }';
  const request = { ifName: "ext0" };
  const delegate = await resolve(text, { request });
  assertEquals(textOf(delegate), text);
  const { name, conf } = delegate;
  assertEquals([name, conf.name, delegate.request], ["ns/nad", "n", request]);
});

Deno.test("AttachmentDefinitions.resolve() names an unnamed network after the definition", async () => {
  const delegate = await resolve('{"type":"mynet"}');
  assertEquals(textOf(delegate), '{"name":"nad","type":"mynet"}');
  assertEquals(delegate.conf.name, "nad");
});

Deno.test("AttachmentDefinitions.resolve() finds a file by name if the definition is empty", async () => {
  const conf = { name: "nad", type: "macvlan" };
  using directory = new ConfDirectory({ "10.conf": conf });
  const delegate = await resolve("", { confDir: directory.path });
  assertEquals([delegate.name, documentOf(delegate)], ["ns/nad", conf]);
});

Deno.test("AttachmentDefinitions.resolve() takes a device, and sets it in the configuration", async () => {
  const taken: string[] = [];
  const takeDevice = (resourceName: string): Promise<string> => {
    taken.push(resourceName);
    return Promise.resolve("0000:00:01.0");
  };
  const options = { resourceName: "intel.com/sriov", takeDevice };
  const delegate = await resolve({ type: "sriov" }, options);
  assertEquals(taken, ["intel.com/sriov"]);
  assertEquals([delegate.resourceName, delegate.deviceId], [
    "intel.com/sriov",
    "0000:00:01.0",
  ]);
  assertEquals(documentOf(delegate), {
    deviceID: "0000:00:01.0",
    name: "nad",
    pciBusID: "0000:00:01.0",
    type: "sriov",
  });
});

Deno.test("AttachmentDefinitions.resolve() leaves the configuration alone if there is no device", async (t) => {
  const none = (): Promise<undefined> => Promise.resolve(undefined);
  const text = '{"name":"n", "type":"sriov"}';
  const rows: [string, Setting][] = [
    ["none left", { resourceName: "r", takeDevice: none }],
    ["no device source", { resourceName: "r" }],
    ["no resource", { takeDevice: () => Promise.resolve("d") }],
    ["an empty resource", {
      resourceName: "",
      takeDevice: () => Promise.resolve("d"),
    }],
  ];
  await eachRow(t, rows, async ([, setting]) => {
    const delegate = await resolve(text, setting);
    assertEquals(textOf(delegate), text);
    const { deviceId, resourceName } = delegate;
    assertEquals([deviceId, resourceName], [undefined, undefined]);
  });
});

Deno.test("AttachmentDefinitions.resolve() refuses a network without its device, if that is set", async (t) => {
  const none = (): Promise<undefined> => Promise.resolve(undefined);
  const strict = { resourceName: "r", requireDevices: true };
  const error = await assertRejects(
    () => resolve({ type: "sriov" }, { ...strict, takeDevice: none }),
    NetworkError,
  );
  assertEquals([error.code, error.event.reason, error.message], [
    7,
    "NetworkRefused",
    'network "ns/nad" needs a device of resource "r", and the pod has none left',
  ]);
  const rows: [string, Setting][] = [
    ["one is left", { ...strict, takeDevice: () => Promise.resolve("d") }],
    ["the pod names one", {
      ...strict,
      takeDevice: none,
      hasDevice: (id) => Promise.resolve(id === "d"),
      request: { deviceId: "d" },
    }],
    ["no pod", strict],
    ["no resource", { requireDevices: true, takeDevice: none }],
  ];
  await eachRow(t, rows, async ([, setting]) => {
    await resolve({ type: "sriov" }, setting);
  });
});

Deno.test("AttachmentDefinitions.resolve() refuses a device that is not the pod's", async (t) => {
  const none = (): Promise<undefined> => Promise.resolve(undefined);
  const request = { deviceId: "../../../../run/podvol" };
  const rows: [string, Setting][] = [
    ["no resource", { hasDevice: () => Promise.resolve(false) }],
    ["another pod's", {
      resourceName: "r",
      requireDevices: true,
      takeDevice: none,
      hasDevice: () => Promise.resolve(false),
    }],
    ["nothing tells of devices", {}],
  ];
  await eachRow(t, rows, async ([, setting]) => {
    const error = await assertRejects(
      () => resolve({ type: "host-device" }, { ...setting, request }),
      NetworkError,
    );
    assertEquals([error.code, error.event.reason, error.message], [
      7,
      "NetworkRefused",
      'Refused device "../../../../run/podvol" on network "ns/nad": neither ' +
      "the kubelet nor a resource claim allocated it to the pod; " +
      '"podRequests" of the node\'s multus configuration can allow it',
    ]);
  });
  await resolve({ type: "sriov" }, { podRequests: "any", request });
});

Deno.test("AttachmentDefinitions.resolve() sets cni-args and the device", async () => {
  const delegate = await resolve({ plugins: [{ type: "a" }, { type: "b" }] }, {
    resourceName: "r",
    takeDevice: () => Promise.resolve("d"),
    request: { cniArgs: { x: 1 } },
  });
  const added = { args: { cni: { x: 1 } }, deviceID: "d", pciBusID: "d" };
  assertEquals(documentOf(delegate), {
    name: "nad",
    plugins: [{ ...added, type: "a" }, { ...added, type: "b" }],
  });
});

Deno.test("AttachmentDefinitions.resolve() limits the definitions of a pod together", async () => {
  const store = new DefinitionStore();
  const padding = "x".repeat(65_000);
  store.put("ns/large", { name: "n", type: "x", padding });
  store.put("ns/small", { name: "n", type: "x" });
  using definitions = new AttachmentDefinitions(store);
  const resolve = (name: string): Promise<Delegate> =>
    definitions.resolve({ namespace: "ns", name, request: {} }, {
      config: CONFIG,
      log: console,
    });
  for (let count = 0; count < 16; count++) await resolve("large");
  await resolve("small");
  const error = await assertRejects(() => resolve("large"), NetworkError);
  assertEquals([error.code, error.event.reason], [7, "NetworkRefused"]);
  assertMatch(
    error.message,
    /^Refused NetworkAttachmentDefinition "ns\/large": with it, the pod's networks have 11\d+ bytes; the limit is 1048576$/,
  );
});

Deno.test("AttachmentDefinitions.resolve() reports a malformed definition", async (t) => {
  const NAD = 'Cannot read network-attachment-definition "ns/nad": ';
  const rows: [string, DefinitionConfig, number, string][] = [
    ["no JSON", "asdf", 6, NAD],
    ["blanks", " ", 6, NAD],
    ["no object", "[]", 7, NAD],
    ["neither type nor plugins", {}, 7, `${NAD}error parsing configuration: `],
    ["an empty list", { plugins: [] }, 7, `${NAD}error parsing`],
    [
      "no file",
      "",
      7,
      "GetCNIConfig: err in GetCNIConfigFromFile: No networks",
    ],
  ];
  await eachRow(t, rows, async ([, config, code, message]) => {
    const error = await assertRejects(
      () => resolve(config),
      CniError,
      message,
    );
    assertEquals(error.code, code);
  });
});
