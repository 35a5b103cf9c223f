/**
 * Counts packets that rules of legacy iptables and ebtables drop. The kernel can trace
 * such rules only with an additional rule in their tables.
 *
 * @module
 */

import { basename } from "@std/path/posix";
import { JoinedSignal } from "../../base/deadline.ts";
import { ifPossible } from "../../base/files/io.ts";
import { outputUntil } from "../../base/process/child.ts";
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
  /** The built-in chains from which the kernel reaches the rule, such as `FORWARD`. */
  readonly hooks: readonly string[];
  /** Whether chains that lead to it accept packets, or jump to a different chain. */
  readonly isSelective: boolean;
  /** Its number in its chain, from 1; undefined for a policy, and of ebtables. */
  readonly number: number | undefined;
  readonly packets: number;
}

const TABLE_FILES = { 4: "ip_tables_names", 6: "ip6_tables_names" } as const;
const EBTABLES = "ebtables-legacy";

/** Lists the rules that drop packets in some namespaces. */
export async function countLegacyRules(
  places: readonly NetNs[],
  path: string | undefined,
): Promise<CountedRule[]> {
  const counted: CountedRule[] = [];
  for (const netns of places) {
    for (const family of [4, 6] as const) {
      counted.push(...await countIptables(netns, family, path));
    }
    counted.push(...await countEbtables(netns));
  }
  return counted;
}

