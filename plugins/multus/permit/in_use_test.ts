import { assertEquals, assertThrows } from "@std/assert";
import { AttachmentCache } from "../../../libcni/cache.ts";
import type { JsonObject } from "../../../base/json/json.ts";
import { rootTest } from "../../../testing/capabilities.ts";
import { runIn } from "../../../testing/ip_json.ts";
import { TestHosts } from "../../../testing/test_hosts.ts";
import { interruptLinkDumps } from "../../../tests/_harness/interrupted_dumps.ts";
import { needsKind } from "../../../tests/_harness/on_master.ts";
import { eachRow } from "../../../tests/_harness/table.ts";
import { checkUnused } from "./in_use.ts";
import { type AttachmentRequest, loadDelegate } from "../model/delegate.ts";
import { NetworkError } from "../model/network_error.ts";

const encode = (value: object): Uint8Array =>
  new TextEncoder().encode(JSON.stringify(value));
const MACVLAN = { name: "lan", type: "macvlan", master: "eth0" };
const BRIDGE = { name: "wan", type: "bridge", bridge: "br1", isGateway: true };
const POD = { namespace: "a", name: "web" };

class Node implements Disposable {
  readonly #hosts = TestHosts.create();
  readonly #cache = new AttachmentCache(`${this.#hosts.directory}/multus`);

  constructor() {
    this.ip("address add 192.0.2.7/24 dev lo");
  }

  /** Runs `ip` on the host. */
  ip(args: string): void {
    runIn(this.#hosts.host, "ip", ...args.split(" "));
  }

  /** Creates a macvlan link on a link outside the host. */
  addLinkOnOutside(name: string, index: number, lowerIndex: number): void {
    const { host, sandbox } = this.#hosts;
    const lower = `lower${lowerIndex}`;
    const place = `name ${name} index ${index} netns ${host.path}`;
    for (
      const args of [
        `link add ${lower} index ${lowerIndex} type bridge`,
        `link add link ${lower} ${place} type macvlan`,
      ]
    ) runIn(sandbox, "ip", ...args.split(" "));
  }

  /** Has a container with an address and a MAC. */
  attach(
    containerId: string,
    { conf = MACVLAN, netns = this.#hosts.sandbox.path, pod = POD }: {
      conf?: JsonObject;
      netns?: string;
      pod?: typeof POD;
    } = {},
  ): void {
    this.#cache.writeAttachment({
      network: String(conf["name"]),
      containerId,
      ifName: "net1",
      netns,
      config: encode({ cniVersion: "1.0.0", ...conf }),
      cniArgs: [
        ["K8S_POD_NAMESPACE", pod.namespace],
        ["K8S_POD_NAME", pod.name],
      ],
      capabilityArgs: {},
    }, {
      cniVersion: "1.0.0",
      interfaces: [{ name: "net1", mac: "02:00:00:00:00:0a", sandbox: netns }],
      ips: [{ address: "10.1.1.5/24" }, { address: "fd00::5/64" }],
    });
  }

  check(request: AttachmentRequest, conf: JsonObject = MACVLAN): void {
    const delegate = loadDelegate(encode({ cniVersion: "1.0.0", ...conf }), {
      name: "b/n",
      request,
    });
    const session = {
      cache: this.#cache,
      k8s: { podNamespace: "b", podName: "mine" },
      call: {
        args: { containerId: "mine" },
        hostNetns: this.#hosts.host.path,
      },
    };
    // deno-lint-ignore no-explicit-any -- the parts of a session that it reads
    checkUnused(session as any, [delegate]);
  }

  refuses(request: AttachmentRequest, conf?: JsonObject): string {
    const { code, event } = assertThrows(
      () => this.check(request, conf),
      NetworkError,
    );
    assertEquals([code, event.reason], [7, "NetworkRefused"]);
    const [start = ""] = event.message.split("; ");
    return start.replace("Refused ", "");
  }

  [Symbol.dispose](): void {
    this.#hosts[Symbol.dispose]();
  }
}

const ADDRESS = 'address 10.1.1.5 on network "b/n": pod "a/web" has it';
const MAC = 'MAC 02:00:00:00:00:0a on network "b/n": pod "a/web" has it';

