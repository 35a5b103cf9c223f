/**
 * The firewall in table filter of iptables. For each attachment:
 *
 * ```
 * -A FORWARD -m comment --comment "CNI firewall plugin rules" -j CNI-FORWARD
 * -A CNI-FORWARD -m comment --comment "CNI firewall plugin admin overrides" -j CNI-ADMIN
 * -A CNI-FORWARD -d 10.1.2.5/32 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
 * -A CNI-FORWARD -s 10.1.2.5/32 -j ACCEPT
 * ```
 *
 * With an ingress policy, packets pass these chains before:
 *
 * ```
 * -A FORWARD -j CNI-ISOLATION-STAGE-1
 * -A CNI-ISOLATION-STAGE-1 -i cni0 -o cni0 -j DROP         (isolated)
 * -A CNI-ISOLATION-STAGE-1 -i cni0 ! -o cni0 -j CNI-ISOLATION-STAGE-2
 * -A CNI-ISOLATION-STAGE-1 -j RETURN
 * -A CNI-ISOLATION-STAGE-2 -o cni0 -j DROP
 * -A CNI-ISOLATION-STAGE-2 -j RETURN
 * ```
 *
 * Chains, rules and comments are the Go plugin's, so each side finds, checks and
 * deletes the other's. DEL removes the two rules of each address. The rest is
 * shared and stays.
 *
 * Source: containernetworking/plugins plugins/meta/firewall/iptables.go,
 * ingresspolicy.go.
 *
 * @module
 */

import { NetNs } from "../../ffi/netns.ts";
import type { Nftables } from "../../ffi/nftables/mod.ts";
import type { Ip } from "../../net/ip.ts";
import { commitUnlessDisturbed } from "../parts/firewall/commit_unless_disturbed.ts";
import { throwDifferences } from "../parts/link/check_link.ts";
import { getIptables } from "../parts/firewall/iptables/find.ts";
import { eachIptables } from "../parts/firewall/iptables/places.ts";
import {
  type Iptables,
  joinRule,
  splitRule,
  withComment,
} from "../parts/firewall/iptables/program.ts";
import {
  addLineOf,
  changeRules,
  deleteLineOf,
  FAILURES,
  type IptablesRule,
  joinWanted,
  keyOf,
  listRules,
  listTable,
  lockSharedChains,
  type RulePlan,
  type Wanted,
} from "../parts/firewall/iptables/rules.ts";
import { SharedRuns } from "../parts/firewall/iptables/shared_runs.ts";
import { openNftables } from "../parts/firewall/open_nftables.ts";
import type {
  Backend,
  FirewallHost,
  IngressPolicy,
  Protection,
} from "./backend.ts";
import {
  addByNetlink,
  ADMIN_COMMENT,
  findMissing,
  FORWARD,
  FORWARD_COMMENT,
  hasJumps,
  PRIVATE,
  removeByNetlink,
  STAGE_1,
} from "./iptables_nft.ts";

const STAGE_2 = "CNI-ISOLATION-STAGE-2";

/** The table as `iptables -S` lists it. */
type Listing = readonly string[];

const jumpToPrivate: IptablesRule = {
  chain: FORWARD,
  args: [...withComment(FORWARD_COMMENT), "-j", PRIVATE],
  isFirst: true,
};
const jumpToStage1: IptablesRule = {
  chain: FORWARD,
  args: [...policyComment("same-bridge|isolated"), "-j", STAGE_1],
  isFirst: true,
};

/** The backend of iptables. */
export const iptablesBackend: Backend = {
  async add(host, protection): Promise<void> {
    using nftables = openNftables(host.hostNetns);
    await eachFamily(host, protection, async ({ iptables, wanted, inNft }) => {
      const isAdded = nftables !== undefined && inNft !== undefined &&
        await addByNetlink(nftables, inNft, host.adminChain);
      if (isAdded) return;
      await additions.run(keyOf(iptables), { iptables, wanted });
    });
  },

  async check(host, protection): Promise<void> {
    using nftables = openNftables(host.hostNetns);
    // The families have shared rules in common.
    const found = new Set<string>();
    await eachFamily(host, protection, async ({ iptables, wanted, inNft }) => {
      const isComplete = nftables !== undefined && inNft !== undefined &&
        await readUndisturbed(
          nftables,
          () => findMissing(nftables, inNft, host.adminChain)?.length === 0,
        );
      if (isComplete) return;
      const listing = await listTable(iptables);
      const isThere = presenceTest(listing);
      for (const rule of wanted.rules) {
        if (!isThere(rule)) found.add(describeAbsence(rule));
      }
      if (misplacedIn(listing).length > 0) {
        found.add(`expected ${PRIVATE} to come first in ${FORWARD}`);
      }
    });
    throwDifferences([...found].map((msg) => ({ msg })));
  },

  async del(host, addresses, link): Promise<void> {
    const { hostNetns, env, log, backend, signal } = host;
    using nftables = openNftables(hostNetns);
    const isDone = nftables !== undefined &&
      await removeByNetlink(nftables, addresses);
    await eachIptables(
      {
        hostNetns,
        path: env["PATH"],
        table: "filter",
        isNamed: backend === "iptables",
        log,
        signal,
      },
      [...isDone ? [] : [PRIVATE], ...link === undefined ? [] : [STAGE_1]],
      async (iptables) => {
        const meant = new Set(
          addresses.filter(({ family }) => family === iptables.family)
            .flatMap(rulesOfAddress).map(lineOf),
        );
        if (meant.size > 0) {
          await changeRules(
            iptables,
            async () =>
              (await listRules(iptables, PRIVATE) ?? [])
                .filter((line) => meant.has(line))
                .map(deleteLineOf),
          );
        }
        if (link !== undefined) await removePolicy(iptables, link);
      },
    );
  },

  async status(
    { hostNetns, env, adminChain, signal },
    hasPolicy,
  ): Promise<void> {
    const { path, variant } = getIptables(4, env["PATH"]);
    using nftables = openNftables(hostNetns);
    // ADD then runs no program.
    const isReady = variant === "nft" && !hasPolicy && nftables !== undefined &&
      await readUndisturbed(
        nftables,
        () => hasJumps(nftables, 4, adminChain),
      );
    if (isReady) return;
    using netns = NetNs.open(hostNetns);
    await listTable({ netns, family: 4, table: "filter", path, signal });
  },
};

