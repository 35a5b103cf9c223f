import { assertEquals, assertThrows } from "@std/assert";
import { testRows } from "../../../tests/_harness/table.ts";
import { type AttachmentRequest, loadDelegate } from "../model/delegate.ts";
import { NetworkError } from "../model/network_error.ts";
import { checkOffered, type PodRequestPolicy } from "./pod_requests.ts";

const DEFAULTS: PodRequestPolicy = { podRequests: "offered", podArgs: [] };

function check(
  document: object,
  request: AttachmentRequest,
  policy: Partial<PodRequestPolicy> = {},
): void {
  const text = JSON.stringify({ cniVersion: "1.0.0", name: "n", ...document });
  const delegate = loadDelegate(new TextEncoder().encode(text), {
    name: "a/n",
    request,
  });
  checkOffered(delegate, { ...DEFAULTS, ...policy });
}

const ipam = (keys: object, type = "macvlan"): object => ({
  type,
  master: "eth0",
  ipam: keys,
});
const BOUNDED = {
  type: "static",
  Addresses: [{ Address: "10.1.1.0/24" }, { address: "nonsense" }],
};
const IPS = { capabilities: { ips: true } };
const SLICE = { type: "whereabouts", range: "10.1.1.5-10.1.1.20/24" };
testRows<[string, object, AttachmentRequest]>(
  "checkOffered() allows common requests",
  [
    ["nothing", ipam({ type: "static" }), {}],
    ["an address of host-local's range", ipam({ type: "host-local" }), {
      ips: ["10.1.1.5"],
    }],
    ["the same by cni-args", ipam({ type: "host-local" }), {
      cniArgs: { ips: ["10.1.1.5"], labels: [{ key: "a", value: "b" }] },
    }],
    ["a name for dhcp", ipam({ type: "dhcp" }), { ips: ["10.1.1.5/24"] }],
    ["an address of whereabouts' range", ipam(SLICE), {
      ips: ["10.1.1.5/24", "10.1.1.20/24"],
    }],
    [
      "one of a further range",
      ipam({
        type: "whereabouts",
        range: "10.2.0.0/16",
        ipRanges: [{ range: "10.1.1.0/24" }],
      }),
      { ips: ["10.1.1.5/24"] },
    ],
    [
      "any address of static with the capability",
      { ...ipam({ type: "static" }), ...IPS },
      { ips: ["10.9.9.9/24", "fd00::5/64"] },
    ],
    [
      "an address of its subnets",
      { ...ipam(BOUNDED), ...IPS },
      { ips: ["10.1.1.9/24"] },
    ],
    [
      "the usual definition with both capabilities",
      {
        ...ipam({ type: "static" }),
        capabilities: { ips: true, mac: true },
      },
      { ips: ["10.1.1.11/24"], mac: "c2:b0:57:49:47:f1" },
    ],
    [
      "the multus documentation's, where tuning has the capability",
      {
        plugins: [
          { ...ipam({ type: "static" }), ...IPS },
          { type: "tuning", capabilities: { mac: true } },
        ],
      },
      { ips: ["10.1.1.11/24"], mac: "c2:b0:57:49:47:f1" },
    ],
    [
      "KubeVirt's: a bridge without addresses",
      { plugins: [{ type: "cnv-bridge", bridge: "br1", macspoofchk: true }] },
      { mac: "02:00:00:00:00:01", cniArgs: { logicNetworkName: "default" } },
    ],
    [
      "KubeVirt's: a bridge, and tuning for the MAC alone",
      {
        plugins: [
          ipam({ type: "host-local" }, "bridge"),
          { type: "tuning", name: "t" },
        ],
      },
      { mac: "02:00:00:00:00:01" },
    ],
    ["SR-IOV without addresses", { type: "sriov", ipam: {} }, {
      mac: "02:00:00:00:00:01",
    }],
    ["pools of nvidia-k8s-ipam", ipam({ type: "nv-ipam" }), {
      cniArgs: { poolNames: ["a"], poolType: "cidrpool" },
    }],
    ["a GUID of ib-kubernetes", { type: "ib-sriov" }, {
      cniArgs: { guid: "02:00:00:00:02:00:00:01" },
    }],
    [
      "keys that the definition has",
      {
        type: "tuning",
        Args: { CNI: { mtu: 1500, sysctl: { "net.core.somaxconn": "1" } } },
      },
      { cniArgs: { MTU: 1400, sysctl: { "net.core.somaxconn": "500" } } },
    ],
    [
      "a key that the definition has without a default",
      { type: "tuning", args: { cni: { mtu: null } } },
      { cniArgs: { mtu: 1400 } },
    ],
    ["OVN-Kubernetes: addresses of its own", { type: "ovn-k8s-cni-overlay" }, {
      ips: ["10.1.1.11/24"],
      mac: "02:00:00:00:00:01",
    }],
  ],
  ([, document, request]) => check(document, request),
  ([title]) => title,
);

const NO_IPS = 'the definition does not offer it by the capability "ips"';
const NO_MAC = 'the definition does not offer it by the capability "mac"';
const NO_ARG = 'the definition does not offer it in "args.cni"';