rootTest(
  "a pod cannot request an address or MAC of another container",
  async (t) => {
    const rows: [string, AttachmentRequest, string][] = [
      ["an address", { ips: ["10.1.1.6/24", "10.1.1.5/16"] }, ADDRESS],
      ["without a length", { ips: ["10.1.1.5"] }, ADDRESS],
      [
        "of IPv6, written differently",
        { ips: ["fd00:0::0005/64"] },
        ADDRESS.replace("10.1.1.5", "fd00::5"),
      ],
      ["by cni-args", { cniArgs: { IPS: ["10.1.1.5/24"] } }, ADDRESS],
      ["a MAC", { mac: "02-00-00-00-00-0A" }, MAC],
      ["a MAC by cni-args", { cniArgs: { Mac: "02:00:00:00:00:0a" } }, MAC],
      [
        "the node's own",
        { ips: ["192.0.2.7/24"] },
        'address 192.0.2.7 on network "b/n": the node has it',
      ],
    ];
    using node = new Node();
    node.attach("other");
    await eachRow(
      t,
      rows,
      ([, request, expected]) => assertEquals(node.refuses(request), expected),
    );
    node.check({ ips: ["10.1.1.6/24"], mac: "02:00:00:00:00:0b" });
  },
);

rootTest("an address is in use in networks that share links", async (t) => {
  const request = { ips: ["10.1.1.5/24"] };
  const rows: [string, JsonObject, JsonObject, boolean][] = [
    ["the same parent", MACVLAN, { ...MACVLAN, name: "x" }, true],
    ["another parent", MACVLAN, { ...MACVLAN, master: "eth1" }, false],
    ["another VLAN", { ...MACVLAN, type: "vlan", vlanId: 5 }, MACVLAN, false],
    ["a network that the node routes", BRIDGE, MACVLAN, true],
    ["the other way round", MACVLAN, { name: "x", type: "ptp" }, true],
    [
      "bridges that the node does not route",
      { ...BRIDGE, isGateway: false },
      { ...BRIDGE, isGateway: false, bridge: "br2" },
      false,
    ],
  ];
  await eachRow(t, rows, ([, used, wanted, isInUse]) => {
    using node = new Node();
    node.attach("other", { conf: used });
    if (isInUse) assertEquals(node.refuses(request, wanted), ADDRESS);
    else node.check(request, wanted);
  });
});

/** Two networks, and whether an address of the first is in use on the second. */
type Meeting = [name: string, used: JsonObject, wanted: JsonObject, boolean];

const on = (master: string): JsonObject => ({ ...MACVLAN, master });
const vlanOn = (master: string, vlanId: number): JsonObject => ({
  ...{ name: "v", type: "vlan", master, vlanId },
});
const BRIDGED = { ...BRIDGE, isGateway: false };

function checkMeeting(node: Node, [, used, wanted, isInUse]: Meeting): void {
  const request = { ips: ["10.1.1.5/24"] };
  node.attach("other", { conf: { ...used, name: "used" } });
  if (isInUse) assertEquals(node.refuses(request, wanted), ADDRESS);
  else node.check(request, wanted);
}

rootTest("an address is in use on links that share a lower link", async (t) => {
  const inside = { linkInContainer: true };
  const trunk = { vlanTrunk: [{ id: 9 }] };
  const rows: Meeting[] = [
    ["an alternative name", on("uplink"), on("eth0"), true],
    ["a macvlan link of the node", on("mac0"), on("eth0"), true],
    ["a VLAN of it", on("mac0"), vlanOn("eth0", 5), false],
    ["a port", BRIDGED, on("eth1"), true],
    ["a port's VLAN", { ...BRIDGED, vlan: 5 }, vlanOn("eth1", 5), true],
    ["another VLAN", { ...BRIDGED, vlan: 5 }, vlanOn("eth1", 6), false],
    ["a VLAN of a bridge", { ...BRIDGED, vlan: 5 }, vlanOn("br1", 5), true],
    ["a trunk", { ...BRIDGED, ...trunk }, vlanOn("eth0", 9), true],
    ["in containers", { ...on("a"), ...inside }, on("eth0"), true],
  ];
  using node = new Node();
  node.ip("link add eth0 type veth peer name peer0");
  node.ip("link property add dev eth0 altname uplink");
  node.ip("link add mac0 link eth0 type macvlan");
  node.ip("link add br1 type bridge");
  node.ip("link add eth1 master br1 type veth peer name peer1");
  await eachRow(t, rows, (row) => checkMeeting(node, row));
});

