/**
 * What ADD refuses because of the configuration alone, `cni validate` calls an
 * error; and what it calls an error, ADD refuses.
 */

import { assertEquals } from "@std/assert";
import type { JsonObject } from "../../base/json/json.ts";
import { rootTest } from "../../testing/capabilities.ts";
import { runIn } from "../../testing/ip_json.ts";
import { TestHosts } from "../../testing/test_hosts.ts";
import { SUBNET_ENV } from "../../plugins/flannel/testing.ts";
import { eachRow } from "../../tests/_harness/table.ts";
import { runCni } from "../../tests/_harness/tool_call.ts";

type Plugin = JsonObject & { readonly type: string };

const IPAM = { type: "host-local", subnet: "10.60.0.0/24" };
const FIRST: Plugin = { type: "ptp", ipam: IPAM };
const onMaster = (keys: JsonObject): Plugin => ({
  type: "macvlan",
  master: "up0",
  ipam: IPAM,
  ...keys,
});
const leased = (keys: JsonObject, cniVersion = "1.0.0"): Plugin =>
  onMaster({ cniVersion, ipam: { ...IPAM, ...keys } });
const routed = (route: JsonObject): Plugin =>
  leased({ routes: [{ dst: "10.9.0.0/16", ...route }] });
const fixed = (type: string, address: JsonObject): Plugin => ({
  type,
  isGateway: true,
  ipam: { type: "static", addresses: [address] },
});
const bridged = (keys: JsonObject): Plugin => ({
  type: "bridge",
  ipam: IPAM,
  ...keys,
});
const multus = (delegate: JsonObject): Plugin => ({
  type: "multus",
  kubeconfig: "/none",
  delegates: [{ name: "x", cniVersion: "1.0.0", ...delegate }],
});

