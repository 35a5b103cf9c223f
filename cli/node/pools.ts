/**
 * Pools of addresses that networks hand out: how many are left, and which are persistent.
 *
 * @module
 */

import { formatFailureText } from "../../base/command_line/failure.ts";
import { ifPossible } from "../../base/files/io.ts";
import {
  countLeases,
  type Pool,
  readPool,
  type SetUse,
} from "../../ipam/host_local/inspect.ts";
import { findValue, objectOf } from "../../base/json/json.ts";
import { encodeJson } from "../../base/json/json_bytes.ts";
import { METADATA } from "../../plugins/lists/metadata.ts";
import { parseWritten, unfoldChains } from "./chain_form.ts";
import type {
  ConfiguredNetwork,
  NodeReader,
  PlacedConf,
} from "./node_reader.ts";
import { ipamTypeOf } from "../../cni/config/ipam.ts";

/** Addresses that a plugin of a network allocates. */
type PlacedPool = Pool & Pick<PlacedConf, "network" | "conf">;

/** Lists the pools of host-local that configurations name. */
export function listPools(node: Pick<NodeReader, "networks">): PlacedPool[] {
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
  return METADATA.get(ipamTypeOf(conf.document) ?? "")?.ranges !== undefined;
}

/** @throws {CniError} 7 If the pool is invalid, which validation reports */
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
export function countPools(node: Pick<NodeReader, "networks">): PoolUse[] {
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
    const delegates = findValue(document, runs?.key ?? "");
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
