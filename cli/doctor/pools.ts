/**
 * Pools of addresses that networks hand out: how many are left, and which stay.
 *
 * @module
 */

import { shell } from "../../base/command_line/shell.ts";
import { formatFailureText } from "../../base/command_line/failure.ts";
import { ifPossible } from "../../base/files/io.ts";
import {
  countLeases,
  type Pool,
  readPool,
  type SetUse,
} from "../../ipam/host_local/inspect.ts";
import { objectOf } from "../../base/json/json.ts";
import { encodeJson } from "../../base/json/json_bytes.ts";
import { METADATA } from "../../plugins/lists/metadata.ts";
import { parseWritten, unfoldChains } from "../networks/chain_form.ts";
import { type Check, error, type Findings, warning } from "./finding.ts";
import {
  type ConfiguredNetwork,
  ipamTypeOf,
  type Node,
  type PlacedConf,
} from "./node.ts";

/** Addresses that one plugin of a network hands out. */
type PlacedPool = Pool & Pick<PlacedConf, "network" | "conf">;

/** Lists the pools of host-local that configurations name. */
export function listPools(node: Pick<Node, "networks">): PlacedPool[] {
  return node.networks.flatMap((network) =>
    network.plugins.filter(hasPool)
      .flatMap((conf) => ifPossible(() => readPlaced({ network, conf })) ?? [])
  );
}

/** Explains why a pool of a network cannot be read; null if all can. */
export function findPoolProblem(network: ConfiguredNetwork): string | null {
  try {
    for (const conf of network.plugins.filter(hasPool)) {
      readPlaced({ network, conf });
    }
    return null;
  } catch (error) {
    return formatFailureText(error);
  }
}

function hasPool(conf: PlacedConf["conf"]): boolean {
  return METADATA.get(ipamTypeOf(conf) ?? "")?.ranges !== undefined;
}

/** @throws {CniError} 7 If the ranges are invalid, which validation reports */
function readPlaced({ network, conf }: PlacedConf): PlacedPool {
  const { name, list: { cniVersion } } = network;
  const pool = readPool(conf.document, { name, cniVersion });
  return { ...pool, network, conf };
}

/** How many addresses of a range set are in use. */
export interface PoolUse extends SetUse {
  readonly network: string;
  /** Path of the configuration. */
  readonly path: string;
  readonly directory: string;
}

/** Counts the leases of all pools, including pools in `delegates` of multus. */
export function countPools(node: Pick<Node, "networks">): PoolUse[] {
  const pools = listPools(node);
  const delegates = node.networks.flatMap(listDelegates);
  const networks = [...Map.groupBy(delegates, ({ name }) => name).values()]
    .flatMap(([first]) => first ?? []);
  // The installer of multus copies the master network from its own file.
  const delegated = listPools({ networks }).filter(({ directory }) =>
    pools.every((pool) => pool.directory !== directory)
  );
  return [...pools, ...delegated].flatMap((pool) => {
    const { network: { name: network, path }, directory } = pool;
    return countLeases(pool)
      .map((use) => ({ ...use, network, path, directory }));
  });
}

/** Lists the networks that the plugins of a network run. */
function listDelegates(
  { path, file, plugins }: ConfiguredNetwork,
): ConfiguredNetwork[] {
  return plugins.flatMap(({ type, document }) => {
    const metadata = METADATA.get(type);
    const runs = metadata?.kind === "meta" ? metadata.runs : undefined;
    const delegates = document[runs?.key ?? ""];
    if (!runs?.areNetworks || !Array.isArray(delegates)) return [];
    return delegates.flatMap((delegate) =>
      ifPossible(() => {
        const { list } = parseWritten(encodeJson(objectOf(delegate)));
        const plugins = unfoldChains(list.plugins);
        return { name: list.name, path, file, list, plugins };
      }) ?? []
    );
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
    ({ network, path, subnets, used, all, directory }) => {
      const left = all - used;
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
function findStickyPools(node: Node): Findings {
  return countPools(node).flatMap(
    ({ network, path, subnets, used, sticky, all }) => {
      const count = BigInt(sticky.length);
      if (count === 0n || used + count < all) return [];
      return [warning(
        `"${network}" has no free address of ${subnets.join(", ")}: ${count} ` +
          `of ${all} stay for pods that are not there`,
        "each new pod takes the one that has stayed longest, and the pod of " +
          "that name gets another one",
        {
          advice: `enlarge the range, or shorten stayTime, in ${path}`,
          look: shell`cni networks ${network}`,
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
    effect: "No more containers of that network start.",
    cause:
      "There are more containers than addresses, or leases of deleted containers.",
    look: "`cni networks`, `cni gc --orphans`.",
    fix: "`cni gc --orphans --yes`, or configure a larger range.",
    run: findFullPools,
  },
  {
    code: "CNI0512",
    name: "pool-staying",
    finds: "a network has no free address except persistent addresses of pods",
    effect:
      "Each new pod takes the address that has been unused for the longest time.",
    cause:
      "There are more names within `stayTime` than addresses, as with Jobs and Deployments, whose names never return.",
    look: "`cni networks NAME`.",
    fix:
      "Configure a larger range, a shorter `stayTime`, or a network without `stay` for such pods.",
    run: findStickyPools,
  },
];
