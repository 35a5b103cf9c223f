import { assertEquals } from "@std/assert";
import type { JsonObject } from "../../../base/json/json.ts";
import { eachRow } from "../../../tests/_harness/table.ts";
import {
  type CurrentAddresses,
  listOtherNames,
  updateNetworkStatus,
} from "./status_update.ts";

const MAC = "02:00:00:00:00:01";
const MASTER = { name: "pods", interface: "eth0", ips: ["10.1.0.2"] };
const LAN = {
  name: "test/lan",
  interface: "net1",
  ips: ["2001:db8:1::5"],
  mac: MAC,
  dns: { search: ["<a>"] },
  gateway: ["fe80::1"],
};
const NOW = { ifName: "net1", mac: MAC, ips: ["2001:db8:1::5"] };
const NEW = ["2001:db8:2::5"];

/** Users may write any JSON into the annotation. */
const UNPRINTABLE = { toString: 1 };

const ROWS: Readonly<
  Record<string, [JsonObject[], Partial<CurrentAddresses>, JsonObject?]>
> = {
  "the same": [[LAN], {}],
  "the same in another order": [
    [{ ...LAN, ips: ["2001:db8::6", "2001:db8::5"] }],
    { ips: ["2001:db8::5", "2001:db8::6"] },
  ],
  "another address": [[LAN], { ips: NEW }, { ...LAN, ips: NEW }],
  "no address any more": [
    [LAN],
    { ips: [] },
    {
      name: "test/lan",
      interface: "net1",
      mac: MAC,
      dns: { search: ["<a>"] },
      gateway: ["fe80::1"],
    },
  ],
  "an address again": [
    [{ name: "test/lan", interface: "net1", mac: MAC, dns: {}, own: 1 }],
    { ips: NEW },
    {
      name: "test/lan",
      interface: "net1",
      ips: NEW,
      mac: MAC,
      dns: {},
      own: 1,
    },
  ],
  "another router": [
    [{ ...LAN, gateway: ["10.9.0.1", "fe80::1"] }],
    { routers: ["fe80::2", "fe80::3"] },
    { ...LAN, gateway: ["10.9.0.1", "fe80::2", "fe80::3"] },
  ],
  "no router any more": [[LAN], { routers: [] }, {
    name: "test/lan",
    interface: "net1",
    ips: ["2001:db8:1::5"],
    mac: MAC,
    dns: { search: ["<a>"] },
  }],
  "a router again": [
    [{ name: "test/lan", interface: "net1", ips: NOW.ips, dns: {} }],
    { routers: ["fe80::1"] },
    {
      name: "test/lan",
      interface: "net1",
      ips: NOW.ips,
      dns: {},
      gateway: ["fe80::1"],
    },
  ],
  "values that no program can print": [
    [{ ...LAN, ips: [UNPRINTABLE, "2001:db8:1::5"], gateway: [UNPRINTABLE] }],
    { ips: NEW, routers: ["fe80::1"] },
    { ...LAN, ips: NEW },
  ],
  "an interface of an earlier sandbox": [
    [{ ...LAN, mac: "02:00:00:00:00:99" }],
    { ips: NEW },
  ],
  "another interface": [[{ ...LAN, interface: "net2" }], { ips: NEW }],
  "the cluster's own network": [[{ ...LAN, default: true }], { ips: NEW }],
};

Deno.test("updateNetworkStatus() replaces changed entries only", async (t) => {
  await eachRow(t, Object.entries(ROWS), ([, [entries, now, expected]]) => {
    const text = JSON.stringify([MASTER, ...entries]);
    const updated = updateNetworkStatus(text, [{ ...NOW, ...now }]);
    const parsed = updated && JSON.parse(updated);
    assertEquals(parsed, expected && [MASTER, expected]);
    // The keys keep the order of the standard.
    assertEquals(
      Object.keys(parsed?.[1] ?? {}),
      Object.keys(expected ?? {}),
    );
    assertEquals(updated?.includes("<") ?? false, false);
  });
});

Deno.test("updateNetworkStatus() does not change a malformed status", () => {
  for (const text of ["", "x", "{}", "[1]", '[{"interface":"net1"},null]']) {
    assertEquals(updateNetworkStatus(text, [{ ...NOW, ips: NEW }]), undefined);
  }
});

Deno.test("listOtherNames() omits the cluster network and malformed names", () => {
  const entries = [
    { ...MASTER, default: true },
    LAN,
    { name: UNPRINTABLE },
    { interface: "net2" },
  ];
  assertEquals(listOtherNames(JSON.stringify(entries)), ["test/lan"]);
  assertEquals(listOtherNames("[null]"), []);
});
