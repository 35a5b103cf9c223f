/**
 * sbr  compared with the Go plugin: what each leaves in a sandbox on the same
 * configuration. The differences that are meant are listed here, and nowhere
 * else is a difference allowed.
 */

import { assertEquals } from "@std/assert";
import { isAtLeast } from "../../cni/version.ts";
import { rootTest } from "../../testing/capabilities.ts";
import { ipJson, snapshot } from "../../testing/ip_json.ts";
import {
  listPeers,
  succeedAs,
  testLeavesTheSame,
  type Who,
} from "../../tests/_harness/parity.ts";
import type { Peer } from "../../tests/_harness/peers.ts";
import type { Keys } from "../../tests/_harness/plugin_scene.ts";
import type { CallOutput } from "../../testing/test_hosts.ts";
import { eachRow } from "../../tests/_harness/table.ts";
import {
  ETH0,
  IPV6,
  NET1,
  TwoNetworks,
} from "../../tests/_harness/two_networks.ts";

/** Runs a plugin of either side for `net1`. */
function runAs(
  who: Who,
  { hosts }: TwoNetworks,
  [type, command, keys]: readonly [type: string, command: string, keys: Keys],
): Promise<CallOutput> {
  const config = { cniVersion: "1.0.0", name: "network", type, ...keys };
  return succeedAs(who, hosts, { type, command, config }, { ifName: "net1" });
}

/** Runs sbr. */
function run(
  who: Who,
  networks: TwoNetworks,
  command: string,
  keys: Keys,
): Promise<CallOutput> {
  return runAs(who, networks, ["sbr", command, keys]);
}

/** Rules and routes, except what is meant to differ. */
function observe({ sandbox }: TwoNetworks): unknown {
  // The kernel is done with the addresses then.
  snapshot(sandbox);
  const rules = [4, 6].map((family) => ipJson(sandbox, `-${family}`, "rule"));
  const [tables4, tables6] = rules.map((list) =>
    list.map(({ table }: Record<string, unknown>) => table)
  );
  // deno-lint-ignore no-explicit-any -- as iproute2 prints it
  const routesOf = (family: 4 | 6, isMeant: (route: any) => boolean): any[] =>
    ipJson(sandbox, `-${family}`, "route", "show", "table", "all")
      .filter(isMeant);
  return {
    rules,
    routes: [
      routesOf(4, ({ table }) => tables4.includes(table)),
      // The Go plugin moves the interface's link-local route too, and so takes
      // its neighbours from it. And it copies IPv6 routes to tables which only
      // packets of IPv4 are looked up in.
      routesOf(
        6,
        ({ dst, table }) => dst !== "fe80::/64" && tables6.includes(table),
      ),
    ],
  };
}

/** Networks, and what a result lists of net1. */
interface Scene {
  readonly networks: TwoNetworks;
  readonly prevResult: unknown;
  /** Of the plugin; none if undefined. */
  readonly keys?: Keys;
}

/** The result of a main plugin that nobody here has written. */
function foreign(
  lines: readonly string[],
  ips?: Parameters<TwoNetworks["result"]>[0],
  extras: Keys = {},
): () => Scene {
  return () => {
    const networks = new TwoNetworks(lines);
    const prevResult = { ...networks.result(ips), cniVersion: "1.0.0" };
    return { networks, prevResult: { ...prevResult, ...extras } };
  };
}

/** Has a plugin make net1, instead of the veth pair that is there. */
function madeBy(who: Who, type: string, keys: Keys): () => Promise<Scene> {
  return async () => {
    const networks = new TwoNetworks([...ETH0, "link delete dev net1"]);
    const { hosts } = networks;
    const ipam = {
      ...hosts.hostLocal("10.9.0.0/24", "2001:db8:9::/64"),
      routes: [{ dst: "0.0.0.0/0" }, { dst: "172.16.0.0/12" }, { dst: "::/0" }],
    };
    const config = { ...keys, ipam };
    const { json } = await runAs(who, networks, [type, "ADD", config]);
    return { networks, prevResult: json };
  };
}

const GATEWAY4 = "192.168.1.1", GATEWAY6 = "2001:db8:1::1";
const IP4 = { address: "192.168.1.209/24", gateway: GATEWAY4, interface: 0 };
const IP6 = { address: "2001:db8:1::209/64", gateway: GATEWAY6, interface: 0 };

