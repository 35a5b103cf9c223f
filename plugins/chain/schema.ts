/**
 * The configuration schema of chain.
 *
 * @module
 */

import * as z from "zod/mini";
import { once, type SchemaOutput } from "../../base/json/json.ts";
import { netConf, optional } from "../../cni/config/types.ts";

/**
 * Builds the schema of the network configuration. It contains only the keys that
 * chain reads, because each kind of schema takes time to build.
 */
export const chainSchema = once(() => {
  const object = optional(z.looseObject({}));
  const anything = z.unknown();
  return netConf({
    /** Unchanged, for the plugins; `call.cniVersion` is never "". */
    cniVersion: optional(z.string()),
    /** The plugins' configurations, in the order of ADD. */
    plugins: z._default(z.array(anything), []),
    /** Keys of `runtimeConfig`, and whether the runtime should set them. */
    capabilities: object,
    /** The runtime's values, by capability. */
    runtimeConfig: object,
    /** The runtime's arguments for every plugin. */
    args: object,
    dns: optional(anything),
    ipMasq: optional(anything),
  });
});

/** The decoded configuration. */
export type ChainConfig = SchemaOutput<ReturnType<typeof chainSchema>>;