/** Plugins of a list; the last one is refused. */
const REFUSED: Readonly<Record<string, readonly Plugin[]>> = {
  "multus as a delegate": [multus({ type: "multus", clusterNetwork: "y" })],
  "multus in a delegate's list": [
    multus({ plugins: [FIRST, { type: "multus-shim" }] }),
  ],
  "multus in a chain": [
    multus({ type: "chain", plugins: [{ type: "multus" }] }),
  ],
  "multus without networks": [{ type: "multus", kubeconfig: "/none" }],
  "flannel as its delegate": [
    { type: "flannel", delegate: { type: "flannel" } },
  ],
  "a mode": [onMaster({ mode: "x" })],
  "a negative MTU of a master": [onMaster({ mtu: -1 })],
  "no master": [{ type: "vlan", vlanId: 5, ipam: IPAM }],
  "no VLAN": [{ type: "vlan", master: "up0", vlanId: 5000, ipam: IPAM }],
  "a VLAN of bridge": [bridged({ vlan: 5000 })],
  "a trunk": [bridged({ vlanTrunk: [{ minID: 9, maxID: 3 }] })],
  "hairpin and promiscuous": [
    bridged({ hairpinMode: true, promiscMode: true }),
  ],
  "an interface that is down, with addresses": [
    bridged({ disableContainerInterface: true }),
  ],
  "a long name": [bridged({ bridge: "averyveryverylongname" })],
  "a slash": [bridged({ bridge: "a/b" })],
  "the bridge's address": [
    fixed("bridge", { address: "10.1.0.5/24", gateway: "10.1.0.5" }),
  ],
  "the bridge's address by default": [
    fixed("bridge", { address: "10.1.0.1/24" }),
  ],
  "no IPAM plugin": [{ type: "ptp" }],
  "a backend of masquerades": [
    { ...FIRST, ipMasq: true, ipMasqBackend: "x" },
  ],
  "an MTU": [{ ...FIRST, mtu: 70_000 }],
  "no device": [{ type: "host-device", ipam: IPAM }],
  "an owner": [{ type: "tap", owner: -1, ipam: IPAM }],
  "a backend of firewalls": [FIRST, { type: "firewall", backend: "x" }],
  "a policy": [FIRST, { type: "firewall", ingressPolicy: "x" }],
  "a mark": [FIRST, {
    type: "portmap",
    capabilities: { portMappings: true },
    markMasqBit: 32,
  }],
  "a sysctl of the node": [
    FIRST,
    { type: "tuning", sysctl: { "kernel.x": "1" } },
  ],
  "a MAC": [FIRST, { type: "tuning", mac: "zz" }],
  "a queue": [FIRST, { type: "tuning", txQLen: -1 }],
  "a router of sbr": [FIRST, { type: "sbr", gateways: ["x"] }],
  "no VRF": [FIRST, { type: "vrf" }],
  "loopback as a VRF": [FIRST, { type: "vrf", vrfname: "lo" }],
  "no range": [onMaster({ ipam: { type: "host-local" } })],
  "a gateway of the other family": [leased({ gateway: "fd00::1" })],
  "a range that is reversed": [
    leased({ rangeStart: "10.60.0.9", rangeEnd: "10.60.0.5" }),
  ],
  "a range that starts after its default end": [
    leased({ rangeStart: "10.60.0.255" }),
  ],
  "a name that stays for no time": [leased({ stay: "name" })],
  "a route's gateway of the other family": [routed({ gw: "fd00::1" })],
  "a route's gateway on the loopback": [routed({ gw: "127.0.0.1" })],
  "a route's gateway that is a group": [routed({ gw: "224.0.0.1" })],
  "a gateway on the link": [routed({ gw: "10.60.0.9", scope: 253 })],
  "a route's MTU": [routed({ mtu: -1 })],
  "a route's table": [routed({ table: 5_000_000_000 })],
  "a route's scope": [routed({ scope: 300 })],
  "an address without a prefix": [fixed("ptp", { address: "10.1.0.5" })],
  "a fixed gateway of the other family": [
    fixed("ptp", { address: "10.1.0.5/24", gateway: "fd00::1" }),
  ],
  "two addresses of a family in an old result": [
    leased({ ranges: [[{ subnet: "10.61.0.0/24" }]] }, "0.2.0"),
  ],
  "two fixed addresses of a family in an old result": [{
    type: "ptp",
    cniVersion: "0.2.0",
    ipam: {
      type: "static",
      addresses: [{ address: "10.1.0.5/24" }, { address: "10.2.0.5/24" }],
    },
  }],
  "macvlan: a route by the broadcast address": [
    leased({ gateway: "10.60.0.255", routes: [{ dst: "0.0.0.0/0" }] }),
  ],
  "macvlan: a route's gateway that is the broadcast address": [
    routed({ gw: "10.60.0.255" }),
  ],
  "bridge: default by the broadcast address": [
    bridged({
      isDefaultGateway: true,
      ipam: { ...IPAM, gateway: "10.60.0.255" },
    }),
  ],
  "bridge: a route's gateway that is the broadcast address": [
    bridged({
      ipam: { ...IPAM, routes: [{ dst: "10.9.0.0/16", gw: "10.60.0.255" }] },
    }),
  ],
  "static: a route by the broadcast address": [{
    type: "bridge",
    ipam: {
      type: "static",
      addresses: [{ address: "10.1.0.5/24", gateway: "10.1.0.255" }],
      routes: [{ dst: "0.0.0.0/0" }],
    },
  }],
  "ptp: the broadcast address": [
    { ...FIRST, ipam: { ...IPAM, gateway: "10.60.0.255" } },
  ],
  "ptp: a route by the broadcast address": [
    {
      ...FIRST,
      ipam: { ...IPAM, gateway: "10.60.0.255", routes: [{ dst: "0.0.0.0/0" }] },
    },
  ],
  "ptp: a route's gateway that is the broadcast address": [
    {
      ...FIRST,
      ipam: { ...IPAM, routes: [{ dst: "10.9.0.0/16", gw: "10.60.0.255" }] },
    },
  ],
  "a gateway without an address": [fixed("ptp", { gateway: "10.1.0.1" })],
};

