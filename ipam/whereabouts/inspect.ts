/**
 * What tools may ask of whereabouts: the IPAMClaims of attachments.
 *
 * @module
 */

import { JoinedSignal } from "../../base/deadline.ts";
import { CniError } from "../../base/error.ts";
import { ifPossible } from "../../base/files/io.ts";
import { decode, type JsonObject, objectOf } from "../../base/json/json.ts";
import type { Environment } from "../../base/process/environment.ts";
import { KubeError } from "../../kube/kube_error.ts";
import { metadata } from "./metadata.ts";
import { WhereaboutsApi } from "./api.ts";
import { ClaimApi } from "./claims/api.ts";
import { listIps } from "./claims/ipam_claim.ts";
import type { AttachmentId } from "../../cni/config/types.ts";
import { AllocationFiles, type UsedClaim } from "./allocation_files.ts";
import { whereaboutsSchema } from "./schema.ts";
import { openOwnClient } from "./session.ts";
import { readSettings } from "./settings.ts";
import { findClaimRecord } from "./pools.ts";

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
  if (objectOf(document["ipam"])["type"] !== metadata.type) return undefined;
  const settings = ifPossible(() =>
    readSettings(decode(whereaboutsSchema(), document, metadata.type))
  );
  if (settings === undefined) return undefined;
  const { kubeconfig, networkName, dataDir } = settings;
  const file = new AllocationFiles(dataDir, network).find(owner);
  if (file?.ipamClaim === undefined) return undefined;
  const pools = file.namespace;
  return { ...file.ipamClaim, kubeconfig, networkName, pools };
}

/** A claim, as the API server has it. */
export interface ClaimState {
  readonly exists: boolean;
  /** Its addresses that no pool has for it. */
  readonly unrecorded: readonly string[];
}

/** How long to wait for the API server in all, in ms. */
const LIMIT_MS = 5000;

/** Asks the API server about claims. Those that it cannot be asked about are missing. */
export async function readClaims(
  claims: readonly AttachedClaim[],
  env: Environment,
  aborted: AbortSignal,
): Promise<Map<AttachedClaim, ClaimState>> {
  using limit = new JoinedSignal(LIMIT_MS, aborted);
  const states = new Map<AttachedClaim, ClaimState>();
  const clusters = Map.groupBy(claims, ({ kubeconfig }) => kubeconfig);
  for (const [kubeconfig, some] of clusters) {
    try {
      using client = await openOwnClient({ kubeconfig, env });
      if (client === undefined) continue;
      const limits = { signal: limit.signal, overallMs: LIMIT_MS };
      const api = new ClaimApi(client, limits);
      for (const claim of some) {
        const pools = new WhereaboutsApi(client, claim.pools, limits);
        states.set(claim, await readClaim(claim, api, pools));
      }
    } catch (error) {
      const isAnswer = error instanceof KubeError || error instanceof CniError;
      // Nothing is known of the rest.
      if (!isAnswer && !limit.signal.aborted) throw error;
    }
  }
  return states;
}

async function readClaim(
  claim: AttachedClaim,
  api: ClaimApi,
  pools: WhereaboutsApi,
): Promise<ClaimState> {
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