/** Reads the rules; starts again if they change meanwhile. */
async function readUndisturbed(
  nftables: Nftables,
  read: () => boolean,
): Promise<boolean> {
  let result = false;
  await commitUnlessDisturbed(nftables, () => {
    result = read();
    return [];
  });
  return result;
}

/** Adds what calls want. */
const additions = new SharedRuns<
  { readonly iptables: Iptables; readonly wanted: Wanted },
  void
>(async (requests) => {
  const [{ iptables }] = requests;
  const wanted = joinWanted(requests.map(({ wanted }) => wanted));
  const plan = async (): Promise<string[]> =>
    missingOf(await listTable(iptables), wanted);
  const changes = await plan();
  if (changes.every(isOfAddress)) {
    await changeRules(iptables, firstly(changes, plan));
  } else {
    using _lock = await lockSharedChains(iptables);
    await changeRules(iptables, plan);
  }
  return requests.map(() => {});
}, FAILURES);

/** Reports whether a change concerns no other attachment. */
function isOfAddress(change: string): boolean {
  return change.startsWith(`-A ${PRIVATE} `);
}

/** Returns a plan whose first changes are known. */
function firstly(changes: readonly string[], plan: RulePlan): RulePlan {
  let known: readonly string[] | undefined = changes;
  return async () => {
    const next = known ?? await plan();
    known = undefined;
    return next;
  };
}

/** Removes the rules that name a link. */
async function removePolicy(iptables: Iptables, link: string): Promise<void> {
  const isMeant = (line: string): boolean => {
    const words = splitRule(line);
    return ["-i", "-o"].some((flag) => words[words.indexOf(flag) + 1] === link);
  };
  await changeRules(iptables, async () => {
    const rules = [
      ...await listRules(iptables, STAGE_1) ?? [],
      ...await listRules(iptables, STAGE_2) ?? [],
    ];
    return rules.filter(isMeant).map(deleteLineOf);
  });
}

/** What a family of addresses needs. */
interface FamilyWork {
  readonly iptables: Iptables;
  readonly wanted: Wanted;
  /** The addresses, if nothing but their rules in iptables-nft is needed. */
  readonly inNft: readonly Ip[] | undefined;
}

/** Works on the iptables of each family that the addresses have. */
async function eachFamily(
  host: FirewallHost,
  protection: Protection,
  work: (family: FamilyWork) => Promise<void>,
): Promise<void> {
  const { env, hostNetns, signal } = host;
  using netns = NetNs.open(hostNetns);
  const byFamily = Map.groupBy(protection.addresses, ({ family }) => family);
  const all = [...byFamily].map(([family, addresses]): FamilyWork => {
    const { path, variant } = getIptables(family, env["PATH"]);
    const hasPolicy = protection.policy !== undefined;
    return {
      iptables: { netns, family, table: "filter", path, signal },
      wanted: wantedOf(host, { ...protection, addresses }),
      inNft: variant === "nft" && !hasPolicy ? addresses : undefined,
    };
  });
  for (const one of all) await work(one);
}

function wantedOf(
  { adminChain }: FirewallHost,
  { addresses, policy, isPolicyOnly }: Protection,
): Wanted {
  const isolation = policy === undefined ? undefined : isolationOf(policy);
  const acceptance: Wanted | undefined = isPolicyOnly ? undefined : {
    chains: [PRIVATE, adminChain],
    rules: [
      jumpToPrivate,
      {
        chain: PRIVATE,
        args: [
          ...withComment(ADMIN_COMMENT),
          "-j",
          adminChain,
        ],
        isFirst: true,
      },
      ...addresses.flatMap(rulesOfAddress),
    ],
  };
  const parts = [acceptance, isolation].filter((part) => part !== undefined);
  return {
    chains: parts.flatMap(({ chains }) => chains),
    rules: parts.flatMap(({ rules }) => rules),
  };
}

