/**
 * Port mappings in iptables, in the Go plugin's chains. Each family's rules are
 * changed by one run of `iptables-restore`: all or none.
 *
 * A port has one container, which others cannot take while its namespace exists;
 * of two networks of a container, the first keeps it. A chain that a dead
 * container left is removed when its port is wanted again.
 *
 * Source: containernetworking/plugins plugins/meta/portmap/portmap_iptables.go,
 * chain.go.
 *
 * @module
 */

import { CniError } from "../../base/error.ts";
import type { Difference } from "../../cni/call/differences.ts";
import type { AttachmentId } from "../../cni/config/types.ts";
import { NetNs } from "../../ffi/netns.ts";
import type { IpFamily } from "../../net/ip.ts";
import {
  BackendMissing,
  getIptables,
  type IptablesProgram,
} from "../parts/firewall/iptables/find.ts";
import { nftTableOf } from "../parts/firewall/iptables/nft_table.ts";
import {
  checkIptables,
  eachIptables,
  type HostTable,
} from "../parts/firewall/iptables/places.ts";
import {
  commentOf,
  type Iptables,
  joinRule,
} from "../parts/firewall/iptables/program.ts";
import {
  addLineOf,
  changeRules,
  deleteLineOf,
  ensureRules,
  type IptablesRule,
  listChains,
  listMissingRules,
  listRules,
  removeEach,
} from "../parts/firewall/iptables/rules.ts";
import { openNftables } from "../parts/firewall/open_nftables.ts";
import type { Addition, Backend, PortmapHost } from "./backend.ts";
import {
  absentChain,
  type Chain,
  findRivals,
  isForOthers,
  isSectionOf,
  keptPorts,
  readChain,
  readChains,
  removalOf,
  removedPorts,
  type WantedForwarding,
} from "./iptables_chains.ts";
import {
  addressedEntriesOf,
  chainAfter,
  chainNamesOf,
  commentPrefixOf,
  conditionsOf,
  endOfSection,
  entriesOf,
  type Entry,
  OLD_HOSTPORTS,
  portRulesOf,
  skeletonOf,
} from "./iptables_rules.ts";
import { guardLoopback, listLoopbackProblems } from "./loopback.ts";
import {
  type ForwardedPort,
  IPTABLES_HOSTPORTS as HOSTPORTS,
  isSameHostPort,
  portsOf,
} from "./mapping.ts";
import { setLocalnet } from "./route_localnet.ts";
import { refusePortsOfNftables } from "./taken_ports.ts";

/** Keeps mappings in the chains of the Go plugin. */
export const iptablesBackend: Backend = {
  async add(host, forwarding): Promise<Addition> {
    const names = await chainNamesOf(forwarding.owner);
    const all: Addition[] = [];
    using nftables = openNftables(host.hostNetns);
    if (nftables !== undefined) {
      await refusePortsOfNftables(nftables, host, forwarding);
    }
    // Before route_localnet lets packets of 127.0.0.0/8 pass.
    const link = await guardLoopback(nftables, host, forwarding);
    using netns = NetNs.open(host.hostNetns);
    for (const address of forwarding.addresses) {
      const iptables = openIptables(host, netns, address.family);
      const table = nftTableOf("nat", address.family);
      const mayHaveChain = (): boolean =>
        iptables.variant !== "nft" || nftables === undefined ||
        nftables.hasChain(table, names.chain);
      all.push(
        await forward(iptables, { forwarding, address, names }, mayHaveChain),
      );
    }
    if (link !== undefined) setLocalnet(host.hostNetns, link, true);
    return {
      gone: all.flatMap(({ gone }) => gone),
      kept: all.flatMap(({ kept }) => kept),
    };
  },

  async check(host, forwarding): Promise<void> {
    const names = await chainNamesOf(forwarding.owner);
    const { Differences } = await import("../../cni/call/differences.ts");
    const differences = new Differences();
    using netns = NetNs.open(host.hostNetns);
    for (const address of forwarding.addresses) {
      const iptables = openIptables(host, netns, address.family);
      const want = { forwarding, address, names };
      differences.add(...await listProblems(iptables, want));
    }
    differences.add(...await listLoopbackProblems(host, forwarding));
    differences.throwAny();
  },

  async del(host, owner, _named, gone): Promise<void> {
    const { chain, oldChain } = await chainNamesOf(owner);
    const isOwn = isSectionOf(owner);
    const parents = { [chain]: HOSTPORTS, [oldChain]: OLD_HOSTPORTS };
    const names = Object.keys(parents);
    await eachIptables(placeOf(host), names, async (iptables, found) => {
      const removed = await removeChains(iptables, async () => {
        const chains: Chain[] = [];
        for (const name of found) {
          const parent = parents[name] ?? "";
          chains.push(await readChain(iptables, parent, name, isOwn));
        }
        return chains;
      });
      gone.push(...removed);
    });
  },

  async gc(host, network, valid, gone): Promise<void> {
    const spared = await chainsOf(network, valid);
    const prefix = commentPrefixOf(network);
    await eachIptables(placeOf(host), [HOSTPORTS], async (iptables) => {
      const stale = (await listRules(iptables, HOSTPORTS) ?? [])
        .map((rule) => ({ rule, chain: chainAfter(rule) }))
        .filter(({ rule, chain }) =>
          chain !== "" && !spared.has(chain) &&
          commentOf(rule).startsWith(prefix)
        ).map(({ chain }) => chain);
      const remove = async (some: readonly string[]): Promise<void> => {
        const removed = await removeChains(
          iptables,
          () => readChains(iptables, HOSTPORTS, new Set(some)),
        );
        gone.push(...removed);
      };
      await removeEach([...new Set(stale)], remove, host.signal);
    });
  },

  status({ hostNetns, path, signal }, families): Promise<void> {
    return checkIptables({ hostNetns, path, table: "nat", signal }, families);
  },
};

