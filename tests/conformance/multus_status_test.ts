/**
 * What others rely on in multus: the status that it writes, and its events.
 */

import { assertEquals, assertThrows } from "@std/assert";
import { CniError, ErrorCode } from "../../base/error.ts";
import type { JsonObject } from "../../base/json/json.ts";
import { decodeResult } from "../../cni/result/decoding.ts";
import { Cidr } from "../../net/cidr.ts";
import {
  buildNetworkStatus,
  formatNetworkStatus,
  type NetworkStatus,
} from "../../plugins/multus/report/network_status.ts";
import {
  addedInterface,
  postEvents,
} from "../../plugins/multus/report/events.ts";
import { conformance } from "../_harness/conformance.ts";
import { Asker } from "../../kube/testing/asker.ts";
import { KubeApi } from "../../kube/testing/kube_api.ts";

const AREA = "multus status";

// 15, 84-91, 94: the status

const SANDBOX = "/proc/1123/ns/net";
const NET1_LINK = { name: "net1", mac: "92:79:27:01:7c:cf", mtu: 9000 };

function statusOf(
  result: JsonObject,
  { isMaster = false, deviceInfo }: {
    readonly isMaster?: boolean;
    readonly deviceInfo?: JsonObject;
  } = {},
): NetworkStatus[] {
  return buildNetworkStatus({
    delegate: { name: "test-net" },
    isMaster,
    result: decodeResult({ cniVersion: "1.1.0", ...result }),
    deviceInfo,
  });
}

/** A result of one interface with an address of each family. */
function singleResult(others: JsonObject = {}): JsonObject {
  return {
    cniVersion: "1.0.0",
    interfaces: [{ ...NET1_LINK, sandbox: SANDBOX }],
    ips: [{ address: "1.1.1.3/24" }, { address: "2001::1/64" }],
    ...others,
  };
}

/** A result of one interface of the host and two of the sandbox. */
const TWO_LINKS: JsonObject = {
  interfaces: [
    { name: "foo", mac: "00:aa:bb:cc:dd:33" },
    { name: "example0", mac: "00:aa:bb:cc:dd:01", sandbox: SANDBOX, mtu: 1500 },
    { name: "example1", mac: "00:aa:bb:cc:dd:02", sandbox: SANDBOX, mtu: 1500 },
  ],
  ips: [
    { address: "192.0.2.1/24", interface: 1 },
    { address: "192.0.2.2/24", interface: 1 },
    { address: "192.0.2.3/24", interface: 2 },
  ],
};

/** Returns what is said of each interface under one key. */
function column(
  statuses: readonly NetworkStatus[],
  key: keyof NetworkStatus,
): unknown[] {
  return statuses.map((status) => status[key]);
}