rootTest(
  "an address is in use on links whose lower link is outside the node",
  async (t) => {
    const rows: Meeting[] = [
      ["the same link", on("eth0"), on("eth0"), true],
      ["a link on it", on("mac0"), on("eth0"), true],
      ["another link", on("eth0"), on("eth1"), false],
      ["a link with the lower link's index", on("eth1"), on("eth2"), false],
    ];
    using node = new Node();
    node.addLinkOnOutside("eth0", 50, 50);
    node.addLinkOnOutside("eth1", 51, 52);
    node.ip("link add eth2 index 52 type veth peer name peer2");
    node.ip("link add mac0 link eth0 type macvlan");
    await eachRow(t, rows, (row) => checkMeeting(node, row));
  },
);

rootTest(
  "an address might be in use while the node's links change",
  async (t) => {
    using node = new Node();
    using _interrupted = interruptLinkDumps("eth0");
    node.attach("other");
    await t.step("an unused address is not", () => {
      node.check({ ips: ["10.1.1.6/24"], mac: "02:00:00:00:00:0b" });
    });
    const row: Meeting = ["a different link", on("eth0"), on("eth1"), true];
    await t.step("an address on a different link is", () => {
      checkMeeting(node, row);
    });
  },
);

rootTest(
  "an address is in use on a VLAN and on a link of the VLAN",
  needsKind("vlan"),
  async (t) => {
    const rows: Meeting[] = [
      ["the VLAN of the link", vlanOn("eth0", 100), on("data"), true],
      ["the other way round", on("data"), vlanOn("eth0", 100), true],
      ["another VLAN", on("data"), vlanOn("eth0", 200), false],
      ["the link's master", on("data"), on("eth0"), false],
      ["a VLAN in the VLAN", vlanOn("data", 7), on("data"), false],
      ["a link in the VLAN", vlanOn("data", 7), on("inner"), true],
      ["a bridge of the VLAN", BRIDGED, vlanOn("eth0", 300), true],
      ["a bridge of another VLAN", BRIDGED, vlanOn("eth0", 100), false],
    ];
    using node = new Node();
    node.ip("link add eth0 type veth peer name peer0");
    node.ip("link add data link eth0 type vlan id 100");
    node.ip("link add inner link data type vlan id 7");
    node.ip("link add br1 type bridge");
    node.ip("link add port link eth0 master br1 type vlan id 300");
    await eachRow(t, rows, (row) => checkMeeting(node, row));
  },
);

rootTest(
  "a pod cannot request a neighbour's address in a routed network",
  () => {
    using node = new Node();
    const request = { ips: ["192.0.2.9/24"] };
    const ptp = { name: "x", type: "ptp", ipam: { type: "static" } };
    assertEquals(
      node.refuses(request, ptp),
      'address 192.0.2.9 on network "b/n": the node\'s network 192.0.2.0/24 has it',
    );
    node.check(request, BRIDGE);
    node.check({ ips: ["192.0.3.9/24"] }, ptp);
    const subnet = { address: "192.0.2.0/24" };
    for (
      const ipam of [
        { type: "host-local" },
        { type: "static", addresses: [subnet] },
        { type: "whereabouts", range: subnet.address },
      ]
    ) node.check(request, { ...ptp, ipam });
  },
);

rootTest("a deleted container has no address in use", async (t) => {
  const request = { ips: ["10.1.1.5/24"], mac: "02:00:00:00:00:0a" };
  using node = new Node();
  await t.step("the container's namespace does not exist", () => {
    node.attach("other", { netns: "/run/netns/gone" });
    node.check(request);
  });
  await t.step("the container was the pod's own", () => {
    node.attach("earlier", { pod: { namespace: "b", name: "mine" } });
    node.attach("mine");
    node.check(request);
  });
  await t.step("a pod of the same name elsewhere is a different pod", () => {
    node.attach("elsewhere", { pod: { namespace: "c", name: "mine" } });
    assertEquals(node.refuses(request), ADDRESS.replace("a/web", "c/mine"));
  });
});
