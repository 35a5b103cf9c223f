/**
 * Finds the IPAMClaim of a pod's interface.
 *
 * @module
 */

import type { JsonObject } from "../../../base/json/json.ts";
import {
  ALLOWS_CLAIMS,
  CLAIM_REFERENCE,
  evidenceOf,
  type PodEvidence,
} from "../../../kube/pod_evidence.ts";
import type { Pod } from "../../../kube/types.ts";
import type { ClaimApi } from "./api.ts";
import { unfit } from "./errors.ts";
import { type IpamClaim, isOfApps, PERSISTENCE } from "./ipam_claim.ts";
import type { Session } from "../session.ts";

/** The claim of an interface. */
export interface Reference {
  readonly name: string;
  /** Creates the claim; undefined if it exists. */
  readonly create?: () => Promise<IpamClaim | undefined>;
  /** The pod, if it was already read. */
  readonly evidence?: PodEvidence | undefined;
}

/**
 * Finds the claim that the pod names, or that is created for the pod.
 *
 * @returns Undefined if the pod has no claim
 * @throws {CniError} 7 if the pod also requests addresses, the network has slices, or
 *   it is unclear which interface a claim is for
 * @throws {KubeError}
 */
export async function findReference(
  session: Session,
  api: ClaimApi,
): Promise<Reference | undefined> {
  const reference = await findNamed(session, api) ??
    await claimForPod(session, api);
  if (reference === undefined) return undefined;
  const { name } = reference;
  if (hasRequest(session)) {
    throw unfit(name, "cannot be used together with requested addresses");
  }
  if (session.settings.node_slice_size) {
    throw unfit(
      name,
      "cannot be used with node_slice_size: slices do not move",
    );
  }
  return reference;
}

/** Finds the claim that the pod names, if the network allows it. */
async function findNamed(
  session: Session,
  api: ClaimApi,
): Promise<Reference | undefined> {
  const { call: { config, log } } = session;
  const handed = config.args?.cni?.[CLAIM_REFERENCE];
  if (!config[ALLOWS_CLAIMS]) {
    if (handed) {
      log.warn("Ignoring an IPAMClaim: the network does not allow it", {
        claim: handed,
        key: ALLOWS_CLAIMS,
      });
    }
    return undefined;
  }
  const evidence = config["cni.dev/pod"];
  const reference = handed === undefined
    ? await askForReference(session, api)
    : { name: handed, evidence };
  return reference?.name === "" ? undefined : reference;
}

/**
 * Names the claim that the plugin creates for a pod of a StatefulSet, or for any
 * pod: by the pod, which has the same name after a restart.
 *
 * @throws {CniError} 7 if a time is required
 */
async function claimForPod(
  { call, settings, owner }: Session,
  api: ClaimApi,
): Promise<Reference | undefined> {
  const { stay, stayTime, stayWhenScaled } = settings;
  if (stay === undefined) return undefined;
  const [namespace = "", pod = ""] = owner.podref.split("/");
  const name = `${pod}.${call.network}.${owner.ifName}`.toLowerCase()
    .replace(/[^a-z\d.-]/g, "-");
  if (stay === "name" && stayTime === undefined) {
    throw unfit(name, 'needs stayTime: "stay" is "name"');
  }
  const evidence = call.config["cni.dev/pod"] ??
    (stay === "name" ? undefined : await readEvidence(api, owner.podref));
  const set = evidence?.controller;
  if (stay === "statefulset" && set?.kind !== "StatefulSet") return undefined;
  const metadata = {
    namespace,
    name,
    annotations: {
      [PERSISTENCE.pod]: pod,
      ...stay === "name" && { [PERSISTENCE.time]: String(stayTime) },
      ...stayWhenScaled === "delete" && { [PERSISTENCE.scaled]: "delete" },
      ...stay === "statefulset" && set &&
        { [PERSISTENCE.set]: isOfApps(set) ? set.name : "" },
    },
    ...stay === "statefulset" && set && { ownerReferences: [set] },
  };
  const spec = { network: call.network, interface: owner.ifName };
  return { name, evidence, create: () => api.create(metadata, spec) };
}

