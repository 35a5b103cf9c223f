/**
 * VLANs of bridge  compared with the newest Go plugin: what each leaves, and
 * that each ends what the other made. Needs a kernel with VLAN filtering, and
 * the plugins that `scripts/setup/go_plugins.ts` builds.
 */

import { assertEquals } from "@std/assert";
import {
  changePortVlans,
  needsBridgeVlans,
  portVlans,
  switchConfig,
} from "./testing/bridge_network.ts";
import {
  allOf,
  ignoreUnless,
  isExecutable,
  rootTest,
} from "../../testing/capabilities.ts";
import { linkNames } from "../../testing/ip_json.ts";
import {
  normaliseResult,
  observeNetns,
  type Who,
} from "../../tests/_harness/parity.ts";
import {
  NEWEST_DIRECTORY,
  NEWEST_RELEASE,
} from "../../tests/_harness/peers.ts";
import type { Keys } from "../../tests/_harness/plugin_scene.ts";
import { type CallOutput, TestHosts } from "../../testing/test_hosts.ts";

const PEER = `Go ${NEWEST_RELEASE.slice(1)}`;

const needsPeer = ignoreUnless(
  isExecutable(`${NEWEST_DIRECTORY}/bridge`),
  `needs the plugins of ${PEER} in ${NEWEST_DIRECTORY}`,
);

const TRUNK = [{ id: 101 }, { minID: 200, maxID: 210 }];

/** Kinds of port that both make the same. */
const SAME: Readonly<Record<string, Keys>> = {
  "access": { vlan: 100 },
  "access in the default VLAN": { vlan: 1 },
  "access, the default VLAN preserved": {
    vlan: 100,
    preserveDefaultVlan: true,
  },
  "trunk": { vlanTrunk: TRUNK },
  "trunk, the default VLAN preserved": {
    vlanTrunk: TRUNK,
    preserveDefaultVlan: true,
  },
  "trunk with a native VLAN": { vlan: 100, vlanTrunk: TRUNK },
  "trunk that includes the default VLAN": {
    vlanTrunk: [{ minID: 1, maxID: 20 }],
  },
  "an empty trunk": { vlanTrunk: [] },
  "access with a gateway": {
    vlan: 100,
    isGateway: true,
    subnet: "10.1.2.0/24",
  },
  "access with a gateway, the default VLAN preserved": {
    vlan: 100,
    isGateway: true,
    preserveDefaultVlan: true,
    subnet: "10.1.2.0/24",
  },
};

/** Returns a configuration in a version that both know. */
function configOf(hosts: TestHosts, { subnet, ...keys }: Keys): Keys {
  const ipam = subnet === undefined ? {} : hosts.hostLocal(`${subnet}`);
  return switchConfig({ cniVersion: "1.0.0", ipam, ...keys });
}

/** Runs either plugin, which must succeed; Go's write to stderr as they like. */
async function run(
  who: Who,
  hosts: TestHosts,
  command: string,
  config: Keys,
): Promise<CallOutput> {
  const output = who === "ours"
    ? await hosts.run("bridge", command, config)
    : hosts.exec(`${NEWEST_DIRECTORY}/bridge`, command, config, {
      env: { CNI_PATH: NEWEST_DIRECTORY },
    });
  assertEquals(output.exitCode, 0, `${who} ${command}: ${output.stdout}`);
  return output;
}

/** Traces of an attachment: the result, links, routes and VLANs. */
async function observe(who: Who, keys: Keys): Promise<unknown> {
  using hosts = TestHosts.create();
  const { host, sandbox } = hosts;
  const { stdout } = await run(who, hosts, "ADD", configOf(hosts, keys));
  const names = linkNames(host).filter((name) => name !== "lo");
  const { links, routes } = await observeNetns(host);
  return {
    result: normaliseResult(stdout, hosts),
    // The order in which the two ends of a veth are made differs.
    links: links.map((link) => JSON.stringify(link)).sort(),
    routes,
    sandbox: await observeNetns(sandbox),
    vlans: names.map((name) =>
      [name.replace(/^veth.*/, "VETH"), ...portVlans(host, name)].join(", ")
    ).sort(),
  };
}

for (const [name, keys] of Object.entries(SAME)) {
  rootTest(
    `bridge sets the same VLANs as ${PEER}: ${name}`,
    allOf(needsBridgeVlans, needsPeer),
    async () => {
      assertEquals(await observe("ours", keys), await observe("go", keys));
    },
  );

  rootTest(
    `bridge and ${PEER} check and delete each other's VLANs: ${name}`,
    allOf(needsBridgeVlans, needsPeer),
    async () => {
      for (const [adder, other] of [["ours", "go"], ["go", "ours"]] as const) {
        using hosts = TestHosts.create();
        const config = configOf(hosts, keys);
        const { json } = await run(adder, hosts, "ADD", config);
        for (const command of ["CHECK", "DEL"]) {
          await run(other, hosts, command, { ...config, prevResult: json });
        }
        const kept = linkNames(hosts.host);
        assertEquals(kept.includes(json.interfaces[1].name), false, `${kept}`);
        assertEquals(linkNames(hosts.sandbox), ["lo"]);
        assertEquals(hosts.leases(), []);
      }
    },
  );
}

/** Differences that are meant: the keys, then what ours and what Go's leaves. */
const MEANT: Readonly<
  Record<string, readonly [keys: Keys, ours: string[], go: string[]]>
> = {
  "a trunk that includes the native VLAN stays untagged in it": [
    { vlan: 205, vlanTrunk: TRUNK },
    ["101", "200-204", "205 PVID Egress Untagged", "206-210"],
    ["101", "200-210"],
  ],
};

for (const [name, [keys, ours, go]] of Object.entries(MEANT)) {
  rootTest(
    `bridge differs from ${PEER}: ${name}`,
    allOf(needsBridgeVlans, needsPeer),
    async () => {
      for (const [who, want] of [["ours", ours], ["go", go]] as const) {
        using hosts = TestHosts.create();
        const { json } = await run(who, hosts, "ADD", configOf(hosts, keys));
        assertEquals(portVlans(hosts.host, json.interfaces[1].name), want, who);
      }
    },
  );
}

rootTest(
  "bridge CHECK reports a port that left its VLAN",
  allOf(needsBridgeVlans, needsPeer),
  async () => {
    using hosts = TestHosts.create();
    const config = configOf(hosts, { vlan: 100, subnet: "10.1.2.0/24" });
    const { json: prevResult } = await run("go", hosts, "ADD", config);
    const port = prevResult.interfaces[1].name;
    changePortVlans(hosts.host, port, "del vid 100");
    const withResult = { ...config, prevResult };
    await run("go", hosts, "CHECK", withResult);
    const { json } = await hosts.run("bridge", "CHECK", withResult);
    assertEquals(json.msg, `"${port}" lacks VLAN 100`);
  },
);
