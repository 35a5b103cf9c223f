/**
 * Finds where a host might have iptables rules: in nf_tables, in the kernel's legacy
 * tables, or in both if the administrator changed the program.
 *
 * @module
 */

import { describeError } from "../../../../base/error.ts";
import type { Log } from "../../../../base/log/log.ts";
import { throwAll } from "../../../../base/rollback.ts";
import { inNetns, NetNs } from "../../../../ffi/netns.ts";
import type { IpFamily } from "../../../../net/ip.ts";
import { getNftables, openNftables } from "../open_nftables.ts";
import {
  BackendMissing,
  findIptables,
  findPreferred,
  findVariant,
  getIptables,
  isLacking,
} from "./find.ts";
import {
  nftTableOf,
  probeOfIptablesNft,
  refuseForeignChains,
} from "./nft_table.ts";
import {
  failureOf,
  type Iptables,
  runIptables,
  type TableName,
} from "./program.ts";

/** A table on a host, for both families and variants. */
export interface HostTable {
  /** Path of the host's namespace. */
  readonly hostNetns: string;
  /** PATH, to find iptables. */
  readonly path: string | undefined;
  readonly table: TableName;
  /** Whether the configuration names iptables, so that the host once had it. */
  readonly isNamed: boolean;
  readonly log: Log;
  /** See `Iptables`. */
  readonly signal?: AbortSignal | undefined;
}

const FAMILIES: readonly IpFamily[] = [4, 6];
/** Files that list a namespace's tables of legacy iptables. */
const LEGACY_TABLES: Readonly<Record<IpFamily, string>> = {
  4: "/proc/thread-self/net/ip_tables_names",
  6: "/proc/thread-self/net/ip6_tables_names",
};
/**
 * Works on each iptables that might contain one of the chains. All are tried. Where
 * the kernel only has nf_tables, no program runs unless a chain is found.
 *
 * @param work Takes the chains that might exist
 * @throws {BackendMissing} If there are rules, but no program for them
 */
export async function eachIptables(
  place: HostTable,
  chains: readonly string[],
  work: (iptables: Iptables, found: readonly string[]) => Promise<void>,
): Promise<void> {
  const { hostNetns, path, table, signal } = place;
  const failures: unknown[] = [];
  using netns = NetNs.open(hostNetns);
  using nftables = openNftables(hostNetns);
  for (const family of FAMILIES) {
    const nftTable = nftTableOf(table, family);
    const found = chains.filter((one) => nftables?.hasChain(nftTable, one));
    if (found.length === 0) continue;
    try {
      const program = findVariant("nft", family, path);
      if (program === undefined) {
        throw new BackendMissing("the host has no iptables for its nft rules");
      }
      const { path: own } = program;
      await work({ netns, family, table, path: own, signal }, found);
    } catch (error) {
      failures.push(error);
    }
  }
  try {
    await eachLegacyIptables(place, (iptables) => work(iptables, chains));
  } catch (error) {
    failures.push(error);
  }
  throwAll(failures, "several iptables failed");
}

/**
 * Works on each legacy iptables that contains the table. Both families are tried. A
 * host without a working program cannot have rules of this plugin there, unless the
 * configuration names iptables, so that the host once had such a program. If the
 * host's program is iptables-nft, it contains the rules, and the legacy table is
 * foreign.
 *
 * A table whose existence is unknown is searched if the administrator prefers the
 * legacy program: any other run of the program would create the table, which slows
 * down each packet.
 */
export async function eachLegacyIptables(
  place: HostTable,
  work: (iptables: Iptables) => Promise<void>,
): Promise<void> {
  using netns = NetNs.open(place.hostNetns);
  const failures: unknown[] = [];
  for (const family of FAMILIES) {
    const isThere = hasLegacyTable(netns, family, place.table);
    if (isThere === false) continue;
    const known = { netns, family, isCertain: isThere === true };
    try {
      await useLegacyIptables(place, known, work);
    } catch (error) {
      failures.push(error);
    }
  }
  throwAll(failures, "iptables and ip6tables failed");
}

/** A host's legacy table, which exists or might exist. */
interface LegacyTable {
  readonly netns: NetNs;
  readonly family: IpFamily;
  /** Whether it certainly exists. */
  readonly isCertain: boolean;
}

async function useLegacyIptables(
  { isNamed, path, table, log, signal }: HostTable,
  { netns, family, isCertain }: LegacyTable,
  work: (iptables: Iptables) => Promise<void>,
): Promise<void> {
  const program = isCertain
    ? findVariant("legacy", family, path)
    : findPreferred("legacy", family, path);
  if (program === undefined) {
    const hasNft = findIptables(family, path) !== undefined;
    if (!isNamed || hasNft || !isCertain) return;
    throw new BackendMissing("the host has no iptables for its legacy rules");
  }
  try {
    await work({ netns, family, table, path: program.path, signal });
  } catch (error) {
    const hasRules = isNamed && isCertain ||
      (isNamed || isCertain) && !isLacking(error);
    if (hasRules) throw error;
    log.info(
      "iptables does not work, so it contains none of this project's rules",
      {
        error: describeError(error),
      },
    );
  }
}

/**
 * Checks that the host's iptables works for some families, without changing
 * anything. Runs no program if it is iptables-nft.
 *
 * @throws {Error} If the host or its kernel lacks a requirement
 */
export async function checkIptables(
  { hostNetns, path, table, signal }: Pick<
    HostTable,
    "hostNetns" | "path" | "table" | "signal"
  >,
  families: readonly IpFamily[] = [4],
): Promise<void> {
  const programs = families.map((family) => ({
    family,
    ...getIptables(family, path),
  }));
  const byNft = programs.filter(({ variant }) => variant === "nft");
  if (byNft.length > 0) {
    using nftables = getNftables(hostNetns);
    for (const { family } of byNft) {
      refuseForeignChains(nftables, nftTableOf(table, family));
    }
    nftables.tryOut(probeOfIptablesNft(), "iptables-nft");
  }
  using netns = NetNs.open(hostNetns);
  for (const program of programs) {
    if (program.variant === "nft") continue;
    const iptables: Iptables = { netns, table, signal, ...program };
    const ended = await runIptables(iptables, ["-S", "OUTPUT"]);
    if (!ended.success) throw failureOf(iptables, ended);
  }
}

/**
 * Reports whether a host has a legacy table; undefined if that cannot be determined.
 * The file belongs to root of the machine if the namespace was created before IDs
 * were mapped in its user namespace, as for rootless containers: root there cannot
 * read the file.
 */
function hasLegacyTable(
  netns: NetNs,
  family: IpFamily,
  table: TableName,
): boolean | undefined {
  return inNetns(netns, () => {
    try {
      return Deno.readTextFileSync(LEGACY_TABLES[family]).split("\n")
        .includes(table);
    } catch (error) {
      return error instanceof Deno.errors.NotFound ? false : undefined;
    }
  });
}
