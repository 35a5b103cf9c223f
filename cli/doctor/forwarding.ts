/**
 * Rules of other programs that drop packets of containers.
 *
 * @module
 */

import { shell } from "../../base/command_line/shell.ts";
import { NetNs } from "../../ffi/netns.ts";
import { findVariant } from "../../plugins/parts/firewall/iptables/find.ts";
import { runIptables } from "../../plugins/parts/firewall/iptables/program.ts";
import { openNftables } from "../../plugins/parts/firewall/open_nftables.ts";
import {
  type Check,
  error,
  type Finding,
  type Findings,
  warning,
} from "./finding.ts";
import {
  type ForwardChain,
  hasLegacyTable,
  listForwardChains,
} from "./forward_chains.ts";
import type { Node } from "./node.ts";
import { listRouted, type RoutedNetwork } from "./routed.ts";

/** Finds chains that drop what configured networks send. */
async function findForwardPolicy(node: Node): Promise<Findings> {
  const findings = new Map<string, Finding>();
  for (const routed of listRouted(node)) {
    for (const chain of await listForwardChains(node, routed)) {
      if (chain.fate === "passes" || isLetThrough(routed, chain)) continue;
      const { network, subnet } = routed;
      const key = `${chain.name} ${network.name} ${subnet.family}`;
      if (findings.has(key)) continue;
      findings.set(key, describe(chain, routed));
    }
  }
  return [...findings.values()];
}

function describe(
  { name, fate, why, command }: ForwardChain,
  { network, subnet }: RoutedNetwork,
): Finding {
  const isSure = fate === "dropped";
  const rules = isSure
    ? `no rule that accepts ${subnet}`
    : `no rule that names ${subnet}`;
  const make = isSure ? error : warning;
  return make(
    `${name} ${why}, and has ${rules} of "${network.name}"`,
    `containers of "${network.name}" ${
      isSure ? "reach" : "may reach"
    } only the node itself` + (isSure ? "" : ", or nothing else"),
    { command },
  );
}

/**
 * Reports whether the plugin firewall adds rules to a chain for each container.
 * A chain of another table drops packets whatever other chains accept.
 */
function isLetThrough(
  { network }: RoutedNetwork,
  { name }: ForwardChain,
): boolean {
  return network.plugins.some(({ type }) => type === "firewall") &&
    /filter FORWARD"$|^chain FORWARD|firewalld/.test(name);
}

/** Finds that both variants of iptables have rules. */
async function findMixedIptables(node: Node): Promise<Findings> {
  using netns = NetNs.open(node.hostNetns);
  using nftables = openNftables(node.hostNetns);
  const chains = nftables?.listHookedChains() ?? [];
  const mixed = ([4, 6] as const).flatMap((family) => {
    const own = family === 4 ? "ip" : "ip6";
    const hasNft = chains.some(({ table, name }) =>
      table.family === own && ["filter", "nat"].includes(table.name) &&
      /^[A-Z]+$/.test(name)
    );
    const program = findVariant("legacy", family, node.env["PATH"]);
    const hasLegacy = program !== undefined && hasLegacyTable(netns, family);
    return hasNft && hasLegacy ? [{ family, path: program.path }] : [];
  });
  const findings: Finding[] = [];
  for (const { family, path } of mixed) {
    const iptables = { netns, family, table: "filter", path } as const;
    const { stdout } = await runIptables(iptables, ["-S"]);
    const count = stdout.split("\n").filter((line) =>
      line !== "" && !/^-P \w+ ACCEPT$/.test(line)
    ).length;
    if (count === 0) {
      continue;
    }
    findings.push(warning(
      `the legacy iptables has ${count} rules or policies of IPv${family}, and ` +
        "iptables-nft has chains too",
      "a packet must pass both, and each program shows only its own",
      {
        advice:
          "move all programs to one variant by update-alternatives, then " +
          shell`end the other's rules: ${path} -F`,
        look: shell`${path} -S`,
      },
    ));
  }
  return findings;
}

/** Checks of rules that drop packets. */
export const FORWARDING_CHECKS: readonly Check[] = [
  {
    code: "CNI0604",
    name: "forward-policy",
    finds: "a forward chain drops the packets of a network",
    page: {
      effect: "Containers reach only the node itself.",
      cause: "docker, ufw, firewalld or an administrator closed it.",
      look: "`nft list ruleset`, `iptables -S FORWARD`.",
      fix:
        "Run the command of the finding in that program, or add the plugin firewall to the network.",
    },
    run: findForwardPolicy,
  },
  {
    code: "CNI0608",
    name: "iptables-mixed",
    finds: "both variants of iptables have rules",
    page: {
      effect:
        "A packet must pass both, and each program shows only its own rules.",
      cause: "Programs of the node were built with different variants.",
      look: "`iptables-legacy-save`, `iptables-nft-save`.",
      fix:
        "Move all programs to one variant: `update-alternatives --config iptables`, then restart them and flush the other's rules: `iptables-legacy -F`, `-t nat -F`.",
    },
    run: findMixedIptables,
  },
];
