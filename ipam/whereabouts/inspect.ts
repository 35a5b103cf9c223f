/**
 * whereabouts for tools: the IPAMClaims of attachments, and the addresses that are set
 * aside.
 *
 * @module
 */

import { JoinedSignal } from "../../base/deadline.ts";
import { CniError } from "../../base/error.ts";
import { ifPossible } from "../../base/files/io.ts";
import { decode, type JsonObject } from "../../base/json/json.ts";
import type { Environment } from "../../base/process/environment.ts";
import type { MaybePromise } from "../../base/waiting.ts";
import type { RequestOptions } from "../../kube/client.ts";
import { KubeError } from "../../kube/kube_error.ts";
import { metadata } from "./metadata.ts";
import { type ApiClient, WhereaboutsApi } from "./api.ts";
import { ClaimApi } from "./claims/api.ts";
import { listIps } from "./claims/ipam_claim.ts";
import type { AttachmentId } from "../../cni/config/types.ts";
import { AllocationFiles, type UsedClaim } from "./allocation_files.ts";
import { whereaboutsSchema } from "./schema.ts";
import { findNamespace, openOwnClient } from "./session.ts";
import { readSettings, type Settings } from "./settings.ts";
import { findClaimRecord, findPools, listRecords, type Pool } from "./pools.ts";
import { isSetAsideOver, parseSetAside } from "./set_aside_record.ts";
import { ipamOf, ipamTypeOf } from "../../cni/config/ipam.ts";

/** The claim that an attachment's addresses belong to. */
export interface AttachedClaim extends UsedClaim {
  /** Path of the kubeconfig of the network. */
  readonly kubeconfig: string;
  /** `network_name` of whereabouts; "" without one. */
  readonly networkName: string;
  /** Namespace of the pools. */
  readonly pools: string;
}

/**
 * Finds the claim of an attachment in its allocation file.
 *
 * @param document A plugin's configuration
 * @returns Undefined if the plugin's IPAM plugin is another, or there is no claim
 */
export function findAttachedClaim(
  document: JsonObject,
  { network, ...owner }: AttachmentId & { readonly network: string },
): AttachedClaim | undefined {
  const settings = findSettings(document);
  if (settings === undefined) return undefined;
  const { kubeconfig, networkName, dataDir } = settings;
  const file = new AllocationFiles(dataDir, network).find(owner);
  if (file?.ipamClaim === undefined) return undefined;
  const pools = file.namespace;
  return { ...file.ipamClaim, kubeconfig, networkName, pools };
}

/** Reads a plugin's configuration; undefined if its IPAM plugin is another. */
function findSettings(document: JsonObject): Settings | undefined {
  if (ipamTypeOf(document) !== metadata.type) return undefined;
  return ifPossible(() =>
    readSettings(decode(whereaboutsSchema(), document, metadata.type))
  );
}

/** The state of a claim in the API server. */
export interface StoredClaim {
  readonly exists: boolean;
  /** Its addresses for which no pool has its record. */
  readonly unrecorded: readonly string[];
}

/** Total time limit of the requests to API servers, in ms. */
const LIMIT_MS = 5000;

/** Reads claims from their API servers. Claims that cannot be read are omitted. */
export async function readClaims(
  claims: readonly AttachedClaim[],
  env: Environment,
  aborted: AbortSignal,
): Promise<Map<AttachedClaim, StoredClaim>> {
  const states = new Map<AttachedClaim, StoredClaim>();
  await askClusters(claims, env, aborted, (client, limits) => {
    const api = new ClaimApi(client, limits);
    return async (claim): Promise<void> => {
      const pools = new WhereaboutsApi(client, claim.pools, limits);
      states.set(claim, await readClaim(claim, api, pools));
    };
  });
  return states;
}

/**
 * Queries the API servers of all clusters at the same time, within the time limit, so
 * that a server that does not answer delays no other server. A failed item does not
 * affect the other items of the same server.
 *
 * @param begin Returns the function that reads an item
 */
