/**
 * The kernel's features. They are probed in a network namespace of the tool's
 * own, which may load kernel modules, as ADD would.
 *
 * @module
 */

import { Conntrack } from "../../ffi/conntrack/mod.ts";
import { isErrno, SyscallError } from "../../ffi/errno.ts";
import { NetNs } from "../../ffi/netns.ts";
import type { KindData } from "../../ffi/rtnl/link_kinds.ts";
import { Rtnl } from "../../ffi/rtnl/mod.ts";
import { Parent, TrafficControl } from "../../ffi/rtnl/traffic_control.ts";
import { createTap } from "../../ffi/tun.ts";
import { openNftables } from "../../plugins/parts/open_nftables.ts";
import { probeOfMasquerade } from "../../plugins/parts/masquerade/nftables.ts";
import { type Check, error, type Findings, listed } from "./finding.ts";
import { type Node, type PlacedConf, valueOf } from "./node.ts";

/** A throw-away namespace with a veth pair. */
interface Bench {
  readonly netns: NetNs;
  readonly rtnl: Rtnl;
  /** Index of a link to put others on; undefined without veth. */
  readonly lower: number | undefined;
}

/** A feature of the kernel. */
interface Feature {
  readonly name: string;
  /** The module that provides it. */
  readonly module: string;
  /** Whether a configured plugin needs it. */
  readonly isNeeded: (plugin: PlacedConf) => boolean;
  /** @throws {Error} If the kernel does not have it */
  readonly probe: (bench: Bench) => void;
}

/** Returns a test for plugins of some types. */
function typed(...types: readonly string[]): Feature["isNeeded"] {
  return ({ conf }) => types.includes(conf.type);
}

/** Describes a kind of link, which the kernel can create or not. */
function linkFeature(
  name: string,
  module: string,
  info: KindData,
  isNeeded: Feature["isNeeded"] = typed(name),
): Feature {
  return {
    name,
    module,
    isNeeded,
    probe: ({ netns, rtnl, lower }) =>
      rtnl.link.addElsewhere({
        netns,
        name: `p-${name}`.slice(0, 15),
        info,
        lowerIndex: lower,
      }),
  };
}

const NEEDS_NAT: Feature["isNeeded"] = ({ conf }) =>
  conf.type === "portmap" || valueOf(conf, "ipMasq") === true;

const FEATURES: readonly Feature[] = [
  {
    name: "veth",
    module: "veth",
    isNeeded: typed("bridge", "ptp", "flannel"),
    probe: ({ lower, rtnl, netns }) => {
      // It was added before all others. Trying again tells why it failed.
      if (lower === undefined) addVeth(rtnl, netns);
    },
  },
  linkFeature(
    "bridge",
    "bridge",
    { kind: "bridge" },
    typed("bridge", "flannel"),
  ),
  {
    name: "VLAN filtering",
    module: "bridge (CONFIG_BRIDGE_VLAN_FILTERING)",
    isNeeded: ({ conf }) =>
      conf.type === "bridge" &&
      ["vlan", "vlanTrunk"].some((key) => Boolean(valueOf(conf, key))),
    probe: ({ rtnl }) => {
      rtnl.link.addBridge({ name: "p-filtering", vlanFiltering: true });
    },
  },
  linkFeature("macvlan", "macvlan", { kind: "macvlan" }),
  linkFeature("ipvlan", "ipvlan", { kind: "ipvlan" }),
  linkFeature("vlan", "8021q", { kind: "vlan", data: { id: 5 } }),
  linkFeature("dummy", "dummy", { kind: "dummy" }),
  linkFeature("vrf", "vrf", { kind: "vrf", data: { table: 10 } }),
  linkFeature("ifb", "ifb", { kind: "ifb" }, typed("bandwidth")),
  {
    name: "tbf",
    module: "sch_tbf",
    isNeeded: typed("bandwidth"),
    probe: ({ rtnl, lower = 1 }) =>
      new TrafficControl(rtnl.socket).qdisc.add({
        ifindex: lower,
        parent: Parent.Root,
        kind: "tbf",
        bucket: { bytesPerSecond: 1e6, bufferTicks: 1e6, limitBytes: 1e5 },
      }),
  },
  {
    name: "tap",
    module: "tun",
    isNeeded: typed("tap"),
    probe: ({ netns }) =>
      createTap(netns, { name: "p-tap", isMultiQueue: false }),
  },
  {
    name: "nf_tables",
    module: "nf_tables",
    isNeeded: (plugin) =>
      NEEDS_NAT(plugin) && valueOf(plugin.conf, "ipMasqBackend") === "nftables",
    probe: ({ netns }) => {
      using nftables = openNftables(netns.path);
      if (nftables === undefined) throw new Error("no nf_tables");
    },
  },
  {
    name: "nat in inet tables",
    module: "nft_chain_nat",
    isNeeded: ({ conf }) => valueOf(conf, "ipMasqBackend") === "nftables",
    probe: ({ netns }) => {
      using nftables = openNftables(netns.path);
      if (nftables === undefined) throw new Error("no nf_tables");
      nftables.tryOut(probeOfMasquerade());
    },
  },
  {
    name: "conntrack",
    module: "nf_conntrack",
    isNeeded: NEEDS_NAT,
    probe: ({ netns }) => {
      using conntrack = Conntrack.open(netns.path);
      conntrack.list({});
    },
  },
];

