/**
 * The configuration keys of plugins whose containers the host can reach.
 *
 * @module
 */

import * as z from "zod/mini";
import { once, type Schema } from "../../../base/json/json.ts";
import { ipSchema, optional, refusing } from "../../../cni/config/types.ts";
import type { Ip } from "../../../net/ip.ts";

/** The keys of a configuration. */
export interface HostAccessKeys {
  /** Name of the host's link that the containers share. */
  readonly master?: string | undefined;
  /** Whether the host reaches the containers. */
  readonly hostAccess?: boolean | undefined;
  /** The host's addresses towards them; the addresses of the master if absent. */
  readonly hostAddresses?: readonly Ip[] | undefined;
}

/** Builds the schemas of {@linkcode HostAccessKeys}. */
export const hostAccessKeys: () => {
  readonly hostAccess: Schema<boolean | undefined>;
  readonly hostAddresses: Schema<readonly Ip[] | undefined>;
} = once(() => ({
  hostAccess: optional(z.boolean()),
  hostAddresses: optional(z.array(ipSchema())),
}));

/** Keys on which the host's access depends. */
interface DependentKeys extends HostAccessKeys {
  readonly linkInContainer?: boolean | undefined;
  readonly mode?: string | undefined;
}

/**
 * Extends a schema to reject a host access that cannot work.
 *
 * @param mode The only mode that has it; undefined if each mode has
 */
export function withHostAccess<C extends DependentKeys>(
  config: Schema<C>,
  mode?: string,
): Schema<C> {
  return refusing(config, "hostAccess", (keys) => {
    if (!keys.hostAccess) return undefined;
    if (keys.linkInContainer) return "linkInContainer has no link on the host";
    if (mode === undefined || (keys.mode || mode) === mode) return undefined;
    return `needs mode "${mode}", got "${keys.mode}"`;
  });
}
