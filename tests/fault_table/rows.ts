/**
 * A configuration of every plugin, for the table of faults.
 *
 * @module
 */

import { writeDebugFile } from "../../plugins/debug/testing.ts";
import { Rtnl } from "../../ffi/rtnl/mod.ts";
import type { Needs } from "../../testing/capabilities.ts";
import { runIn } from "../../testing/ip_json.ts";
import type { TestHosts } from "../../testing/test_hosts.ts";
import { flannelConfig, SUBNET_ENV } from "../../plugins/flannel/testing.ts";
import { WIDE } from "../../plugins/bandwidth/testing/limited_pair.ts";
import { needsKind, type OnMasterType } from "../_harness/on_master.ts";
import { needsOwnLink } from "../_harness/own_link_cases.ts";
import type { Keys } from "../_harness/plugin_scene.ts";
import { needsInetRules, needsRuleTools } from "../_harness/rules.ts";
import { ALL_SETTINGS, SYSCTL } from "../../plugins/tuning/testing.ts";
import { needsVrf } from "../../plugins/vrf/testing.ts";

/** One plugin and its configuration. */
export interface FaultRow {
  readonly type: string;
  /** Tells the rows of one plugin apart. */
  readonly variant?: string;
  readonly needs?: Needs;
  /** Whether a plugin that makes an interface comes before it. */
  readonly isChained?: boolean;
  /** The configuration of that plugin, if it is not ptp. */
  readonly base?: (hosts: TestHosts, container: number) => Keys;
  /** Only each of so many steps is tested unless all are: others' rows have them. */
  readonly stride?: number;
  /**
   * Whether DEL gets the previous plugin's result if ADD failed. Without it,
   * what ADD changed of that plugin's goes with the sandbox.
   */
  readonly keepsPrevResult?: boolean;
  /** Whether routes in the sandbox are lost if it is killed: the kernel drops them. */
  readonly losesRoutes?: boolean;
  /** Whether GC forgets what DEL restores: the sandbox is gone by then. */
  readonly gcForgets?: boolean;
  /** Sets up the host. */
  readonly prepare?: (hosts: TestHosts) => void;
  /** @param container 0 for the one whose calls fail, 1 for another one */
  readonly config: (hosts: TestHosts, container: number) => Keys;
}

const debugKeys = ({ directory }: TestHosts): Keys => ({
  cniOutput: `${directory}/calls`,
  addHooks: [["true"]],
  delHooks: [["true"]],
});

const SUBNETS = ["10.1.2.0/24", "2001:db8:1::/64"] as const;
const ipamOf = (hosts: TestHosts): Keys => ({
  ipam: hosts.hostLocal(...SUBNETS),
});

const onMaster = (
  type: OnMasterType,
  variant?: string,
  extras: Keys = {},
): FaultRow => ({
  type,
  ...variant === undefined ? {} : { variant },
  stride: 3,
  needs: needsKind(type),
  prepare: ({ host }) => {
    const script = "ip link add m0 type veth peer name m1; " +
      "ip link set m0 up; ip link set m1 up; ip address add 10.1.2.200/24 dev m0; " +
      "ip address add 2001:db8:1::200/64 dev m0 nodad";
    runIn(host, "sh", "-ec", script);
  },
  config: (hosts, container) => ({
    master: "m0",
    // Detection takes a second and more.
    enabledad: false,
    ...type === "vlan" ? { vlanId: 5 + container } : {},
    ...extras,
    ...ipamOf(hosts),
  }),
});

const portmap = (backend: string, needs: Needs): FaultRow => ({
  type: "portmap",
  variant: backend,
  needs,
  isChained: true,
  config: (_, container) => ({
    backend,
    runtimeConfig: {
      portMappings: [
        { hostPort: 8080 + container, containerPort: 80, protocol: "tcp" },
        { hostPort: 5353 + container, containerPort: 53, protocol: "udp" },
      ],
    },
  }),
});

/** The bridge stays when the container is deleted, unlike a link of ptp. */
const portmapOnBridge = (backend: string, needs: Needs): FaultRow => ({
  ...portmap(backend, needs),
  variant: `${backend}, behind a bridge`,
  base: (hosts, container) => ({
    type: "bridge",
    bridge: `cni${container}`,
    isGateway: true,
    ipam: hosts.hostLocal(`10.1.${2 + container}.0/24`),
  }),
});

const firewall = (backend: string, needs: Needs): FaultRow => ({
  type: "firewall",
  variant: backend,
  needs,
  isChained: true,
  config: () => ({ backend }),
});

