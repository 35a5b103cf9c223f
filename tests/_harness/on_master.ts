/**
 * Hosts for plugins that create their link on a master: macvlan, ipvlan, vlan.
 *
 * @module
 */

import { inNetns, NetNs } from "../../ffi/netns.ts";
import { Rtnl } from "../../ffi/rtnl/mod.ts";
import { writeSysctl } from "../../ffi/sysctl.ts";
import {
  canUseNetns,
  ignoreUnless,
  type Needs,
} from "../../testing/capabilities.ts";
import { Mac } from "../../net/mac.ts";
import { runIn } from "../../testing/ip_json.ts";
import type { TestHosts } from "../../testing/test_hosts.ts";
import { type Keys, PluginScene } from "./plugin_scene.ts";

/** The plugins. */
export type OnMasterType = "macvlan" | "ipvlan" | "vlan";

/** Name of the master. */
export const MASTER = "master0";
/** The VLAN of vlan's tests. */
export const VLAN = 5;

/** Arguments of iproute2 for each plugin's kind of link. */
const SETTINGS: Readonly<Record<OnMasterType, string>> = {
  macvlan: "macvlan mode bridge",
  ipvlan: "ipvlan mode l2",
  vlan: `vlan id ${VLAN}`,
};

/** Skips what needs links of a kind; `deno task test:kernel` has a kernel with all. */
export function needsKind(kind: OnMasterType): Needs {
  return ignoreUnless(
    canUseNetns && hasKind(kind),
    `needs a kernel with ${kind}`,
  );
}

function hasKind(kind: OnMasterType): boolean {
  using netns = NetNs.create();
  const script = "ip link add a0 type veth peer name b0; " +
    `ip link add link a0 name probe type ${SETTINGS[kind]}`;
  try {
    runIn(netns, "sh", "-ec", script);
    return true;
  } catch {
    return false;
  }
}

/**
 * Adds a master, up, and a neighbour beyond it with the first address of each
 * subnet.
 *
 * @param place The namespace of the master
 * @returns The neighbour's namespace
 */
export function addMaster(
  hosts: TestHosts,
  type: OnMasterType,
  place: NetNs = hosts.host,
): NetNs {
  const neighbour = hosts.addNetns();
  using rtnl = Rtnl.open(place.path);
  // Else tests wait for the detection of duplicates of the master's own address.
  inNetns(place, () => writeSysctl("net/ipv6/conf/default/accept_dad", "0"));
  const peer = { netns: neighbour, name: "wire" };
  rtnl.link.addVeth({ name: MASTER, mtu: 1500, mac: Mac.random(), peer });
  const dev = type === "vlan" ? "tagged" : "wire";
  const script = `
    ip link set wire up
    ${
    type === "vlan"
      ? `ip link add link wire name tagged type vlan id ${VLAN}; ip link set tagged up`
      : ""
  }
    for address in 10.1.2.1/24 10.0.0.1/24; do
      ip address add $address dev ${dev}
    done
    ip address add 2001:db8:1::1/64 dev ${dev} nodad`;
  runIn(neighbour, "sh", "-ec", script);
  return neighbour;
}

/** A configuration for both families. */
export function onMaster(
  type: OnMasterType,
  hosts: TestHosts,
  extras: Keys = {},
): Keys {
  return {
    cniVersion: "1.1.0",
    name: "net1",
    type,
    master: MASTER,
    ...type === "vlan" ? { vlanId: VLAN } : {},
    // Detection takes a second and more.
    enabledad: false,
    ipam: {
      ...hosts.hostLocal("10.1.2.0/24", "2001:db8:1::/64"),
      routes: [{ dst: "0.0.0.0/0" }, { dst: "::/0" }],
    },
    ...extras,
  };
}

/** Reads all that an attachment changes, without processes: tests need it often. */
export function readQuickly(hosts: TestHosts): unknown {
  return [describe(hosts.host), describe(hosts.sandbox), hosts.leases()];
}

/** A host with a master, and calls of a plugin on it. */
export class MasterScene extends PluginScene {
  /** The namespace beyond the master. */
  readonly neighbour: NetNs;

  /**
   * Creates the host.
   *
   * @param extras Keys of the configuration
   */
  constructor(
    type: OnMasterType,
    extras: Keys | ((hosts: TestHosts) => Keys) = {},
  ) {
    super(type, (hosts) => {
      const more = typeof extras === "function" ? extras(hosts) : extras;
      return onMaster(type, hosts, more);
    }, readQuickly);
    this.neighbour = addMaster(this.hosts, type);
  }
}

/** Describes a namespace, without link-local addresses, which come and go. */
function describe({ path }: NetNs): unknown {
  using rtnl = Rtnl.open(path);
  const links = rtnl.link.list()
    .map(({ isOperational: _isOperational, ...link }) => link);
  const addresses = rtnl.address.list().map(({ address }) => address)
    .filter(({ ip }) => !ip.isLinkLocal).map(String);
  const routes = rtnl.route.list({ table: "any" })
    .filter(({ destination }) => !destination.ip.isLinkLocal);
  return [links, addresses, routes].map((part) => JSON.stringify(part));
}
