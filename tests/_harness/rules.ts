/**
 * The rules of a host, as nft and iptables show them.
 *
 * @module
 */

import type { NetNs } from "../../ffi/netns.ts";
import {
  canUseNetns,
  hasCommand,
  ignoreUnless,
  type Needs,
} from "../../testing/capabilities.ts";
import { runIn } from "../../testing/ip_json.ts";

/** Skips what needs both programs. */
export const needsRuleTools = ignoreUnless(
  hasCommand("nft") && hasCommand("iptables"),
  "needs nft and iptables",
);

/**
 * Skips what needs rules for IPv4 and IPv6. A kernel can have nftables for
 * bridges only.
 */
export const needsInetRules: Needs = ignoreUnless(
  tryInetRules(),
  "needs nft and a kernel with CONFIG_NF_TABLES_INET",
);

function tryInetRules(): boolean {
  if (!canUseNetns || !hasCommand("nft")) return false;
  const args = "-n nft add table inet probe".split(" ");
  const options = { args, stderr: "null", stdout: "null" } as const;
  return new Deno.Command("unshare", options).outputSync().success;
}

/** Skips what needs tables of the iptables on the PATH, whichever it is. */
export function needsIptables(): Needs {
  const works = hasTables("iptables");
  return ignoreUnless(works, "needs iptables and a kernel with its tables");
}

/** Skips what needs tables of the legacy iptables. */
export function needsLegacyIptables(): Needs {
  const works = hasTables("iptables-legacy");
  return ignoreUnless(works, "needs the kernel's legacy iptables");
}

function hasTables(program: string): boolean {
  if (!canUseNetns || !hasCommand(program)) return false;
  const args = ["-n", program, "-t", "nat", "-S"];
  const options = { args, stderr: "null", stdout: "null" } as const;
  return new Deno.Command("unshare", options).outputSync().success;
}

/** Lists the lines of nft's rules that match. */
export function nftRules(host: NetNs, pattern: RegExp): string[] {
  return matching(runIn(host, "nft", "list", "ruleset"), pattern);
}

/** Lists the lines of rules that match, of both programs; no dates. */
export function rulesOf(host: NetNs, pattern = /^[^#]/): string[] {
  const printed = [
    runIn(host, "nft", "list", "ruleset"),
    runIn(host, "iptables-save"),
    runIn(host, "ip6tables-save"),
  ];
  return matching(printed.join(""), pattern);
}

function matching(text: string, pattern: RegExp): string[] {
  return text.split("\n").filter((line) => pattern.test(line));
}
