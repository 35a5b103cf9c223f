/**
 * The configuration of chain.
 *
 * @module
 */

import * as z from "zod/mini";
import type { SchemaOutput } from "../../cni/json.ts";
import { netConf, once, optional } from "../../cni/types.ts";

/**
 * Builds the schema of the network configuration. It says no more than is needed
 * to hand things on, for each kind of schema takes its time to make.
 */
export const chainSchema = once(() => {
  const object = optional(z.looseObject({}));
  const anything = z.unknown();
  return netConf({
    /** As it is, for the plugins are to get it so; `call.cniVersion` is never "". */
    cniVersion: optional(z.string()),
    /** The plugins' configurations, in the order in which ADD runs them. */
    plugins: z.array(anything),
    /** Keys of `runtimeConfig`, and whether the runtime shall set them. */
    capabilities: object,
    /** What the runtime offers, by capability. */
    runtimeConfig: object,
    /** What the runtime says to every plugin. */
    args: object,
    dns: optional(anything),
    ipMasq: optional(anything),
  });
});

/** The decoded configuration. */
export type ChainConfig = SchemaOutput<ReturnType<typeof chainSchema>>;