/** What ADD serves, although it looks strange. */
const SERVED: Readonly<Record<string, readonly Plugin[]>> = {
  "a gateway outside the subnet": [leased({ gateway: "192.0.2.1" })],
  "a route's gateway outside the subnet": [routed({ gw: "192.0.2.1" })],
  "a fixed gateway outside the subnet": [
    fixed("bridge", { address: "10.1.0.5/24", gateway: "192.0.2.1" }),
  ],
  "bridge: the network's address": [
    bridged({
      isDefaultGateway: true,
      ipam: { ...IPAM, gateway: "10.60.0.0" },
    }),
  ],
  "macvlan: the network's address": [
    leased({ gateway: "10.60.0.0", routes: [{ dst: "0.0.0.0/0" }] }),
  ],
  "bridge: the broadcast address without routes": [
    bridged({ isGateway: true, ipam: { ...IPAM, gateway: "10.60.0.255" } }),
  ],
  "bridge: the broadcast address beside another default route": [
    bridged({
      isDefaultGateway: true,
      ipam: {
        ...IPAM,
        gateway: "10.60.0.255",
        routes: [{ dst: "0.0.0.0/0", gw: "10.60.0.9" }],
      },
    }),
  ],
  "macvlan: the broadcast address, and a route on the link": [
    leased({
      gateway: "10.60.0.255",
      routes: [{ dst: "10.9.0.0/16", scope: 253 }],
    }),
  ],
  "an address of each family in an old result": [
    leased({ ranges: [[{ subnet: "fd00::/64" }]] }, "0.2.0"),
  ],
  "a link-local gateway": [
    leased({ subnet: "2001:db8::/64", gateway: "fe80::1" }),
  ],
};

async function isRefused(
  hosts: TestHosts,
  plugins: readonly Plugin[],
): Promise<boolean> {
  let prevResult: JsonObject | undefined;
  for (const plugin of plugins) {
    const { exitCode, json } = await hosts.run(plugin.type, "ADD", {
      cniVersion: "1.0.0",
      name: "net1",
      ...plugin,
      ...prevResult && { prevResult },
    });
    if (exitCode !== 0) return true;
    prevResult = json;
  }
  return false;
}

async function hasError(
  { directory, path: directories }: TestHosts,
  plugins: readonly Plugin[],
): Promise<boolean> {
  const path = `${directory}/net1.conflist`;
  const cniVersion = plugins.at(-1)?.["cniVersion"] ?? "1.0.0";
  const list = { cniVersion, name: "net1", plugins };
  await Deno.writeTextFile(path, JSON.stringify(list));
  const { stdout } = await runCni(
    ...["validate", path, `--cni-path=${directories}`, "--conf-dir=/dev/null"],
    "--json",
  );
  const { problems } = JSON.parse(stdout) as { problems: JsonObject[] };
  return problems.some(({ severity }) => severity === "error");
}

/** Puts the files of plugins into the directory of the test. */
function inDirectory({ directory }: TestHosts, plugin: Plugin): Plugin {
  const files: Readonly<Record<string, JsonObject>> = {
    flannel: { subnetFile: `${directory}/subnet.env` },
    multus: { cniDir: `${directory}/multus` },
  };
  const own = files[plugin.type];
  if (own !== undefined) return { ...plugin, ...own };
  const ipam = plugin["ipam"] as JsonObject | undefined;
  return ipam?.["type"] === "host-local"
    ? { ...plugin, ipam: { ...ipam, dataDir: `${directory}/leases` } }
    : plugin;
}

rootTest("validate reports what ADD refuses as errors", async (t) => {
  const rows = [
    ...Object.entries(REFUSED).map((row) => [...row, true] as const),
    ...Object.entries(SERVED).map((row) => [...row, false] as const),
  ];
  await eachRow(t, rows, async ([, given, isWrong]) => {
    using hosts = TestHosts.create();
    const env = SUBNET_ENV.ipv4.join("\n");
    await Deno.writeTextFile(`${hosts.directory}/subnet.env`, `${env}\n`);
    runIn(hosts.host, "ip", "link", "add", "up0", "type", "veth");
    runIn(hosts.host, "ip", "link", "set", "up0", "up");
    const plugins = given.map((plugin) => inDirectory(hosts, plugin));
    assertEquals(
      [await isRefused(hosts, plugins), await hasError(hosts, plugins)],
      [isWrong, isWrong],
      "refused by ADD, and by validate",
    );
  });
});
