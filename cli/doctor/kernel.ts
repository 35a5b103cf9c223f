/**
 * The kernel's features. They are probed in a network namespace of the tool's
 * own, which may load kernel modules, as ADD would.
 *
 * @module
 */

import { type KernelNeed, valueOf } from "../../cni/tools/about.ts";
import { isErrno, SyscallError } from "../../ffi/errno.ts";
import { NetNs } from "../../ffi/netns.ts";
import { Rtnl } from "../../ffi/rtnl/mod.ts";
import { FACTS } from "../../plugins/lists/facts.ts";
import { CONNTRACK } from "../../plugins/parts/kernel_needs.ts";
import { openNftables } from "../../plugins/parts/firewall/open_nftables.ts";
import { probeOfMasquerade } from "../../plugins/parts/firewall/masquerade/nftables.ts";
import { type Check, error, type Findings, listed } from "./finding.ts";
import type { Node, PlacedConf } from "./node.ts";

/** A feature of the kernel. */
interface Feature extends KernelNeed {
  /** Whether a configured plugin needs it, besides those that say so. */
  readonly isUsed?: (plugin: PlacedConf) => boolean;
}

const masquerades = ({ conf }: PlacedConf): boolean =>
  valueOf(conf.document, "ipMasq") === true;
const isInNftables = ({ conf }: PlacedConf): boolean =>
  valueOf(conf.document, "ipMasqBackend") === "nftables";

/** Kernel features behind keys that several plugins share. */
const FEATURES: readonly Feature[] = [
  {
    name: "nf_tables",
    module: "nf_tables",
    isUsed: (plugin) => masquerades(plugin) && isInNftables(plugin),
    probe: (netns) => {
      using nftables = openNftables(netns);
      if (nftables === undefined) throw new Error("no nf_tables");
    },
  },
  {
    name: "nat in inet tables",
    module: "nft_chain_nat",
    isUsed: isInNftables,
    probe: (netns) => {
      using nftables = openNftables(netns);
      if (nftables === undefined) throw new Error("no nf_tables");
      nftables.tryOut(probeOfMasquerade());
    },
  },
  { ...CONNTRACK, isUsed: masquerades },
];

/** Lists each feature once. */
function listFeatures(): Feature[] {
  const all = [
    ...[...FACTS.values()].flatMap(({ needs = [] }) => needs),
    ...FEATURES,
  ];
  return [...new Map(all.map((one) => [one.name, one])).values()];
}

/** Reports whether a configured plugin, or the one that it runs, needs a feature. */
function isNeeded({ name, isUsed }: Feature, plugin: PlacedConf): boolean {
  const { type, document } = plugin.conf;
  const inner = FACTS.get(type)?.runs?.type ?? "";
  return isUsed?.(plugin) === true ||
    needsOf(type).some((need) =>
      need.name === name && need.isNeeded?.(document) !== false
    ) ||
    needsOf(inner).some((need) =>
      need.name === name && need.isNeeded === undefined
    );
}

function needsOf(type: string): readonly KernelNeed[] {
  return FACTS.get(type)?.needs ?? [];
}

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
  try {
    rtnl.link.addVeth({ name: LOWER, peer: { netns, name: "p-veth1" } });
  } catch (error) {
    // Then it is one of the missing features.
    if (!isMissing(error)) throw error;
  }
  return listFeatures().filter(({ probe }) => {
    try {
      probe(netns.path, LOWER);
      return false;
    } catch (error) {
      if (!isMissing(error)) throw error;
      return true;
    }
  });
}

/** A link to put others on. */
const LOWER = "p-veth0";

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
  return findMissing().flatMap((feature) => {
    const { name, module } = feature;
    const users = plugins.filter((plugin) => isNeeded(feature, plugin))
      .map(({ network, conf }) => `${conf.type} of "${network.name}"`);
    if (users.length === 0) return [];
    const [word = ""] = module.split(" ");
    return [
      error(
        `Linux ${Deno.osRelease()} has no ${name}, which ${
          listed([...new Set(users)])
        } needs`,
        "containers of that network do not start",
        {
          command: `modprobe ${word}`,
          advice:
            "if modprobe does not find it, the kernel was built without " +
            "it: nothing on this node fixes it",
        },
      ),
    ];
  });
}

/** Checks of the kernel. */
export const KERNEL_CHECKS: readonly Check[] = [
  {
    code: "CNI0305",
    name: "kernel-feature",
    finds: "a configured plugin needs a feature that the kernel does not have",
    page: {
      effect: "Containers of that network do not start.",
      cause: "The module is not installed, or not built.",
      look: "`modprobe MODULE`; `zcat /proc/config.gz`.",
      fix:
        "Load the module, also at boot (/etc/modules-load.d), or install the package with the kernel's further modules.",
    },
    run: findLacking,
  },
];
