import { assertEquals } from "@std/assert";
import type { JsonObject } from "../../../base/json/json.ts";
import { decodeResult } from "../../../cni/result/decoding.ts";
import {
  buildNetworkStatus,
  formatNetworkStatus,
  type NetworkStatus,
} from "./network_status.ts";
import { eachRow } from "../../../tests/_harness/table.ts";

interface Row {
  /** A result of ADD, 1.1.0 by default. */
  readonly result: JsonObject;
  readonly isMaster?: boolean;
  readonly deviceInfo?: JsonObject;
  readonly expected: readonly object[];
}

function build(
  { result, isMaster = false, deviceInfo }: Omit<Row, "expected">,
): NetworkStatus[] {
  return buildNetworkStatus({
    delegate: { name: "test/net1" },
    isMaster,
    result: decodeResult({ cniVersion: "1.1.0", ...result }),
    deviceInfo,
  });
}

const NAMED = { name: "test/net1", dns: {} };
const SANDBOX = "/run/netns/c1";
const ETH0 = { name: "eth0", mac: "02:00:00:00:00:01", sandbox: SANDBOX };
const ETH1 = { name: "eth1", mtu: 9000, sandbox: SANDBOX };
const HOST = { name: "veth0", mac: "02:00:00:00:00:02", mtu: 1500 };
const STATUS0 = { ...NAMED, interface: "eth0", mac: ETH0.mac };
const STATUS1 = { ...NAMED, interface: "eth1", mtu: 9000 };
const IP4 = { address: "10.1.1.3/24", gateway: "10.1.1.1" };
const IP6 = { address: "2001:db8::3/64", gateway: "2001:db8::1" };

const ROWS: Readonly<Record<string, Row>> = {
  "nothing at all": { result: {}, isMaster: true, expected: [] },
  "one interface": {
    result: { interfaces: [{ ...ETH0, mtu: 1400 }], ips: [IP4, IP6] },
    expected: [{ ...STATUS0, mtu: 1400, ips: ["10.1.1.3", "2001:db8::3"] }],
  },
  "one interface, without addresses": {
    result: { interfaces: [ETH0] },
    isMaster: true,
    expected: [{ ...STATUS0, default: true }],
  },
  "one interface, not in the sandbox": {
    result: { interfaces: [HOST], ips: [IP4] },
    isMaster: true,
    expected: [{ ...NAMED, ips: ["10.1.1.3"], default: true }],
  },
  "a result before 0.3.0, which has no interfaces": {
    result: {
      cniVersion: "0.2.0",
      ip4: {
        ip: "10.1.1.3/24",
        routes: [{ dst: "0.0.0.0/0", gw: "10.1.1.1" }],
      },
      ip6: { ip: "2001:db8::3/64" },
    },
    isMaster: true,
    expected: [],
  },
  "both ends of a veth pair": {
    result: {
      interfaces: [HOST, ETH0],
      ips: [{ ...IP4, interface: 1 }],
      routes: [{ dst: "0.0.0.0/0", gw: "10.1.1.1" }],
    },
    isMaster: true,
    expected: [{
      ...STATUS0,
      ips: ["10.1.1.3"],
      default: true,
      gateway: ["10.1.1.1"],
    }],
  },
  "addresses of an interface that is not in the sandbox": {
    result: {
      interfaces: [HOST, ETH0],
      ips: [{ ...IP4, interface: 0 }, { ...IP6, interface: 7 }],
    },
    expected: [STATUS0],
  },
  "addresses of no interface go to the last": {
    result: { interfaces: [ETH0, ETH1, HOST], ips: [IP4, IP6] },
    expected: [STATUS0, { ...STATUS1, ips: ["10.1.1.3", "2001:db8::3"] }],
  },
  "two interfaces, no router: the first is the pod's": {
    result: {
      interfaces: [HOST, ETH0, ETH1],
      ips: [{ address: "10.1.1.3/24", interface: 2 }],
    },
    isMaster: true,
    expected: [
      { ...STATUS0, default: true },
      { ...STATUS1, ips: ["10.1.1.3"] },
    ],
  },
  "two interfaces, the second has the router": {
    result: {
      interfaces: [ETH0, ETH1],
      ips: [
        { address: "10.1.2.3/24", interface: 0 },
        { ...IP4, interface: 1 },
        { ...IP6, interface: 0 },
      ],
    },
    isMaster: true,
    expected: [
      { ...STATUS0, ips: ["10.1.2.3", "2001:db8::3"] },
      { ...STATUS1, ips: ["10.1.1.3"], default: true },
    ],
  },
  "a router on an interface that is not in the sandbox": {
    result: { interfaces: [HOST, ETH0], ips: [{ ...IP4, interface: 0 }] },
    isMaster: true,
    expected: [STATUS0],
  },
  "no interface in the sandbox": {
    result: { interfaces: [HOST, { name: "br0" }], ips: [IP4] },
    isMaster: true,
    expected: [],
  },
  "default routes of both families, and others": {
    result: {
      interfaces: [ETH0],
      routes: [
        { dst: "10.2.0.0/16", gw: "10.1.1.9" },
        { dst: "0.0.0.0/0", gw: "10.1.1.1" },
        { dst: "0.0.0.0/1", gw: "10.1.1.8" },
        { dst: "::/0", gw: "2001:db8::1" },
        { dst: "0.0.0.0/0", gw: "10.1.1.2", priority: 9, table: 254 },
        { dst: "0.0.0.0/0", gw: "10.1.1.7", table: 100 },
        { dst: "::/128", gw: "2001:db8::8" },
      ],
    },
    expected: [{
      ...STATUS0,
      gateway: ["10.1.1.1", "2001:db8::1", "10.1.1.2"],
    }],
  },
  "default routes that leave their router to the addresses": {
    result: {
      interfaces: [ETH0],
      ips: [{ address: "10.1.2.3/24" }, IP4],
      routes: [{ dst: "0.0.0.0/0" }, { dst: "::/0" }],
    },
    expected: [{ ...STATUS0, ips: ["10.1.2.3", "10.1.1.3"] }],
  },
  "name resolution": {
    result: {
      interfaces: [ETH0],
      dns: { nameservers: ["10.1.1.2"], search: [], options: ["ndots:2"] },
    },
    expected: [{
      ...STATUS0,
      dns: { nameservers: ["10.1.1.2"], options: ["ndots:2"] },
    }],
  },
  "a device": {
    result: { interfaces: [ETH0, ETH1] },
    deviceInfo: { type: "pci", other: { key: [] } },
    expected: [STATUS0, STATUS1].map((status) => ({
      ...status,
      "device-info": { type: "pci", other: { key: [] } },
    })),
  },
};

