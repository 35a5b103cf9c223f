import { assertEquals, assertThrows } from "@std/assert";
import type { JsonObject } from "../../../base/json/json.ts";
import { eachRow } from "../../../tests/_harness/table.ts";
import { delegateArgs, interfaceNameOf, runtimeConfOf } from "./attachment.ts";
import type { K8sArgs } from "./k8s_args.ts";
import {
  type AttachmentRequest,
  type Delegate,
  loadDelegate,
} from "./delegate.ts";

function delegate(name: string, request: AttachmentRequest = {}): Delegate {
  const config = JSON.stringify({ name: "n", type: "t" });
  return loadDelegate(new TextEncoder().encode(config), { name, request });
}

const ARGS = {
  containerId: "c1",
  netns: "/run/netns/a",
  ifName: "eth0",
  args: "IgnoreUnknown=1;K8S_POD_NAME=p",
  path: "/bin",
  netnsOverride: false,
};
const K8S = {
  podNamespace: "",
  podName: "p",
  infraContainerId: "",
  podUid: "",
};

Deno.test("interfaceNameOf() names interfaces by request or index", async (t) => {
  const delegates = [
    delegate("a"),
    delegate("b", { ifName: "ext0" }),
    delegate("c"),
  ];
  const rows: [string, readonly Delegate[], number, string][] = [
    ["the master", delegates, 0, "eth0"],
    ["one with a request", delegates, 1, "ext0"],
    ["one without, counting all", delegates, 2, "net2"],
    ["an empty request", [delegate("a", { ifName: "" })], 0, "eth0"],
    ["a master with a request", delegates.slice(1), 0, "ext0"],
  ];
  await eachRow(t, rows, ([, list, index, expected]) => {
    assertEquals(interfaceNameOf(list, index, "eth0"), expected);
  });
});

/** The runtime's capability arguments. */
const OFFER: JsonObject = {
  portMappings: [{ hostPort: 80, containerPort: 8080, protocol: "tcp" }],
  ips: ["10.0.0.1/24"],
  mac: "",
  bandwidth: {},
  dns: { servers: ["10.0.0.9"] },
};
const REQUEST: AttachmentRequest = {
  mac: "c2:11:22:33:44:66",
  infinibandGuid: "24:8a:07:03:00:8d:ae:2e",
  ips: ["10.0.0.2/24"],
  bandwidth: { ingressRate: 2048 },
  portMappings: [{ hostPort: 81, containerPort: 8081 }],
};

/** Returns the runtime configuration of the second of two delegates, or of the first. */
function capabilityArgsFor(
  own: Delegate,
  { index = 1, capabilityArgs = OFFER }: {
    readonly index?: number;
    readonly capabilityArgs?: JsonObject;
  } = {},
): JsonObject | undefined {
  const delegates = index === 0 ? [own] : [delegate("master"), own];
  return runtimeConfOf({
    delegates,
    index,
    args: ARGS,
    k8s: K8S,
    capabilityArgs,
  })
    .capabilityArgs;
}

Deno.test("runtimeConfOf() builds the runtime configuration", () => {
  const own = delegate("ns/n", { ifName: "a0", ips: ["10.0.0.2"] });
  const delegates = [delegate("master"), own];
  assertEquals(
    runtimeConfOf({
      delegates,
      index: 1,
      args: ARGS,
      k8s: K8S,
      capabilityArgs: {},
    }),
    {
      containerId: "c1",
      netns: "/run/netns/a",
      ifName: "a0",
      args: [
        ["IgnoreUnknown", "true"],
        ["K8S_POD_NAMESPACE", ""],
        ["K8S_POD_NAME", "p"],
        ["K8S_POD_INFRA_CONTAINER_ID", ""],
        ["K8S_POD_UID", ""],
        ["IP", "10.0.0.2"],
      ],
      capabilityArgs: { ips: ["10.0.0.2"] },
    },
  );
});

Deno.test("runtimeConfOf() merges the runtime's arguments with the request", async (t) => {
  const { portMappings, ips, dns } = OFFER as Record<string, JsonObject>;
  const devinfo = "/var/run/k8s.cni.cncf.io/devinfo/cni/";
  await t.step("the master: all non-empty arguments, no request", () => {
    const offer = capabilityArgsFor(delegate("m", REQUEST), { index: 0 });
    assertEquals(offer, { portMappings, ips, dns } as JsonObject);
  });
  await t.step("others: known capabilities", () => {
    assertEquals(
      capabilityArgsFor(delegate("a")),
      { portMappings, ips } as JsonObject,
    );
  });
  await t.step("others: their requests", () => {
    assertEquals(capabilityArgsFor(delegate("a", REQUEST)), {
      portMappings: [{ hostPort: 81, containerPort: 8081 }],
      ips: ["10.0.0.2/24"],
      mac: "c2:11:22:33:44:66",
      infinibandGUID: "24:8a:07:03:00:8d:ae:2e",
      bandwidth: { ingressRate: 2048 },
    });
  });
  await t.step("others: nothing without requests", () => {
    const offer = capabilityArgsFor(
      delegate("a", { ips: [], portMappings: [] }),
    );
    assertEquals(offer, {});
  });
  await t.step("a device of the annotation, and where its file is", () => {
    const own = delegate("ns/n", { deviceId: "d1" });
    assertEquals(capabilityArgsFor(own, { capabilityArgs: {} }), {
      deviceID: "d1",
      CNIDeviceInfoFile: `${devinfo}ns-n-c1_net1`,
    });
  });
  await t.step("a device of the kubelet, before the annotation's", () => {
    const own = { ...delegate("a", { deviceId: "d1" }), deviceId: "d2" };
    assertEquals(
      capabilityArgsFor(own, { capabilityArgs: {} })?.["deviceID"],
      "d2",
    );
  });
  await t.step(
    "the runtime's device, with our file rather than its own",
    () => {
      const capabilityArgs = { deviceID: "d3", CNIDeviceInfoFile: "/x" };
      assertEquals(
        capabilityArgsFor(delegate("m"), { index: 0, capabilityArgs }),
        {
          deviceID: "d3",
          CNIDeviceInfoFile: `${devinfo}m-c1_eth0`,
        },
      );
    },
  );
  await t.step("the runtime's file without a device", () => {
    const capabilityArgs = { CNIDeviceInfoFile: "/x" };
    assertEquals(
      capabilityArgsFor(delegate("a"), { capabilityArgs }),
      capabilityArgs,
    );
  });
});