testRows<[string, object, AttachmentRequest, string]>(
  "checkOffered() refuses requests that the network does not offer",
  [
    [
      "any address of static",
      ipam({ type: "static" }),
      { ips: ["10.9.9.9/24"] },
      `address 10.9.9.9/24 on network "a/n": ${NO_IPS}`,
    ],
    [
      "the same by cni-args, in another case",
      ipam({ type: "static" }),
      { cniArgs: { IPs: ["10.9.9.9/24"] } },
      `address 10.9.9.9/24 on network "a/n": ${NO_IPS}`,
    ],
    [
      "a second spelling",
      ipam({ type: "static" }),
      { cniArgs: { IPS: ["10.9.9.9/24"], ips: [] } },
      `address 10.9.9.9/24 on network "a/n": ${NO_IPS}`,
    ],
    [
      "an IPAM plugin in another key's case, in an inner plugin",
      { type: "x", delegate: { IPAM: { Type: "static" } } },
      { ips: ["10.9.9.9/24"] },
      `address 10.9.9.9/24 on network "a/n": ${NO_IPS}`,
    ],
    [
      "a capability that is off",
      { ...ipam({ type: "static" }), capabilities: { ips: false } },
      { ips: ["10.9.9.9/24"] },
      `address 10.9.9.9/24 on network "a/n": ${NO_IPS}`,
    ],
    [
      "an address outside of static's subnets",
      { ...ipam(BOUNDED), ...IPS },
      { ips: ["10.1.1.9/24", "10.9.9.9/24"] },
      'address 10.9.9.9/24 on network "a/n": the definition\'s addresses are in 10.1.1.0/24',
    ],
    ...[16, 25].map((length): [string, object, AttachmentRequest, string] => [
      `an address of static's subnet with length ${length}`,
      { ...ipam(BOUNDED), ...IPS },
      { ips: ["10.1.1.9/24", `10.1.1.9/${length}`] },
      `address 10.1.1.9/${length} on network "a/n": the definition's subnet is 10.1.1.0/24`,
    ]),
    ...([
      ["gateway", { gateway: "10.1.1.254" }],
      ["route's gateway", { routes: [{ dst: "::/0", GW: "10.1.1.254" }] }],
    ] as const).map((
      [name, keys],
    ): [string, object, AttachmentRequest, string] => [
      `the address of a ${name}`,
      { ...ipam({ ...BOUNDED, ...keys }), ...IPS },
      { ips: ["10.1.1.9/24", "10.1.1.254/24"] },
      'address 10.1.1.254/24 on network "a/n": it is a gateway of the definition',
    ]),
    ...["224.0.0.251/32", "::/128", "127.0.0.9/8"].map((
      ip,
    ): [string, object, AttachmentRequest, string] => [
      ip,
      { ...ipam({ type: "static" }), ...IPS },
      { ips: [ip] },
      `address ${ip} on network "a/n": no container can have it`,
    ]),
    [
      "an address beside whereabouts' range",
      ipam(SLICE),
      { ips: ["10.1.2.5/24"] },
      `address 10.1.2.5/24 on network "a/n": ${NO_IPS}`,
    ],
    [
      "an address of another project's IPAM plugin",
      ipam({ type: "other-ipam" }),
      { ips: ["10.9.9.9/24"] },
      `address 10.9.9.9/24 on network "a/n": ${NO_IPS}`,
    ],
    [
      "a MAC",
      ipam({ type: "host-local" }),
      { mac: "02:00:00:00:00:01" },
      `MAC "02:00:00:00:00:01" on network "a/n": ${NO_MAC}`,
    ],
    [
      "a MAC by cni-args",
      ipam({ type: "host-local" }),
      { cniArgs: { MAC: "02:00:00:00:00:01" } },
      `MAC "02:00:00:00:00:01" on network "a/n": ${NO_MAC}`,
    ],
    [
      "a MAC of a network whose tuning does something else",
      {
        plugins: [
          ipam({ type: "host-local" }),
          { type: "tuning", sysctl: { "net.core.somaxconn": "500" } },
        ],
      },
      { mac: "02:00:00:00:00:01" },
      `MAC "02:00:00:00:00:01" on network "a/n": ${NO_MAC}`,
    ],
    ...["sysctl", "promisc", "allmulti", "mtu", "txQLen", "PROMISC"].map((
      key,
    ): [string, object, AttachmentRequest, string] => [
      `${key} by cni-args`,
      { type: "tuning", args: { cni: { labels: [] } } },
      { cniArgs: { [key]: true } },
      `"${key}" of "cni-args" on network "a/n": ${NO_ARG}`,
    ]),
    [
      "a sysctl beside those of the definition",
      {
        type: "tuning",
        args: { cni: { sysctl: { "net.core.somaxconn": "1" } } },
      },
      { cniArgs: { sysctl: { "net.ipv4.ip_forward": "1" } } },
      `"sysctl" of "cni-args" on network "a/n": ${NO_ARG}`,
    ],
  ],
  ([, document, request, expected]) => {
    const { code, message, event } = assertThrows(
      () => check(document, request),
      NetworkError,
    );
    assertEquals([code, event], [7, { reason: "NetworkRefused", message }]);
    const [start, setting] = message.split("; ");
    assertEquals(start, `Refused ${expected}`);
    const name = expected.includes("cni-args") ? "podArgs" : "podRequests";
    assertEquals(
      setting,
      `"${name}" of the node's multus configuration can allow it`,
    );
    check(document, request, { podRequests: "any" });
  },
  ([title]) => title,
);

Deno.test("checkOffered() allows cni-args that the node's settings list", () => {
  const request = { cniArgs: { MTU: 1400 } };
  check({ type: "tuning" }, request, { podArgs: ["mtu"] });
  assertThrows(() => check({ type: "x" }, request, { podArgs: ["promisc"] }));
});