const ptp = (hosts: TestHosts): Keys => ({
  type: "ptp",
  ipMasq: true,
  ...ipamOf(hosts),
});

/** Returns a row's name in the table. */
export function titleOf({ type, variant }: FaultRow): string {
  return variant === undefined ? type : `${type}, ${variant}`;
}

/** All rows, in the order of the table. */
export const FAULT_ROWS: readonly FaultRow[] = [
  { type: "bandwidth", isChained: true, config: () => ({ ...WIDE }) },
  {
    type: "bridge",
    needs: needsInetRules,
    stride: 3,
    config: (hosts) => ({
      bridge: "cni0",
      isGateway: true,
      ipMasq: true,
      ...ipamOf(hosts),
    }),
  },
  {
    type: "chain",
    needs: needsInetRules,
    stride: 10,
    config: (hosts) => ({
      plugins: [ptp(hosts), { type: "bandwidth", ...WIDE }, { type: "sbr" }],
    }),
  },
  {
    type: "debug",
    prepare: (hosts) => writeDebugFile(hosts.directory, debugKeys(hosts)),
    config: debugKeys,
  },
  { type: "dummy", needs: needsOwnLink("dummy"), config: ipamOf },
  firewall("nftables", needsInetRules),
  firewall("iptables", needsRuleTools),
  {
    type: "flannel",
    stride: 6,
    prepare: ({ directory }) => {
      const text = SUBNET_ENV.ipv4.map((line) => `${line}\n`).join("");
      Deno.writeTextFileSync(`${directory}/subnet.env`, text);
    },
    config: (hosts) => flannelConfig(hosts),
  },
  {
    type: "host-device",
    stride: 3,
    prepare: ({ host }) => {
      using rtnl = Rtnl.open(host.path);
      for (const number of [0, 1]) {
        const peer = { netns: host, name: `wire${number}` };
        rtnl.link.addVeth({ name: `ens${number}`, mtu: 1500, peer });
      }
    },
    config: (hosts, container) => ({
      device: `ens${container}`,
      ...ipamOf(hosts),
    }),
  },
  { type: "host-local", config: ipamOf },
  onMaster("ipvlan"),
  onMaster("ipvlan", "hostAccess", { hostAccess: true }),
  { type: "loopback", config: () => ({}) },
  onMaster("macvlan"),
  onMaster("macvlan", "hostAccess", { hostAccess: true }),
  {
    type: "multus",
    needs: needsInetRules,
    stride: 10,
    config: (hosts) => ({
      cniDir: `${hosts.directory}/multus`,
      binDir: hosts.path,
      delegates: [{ cniVersion: "1.1.0", name: "pods", ...ptp(hosts) }],
    }),
  },
  { type: "passthru", config: () => ({}) },
  portmap("nftables", needsInetRules),
  portmap("iptables", needsRuleTools),
  portmapOnBridge("nftables", needsInetRules),
  portmapOnBridge("iptables", needsRuleTools),
  { type: "ptp", needs: needsInetRules, stride: 3, config: ptp },
  { type: "sbr", isChained: true, keepsPrevResult: true, config: () => ({}) },
  {
    type: "static",
    config: () => ({
      ipam: { type: "static", addresses: [{ address: "10.1.2.5/24" }] },
    }),
  },
  { type: "tap", stride: 3, needs: needsOwnLink("tap"), config: ipamOf },
  {
    type: "tuning",
    isChained: true,
    gcForgets: true,
    config: ({ directory }) => ({
      ...ALL_SETTINGS,
      sysctl: { [SYSCTL]: "1" },
      dataDir: `${directory}/tuning`,
    }),
  },
  onMaster("vlan"),
  {
    type: "vrf",
    needs: needsVrf,
    isChained: true,
    losesRoutes: true,
    config: () => ({ vrfname: "blue" }),
  },
];

/** Plugins without a row, and why. */
export const WITHOUT_ROW: Readonly<Record<string, string>> = {
  dhcp: "Changes nothing itself. Its daemon's leases: " +
    "`ipam/dhcp/daemon_test.ts`, `ipam/dhcp/process_test.ts`.",
  slaac: "Sets sysctls of an interface, which end with it.",
  remote:
    "Changes nothing itself: another daemon does the work. Its failures: " +
    "`tests/conformance/remote_test.ts`.",
  contivk8s: "The same plugin as `remote`, with another protocol.",
  whereabouts: "Changes only objects of the API server. Requests that fail, " +
    "before and after the server has done them: `ipam/whereabouts/plugin_test.ts`.",
};
