/**
 * What a runtime says of one attachment, beside the network's configuration.
 *
 * @module
 */

import type { JsonObject } from "../json.ts";
import type { Attachment, AttachmentKey, CachedRequest } from "./cache.ts";

/** Pairs of CNI_ARGS, in order. */
export type CniArgs = readonly (readonly [key: string, value: string])[];

/**
 * One attachment, as its runtime describes it: the same for ADD, CHECK and DEL.
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
  /** CNI_ARGS as it is; unless it is empty, it replaces {@linkcode args}. */
  readonly rawArgs?: string;
  /**
   * What the runtime offers, by capability, such as `portMappings`. A plugin
   * gets what its configuration declares in `capabilities`.
   */
  readonly capabilityArgs?: JsonObject;
}

/** Formats what CNI_ARGS shall be. */
export function formatCniArgs({ args = [], rawArgs }: RuntimeConf): string {
  return rawArgs || args.map(([key, value]) => `${key}=${value}`).join(";");
}

/**
 * Lists the pairs of CNI_ARGS, for the cache. What follows the first `=` is the
 * value: whether plugins accept it is for them to say.
 */
export function listCniArgs(conf: RuntimeConf): CniArgs {
  if (!conf.rawArgs) return conf.args ?? [];
  return conf.rawArgs.split(";").map((pair) => {
    const [key = "", ...value] = pair.split("=");
    return [key, value.join("=")];
  });
}

/** Builds what the cache knows an attachment by. */
export function keyOf(
  network: { readonly name: string },
  { containerId, ifName }: RuntimeConf,
): AttachmentKey {
  return { network: network.name, containerId, ifName };
}

/** Builds what the cache keeps of an attachment, beside its result. */
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
 * Builds the description of an attachment with what was cached of it: the
 * arguments, if there were any, and the capabilities' arguments. The namespace
 * stays: it may be gone since.
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
