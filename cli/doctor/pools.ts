/**
 * Pools of addresses that networks hand out: how many are left, and which stay.
 *
 * @module
 */

import { ifPossible } from "../../base/files/io.ts";
import { decode } from "../../base/json/json.ts";
import { FACTS } from "../../plugins/lists/facts.ts";
import { dataDirOf, rangeSetsOf } from "../../ipam/host_local/config.ts";
import { isStaying } from "../../ipam/host_local/holders.ts";
import { findIp } from "../../ipam/host_local/lease.ts";
import {
  countAddresses,
  findRange,
  type RangeSet,
} from "../../ipam/host_local/range.ts";
import { hostLocalSchema } from "../../ipam/host_local/schema.ts";
import {
  listStaying,
  type StayingLease,
} from "../../ipam/host_local/staying.ts";
import { formatFailureText } from "../../base/command_line/failure.ts";
import { type Check, error, type Findings, warning } from "./finding.ts";
import {
  type ConfiguredNetwork,
  ipamTypeOf,
  type Node,
  type PlacedConf,
} from "./node.ts";

/** Addresses that one plugin of a network hands out. */
interface Pool {
  readonly network: ConfiguredNetwork;
  readonly conf: PlacedConf["conf"];
  /** The directory with its leases. */
  readonly directory: string;
  readonly sets: readonly RangeSet[];
  /** How long addresses stay for the names of pods, in ms; 0 if they do not. */
  readonly stayMs: number;
}

/** Lists the pools of host-local that configurations name. */
export function listPools(node: Pick<Node, "networks">): Pool[] {
  return node.networks.flatMap((network) =>
    network.plugins.filter(hasPool)
      .flatMap((conf) => ifPossible(() => readPool({ network, conf })) ?? [])
  );
}

/** Explains why a pool of a network cannot be read; null if all can. */
export function findPoolProblem(network: ConfiguredNetwork): string | null {
  try {
    for (const conf of network.plugins.filter(hasPool)) {
      readPool({ network, conf });
    }
    return null;
  } catch (error) {
    return formatFailureText(error);
  }
}

function hasPool(conf: PlacedConf["conf"]): boolean {
  return FACTS.get(ipamTypeOf(conf) ?? "")?.ranges !== undefined;
}

/** @throws {CniError} 7 If the ranges are invalid, which validation reports */
function readPool({ network, conf }: PlacedConf): Pool {
  const config = decode(
    hostLocalSchema(),
    conf.document,
    ipamTypeOf(conf) ?? "",
  );
  return {
    network,
    conf,
    directory: `${dataDirOf(config)}/${network.name}`,
    sets: rangeSetsOf(config, network.list.cniVersion),
    stayMs: isStaying(config) ? config.ipam?.stayTime ?? 0 : 0,
  };
}

/** How many addresses of a range set are in use. */
export interface PoolUse {
  readonly network: string;
  /** The subnets, as configured. */
  readonly subnets: readonly string[];
  /** The addresses of containers. */
  readonly used: bigint;
  /** Those that stay for names of pods; ADD takes them if no other is free. */
  readonly staying: readonly StayingAddress[];
  readonly all: bigint;
  readonly directory: string;
}

/** An address that stays, and until when. */
export interface StayingAddress extends StayingLease {
  readonly until: Date;
}

/** Counts the leases of all pools. */
export function countPools(node: Pick<Node, "networks">): PoolUse[] {
  return listPools(node).flatMap(({ network, directory, sets, stayMs }) => {
    const names = ifPossible(() => [...Deno.readDirSync(directory)]) ?? [];
    const held = stayMs === 0 ? [] : listStaying(directory);
    const leased = names.flatMap(({ name }) =>
      held.some(({ address }) => address === name) ? [] : findIp(name) ?? []
    );
    const staying = held
      .map((one) => ({
        ...one,
        until: new Date(one.since.getTime() + stayMs),
      }))
      .filter(({ until }) => until.getTime() > Date.now());
    return sets.map((set) => ({
      network: network.name,
      subnets: set.map(({ subnet }) => `${subnet}`),
      used: BigInt(leased.filter((ip) => findRange(set, ip)).length),
      staying: staying.filter(({ address }) => {
        const ip = findIp(address);
        return ip !== undefined && findRange(set, ip) !== undefined;
      }),
      all: countAddresses(set),
      directory,
    }));
  });
}

/** Formats the end of an address's time. */
export function formatUntil(until: Date): string {
  return until.toISOString().replace(/\.\d+Z$/, "Z");
}

/** A pool with less than a tenth left is nearly full. */
const NEARLY_FULL_SHARE = 10n;

function findFullPools(node: Node): Findings {
  return countPools(node).flatMap(
    ({ network, subnets, used, all, directory }) => {
      const left = all - used;
      const path = node.networks.find(({ name }) => name === network)?.path;
      if (left * NEARLY_FULL_SHARE > all) return [];
      const make = left <= 0n ? error : warning;
      return [
        make(
          `"${network}" has ${left} of ${all} addresses of ${
            subnets.join(", ")
          } left; the leases are in "${directory}"`,
          left <= 0n
            ? "no further container of that network starts"
            : "soon no further container of that network starts",
          {
            command: "cni gc --orphans --yes",
            advice:
              "if nothing is left over, the range is too small: enlarge it " +
              `in ${path}`,
            look: "cni gc --orphans",
          },
        ),
      ];
    },
  );
}

/** Finds networks that have no address but those that stay. */
function findStayingPools(node: Node): Findings {
  return countPools(node).flatMap(
    ({ network, subnets, used, staying, all }) => {
      const count = BigInt(staying.length);
      if (count === 0n || used + count < all) return [];
      const path = node.networks.find(({ name }) => name === network)?.path;
      return [warning(
        `"${network}" has no free address of ${subnets.join(", ")}: ${count} ` +
          `of ${all} stay for pods that are not there`,
        "each new pod takes the one that has stayed longest, and the pod of " +
          "that name gets another one",
        {
          advice: `enlarge the range, or shorten stayTime, in ${path}`,
          look: `cni networks ${network}`,
        },
      )];
    },
  );
}

/** Checks of pools. */
export const POOL_CHECKS: readonly Check[] = [
  {
    code: "CNI0510",
    name: "pool-full",
    finds: "a network has few or no addresses left",
    page: {
      effect: "No further container of that network starts.",
      cause:
        "More containers than addresses, or leases of containers that are gone.",
      look: "`cni networks`, `cni gc --orphans`.",
      fix: "`cni gc --orphans --yes`; otherwise a larger range.",
    },
    run: findFullPools,
  },
  {
    code: "CNI0512",
    name: "pool-staying",
    finds: "a network has no free address but those that stay for pods",
    page: {
      effect:
        "Each new pod takes the address that has stayed longest from its name.",
      cause:
        "More names within `stayTime` than addresses, as with Jobs and Deployments, whose names never come back.",
      look: "`cni networks NAME`.",
      fix:
        "A larger range, a shorter `stayTime`, or a network without `stay` for such pods.",
    },
    run: findStayingPools,
  },
];
