/**
 * Faults by which ADD or DEL fails.
 *
 * @module
 */

import { CONFIGURATIONS_FAULTS } from "../../../cli/doctor/testing/faults/configurations.ts";
import { FORWARDING_FAULTS } from "../../../cli/doctor/testing/faults/forwarding.ts";
import { LINKS_FAULTS } from "../../../cli/doctor/testing/faults/links.ts";
import { PLUGINS_FAULTS } from "../../../cli/doctor/testing/faults/plugins.ts";
import { SERVICES_FAULTS } from "../../../cli/doctor/testing/faults/services.ts";
import { STORAGE_FAULTS } from "../../../cli/doctor/testing/faults/storage.ts";
import type { Fault } from "../../../cli/doctor/testing/fault.ts";
import { add, BRIEF, type Control, del, tcp } from "../controls.ts";
import { DB } from "../fault_node.ts";
import { all, type FaultRow, known, type Seed } from "../row.ts";

const ALL: readonly Fault[] = [
  ...STORAGE_FAULTS,
  ...LINKS_FAULTS,
  ...PLUGINS_FAULTS,
  ...SERVICES_FAULTS,
  ...CONFIGURATIONS_FAULTS,
  ...FORWARDING_FAULTS,
];

/** ADD of a network that comes with its fault. */
const NEW: readonly string[] = [
  "no address left",
  "a file in the place of the lease directory",
  "a master that is the loopback",
  "a master that does not exist",
  "a device that does not exist",
  "an MTU that the master does not have",
  "another link has the bridge's name",
  "a plugin that is not installed",
  "a plugin that is not executable",
  "a plugin for another machine",
  "a plugin that was cut off",
  "a kernel without a kind of link",
  "a plugin that is a dangling link",
  "a script whose interpreter is missing",
  "no DHCP daemon",
  "flannel without its subnet",
  "no kubeconfig for whereabouts",
  "a value of the wrong type",
  "a version that no plugin supports",
  "a sysctl that containers do not have",
];

/** ADD of a network that is there. */
const STOPS: Readonly<Record<string, Control>> = {
  "a full disk": add("20-lan"),
  "no inodes": add("20-lan"),
  "a read-only file system": add("20-lan"),
  "an attachment's plugin that is not installed any more": add("10-pods"),
};

/** Removes what attachments to the network, and fixes, leave. */
const noRest: Seed = ({ scene }) => {
  const remove = (): string =>
    scene.sh(
      `rm -rf ${scene.hosts.directory}/leases/more; ip link set out0 mtu 1500; ` +
        "ip link del br9 2>/dev/null || true",
    );
  remove();
  return () => void remove();
};

/** Puts a directory in the place of the lock of a network's leases. */
const lockDirectory: Seed = ({ scene }) => {
  const path = `${scene.hosts.directory}/leases/lan/lock`;
  scene.sh(`rm ${path}; mkdir ${path}`);
  return () => void scene.sh(`rm -rf ${path} ${path}.unused; touch ${path}`);
};

/** Puts a file in the place of the attachments' cache. */
const cacheFile: Seed = ({ scene }) => {
  const path = `${scene.cacheDir}/results`;
  scene.sh(`mv ${path} ${path}.kept; touch ${path}`);
  return () =>
    void scene.sh(`rm -rf ${path} ${path}.unused; mv ${path}.kept ${path}`);
};

/** Attaches a container, and takes a plugin away that DEL needs. */
const lostPlugin: Seed = async (node) => {
  const { scene } = node;
  const path = scene.writeNetwork("30-more", [
    { type: "ptp", ipam: scene.hosts.hostLocal("10.9.0.0/28") },
    { type: "tuning" },
  ]);
  const plugin = `${scene.hosts.path}/tuning`;
  const kept = `${scene.hosts.directory}/tuning`;
  const netns = scene.hosts.addNetns();
  await scene.attach("30-more", netns, BRIEF, "brief");
  await Deno.rename(plugin, kept);
  return async () => {
    scene.sh(`test ! -e ${kept} || mv ${kept} ${plugin}`);
    using own = scene.node();
    const list = own.networks.find(({ name }) => name === "more")?.list;
    if (list !== undefined) {
      await own.runtime.delNetworkList(list, {
        containerId: BRIEF,
        netns: netns.path,
        ifName: "eth0",
      });
    }
    await Deno.remove(path);
  };
};

/** Attaches a second container with the address of `db`. */
const twin: Seed = async (node) => {
  const { scene } = node;
  const path = scene.writeNetwork("40-twin", [{
    type: "bridge",
    bridge: "lan0",
    ipam: { type: "static", addresses: [{ address: `${DB}/24` }] },
  }]);
  const netns = scene.hosts.addNetns();
  const id = "0011223344556677";
  await scene.attach("40-twin", netns, id, "twin");
  const mac = scene.sh(
    "ip -o link show eth0 | sed 's/.*ether //; s/ .*//'",
    netns,
  ).trim();
  scene.sh(`ip neigh replace ${DB} lladdr ${mac} dev lan0 nud reachable`);
  return () => {
    scene.sh("ip link del eth0", netns);
    Deno.removeSync(path);
    scene.sh(`rm -f ${scene.cacheDir}/results/twin-${id}-eth0`);
    scene.sh("ip neigh flush dev lan0");
  };
};

const OWN: readonly FaultRow[] = [
  {
    name: "a directory in the place of a lock",
    fails: add("20-lan"),
    cause: /leases\/lan\/lock/,
    seed: lockDirectory,
  },
  {
    name: "a file in the place of the attachments' cache",
    fails: add("20-lan"),
    cause: /cache\/results/,
    seed: cacheFile,
  },
  {
    name: "a plugin that DEL needs is gone",
    fails: del(),
    cause: /"tuning"/,
    seed: all(noRest, lostPlugin),
    isNew: true,
  },
  {
    name: "two containers have one static address",
    fails: tcp("node", DB),
    cause: /default\/twin eth0 both have 10\.2\.0\.2$/,
    seed: twin,
  },
];

/** Removes the tool, which `cni install` installs together with a plugin. */
const noTool: Seed = ({ scene }) => () =>
  void scene.sh(`rm -f ${scene.hosts.path}/cni`);

/** Faults by which ADD or DEL fails. */
export const CALLS: readonly FaultRow[] = [
  ...OWN,
  ...NEW.map((name) => {
    const { seed, ...row } = known(ALL, name);
    return { ...row, fails: add(), isNew: true, seed: all(noRest, seed) };
  }),
  ...Object.entries(STOPS)
    .map(([name, fails]) => ({ ...known(ALL, name), fails })),
].map((row) => ({ ...row, seed: all(noTool, row.seed) }));
