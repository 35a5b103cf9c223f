/**
 * The configuration schema of vrf.
 *
 * @module
 */

import * as z from "zod/mini";
import { once, type SchemaOutput } from "../../base/json/json.ts";
import { netConf, optional, uint32Schema } from "../../cni/config/types.ts";

/**
 * Builds the schema of the network configuration.
 *
 * Source: containernetworking/plugins plugins/meta/vrf/main.go `VRFNetConf`.
 */
export const vrfSchema = once(() =>
  netConf({
    /** Name of the VRF. */
    vrfname: optional(z.string()),
    /** The VRF's routing table; 0 for an unused table. */
    table: optional(uint32Schema()),
  })
);

/** The decoded configuration. */
export type VrfConfig = SchemaOutput<ReturnType<typeof vrfSchema>>;
