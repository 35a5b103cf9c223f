/**
 * The schema of slaac's configuration.
 *
 * @module
 */

import * as z from "zod/mini";
import { once, type SchemaOutput } from "../../base/json/json.ts";
import { netConf, optional } from "../../cni/config/types.ts";

/** How the kernel chooses the lower half of an address. */
const GENERATIONS = ["eui64", "random", "stable-privacy"] as const;

/** Longest wait, in seconds: runtimes give up after minutes. */
const MAX_SECONDS = 600;

/** Builds the schema of the whole network configuration. */
export const slaacSchema = once(() =>
  netConf({
    ipam: optional(z.looseObject({
      type: optional(z.string()),
      timeoutSeconds: optional(
        z.int().check(z.minimum(1), z.maximum(MAX_SECONDS)),
      ),
      addressGeneration: optional(z.enum(GENERATIONS)),
      temporaryAddresses: optional(z.boolean()),
      defaultRoute: optional(z.boolean()),
    })),
  })
);

/** The decoded configuration. */
export type SlaacConfig = SchemaOutput<ReturnType<typeof slaacSchema>>;
