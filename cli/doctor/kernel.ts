/**
 * What plugins need of the node: features of the kernel, and iptables. Features are
 * probed in a network namespace of the tool's own, which might load kernel modules, as
 * ADD would.
 *
 * @module
 */

import { JoinedSignal } from "../../base/deadline.ts";
import { findValue } from "../../base/json/json.ts";
import { shell } from "../../base/command_line/shell.ts";
import { outputUntil } from "../../base/process/child.ts";
import type { KernelNeed } from "../../metadata/plugin_metadata.ts";
import { isErrno, SyscallError } from "../../ffi/errno.ts";
import { NetNs } from "../../ffi/netns.ts";
import { Rtnl } from "../../ffi/rtnl/mod.ts";
import { METADATA } from "../../plugins/lists/metadata.ts";
import { CONNTRACK } from "../../plugins/parts/firewall/conntrack_need.ts";
import { openNftables } from "../../plugins/parts/firewall/open_nftables.ts";
import {
  probeOfMasquerade,
} from "../../plugins/parts/firewall/masquerade/nftables.ts";
import {
  type Check,
  error,
  type Finding,
  type Findings,
  listed,
} from "./finding.ts";
import type {
  ConfiguredNetwork,
  NodeReader,
  PlacedConf,
} from "../node/node_reader.ts";
import type { IpFamily } from "../../net/ip.ts";
import { findIptables } from "../../plugins/parts/firewall/iptables/find.ts";
import { formatFailureText } from "../../base/command_line/failure.ts";
import { listSubnets } from "../node/routed.ts";

/** A feature of the kernel. */
interface Feature extends KernelNeed {
  /** Whether a configured plugin needs it, in addition to plugins that declare it. */
  readonly isUsed?: (plugin: PlacedConf) => boolean;
}

const masquerades = ({ conf }: PlacedConf): boolean =>
  findValue(conf.document, "ipMasq") === true;
const isInNftables = ({ conf }: PlacedConf): boolean =>
  findValue(conf.document, "ipMasqBackend") === "nftables";

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
    ...[...METADATA.values()].flatMap(({ needs = [] }) => needs),
    ...FEATURES,
  ];
  return [...new Map(all.map((one) => [one.name, one])).values()];
}

/** Reports whether a configured plugin, or the plugin that it runs, needs a feature. */
function isNeeded({ name, isUsed }: Feature, plugin: PlacedConf): boolean {
  const { type, document } = plugin.conf;
  const inner = METADATA.get(type)?.runs?.type ?? "";
  return isUsed?.(plugin) === true ||
    needsOf(type).some((need) =>
      need.name === name && need.isNeeded?.(document) !== false
    ) ||
    needsOf(inner).some((need) =>
      need.name === name && need.isNeeded === undefined
    );
}

function needsOf(type: string): readonly KernelNeed[] {
  return METADATA.get(type)?.needs ?? [];
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

/** A link that can be the lower link of other links. */
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

function findLacking(node: NodeReader): Findings {
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
          command: shell`modprobe ${word}`,
          advice:
            "if modprobe does not find it, the kernel was built without " +
            "it: install a different kernel",
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
    finds: "a configured plugin needs a feature that the kernel lacks",
    effect: "Containers of that network do not start.",
    cause: "The module is not installed, or not built.",
    howToInspect: "`modprobe MODULE`; `zcat /proc/config.gz`.",
    howToFix:
      "Load the module, also at boot (/etc/modules-load.d), or install the package with the kernel's additional modules.",
    run: findLacking,
  },
];

/** Reports whether a network's plugins run iptables if the host has it. */
function runsIptables({ plugins }: ConfiguredNetwork): boolean {
  return plugins.some(({ type, document }) =>
    METADATA.get(type)?.runsIptables?.(document) === true ||
    findValue(document, "ipMasq") === true &&
      findValue(document, "ipMasqBackend") !== "nftables"
  );
}

async function findBrokenIptables(node: NodeReader): Promise<Findings> {
  const users = node.networks.filter(runsIptables);
  if (users.length === 0) return [];
  const hasIpv6 = users.some(({ plugins }) =>
    plugins.some((conf) => listSubnets(conf).some(({ family }) => family === 6))
  );
  const families: IpFamily[] = hasIpv6 ? [4, 6] : [4];
  const names = listed(users.map(({ name }) => `"${name}"`));
  const findings: Finding[] = [];
  for (const family of families) {
    // Without iptables, plugins use nftables, or STATUS reports what is missing.
    const path = findPath(family, node);
    const problem = path === undefined ? undefined : await tryProgram(path);
    if (path === undefined || problem === undefined) continue;
    const isMode = problem === NO_MODE;
    findings.push(error(
      `"${path}" cannot be run: ${problem}`,
      `ADD of ${names} fails, because plugins run it for their rules`,
      isMode ? { command: shell`chmod 755 ${path}` } : {
        advice: "install iptables again, or remove it: plugins then use " +
          "nftables",
        look: shell`${path} --version`,
      },
    ));
  }
  return findings;
}

function findPath(family: IpFamily, { env }: NodeReader): string | undefined {
  try {
    return findIptables(family, env["PATH"])?.path;
  } catch {
    return undefined; // A dangling link.
  }
}

const NO_MODE = "it is not executable";

/** Time limit of a program that prints its version, in seconds. */
const VERSION_SECONDS = 5;

/** Runs a program. Returns why that fails. */
async function tryProgram(path: string): Promise<string | undefined> {
  try {
    const { mode } = await Deno.stat(path);
    if (((mode ?? 0) & 0o111) === 0) return NO_MODE;
    const child = new Deno.Command(path, {
      args: ["--version"],
      detached: true,
      stdin: "null",
      stdout: "piped",
      stderr: "piped",
    }).spawn();
    using limit = new JoinedSignal(VERSION_SECONDS * 1000);
    const output = await outputUntil(child, limit.signal);
    if (output === undefined) {
      return `it did not end within ${VERSION_SECONDS} s`;
    }
    const { success, code, stderr } = output;
    if (success) return undefined;
    const [line = ""] = new TextDecoder().decode(stderr).split("\n");
    return line || `exit code ${code}`;
  } catch (cause) {
    return formatFailureText(cause);
  }
}

/** Checks of programs. */
export const PROGRAM_CHECKS: readonly Check[] = [
  {
    code: "CNI0209",
    name: "iptables-broken",
    finds: "iptables is installed but cannot be run",
    effect: "ADD fails: masquerading, portmap and firewall run it.",
    cause:
      "The file is for a different architecture, or lacks execute permission or its libraries.",
    howToInspect: "`iptables --version`, and `file -L` of its path.",
    howToFix:
      "Install iptables again, or remove it: plugins then use nftables.",
    run: findBrokenIptables,
  },
];