conformance(AREA, {
  "15 a status is built from a 0.2.0 result, which names no interface": () => {
    const result = { cniVersion: "0.2.0", ip4: { ip: "1.1.1.2/24" } };
    assertEquals(statusOf(result), []);
  },
  "15 a result of version 1.2.3 is refused": () => {
    const error = assertThrows(
      () => statusOf({ cniVersion: "1.2.3", ips: [] }),
      CniError,
    );
    assertEquals(error.code, ErrorCode.IncompatibleVersion);
  },
  "84 a status reads back from the pod as what was written": async () => {
    const statuses = [
      ...statusOf(singleResult({ dns: { domain: "a<b>&c" } })),
      ...statusOf(TWO_LINKS, { isMaster: true }),
    ];
    const text = formatNetworkStatus(statuses);
    assertEquals(/[<>&]/.test(text), false);
    await using scene = await ApiScene.create();
    const annotations = { "k8s.v1.cni.cncf.io/network-status": text };
    await scene.ask("PATCH", "pods/testpod/status", {
      body: { metadata: { annotations } },
      headers: { "content-type": "application/merge-patch+json" },
    });
    assertEquals(scene.api.networkStatus("test", "testpod"), statuses);
  },
  "85 the interface with a gateway is the default": () => {
    const statuses = statusOf({
      interfaces: [
        { name: "0xsomething", mac: "be:ee:ee:ee:ee:ef" },
        { name: "eth0", sandbox: SANDBOX },
        { name: "0xotherthing", mac: "b0:00:00:00:00:0f" },
        { name: "other-primary", sandbox: SANDBOX },
      ],
      ips: [
        { address: "10.244.1.6/24", interface: 1 },
        { address: "10.20.1.3/24", interface: 3, gateway: "10.20.1.1" },
      ],
    }, { isMaster: true });
    assertEquals(column(statuses, "interface"), ["eth0", "other-primary"]);
    assertEquals(column(statuses, "default"), [undefined, true]);
  },
  "85 default goes to the first of the sandbox otherwise": () => {
    const statuses = statusOf(TWO_LINKS, { isMaster: true });
    assertEquals(column(statuses, "default"), [true, undefined]);
  },
  "86 a single interface: all but a gateway": () => {
    assertEquals(statusOf(singleResult()), [{
      name: "test-net",
      interface: "net1",
      ips: ["1.1.1.3", "2001::1"],
      mac: NET1_LINK.mac,
      mtu: 9000,
      dns: {},
    }]);
  },
  "87 the gateway of a default route": () => {
    const routes = [{ dst: "0.0.0.0/0", gw: "10.10.10.10" }];
    const statuses = statusOf(singleResult({ routes }));
    assertEquals(column(statuses, "gateway"), [["10.10.10.10"]]);
  },
  "87 the gateways of several default routes": () => {
    const routes = [
      { dst: "0.0.0.0/0", gw: "10.10.10.10" },
      { dst: "::/0", gw: "2001::ff" },
      { dst: "0.0.0.0/0", gw: "20.20.20.20" },
    ];
    const statuses = statusOf(singleResult({ routes }));
    const gateways = ["10.10.10.10", "2001::ff", "20.20.20.20"];
    assertEquals(column(statuses, "gateway"), [gateways]);
  },
  "87 no gateway of other routes": () => {
    const routes = [
      { dst: "10.10.10.0/24", gw: "10.10.10.10" },
      { dst: "0.0.0.0/1", gw: "10.10.10.10" },
    ];
    const statuses = statusOf(singleResult({ routes }));
    assertEquals(column(statuses, "gateway"), [undefined]);
  },
  "87 a default route without a gateway is never <nil>": () => {
    const routes = [{ dst: "0.0.0.0/0" }, { dst: "::/0" }];
    const text = formatNetworkStatus(statusOf(singleResult({ routes })));
    assertEquals(/nil|null|undefined|gateway/.test(text), false, text);
  },
  "88 the status has the device": () => {
    const deviceInfo = {
      type: "pci",
      version: "v1.1.0",
      pci: {
        "pci-address": "0000:01:02.2",
        "pf-pci-address": "0000:01:02.0",
        "representor-device": "eth3",
      },
    };
    const statuses = statusOf(singleResult(), { deviceInfo });
    assertEquals(column(statuses, "device-info"), [deviceInfo]);
  },
  "89 an address of no interface is the only one's of the sandbox": () => {
    const statuses = statusOf({
      interfaces: [{ name: "foo" }, { name: "eth0", sandbox: SANDBOX }],
      ips: [{ address: "192.0.2.1/24" }],
    });
    assertEquals(column(statuses, "interface"), ["eth0"]);
    assertEquals(column(statuses, "ips"), [["192.0.2.1"]]);
  },
  "89 an address of no interface is the last one's of the sandbox": () => {
    const statuses = statusOf({
      interfaces: [
        { name: "foo" },
        { name: "eth0", sandbox: SANDBOX },
        { name: "eth1", sandbox: "/path/to/other/network/namespace" },
      ],
      ips: [{ address: "192.0.2.1/24" }],
    });
    assertEquals(column(statuses, "interface"), ["eth0", "eth1"]);
    assertEquals(column(statuses, "ips"), [undefined, ["192.0.2.1"]]);
  },
  "90 several interfaces have each its own": () => {
    assertEquals(statusOf(TWO_LINKS), [
      {
        name: "test-net",
        interface: "example0",
        ips: ["192.0.2.1", "192.0.2.2"],
        mac: "00:aa:bb:cc:dd:01",
        mtu: 1500,
        dns: {},
      },
      {
        name: "test-net",
        interface: "example1",
        ips: ["192.0.2.3"],
        mac: "00:aa:bb:cc:dd:02",
        mtu: 1500,
        dns: {},
      },
    ]);
  },
  "91 one interface outside the sandbox: name, addresses, default": () => {
    const statuses = statusOf({
      interfaces: [{ name: "foo" }],
      ips: [
        { address: "10.244.196.152/32" },
        { address: "fd10:244::c497/128" },
      ],
    }, { isMaster: true });
    assertEquals(statuses, [{
      name: "test-net",
      ips: ["10.244.196.152", "fd10:244::c497"],
      default: true,
      dns: {},
    }]);
  },
  "94 the status has name resolution unchanged": () => {
    const dns = {
      nameservers: ["aaa", "bbb"],
      domain: "testDomain",
      search: ["1.example.com", "2.example.com"],
      options: ["debug", "inet6"],
    };
    const [status] = statusOf(singleResult({ dns }));
    assertEquals(status?.dns, dns);
  },
});

// 33: events

/** An API server with the pod that is told about. */
class ApiScene implements AsyncDisposable {
  readonly api: KubeApi;
  readonly #asker: Asker;

  private constructor(api: KubeApi) {
    this.api = api;
    this.#asker = new Asker(api);
    const metadata = { namespace: "test", name: "testpod", uid: "testUID" };
    this.api.putPod({ metadata });
  }

  static async create(): Promise<ApiScene> {
    return new ApiScene(await KubeApi.start());
  }

  /** Asks for what must be granted, of the pod's namespace. */
  async ask(
    method: string,
    path: string,
    options: Parameters<Asker["ask"]>[2],
  ): Promise<void> {
    const whole = `/api/v1/namespaces/test/${path}`;
    const { status, text } = await this.#asker.ask(method, whole, options);
    assertEquals(Math.floor(status / 100), 2, text);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#asker[Symbol.dispose]();
    await this.api[Symbol.asyncDispose]();
  }
}

conformance(AREA, {
  "33 the events of three attachments": async () => {
    await using scene = await ApiScene.create();
    const pod = { namespace: "test", name: "testpod", uid: "testUID" };
    const events = [
      ["eth0", "1.1.1.2/24", "weave1"],
      ["net1", "1.1.1.3/24", "test/net1"],
      ["net2", "1.1.1.4/24", "test/net2"],
    ].map(([ifName = "", address = "", network = ""]) =>
      addedInterface(pod, ifName, [{ address: Cidr.parse(address) }], network)
    );
    const problems: string[] = [];
    await postEvents(
      {
        createEvent: (_namespace, body) =>
          scene.ask("POST", "events", { body }),
      },
      events,
      {
        withinMs: 30_000,
        log: {
          info: (message, fields) =>
            problems.push(`${message} ${fields?.["problem"]}`),
        },
      },
    );
    assertEquals(problems, []);
    assertEquals(scene.api.eventTexts.sort(), [
      "Normal AddedInterface Add eth0 [1.1.1.2/24] from weave1",
      "Normal AddedInterface Add net1 [1.1.1.3/24] from test/net1",
      "Normal AddedInterface Add net2 [1.1.1.4/24] from test/net2",
    ]);
  },
});