Deno.test("runtimeConfOf() does not change its input", () => {
  const before = structuredClone(OFFER);
  capabilityArgsFor(delegate("a", REQUEST));
  assertEquals(OFFER, before);
});

Deno.test("runtimeConfOf() refuses an index without a delegate", () => {
  const source = { delegates: [], args: ARGS, k8s: K8S, capabilityArgs: {} };
  assertThrows(() => runtimeConfOf({ ...source, index: 0 }), RangeError);
});

const NOTHING: K8sArgs = {
  podNamespace: "",
  podName: "",
  infraContainerId: "",
  podUid: "",
};
const POD: K8sArgs = {
  podNamespace: "test",
  podName: "web-0",
  infraContainerId: "c1",
  podUid: "u-1",
};
/** As containerd passes them. */
const POD_TEXT = "K8S_POD_NAMESPACE=test;K8S_POD_NAME=web-0;" +
  "K8S_POD_INFRA_CONTAINER_ID=c1;K8S_POD_UID=u-1;IgnoreUnknown=1";

function formatArgs(
  k8s: K8sArgs,
  text: string,
  request: AttachmentRequest = {},
): string {
  return delegateArgs(k8s, text, request)
    .map(([key, value]) => `${key}=${value}`).join(";");
}

/** The five keys, filled in. */
const FIVE = "IgnoreUnknown=true;K8S_POD_NAMESPACE=test;K8S_POD_NAME=web-0;" +
  "K8S_POD_INFRA_CONTAINER_ID=c1;K8S_POD_UID=u-1";
const EMPTY_FIVE = "IgnoreUnknown=true;K8S_POD_NAMESPACE=;K8S_POD_NAME=;" +
  "K8S_POD_INFRA_CONTAINER_ID=;K8S_POD_UID=";

Deno.test("delegateArgs() lists each key once, in the Go version's order", async (t) => {
  const rows: [string, K8sArgs, string, AttachmentRequest, string][] = [
    ["nothing", NOTHING, "", {}, EMPTY_FIVE],
    ["a pod and no text", POD, "", {}, FIVE],
    ["a pod and its text", POD, POD_TEXT, {}, FIVE],
    ["empty values are filled in", NOTHING, POD_TEXT, {}, FIVE],
    ["empty values fill in nothing", POD, "K8S_POD_UID=", {}, FIVE],
    [
      "the last value wins",
      POD,
      "K8S_POD_NAME=other",
      {},
      FIVE.replace("web-0", "other"),
    ],
    [
      "others come after them",
      POD,
      `B=1;${POD_TEXT};A=2`,
      {},
      `${FIVE};B=1;A=2`,
    ],
    [
      "the last of others wins, at the place of the first",
      POD,
      "B=1;A=2;B=3",
      {},
      `${FIVE};B=3;A=2`,
    ],
    ["a value with = in it", POD, "B=foo=bar==", {}, `${FIVE};B=foo=bar==`],
    ["an empty value of another key", POD, "B=", {}, `${FIVE};B=`],
    ["items that are not pairs", POD, ";B;;A:1", {}, FIVE],
    ["unknown keys stay ignored", POD, "IgnoreUnknown=0", {}, FIVE],
    ["MAC and IP", POD, "B=1", {
      ips: ["10.0.0.2/24", "fd00::2"],
      mac: "c2:11:22:33:44:66",
    }, `${FIVE};B=1;MAC=c2:11:22:33:44:66;IP=10.0.0.2/24,fd00::2`],
    ["MAC and IP in place of others", POD, "IP=10.0.0.1;B=1", {
      ips: ["10.0.0.2"],
    }, `${FIVE};IP=10.0.0.2;B=1`],
    ["no addresses", POD, "", { ips: [], mac: "" }, FIVE],
  ];
  await eachRow(t, rows, ([, k8s, text, request, expected]) => {
    assertEquals(formatArgs(k8s, text, request), expected);
  });
});
