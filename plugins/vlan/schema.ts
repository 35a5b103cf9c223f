/**
 * The configuration schema of vlan.
 *
 * @module
 */

import * as z from "zod/mini";
import { once, type SchemaOutput } from "../../base/json/json.ts";
import { netConf, optional } from "../../cni/config/types.ts";
import { masterKeys } from "../parts/link/on_master_schema.ts";

/**
 * Builds the schema of the network configuration.
 *
 * Source: containernetworking/plugins plugins/main/vlan/vlan.go `NetConf`.
 */
export const vlanSchema = once(() =>
  netConf({
    ...masterKeys(),
    /** The VLAN; 0 if absent. */
    vlanId: optional(z.int()),
  })
);

/** The decoded configuration. */
export type VlanConfig = SchemaOutput<ReturnType<typeof vlanSchema>>;