function rulesOfAddress(ip: Ip): IptablesRule[] {
  const host = `${ip}/${ip.bitLength}`;
  const known = ["-m", "conntrack", "--ctstate", "RELATED,ESTABLISHED"];
  return [
    { chain: PRIVATE, args: ["-d", host, ...known, "-j", "ACCEPT"] },
    { chain: PRIVATE, args: ["-s", host, "-j", "ACCEPT"] },
  ];
}

function isolationOf({ bridge, isolated }: IngressPolicy): Wanted {
  const shared = policyComment("same-bridge|isolated");
  const own = policyComment(isolated ? "isolated" : "same-bridge");
  const end = [...shared, "-j", "RETURN"];
  const drop = ["-j", "DROP"];
  return {
    chains: [STAGE_1, STAGE_2],
    rules: [
      jumpToStage1,
      {
        chain: STAGE_1,
        args: ["-i", bridge, "!", "-o", bridge, ...own, "-j", STAGE_2],
        isFirst: true,
      },
      ...isolated
        ? [{
          chain: STAGE_1,
          args: ["-i", bridge, "-o", bridge, ...own, ...drop],
          isFirst: true,
        }]
        : [],
      { chain: STAGE_1, args: end },
      {
        chain: STAGE_2,
        args: ["-o", bridge, ...shared, ...drop],
        isFirst: true,
      },
      { chain: STAGE_2, args: end },
    ],
  };
}

function policyComment(policy: string): string[] {
  return withComment(`${FORWARD_COMMENT} (ingressPolicy: ${policy})`);
}

/** Lists the changes that add missing chains and rules, in one go. */
function missingOf(listing: Listing, { chains, rules }: Wanted): string[] {
  const isThere = presenceTest(listing);
  const absent = rules.filter((rule) => !isThere(rule));
  const added = [
    // Fails if another program was faster, so rules are not added twice.
    ...chains.filter((chain) => !listing.includes(`-N ${chain}`))
      .map((chain) => `-N ${chain}`),
    ...absent.map(addLineOf),
  ];
  const jumps = [jumpToPrivate, jumpToStage1];
  const after = [
    ...absent.filter((rule) => jumps.includes(rule)).map(lineOf).reverse(),
    ...listing,
  ];
  return [
    ...added,
    ...misplacedIn(after).flatMap((line) => [
      deleteLineOf(line),
      line.replace("-A", "-I"),
    ]),
  ];
}

/**
 * Lists the jumps of chain FORWARD that must move to its start, the first one
 * last: if everything is refused before them, or if the policy's jump comes
 * after the one that accepts.
 */
function misplacedIn(listing: Listing): string[] {
  const positions = [jumpToPrivate, jumpToStage1]
    .map((rule) => findRule(listing, rule)).filter((at) => at !== -1);
  const refusal = listing.findIndex((line) => REFUSAL.test(line));
  const isRefused = refusal !== -1 && positions.some((at) => refusal < at);
  const [own = -1, policy = -1] = positions;
  return isRefused || own < policy
    ? positions.map((at) => listing[at] ?? "")
    : [];
}

/** A rule of FORWARD that refuses every packet. */
const REFUSAL =
  /^-A FORWARD( -m comment --comment ("[^"]*"|\S+))? -j (DROP|REJECT\b.*)$/;

function lineOf({ chain, args }: IptablesRule): string {
  return `-A ${chain} ${joinRule(args)}`;
}

/**
 * Returns the position of a rule; -1 if it does not exist. Only lines that contain all
 * its simple words are parsed.
 */
function findRule(listing: Listing, rule: IptablesRule): number {
  const wanted = wordsOf(lineOf(rule));
  const start = `-A ${rule.chain} `;
  const simple = rule.args.filter((word) => /^[\w.:/,-]+$/.test(word));
  return listing.findIndex((line) =>
    line.startsWith(start) && simple.every((word) => line.includes(word)) &&
    wordsOf(line) === wanted
  );
}

/** The chain of a rule, and the address that it begins with if it has one. */
const RULE_START = /^-A \S+(?: -[sd] [^\s"]+)?/;

/**
 * Returns a test whether a rule exists, in a time that does not grow with the number
 * of addresses.
 */
function presenceTest(listing: Listing): (rule: IptablesRule) => boolean {
  const startOf = (line: string): string => RULE_START.exec(line)?.[0] ?? "";
  const byStart = Map.groupBy(listing, startOf);
  return (rule) =>
    findRule(byStart.get(startOf(lineOf(rule))) ?? [], rule) !== -1;
}

/**
 * Returns a form of a rule that does not depend on its quotes, nor on the policy
 * in its comment, which is not the same in all releases of the Go plugin.
 */
function wordsOf(line: string): string {
  return splitRule(line).join("\0").replace(/\(ingressPolicy: [^)]*\)/, "");
}

function describeAbsence({ chain, args }: IptablesRule): string {
  const isOfAddress = args.includes("ACCEPT");
  return `expected ${isOfAddress ? "" : `${chain} `}rule [${
    args.join(" ")
  }] not found`;
}
