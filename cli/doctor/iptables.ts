/**
 * The two variants of iptables, which do not see each other's rules.
 *
 * @module
 */

import { shell } from "../../base/command_line/shell.ts";
import { NetNs } from "../../ffi/netns.ts";
import { findVariant } from "../../plugins/parts/firewall/iptables/find.ts";
import { runIptables } from "../../plugins/parts/firewall/iptables/program.ts";
import { openNftables } from "../../plugins/parts/firewall/open_nftables.ts";
import { type Check, type Finding, type Findings, warning } from "./finding.ts";
import { listLegacyTables } from "../probe/legacy_rules.ts";
import type { Node } from "./node.ts";

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
    const hasLegacy = program !== undefined &&
      listLegacyTables(netns, family).includes("filter");
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

/** Checks of iptables. */
export const IPTABLES_CHECKS: readonly Check[] = [
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
