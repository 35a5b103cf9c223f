/**
 * The configuration schema of debug.
 *
 * @module
 */

import * as z from "zod/mini";
import { once, type SchemaOutput } from "../../base/json/json.ts";
import { netConf, optional } from "../../cni/config/types.ts";

/** Builds the schema of the network configuration. */
export const debugSchema = once(() => {
  // A program and its arguments.
  const hook = z.array(z.string()).check(z.minLength(1));
  const hooks = optional(z.array(hook));
  return netConf({
    /** Path of the file that records every call. */
    cniOutput: optional(z.string()),
    addHooks: hooks,
    delHooks: hooks,
    checkHooks: hooks,
    /** Time limit of a hook. */
    hookTimeoutSeconds: optional(z.number().check(z.positive())),
  });
});

/** The decoded configuration. */
export type DebugConfig = SchemaOutput<ReturnType<typeof debugSchema>>;
