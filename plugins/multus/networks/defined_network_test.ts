import { assertEquals, assertRejects } from "@std/assert";
import { CniError } from "../../../cni/error.ts";
import type { JsonObject } from "../../../cni/json.ts";
import { ConfFolder } from "../../../tests/_harness/conf_folder.ts";
import {
  type DefinitionConfig,
  DefinitionStore,
} from "../../../tests/_harness/definition_store.ts";
import { AttachmentDefinitions } from "./attachment_definitions.ts";
import { type DeviceSource, resolveDefined } from "./defined_network.ts";
import type { AttachmentRequest, Delegate } from "./delegate.ts";

interface Setting extends DeviceSource {
  readonly confDir?: string;
  readonly request?: AttachmentRequest;
  readonly resourceName?: string;
}

async function resolve(
  config: DefinitionConfig,
  setting: Setting = {},
): Promise<Delegate> {
  const { confDir = "/no/such/folder", request = {} } = setting;
  const store = new DefinitionStore();
  store.put("ns/nad", config, setting.resourceName);
  using definitions = new AttachmentDefinitions(store);
  const selection = { namespace: "ns", name: "nad", request };
  return await resolveDefined(selection, definitions, {
    config: { confDir },
    takeDevice: setting.takeDevice,
  });
}

function textOf({ conf }: Delegate): string {
  return new TextDecoder().decode(conf.bytes);
}

function documentOf(delegate: Delegate): JsonObject {
  return JSON.parse(textOf(delegate));
}

Deno.test("resolveDefined() keeps what is written, and names the delegate after the definition", async () => {
  const text = '{ "type": "macvlan",\n "name": "n" }';
  const request = { ifName: "ext0" };
  const delegate = await resolve(text, { request });
  assertEquals(textOf(delegate), text);
  const { name, conf } = delegate;
  assertEquals([name, conf.name, delegate.request], ["ns/nad", "n", request]);
});

Deno.test("resolveDefined() gives a network without a name the definition's", async () => {
  const delegate = await resolve('{"type":"mynet"}');
  assertEquals(textOf(delegate), '{"name":"nad","type":"mynet"}');
  assertEquals(delegate.conf.name, "nad");
});

Deno.test("resolveDefined() finds a file by name if nothing is written", async () => {
  const conf = { name: "nad", type: "macvlan" };
  using folder = new ConfFolder({ "10.conf": conf });
  const delegate = await resolve("", { confDir: folder.path });
  assertEquals([delegate.name, documentOf(delegate)], ["ns/nad", conf]);
});

Deno.test("resolveDefined() takes a device, and puts it into the configuration", async () => {
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

Deno.test("resolveDefined() leaves the configuration alone if there is no device", async (t) => {
  const none = (): Promise<undefined> => Promise.resolve(undefined);
  const text = '{"name":"n", "type":"sriov"}';
  const rows: [string, Setting][] = [
    ["none left", { resourceName: "r", takeDevice: none }],
    ["nobody to ask", { resourceName: "r" }],
    ["no resource", { takeDevice: () => Promise.resolve("d") }],
    ["an empty resource", {
      resourceName: "",
      takeDevice: () => Promise.resolve("d"),
    }],
  ];
  for (const [name, setting] of rows) {
    await t.step(name, async () => {
      const delegate = await resolve(text, setting);
      assertEquals(textOf(delegate), text);
      const { deviceId, resourceName } = delegate;
      assertEquals([deviceId, resourceName], [undefined, undefined]);
    });
  }
});

Deno.test("resolveDefined() sets what cni-args ask for beside the device", async () => {
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

Deno.test("resolveDefined() says what is wrong with a definition", async (t) => {
  const NAD = 'Cannot read network-attachment-definition "ns/nad": ';
  const rows: [string, DefinitionConfig, number, string][] = [
    ["no JSON", "asdf", 6, NAD],
    ["blanks", " ", 6, NAD],
    ["no object", "[]", 7, NAD],
    ["neither type nor plugins", {}, 7, `${NAD}error parsing configuration: `],
    ["an empty list", { plugins: [] }, 7, `${NAD}error parsing`],
    ["multus", { type: "multus" }, 7, 'network "ns/nad": multus would call'],
    [
      "no file",
      "",
      7,
      "GetCNIConfig: err in GetCNIConfigFromFile: No networks",
    ],
  ];
  for (const [name, config, code, message] of rows) {
    await t.step(name, async () => {
      const error = await assertRejects(
        () => resolve(config),
        CniError,
        message,
      );
      assertEquals(error.code, code);
    });
  }
});