const ROWS: Readonly<Record<string, () => Scene | Promise<Scene>>> = {
  "one address": foreign([...ETH0, ...NET1]),
  "no gateway": foreign([...ETH0, ...NET1], [{ address: IP4.address }]),
  "a default route": foreign([
    ...ETH0,
    ...NET1,
    "route add default via 192.168.1.3 metric 7 proto static",
    "route add 10.5.0.0/16 via 192.168.1.3 mtu 1400 initcwnd 20 src 192.168.1.209",
  ]),
  "two addresses": foreign([
    ...ETH0,
    ...NET1,
    "address add 192.168.101.209/24 dev net1",
    "route add 172.16.0.0/12 via 192.168.101.7 dev net1",
    "route add 172.32.0.0/12 dev net1",
  ], [
    IP4,
    { address: "192.168.101.209/24", gateway: "192.168.101.1", interface: 3 },
  ]),
  "two addresses of one subnet": foreign([
    ...ETH0,
    ...NET1,
    "address add 192.168.1.210/24 dev net1",
  ], [IP4, { address: "192.168.1.210/24", gateway: GATEWAY4 }]),
  "both families": foreign([...ETH0, ...NET1, ...IPV6], [IP4, IP6]),
  "IPv6 with a default route": foreign([
    ...ETH0,
    ...IPV6,
    "route add default via 2001:db8:1::7 dev net1 metric 50",
  ], [IP6]),
  "IPv6 with a link-local router": foreign([
    ...ETH0,
    ...IPV6,
    "route add default via fe80::99 dev net1 metric 9",
  ], [IP6]),
  "addresses of another interface": foreign([...ETH0, ...NET1], [
    { address: "10.0.0.2/24", interface: 0 },
    { ...IP4, interface: 1 },
  ], { interfaces: [{ name: "eth0", sandbox: "/x" }, { name: "net1" }] }),
  "tables that rules lead to": foreign([
    ...ETH0,
    ...NET1,
    "rule add from 10.0.0.2 lookup 100",
    "rule add to 10.7.0.0/16 lookup 101 priority 5000",
  ]),
  "behind our ptp": madeBy("ours", "ptp", {}),
  "behind our bridge": madeBy("ours", "bridge", { isGateway: true }),
};

/** Makes a scene with keys of the plugin. */
function withKeys(keys: Keys, prepare: () => Scene): () => Scene {
  return () => ({ ...prepare(), keys });
}

const TWO_FAMILIES = foreign([...ETH0, ...NET1, ...IPV6], [IP4, IP6]);

/** Keys that Go has since 1.10. */
const NEWER: typeof ROWS = {
  "gateways": withKeys(
    { gateways: ["192.168.1.254", "2001:db8:1::fe"] },
    TWO_FAMILIES,
  ),
  "a gateway of one family": withKeys(
    { gateways: ["2001:db8:1::fe"] },
    TWO_FAMILIES,
  ),
  "source hints": withKeys(
    { addSourceHints: true },
    foreign([...ETH0, ...NET1]),
  ),
  "source hints and a gateway": withKeys(
    { addSourceHints: true, gateways: ["192.168.1.254"] },
    foreign([...ETH0, ...NET1]),
  ),
};

/** As {@linkcode ROWS}, with plugins of a peer too. */
function rowsFor(peer: Peer): typeof ROWS {
  return {
    ...ROWS,
    ...isAtLeast(peer.cniVersion, "1.1.0") && NEWER,
    "behind the Go ptp": madeBy(peer, "ptp", {}),
    "behind the Go bridge": madeBy(peer, "bridge", { isGateway: true }),
  };
}

/** Values that differ from one run to the next. */
function withoutNames(value: unknown): unknown {
  return JSON.parse(
    JSON.stringify(value).replace(/\/proc\/\d+\/fd\/\d+/g, "SANDBOX")
      .replace(/([0-9a-f]{2}:){5}[0-9a-f]{2}/g, "MAC")
      .replace(/veth[0-9a-f]+/g, "VETH"),
  );
}

/** With source hints, the Go plugin replaces the kernel's route by its own. */
function withoutProtocol(value: unknown): unknown {
  const text = JSON.stringify(value);
  return JSON.parse(
    text.replace(/"protocol":"(kernel|boot)",("scope":"link",)/g, "$2"),
  );
}

/** It comes back only if the result lists it. */
function isNoDefaultOfNet1(line: string): boolean {
  return !/^default .*net1/.test(line);
}

for (const peer of listPeers("sbr")) {
  const rows = rowsFor(peer);
  for (const [name, prepare] of Object.entries(rows)) {
    testLeavesTheSame(peer, ["sbr", name], async (who) => {
      const { networks, prevResult, keys } = await prepare();
      using _ = networks;
      const { json } = await run(who, networks, "ADD", { ...keys, prevResult });
      const { dns: _dns, ...result } = json;
      const seen = withoutNames({ result, ...observe(networks) as object });
      return keys ? withoutProtocol(seen) : seen;
    });
  }

  rootTest(
    `sbr checks and deletes what the Go plugin added (${peer.name})`,
    async (t) => {
      await eachRow(t, Object.entries(rows), async ([, prepare]) => {
        const { networks, prevResult, keys } = await prepare();
        using _ = networks;
        const routes = (): string[] =>
          networks.routes().filter(isNoDefaultOfNet1)
            .map((line) => keys ? line.replace(" proto kernel", "") : line)
            .sort();
        const before = routes();
        const rules = networks.rules();
        await run(peer, networks, "ADD", { ...keys, prevResult });
        await run("ours", networks, "CHECK", { ...keys, prevResult });
        await run("ours", networks, "DEL", { prevResult });
        assertEquals(networks.rules(), rules);
        assertEquals(routes(), before);
      });
    },
  );

  rootTest(
    `the Go plugin removes the rules of our attachments (${peer.name})`,
    async (t) => {
      await eachRow(t, Object.entries(rows), async ([, prepare]) => {
        const { networks, prevResult, keys } = await prepare();
        using _ = networks;
        const rules = networks.rules();
        await run("ours", networks, "ADD", { ...keys, prevResult });
        await run(peer, networks, "CHECK", { ...keys, prevResult });
        await run(peer, networks, "DEL", { prevResult });
        assertEquals(networks.rules(), rules);
      });
    },
  );
}
