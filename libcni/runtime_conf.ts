/**
 * A runtime's description of one attachment.
 *
 * @module
 */

import type { JsonObject } from "../base/json/json.ts";
import type { Attachment, AttachmentKey, CachedRequest } from "./cache.ts";

/** Pairs of CNI_ARGS, in order. */
export type CniArgs = readonly (readonly [key: string, value: string])[];

/**
 * One attachment as its runtime describes it, identical for ADD, CHECK and DEL.
 *
 * Source: containernetworking/cni libcni/api.go `RuntimeConf`.
 */
export interface RuntimeConf {
  /** CNI_CONTAINERID. */
  readonly containerId: string;
  /** CNI_NETNS: path of the sandbox's network namespace; "" if it is gone (DEL). */
  readonly netns: string;
  /** CNI_IFNAME: name of the interface inside the sandbox. */
  readonly ifName: string;
  /** CNI_ARGS, pair by pair. */
  readonly args?: CniArgs;
  /** CNI_ARGS as one text; unless empty, it replaces {@linkcode args}. */
  readonly rawArgs?: string;
  /**
   * Capability arguments, by capability, such as `portMappings`. A plugin gets
   * those that its configuration declares in `capabilities`.
   */
  readonly capabilityArgs?: JsonObject;
}

/** Formats the value of CNI_ARGS. */
export function formatCniArgs({ args = [], rawArgs }: RuntimeConf): string {
  return rawArgs || args.map(([key, value]) => `${key}=${value}`).join(";");
}

/**
 * Lists the pairs of CNI_ARGS for the cache. The value is everything after the
 * first `=`; plugins decide whether to accept it.
 */
export function listCniArgs(conf: RuntimeConf): CniArgs {
  if (!conf.rawArgs) return conf.args ?? [];
  return conf.rawArgs.split(";").map((pair) => {
    const [key = "", ...value] = pair.split("=");
    return [key, value.join("=")];
  });
}

/** Returns the key of an attachment in the cache. */
export function keyOf(
  network: { readonly name: string },
  { containerId, ifName }: RuntimeConf,
): AttachmentKey {
  return { network: network.name, containerId, ifName };
}

/** Returns what the cache keeps of an attachment, apart from its result. */
export function describeAttachment(
  network: { readonly name: string; readonly bytes: Uint8Array },
  conf: RuntimeConf,
): Attachment {
  return {
    ...keyOf(network, conf),
    netns: conf.netns,
    config: network.bytes,
    cniArgs: listCniArgs(conf),
    capabilityArgs: conf.capabilityArgs ?? {},
  };
}

/**
 * Returns an attachment with its cached arguments, if there were any, and
 * capability arguments. The namespace is kept as given: it may be gone by now.
 *
 * Source: containernetworking/cni libcni/api.go `getCachedConfig`.
 */
export function restoreArgs(
  conf: RuntimeConf,
  { cniArgs, capabilityArgs }: CachedRequest,
): RuntimeConf {
  const { rawArgs: _, ...others } = conf;
  return cniArgs.length === 0
    ? { ...conf, capabilityArgs }
    : { ...others, args: cniArgs, capabilityArgs };
}