async function askClusters<T extends { readonly kubeconfig: string }>(
  items: readonly T[],
  env: Environment,
  aborted: AbortSignal,
  begin: (
    client: ApiClient,
    limits: RequestOptions,
    kubeconfig: string,
  ) => MaybePromise<(item: T) => Promise<void>>,
): Promise<void> {
  using limit = new JoinedSignal(LIMIT_MS, aborted);
  const { signal } = limit;
  const clusters = Map.groupBy(items, ({ kubeconfig }) => kubeconfig);
  const askOne = async (kubeconfig: string, some: T[]): Promise<void> => {
    using client = await openOwnClient({ kubeconfig, env });
    if (client === undefined) return;
    const limits = { signal, overallMs: LIMIT_MS };
    const ask = await begin(client, limits, kubeconfig);
    for (const one of some) await ifAnswered(signal, () => ask(one));
  };
  await Promise.all(
    [...clusters].map(([kubeconfig, some]) =>
      ifAnswered(signal, () => askOne(kubeconfig, some))
    ),
  );
}

/** Reads an item within the time limit; returns nothing if that fails. */
async function ifAnswered(
  signal: AbortSignal,
  ask: () => Promise<void>,
): Promise<void> {
  if (signal.aborted) return;
  try {
    await ask();
  } catch (error) {
    const isAnswer = error instanceof KubeError || error instanceof CniError;
    if (!isAnswer && !signal.aborted) throw error;
  }
}

async function readClaim(
  claim: AttachedClaim,
  api: ClaimApi,
  pools: WhereaboutsApi,
): Promise<StoredClaim> {
  const found = await api.find(claim.namespace, claim.name);
  if (found === undefined || found.metadata?.uid !== claim.uid) {
    return { exists: false, unrecorded: [] };
  }
  const unrecorded: string[] = [];
  for (const address of listIps(found)) {
    const held = await findClaimRecord(
      pools,
      claim.networkName,
      claim,
      address,
    );
    if (held === undefined) unrecorded.push(String(address.ip));
  }
  return { exists: true, unrecorded };
}

/** A network, and the configuration of a plugin of it. */
export interface PluginDocument {
  readonly network: string;
  readonly document: JsonObject;
}

/** An address that is set aside for the whole cluster. */
export interface SetAsideInPool {
  readonly network: string;
  /** Name of the IPPool. */
  readonly pool: string;
  readonly address: string;
  /** The MAC of the machine that has the address. */
  readonly mac: string;
  readonly until: Date;
}

/**
 * Lists the addresses that are set aside in the pools of networks, each once. Pools
 * that cannot be read are missing.
 *
 * @param plugins Many may be the same: the plugins of all attachments
 */
export async function readSetAside(
  plugins: readonly PluginDocument[],
  env: Environment,
  aborted: AbortSignal,
): Promise<SetAsideInPool[]> {
  const unique = new Map(plugins.map((one) => [
    JSON.stringify([one.network, ipamOf(one.document)]),
    one,
  ]));
  const networks = [...unique.values()].flatMap(({ network, document }) => {
    const settings = findSettings(document);
    if (settings === undefined) return [];
    return [{ network, settings, kubeconfig: settings.kubeconfig }];
  });
  const found = new Map(
    networks.map((one) => [one, [] as SetAsideInPool[]]),
  );
  await askClusters(networks, env, aborted, async (client, limits, path) => {
    const api = new WhereaboutsApi(client, await findNamespace(path), limits);
    const known = new Set<string>();
    return async (one): Promise<void> => {
      for (const pool of await findPools({ ...one, api, env })) {
        if (known.has(pool.name)) continue;
        known.add(pool.name);
        found.get(one)?.push(...await listSetAside(api, one.network, pool));
      }
    };
  });
  return [...found.values()].flat();
}

async function listSetAside(
  api: WhereaboutsApi,
  network: string,
  { name: pool, range: { cidr } }: Pool,
): Promise<SetAsideInPool[]> {
  const found = await api.findPool(pool);
  const records = found ? listRecords(found, cidr, { warn(): void {} }) : [];
  return records.flatMap(({ ip, value }) => {
    const aside = parseSetAside(value);
    if (aside === undefined || isSetAsideOver(aside)) return [];
    const { mac, untilMs } = aside;
    const until = new Date(untilMs);
    return [{ network, pool, address: String(ip), mac, until }];
  });
}
