/**
 * IPAMClaims of this node's attachments, as far as the API server reports them.
 *
 * @module
 */

import { shell } from "../../base/command_line/shell.ts";
import { readClaims } from "../../ipam/whereabouts/inspect.ts";
import { type AttachedClaim, findCachedClaim } from "../node/ipam_claims.ts";
import {
  type Check,
  error,
  type Finding,
  type Findings,
  warning,
} from "./finding.ts";
import { type NodeReader, oncePerNode } from "../node/node_reader.ts";

/** An attachment's claim, as the API server has it. */
interface SeenClaim {
  readonly claim: AttachedClaim;
  readonly ifName: string;
  /** Whether the claim exists. */
  readonly exists: boolean;
  /** Its addresses that no pool has for it. */
  readonly unrecorded: readonly string[];
}

/** Reads the claims of the node's attachments. */
const listSeen = oncePerNode(async (node): Promise<SeenClaim[]> => {
  const attached = node.attachments.flatMap((attachment) => {
    const claim = findCachedClaim(attachment);
    return claim === undefined ? [] : [{ claim, ifName: attachment.ifName }];
  });
  const claims = attached.map(({ claim }) => claim);
  const states = await readClaims(claims, node.env, node.signal);
  return attached.flatMap((one) => {
    const state = states.get(one.claim);
    return state === undefined ? [] : [{ ...one, ...state }];
  });
});

async function findGone(node: NodeReader): Promise<Findings> {
  const seen = await listSeen(node);
  return seen.filter(({ exists }) => !exists).map(({ claim, ifName }) =>
    warning(
      `the IPAMClaim ${claim.namespace}/${claim.name} of ` +
        `${claim.namespace}/${claim.pod} ${ifName} no longer exists`,
      "its addresses are released when the pod ends, and the pod does not " +
        "start again as long as it names the claim",
      {
        advice: "create the claim again, or delete the pod",
        look: shell`kubectl -n ${claim.namespace} get ipamclaim ${claim.name}`,
        subject: `${claim.namespace}/${claim.pod}`,
      },
    )
  );
}

async function findUnrecorded(node: NodeReader): Promise<Findings> {
  const findings: Finding[] = [];
  for (const { claim, ifName, unrecorded } of await listSeen(node)) {
    if (unrecorded.length === 0) continue;
    const { namespace, name, pod } = claim;
    findings.push(error(
      `no IPPool contains ${unrecorded.join(", ")} for the IPAMClaim ` +
        `${namespace}/${name} of ${namespace}/${pod} ${ifName}`,
      "another pod might get the address",
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
    finds: "the IPAMClaim of a pod's addresses no longer exists",
    effect:
      "The addresses are released when the pod ends, and the pod cannot start again.",
    cause: "The claim, or its owner, was deleted before the pod.",
    howToInspect:
      "`kubectl get ipamclaims -A`, and `cni cluster-gc --dry-run`.",
    howToFix: "Create the claim again, or delete the pod.",
    run: findGone,
  },
  {
    code: "CNI0708",
    name: "claim-unrecorded",
    finds: "a pool lacks the record of an IPAMClaim's address",
    effect: "Another pod might get the address.",
    cause: "An IPPool was deleted or restored, or a program removed records.",
    howToInspect:
      "`kubectl get ippools -A -o yaml`, and `cni cluster-gc --dry-run`.",
    howToFix:
      "Restart the pod: ADD writes the record again if the address is free.",
    run: findUnrecorded,
  },
];
