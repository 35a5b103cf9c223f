/**
 * IPAMClaims of this node's attachments, as far as the API server tells.
 *
 * @module
 */

import { JoinedSignal } from "../../base/deadline.ts";
import { ClaimApi } from "../../ipam/whereabouts/claim_api.ts";
import { WhereaboutsApi } from "../../ipam/whereabouts/api.ts";
import { findHeld } from "../../ipam/whereabouts/held_records.ts";
import { listIps } from "../../ipam/whereabouts/ipam_claim.ts";
import { openOwnClient } from "../../ipam/whereabouts/session.ts";
import {
  type AttachedClaim,
  findAttachedClaim,
} from "../attachments/ipam_claims.ts";
import {
  type Check,
  error,
  type Finding,
  type Findings,
  warning,
} from "./finding.ts";
import type { Node } from "./node.ts";

/** An attachment's claim, as the API server has it. */
interface SeenClaim {
  readonly claim: AttachedClaim;
  readonly ifName: string;
  /** Whether the claim exists. */
  readonly exists: boolean;
  /** Its addresses that no pool has for it. */
  readonly unrecorded: readonly string[];
}

/** How long to wait for the API server in all, in ms. */
const LIMIT_MS = 5000;

const SEEN = new WeakMap<Node, Promise<SeenClaim[]>>();

/** Reads the claims of the node's attachments, once. */
function listSeen(node: Node): Promise<SeenClaim[]> {
  const known = SEEN.get(node) ?? readAll(node);
  SEEN.set(node, known);
  return known;
}

async function readAll(node: Node): Promise<SeenClaim[]> {
  const attached = node.attachments.flatMap((attachment) => {
    const claim = findAttachedClaim(attachment);
    return claim === undefined ? [] : [{ claim, ifName: attachment.ifName }];
  });
  using limit = new JoinedSignal(LIMIT_MS, node.signal);
  const seen: SeenClaim[] = [];
  for (const [kubeconfig, some] of groupByKubeconfig(attached)) {
    try {
      using client = await openOwnClient({ kubeconfig, env: node.env });
      if (client === undefined) continue;
      const { signal } = limit;
      const limits = { signal, overallMs: LIMIT_MS };
      const api = new ClaimApi(client, limits);
      for (const one of some) {
        const pools = new WhereaboutsApi(client, one.claim.pools, limits);
        seen.push({ ...one, ...await look(one.claim, api, pools) });
      }
    } catch {
      // The API server cannot be asked: nothing is known of the rest.
    }
  }
  return seen;
}

function groupByKubeconfig<T extends { readonly claim: AttachedClaim }>(
  attached: readonly T[],
): Map<string, T[]> {
  return Map.groupBy(attached, ({ claim }) => claim.kubeconfig);
}

async function look(
  claim: AttachedClaim,
  api: ClaimApi,
  pools: WhereaboutsApi,
): Promise<Pick<SeenClaim, "exists" | "unrecorded">> {
  const found = await api.find(claim.namespace, claim.name);
  if (found === undefined || found.metadata?.uid !== claim.uid) {
    return { exists: false, unrecorded: [] };
  }
  const unrecorded: string[] = [];
  for (const address of listIps(found)) {
    const held = await findHeld(pools, claim.networkName, claim, address);
    if (held === undefined) unrecorded.push(String(address.ip));
  }
  return { exists: true, unrecorded };
}

async function findGone(node: Node): Promise<Findings> {
  const seen = await listSeen(node);
  return seen.filter(({ exists }) => !exists).map(({ claim, ifName }) =>
    warning(
      `the IPAMClaim ${claim.namespace}/${claim.name} of ` +
        `${claim.namespace}/${claim.pod} ${ifName} is gone`,
      "its addresses are released when the pod ends, and the pod does not " +
        "start again as long as it names the claim",
      {
        advice: "create the claim again, or end the pod",
        look: `kubectl -n ${claim.namespace} get ipamclaim ${claim.name}`,
        subject: `${claim.namespace}/${claim.pod}`,
      },
    )
  );
}

async function findUnrecorded(node: Node): Promise<Findings> {
  const findings: Finding[] = [];
  for (const { claim, ifName, unrecorded } of await listSeen(node)) {
    if (unrecorded.length === 0) continue;
    const { namespace, name, pod } = claim;
    findings.push(error(
      `no IPPool has ${unrecorded.join(", ")} for the IPAMClaim ` +
        `${namespace}/${name} of ${namespace}/${pod} ${ifName}`,
      "another pod may get the address",
      {
        advice: "restart the pod: its next ADD writes the record again, if " +
          "the address is free",
        look: "cni cluster-gc --dry-run",
        subject: `${namespace}/${pod}`,
      },
    ));
  }
  return findings;
}

/** Checks of IPAMClaims. */
export const CLAIM_CHECKS: readonly Check[] = [
  {
    code: "CNI0707",
    name: "claim-gone",
    finds: "the IPAMClaim of a pod's addresses does not exist any more",
    page: {
      effect:
        "The addresses are released when the pod ends, and it does not start again.",
      cause: "The claim, or what owns it, was deleted before the pod.",
      look: "`kubectl get ipamclaims -A`, and `cni cluster-gc --dry-run`.",
      fix: "Create the claim again, or end the pod.",
    },
    run: findGone,
  },
  {
    code: "CNI0708",
    name: "claim-unrecorded",
    finds: "a pool lacks the record of an IPAMClaim's address",
    page: {
      effect: "Another pod may get the address.",
      cause:
        "An IPPool was deleted or restored, or a program has removed records.",
      look: "`kubectl get ippools -A -o yaml`, and `cni cluster-gc --dry-run`.",
      fix:
        "Restart the pod: ADD writes the record again if the address is free.",
    },
    run: findUnrecorded,
  },
];