Deno.test("buildNetworkStatus() has an entry for each interface in the sandbox", async (t) => {
  await eachRow(
    t,
    Object.entries(ROWS),
    ([, row]) => assertEquals<object>(build(row), row.expected),
  );
});

Deno.test("formatNetworkStatus() prints the same bytes as upstream multus", () => {
  const statuses = build({
    result: {
      interfaces: [{ ...ETH0, mtu: 1500 }, ETH1],
      ips: [{ ...IP4, interface: 0 }],
      routes: [{ dst: "0.0.0.0/0", gw: "10.1.1.1" }],
      dns: {
        options: ["a&b"],
        search: ["<local>"],
        domain: "x\u2028",
        nameservers: ["10.1.1.2"],
      },
    },
    isMaster: true,
    deviceInfo: { type: "pci", pci: { "pci-address": "0000:01:02.2" } },
  });
  const dns = String.raw`    "dns": {
        "nameservers": [
            "10.1.1.2"
        ],
        "domain": "x\u2028",
        "search": [
            "\u003clocal\u003e"
        ],
        "options": [
            "a\u0026b"
        ]
    },
    "device-info": {
        "type": "pci",
        "pci": {
            "pci-address": "0000:01:02.2"
        }
    },
    "gateway": [
        "10.1.1.1"
    ]
}`;
  const expected = `[{
    "name": "test/net1",
    "interface": "eth0",
    "ips": [
        "10.1.1.3"
    ],
    "mac": "02:00:00:00:00:01",
    "mtu": 1500,
    "default": true,
${dns},{
    "name": "test/net1",
    "interface": "eth1",
    "mtu": 9000,
${dns}]`;
  assertEquals(formatNetworkStatus(statuses), expected);
});

Deno.test("formatNetworkStatus() prints empty settings, and an empty list", () => {
  assertEquals(formatNetworkStatus([]), "[]");
  const dns = {};
  assertEquals(
    formatNetworkStatus([{ name: "a", dns }, { name: "b", dns }]),
    '[{\n    "name": "a",\n    "dns": {}\n},{\n    "name": "b",\n    "dns": {}\n}]',
  );
});