/** Reads a pod. */
export async function readEvidence(
  api: ClaimApi,
  podref: string,
): Promise<PodEvidence> {
  const [namespace = "", name = ""] = podref.split("/");
  return evidenceOf(await api.findPod(namespace, name) ?? {});
}

/** Reports whether the pod asks for addresses. */
function hasRequest({ call: { config, args } }: Session): boolean {
  const { args: { cni } = {}, runtimeConfig } = config;
  const isIn = (text: string): boolean => /(^|;)IP=[^;]/.test(text);
  return isIn(args.args) || Boolean(cni?.ips?.length) ||
    Boolean(runtimeConfig?.ips?.length);
}

const NETWORKS = "k8s.v1.cni.cncf.io/networks";

/**
 * Reads the annotation, because upstream multus passes no claims.
 *
 * @throws {CniError} 7 if it is unclear which interface a claim is for
 */
async function askForReference(
  { owner: { podref, ifName }, call: { network } }: Session,
  api: ClaimApi,
): Promise<Reference | undefined> {
  const [namespace = "", name = ""] = podref.split("/");
  const pod = await api.findPod(namespace, name);
  if (pod === undefined) return undefined;
  const { elements, isSure } = findElements(listElements(pod), ifName, network);
  const claims = new Set(elements.flatMap((one) => claimIn(one) ?? []));
  for (const name of isSure ? [] : claims) {
    const { spec } = await api.find(namespace, name) ?? {};
    const isUnfit = spec !== undefined && (spec.network !== network ||
      spec.interface !== "" && spec.interface !== ifName);
    if (isUnfit) claims.delete(name);
    if (spec?.network === network && spec.interface === ifName) {
      return { name, evidence: evidenceOf(pod) };
    }
  }
  const [claim] = claims;
  if (claim === undefined) return undefined;
  // An element without a claim might also be for the interface.
  const possible = elements.filter((one) => {
    const name = claimIn(one);
    return name === undefined || claims.has(name);
  });
  if (possible.length === 1) return { name: claim, evidence: evidenceOf(pod) };
  throw unfit(
    claim,
    `might belong to interface "${ifName}": set "interface" of each network ` +
      `in the pod's annotation "${NETWORKS}"`,
  );
}

function claimIn(element: JsonObject): string | undefined {
  const name = element[CLAIM_REFERENCE];
  return typeof name === "string" ? name : undefined;
}

/** Lists the elements of the annotation; none of its short form, which has no claims. */
function listElements({ metadata }: Pod): JsonObject[] {
  try {
    const list = JSON.parse(metadata?.annotations?.[NETWORKS] ?? "[]");
    return Array.isArray(list) ? list : [];
  } catch {
    return [];
  }
}

/**
 * Lists the elements that might be for an interface: by the interface's name or, if
 * elements have no names, by their network. The position does not identify the
 * interface: multus first counts networks outside the annotation, such as
 * `defaultNetworks`.
 *
 * Source: multus pkg/multus/multus.go `getIfname`.
 */
function findElements(
  elements: readonly JsonObject[],
  ifName: string,
  network: string,
): { readonly elements: readonly JsonObject[]; readonly isSure: boolean } {
  const nameOf = (element: JsonObject): unknown =>
    element["interface"] || element["interfaceRequest"];
  const named = elements.find((element) => nameOf(element) === ifName);
  if (named !== undefined) return { elements: [named], isSure: true };
  const place = Number(/^net([1-9]\d*)$/.exec(ifName)?.[1] ?? 0);
  const unnamed = elements.slice(0, place)
    .filter((element) => !nameOf(element));
  const ofNetwork = unnamed.filter(({ name }) => name === network);
  // The names of a network and of its definition can differ.
  return ofNetwork.length > 0
    ? { elements: ofNetwork, isSure: ofNetwork.length === 1 }
    : { elements: unnamed, isSure: false };
}
