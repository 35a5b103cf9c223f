/**
 * Counts packets that rules of legacy iptables and ebtables drop. The kernel can trace
 * such rules only with an additional rule in their tables.
 *
 * @module
 */

import { basename } from "@std/path/posix";
import { ifPossible } from "../../base/files/io.ts";
import { inNetns, type NetNs } from "../../ffi/netns.ts";
import type { IpFamily } from "../../net/ip.ts";
import { findVariant } from "../../plugins/parts/firewall/iptables/find.ts";
import { splitRule } from "../../plugins/parts/firewall/iptables/program.ts";
import { quote } from "../../base/command_line/shell.ts";

/** A rule or policy that drops packets, and the number of dropped packets. */
export interface CountedRule {
  /** Path of the namespace. */
  readonly netns: string;
  /** Such as `iptables-legacy`. */
  readonly program: string;
  readonly table: string;
  /** As the program writes it: `-A FORWARD -s 10.1.0.0/24 -j DROP`, or `-P FORWARD DROP`. */
  readonly text: string;
  readonly packets: number;
}

const TABLE_FILES = { 4: "ip_tables_names", 6: "ip6_tables_names" } as const;
const EBTABLES = "ebtables-legacy";

/** Lists the rules that drop packets in some namespaces. */
export function countLegacyRules(
  places: readonly NetNs[],
  path: string | undefined,
): CountedRule[] {
  return places.flatMap((netns) => [
    ...([4, 6] as const).flatMap((family) => {
      const tables = listLegacyTables(netns, family);
      const found = tables.length === 0
        ? undefined
        : findVariant("legacy", family, path);
      if (found === undefined) return [];
      const program = basename(found.path);
      return tables.flatMap((table) =>
        parse(run(netns, `${found.path}-save`, ["-c", "-t", table]))
          .map((rule) => ({ netns: netns.path, program, table, ...rule }))
      );
    }),
    ...countEbtables(netns),
  ]);
}

/** Lists the tables of legacy iptables. The program iptables would create tables. */
export function listLegacyTables(netns: NetNs, family: IpFamily): string[] {
  const path = `/proc/thread-self/net/${TABLE_FILES[family]}`;
  const text = inNetns(
    netns,
    () => ifPossible(() => Deno.readTextFileSync(path)),
  );
  return (text ?? "").split("\n").filter((name) => name !== "");
}

/** Counts rules of the ebtables tables whose module is loaded: no file lists them. */
function countEbtables(netns: NetNs): CountedRule[] {
  const modules = ifPossible(() => Deno.readTextFileSync("/proc/modules")) ??
    "";
  const loaded = modules.split("\n").map((line) => line.split(" ")[0]);
  return ["filter", "nat", "broute"].filter((table) =>
    loaded.includes(`ebtable_${table}`)
  ).flatMap((table) =>
    parseEbtables(run(netns, EBTABLES, ["-t", table, "-L", "--Lc", "--Lx"]))
      .map((rule) => ({ netns: netns.path, program: EBTABLES, table, ...rule }))
  );
}

/** Runs a program in a namespace; "" if it fails. */
function run(netns: NetNs, program: string, args: string[]): string {
  const options = { args, stdin: "null", stderr: "null" } as const;
  const output = inNetns(
    netns,
    () => ifPossible(() => new Deno.Command(program, options).outputSync()),
  );
  return output?.success ? new TextDecoder().decode(output.stdout) : "";
}

type Parsed = Pick<CountedRule, "text" | "packets">;

/** Parses what `iptables-save -c` prints. */
function parse(text: string): Parsed[] {
  return text.split("\n").flatMap((line) => {
    const policy = /^:(\S+) DROP \[(\d+):/.exec(line);
    if (policy !== null) {
      const [, chain, packets] = policy;
      return [{ text: `-P ${chain} DROP`, packets: Number(packets) }];
    }
    const rule = /^\[(\d+):\d+\] (-A .* -j (?:DROP|REJECT)\b.*)$/.exec(line);
    if (rule === null) return [];
    const [, packets, text = ""] = rule;
    return [{ text, packets: Number(packets) }];
  });
}

/** Parses what `ebtables -L --Lc --Lx` prints: commands with counters. */
function parseEbtables(text: string): Parsed[] {
  return text.split("\n").flatMap((line) => {
    const rule = /^ebtables -t \S+ (-A .*-j DROP.*?) ?,? ?-c (\d+) \d+/.exec(
      line,
    );
    if (rule === null) return [];
    const [, text = "", packets] = rule;
    return [{ text, packets: Number(packets) }];
  });
}

/** Returns the command that deletes a rule. */
export function deletionOf({ program, table, text }: CountedRule): string {
  const rule = text.replace(/^-A /, "-D ")
    .replace(/^-P (\S+) DROP$/, "-P $1 ACCEPT");
  // A shell would replace variables in quotes of the rule's language.
  const words = splitRule(rule).map(quote);
  const inTable = table === "filter" ? [] : ["-t", table];
  return [program, ...inTable, ...words].join(" ");
}