/** The kernel, as the summary shows it. */
export interface KernelSummary {
  /** Its release, as `uname -r`. */
  readonly release: string;
  /** The features that it does not have. */
  readonly lacks: readonly string[];
}

/**
 * Lists the features that the kernel does not have.
 *
 * @throws {SyscallError} EPERM if no namespace can be created
 */
function listMissing(): Feature[] {
  using netns = NetNs.create();
  using rtnl = Rtnl.open(netns.path);
  const lower = unlessRefused(() => addVeth(rtnl, netns));
  return FEATURES.filter(({ probe }) => {
    try {
      probe({ netns, rtnl, lower });
      return false;
    } catch (error) {
      if (!isMissing(error)) throw error;
      return true;
    }
  });
}

function addVeth(rtnl: Rtnl, netns: NetNs): number {
  return rtnl.link.addVeth({
    name: "p-veth0",
    peer: { netns, name: "p-veth1" },
  }).index;
}

function unlessRefused<T>(run: () => T): T | undefined {
  try {
    return run();
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
}

/** Reports whether an error means that the kernel lacks something. */
function isMissing(error: unknown): boolean {
  return !isErrno(error, "EPERM", "EACCES") &&
    (error instanceof SyscallError || error instanceof Error);
}

let missing: Feature[] | undefined;

/** Lists the missing features; probes them once for each process. */
function findMissing(): readonly Feature[] {
  return missing ??= listMissing();
}

/** Describes the kernel. */
export function summarizeKernel(): KernelSummary {
  const release = Deno.osRelease();
  try {
    return { release, lacks: findMissing().map(({ name }) => name) };
  } catch {
    return { release, lacks: [] };
  }
}

function findLacking(node: Node): Findings {
  const plugins = node.networks.flatMap((network) =>
    network.plugins.map((conf) => ({ network, conf }))
  );
  return findMissing().flatMap(({ name, module, isNeeded }) => {
    const users = plugins.filter(isNeeded)
      .map(({ network, conf }) => `${conf.type} of "${network.name}"`);
    if (users.length === 0) return [];
    const [word = ""] = module.split(" ");
    return [
      error(
        `Linux ${Deno.osRelease()} has no ${name}, which ${
          listed([...new Set(users)])
        } needs`,
        "containers of that network do not start",
        { command: `modprobe ${word}` },
      ),
    ];
  });
}

/** Checks of the kernel. */
export const KERNEL_CHECKS: readonly Check[] = [
  {
    name: "kernel-feature",
    finds: "a configured plugin needs a feature that the kernel does not have",
    run: findLacking,
  },
];