async function countIptables(
  netns: NetNs,
  family: IpFamily,
  path: string | undefined,
): Promise<CountedRule[]> {
  const tables = listLegacyTables(netns, family);
  const variant = tables.length === 0
    ? undefined
    : findVariant("legacy", family, path);
  if (variant === undefined) return [];
  const program = basename(variant.path);
  const counted: CountedRule[] = [];
  for (const table of tables) {
    const text = await run(netns, `${variant.path}-save`, ["-c", "-t", table]);
    const place = { netns: netns.path, program, table };
    counted.push(...parseSaved(text).map((rule) => ({ ...place, ...rule })));
  }
  return counted;
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
async function countEbtables(netns: NetNs): Promise<CountedRule[]> {
  const modules = ifPossible(() => Deno.readTextFileSync("/proc/modules")) ??
    "";
  const loaded = modules.split("\n").map((line) => line.split(" ")[0]);
  const tables = ["filter", "nat", "broute"]
    .filter((table) => loaded.includes(`ebtable_${table}`));
  const counted: CountedRule[] = [];
  for (const table of tables) {
    const args = ["-t", table, "-L", "--Lc", "--Lx"];
    const text = await run(netns, EBTABLES, args);
    const place = { netns: netns.path, program: EBTABLES, table };
    counted.push(...parseEbtables(text).map((rule) => ({ ...place, ...rule })));
  }
  return counted;
}

/** Time limit of a program, in ms. */
const LIMIT_MS = 10_000;

/** Runs a program in a namespace; "" if it fails. */
async function run(
  netns: NetNs,
  program: string,
  args: string[],
): Promise<string> {
  const command = new Deno.Command(program, {
    args,
    detached: true,
    stdin: "null",
    stdout: "piped",
    stderr: "null",
  });
  const child = inNetns(netns, () => ifPossible(() => command.spawn()));
  if (child === undefined) return "";
  using limit = new JoinedSignal(LIMIT_MS);
  const output = await outputUntil(child, limit.signal);
  return output?.success ? new TextDecoder().decode(output.stdout) : "";
}

type Parsed = Omit<CountedRule, "netns" | "program" | "table">;

/** Parses what `iptables-save -c` prints: its rules and policies that drop packets. */
export function parseSaved(saved: string): Parsed[] {
  const lines = saved.split("\n");
  const chains = new Chains(lines);
  const numbers = new Map<string, number>();
  return lines.flatMap((line): Parsed[] => {
    const policy = /^:(\S+) DROP \[(\d+):/.exec(line);
    if (policy !== null) {
      const [, chain = "", packets] = policy;
      const text = `-P ${chain} DROP`;
      const more = { number: undefined, packets: Number(packets) };
      return [{ text, ...chains.describe(chain), ...more }];
    }
    const rule = /^\[(\d+):\d+\] (-A (\S+) .*)$/.exec(line);
    if (rule === null) return [];
    const [, packets, text = "", chain = ""] = rule;
    const number = (numbers.get(chain) ?? 0) + 1;
    numbers.set(chain, number);
    if (!/ -j (?:DROP|REJECT)\b/.test(text)) return [];
    const more = { number, packets: Number(packets) };
    return [{ text, ...chains.describe(chain), ...more }];
  });
}

/** The chains of a table, and which rules lead from one to another. */
class Chains {
  readonly #builtIn = new Set<string>();
  readonly #own = new Set<string>();
  readonly #sources = new Map<string, Set<string>>();
  readonly #targets = new Map<string, Set<string>>();
  readonly #described = new Map<string, ReturnType<Chains["describe"]>>();

  /** @param lines What `iptables-save` prints */
  constructor(lines: readonly string[]) {
    for (const line of lines) {
      const [, name, policy] = /^:(\S+) (\S+)/.exec(line) ?? [];
      // Only built-in chains have a policy.
      if (name !== undefined) {
        (policy === "-" ? this.#own : this.#builtIn).add(name);
        continue;
      }
      const [, from, to] = /-A (\S+) .*-[jg] (\S+)/.exec(line) ?? [];
      if (from === undefined || to === undefined) continue;
      addTo(this.#sources, to, from);
      addTo(this.#targets, from, to);
    }
  }

  /** Describes how the kernel reaches a chain. */
  describe(chain: string): Pick<Parsed, "hooks" | "isSelective"> {
    const known = this.#described.get(chain);
    if (known !== undefined) return known;
    // A set visits what is added during the loop.
    const before = new Set([chain]);
    for (const one of before) {
      for (const from of this.#sources.get(one) ?? []) before.add(from);
    }
    const described = {
      hooks: [...before].filter((one) => this.#builtIn.has(one)),
      isSelective: [...before].some((one) =>
        [...this.#targets.get(one) ?? []].some((to) =>
          to === "ACCEPT" || this.#own.has(to) && !before.has(to)
        )
      ),
    };
    this.#described.set(chain, described);
    return described;
  }
}

function addTo(
  sets: Map<string, Set<string>>,
  key: string,
  value: string,
): void {
  const set = sets.get(key);
  if (set === undefined) sets.set(key, new Set([value]));
  else set.add(value);
}

/** Parses what `ebtables -L --Lc --Lx` prints: commands with counters. */
function parseEbtables(text: string): Parsed[] {
  return text.split("\n").flatMap((line) => {
    const rule = /^ebtables -t \S+ (-A .*-j DROP.*?) ?,? ?-c (\d+) \d+/.exec(
      line,
    );
    if (rule === null) return [];
    const [, text = "", packets] = rule;
    const place = { hooks: [], isSelective: false, number: undefined };
    return [{ text, ...place, packets: Number(packets) }];
  });
}

/** Reports whether a rule or policy drops every packet that a hook passes to it. */
export function dropsAll({ text, hooks }: CountedRule): boolean {
  const [, chain = "", target = ""] = argumentsOf(text);
  return hooks.includes(chain) && (text.startsWith("-P ") || target === "-j");
}

/**
 * Reports whether a rule drops packets to ports that the node does not serve: it names
 * neither addresses nor links, is reached only from hooks of the node's own packets, and
 * other rules of the chains that lead to it accept packets.
 */
export function isOnPurpose(rule: CountedRule): boolean {
  return isAtNode(rule) && rule.isSelective &&
    !argumentsOf(rule.text).some((one) => NAMES_PACKET_ENDS.test(one));
}

/** Reports whether a rule is reached only by packets to or from the node itself. */
export function isAtNode({ hooks }: CountedRule): boolean {
  return hooks.length > 0 &&
    hooks.every((hook) => hook === "INPUT" || hook === "OUTPUT");
}

/** Options of rules that compare addresses or links, also with sets. */
const NAMES_PACKET_ENDS =
  /^(-[sdio]|--(physdev-.*|match-set|src-range|dst-range|mac-source))$/;

/** Splits a rule into arguments, without its comment. */
function argumentsOf(text: string): string[] {
  const args = splitRule(text);
  const at = args.indexOf("--comment");
  return at < 0 ? args : args.toSpliced(at - 2, 4);
}

/** Returns the command that deletes a rule. */
export function deletionOf({ program, table, text }: CountedRule): string {
  // A shell would replace variables in quotes of the rule's language.
  const words = splitRule(text.replace(/^-A /, "-D ")).map(quote);
  return [program, ...inTable(table), ...words].join(" ");
}

/**
 * Returns the command that accepts packets where a rule or policy drops them: rules
 * before it, such as rules of NetworkPolicies, are applied first.
 */
export function acceptanceOf(
  { program, table, text, number }: CountedRule,
  match: readonly string[],
): string {
  const [, chain = ""] = splitRule(text);
  const at = number === undefined ? ["-A", chain] : ["-I", chain, `${number}`];
  return [program, ...inTable(table), ...at, ...match, "-j", "ACCEPT"]
    .join(" ");
}

function inTable(table: string): string[] {
  return table === "filter" ? [] : ["-t", table];
}