/** @throws {BackendMissing} If the host lacks the program */
function openIptables(
  { path, signal }: PortmapHost,
  netns: NetNs,
  family: IpFamily,
): Iptables & IptablesProgram {
  try {
    const program = getIptables(family, path);
    return { netns, family, table: "nat", signal, ...program };
  } catch (error) {
    throw new BackendMissing("failed to open iptables", { cause: error });
  }
}

/**
 * Forwards the ports to one address.
 *
 * @param mayHaveChain Reports whether the container might have a chain already
 */
async function forward(
  iptables: Iptables,
  want: WantedForwarding,
  mayHaveChain: () => boolean,
): Promise<Addition> {
  const { forwarding, address, names } = want;
  const rules = [
    ...portRulesOf(forwarding, address, names),
    endOfSection(forwarding, names),
  ];
  let others: Addition = { gone: [], kept: [] };
  const plan = async (): Promise<string[]> => {
    const isOwn = isSectionOf(forwarding.owner);
    const [own, { dead, living }] = await Promise.all([
      mayHaveChain()
        ? readChain(iptables, HOSTPORTS, names.chain, isOwn)
        : absentChain(names.chain),
      findRivals(iptables, want),
    ]);
    const ports = portsOf({ ...forwarding, addresses: [address] });
    const theirs = living.flatMap(keptPorts);
    const kept = theirs.filter((port) =>
      port.hostIp !== undefined || ports.some(isSameHostPort(port))
    );
    others = { gone: [own, ...dead].flatMap(removedPorts), kept };
    const isShared = own.kept.length > 0;
    const { entries } = own;
    const contested = ports
      .filter((port) => port.hostIp && theirs.some(isForOthers(port)));
    const wanted = [
      ...entriesOf(forwarding, address, names),
      ...addressedEntriesOf(forwarding, contested, names),
    ].filter((rule) => !isShared || !entries.some(isSameEntry(rule)));
    return [
      ...dead.flatMap(removalOf),
      ...isShared ? [] : entries.map(({ rule }) => deleteLineOf(rule)),
      // Adds the chain, or empties it.
      `:${names.chain} - [0:0]`,
      ...rules.map(addLineOf),
      ...own.kept.flatMap((section) => section.rules),
      ...wanted.map(addLineOf),
    ];
  };
  try {
    await ensureRules(iptables, skeletonOf(forwarding), plan, [
      names.chain,
      ...forwarding.mappings.map(({ protocol, hostPort }) =>
        `${protocol} ${hostPort}`
      ),
    ]);
  } catch (error) {
    if (error instanceof CniError) throw error;
    throw new Error(`unable to setup DNAT to ${address.ip}`, { cause: error });
  }
  return others;
}

/** Lists the missing rules of a container, and the chains that do not exist. */
async function listProblems(
  iptables: Iptables,
  { forwarding, address, names }: WantedForwarding,
): Promise<Difference[]> {
  const missing = await listMissingRules(iptables, [
    ...portRulesOf(forwarding, address, names),
    ...entriesOf(forwarding, address, names),
    ...skeletonOf(forwarding).rules,
  ]);
  if (missing.length === 0) return [];
  const present = await listChains(iptables, missing.map(({ chain }) => chain));
  const problems = missing.map(({ chain, args }) =>
    present.has(chain)
      ? `rule ${joinRule(args)} in chain ${chain} not found in table nat`
      : `chain ${chain} not found in iptables table nat`
  );
  return [...new Set(problems)].map((what) => ({
    msg: `could not check ipv${address.family} dnat: ${what}`,
  }));
}

/** Returns the table of a host that has the rules. */
function placeOf({ backend, ...host }: PortmapHost): HostTable {
  return { ...host, isNamed: backend === "iptables", table: "nat" };
}

/**
 * Removes chains together.
 *
 * @returns The ports that they forwarded
 */
async function removeChains(
  iptables: Iptables,
  read: () => Promise<Chain[]>,
): Promise<ForwardedPort[]> {
  let chains: Chain[] = [];
  await changeRules(iptables, async () => {
    const found = await read();
    // What another DEL removed in between is not found again.
    if (found.flatMap(removedPorts).length > 0) chains = found;
    return found.flatMap(removalOf);
  });
  return chains.flatMap(removedPorts);
}

function isSameEntry({ args }: IptablesRule): (entry: Entry) => boolean {
  const own = conditionsOf(args);
  return ({ protocol = "", ports, conditions }) =>
    conditions === own && args.includes(protocol) &&
    args.includes(ports.join(","));
}

/** Returns the chains of valid attachments. */
async function chainsOf(
  network: string,
  valid: readonly AttachmentId[],
): Promise<Set<string>> {
  const names = await Promise.all(
    valid.map(({ containerId }) => chainNamesOf({ network, containerId })),
  );
  return new Set(names.map(({ chain }) => chain));
}
