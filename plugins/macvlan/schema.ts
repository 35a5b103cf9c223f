/**
 * The configuration schema of macvlan.
 *
 * @module
 */

import * as z from "zod/mini";
import { once, type SchemaOutput } from "../../base/json/json.ts";
import { netConf, optional, uint32Schema } from "../../cni/config/types.ts";
import {
  hostAccessKeys,
  withHostAccess,
} from "../parts/link/host_access_schema.ts";
import { masterKeys } from "../parts/link/on_master_schema.ts";

/**
 * Builds the schema of the network configuration.
 *
 * Source: containernetworking/plugins plugins/main/macvlan/macvlan.go `NetConf`.
 */
export const macvlanSchema = once(() =>
  withHostAccess(
    netConf({
      ...masterKeys(),
      ...hostAccessKeys(),
      /** The mode; `bridge` if absent. */
      mode: optional(z.string()),
      mac: optional(z.string()),
      /** How many broadcasts can wait; the kernel's default if absent or 0. */
      bcqueuelen: optional(uint32Schema()),
      runtimeConfig: optional(z.looseObject({ mac: optional(z.string()) })),
    }),
    "bridge",
  )
);

/** The decoded configuration. */
export type MacvlanConfig = SchemaOutput<ReturnType<typeof macvlanSchema>>;
