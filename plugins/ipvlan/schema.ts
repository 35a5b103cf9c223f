/**
 * The configuration schema of ipvlan.
 *
 * @module
 */

import * as z from "zod/mini";
import { once, type SchemaOutput } from "../../base/json/json.ts";
import { netConf, optional, refusing } from "../../cni/config/types.ts";
import {
  hostAccessKeys,
  withHostAccess,
} from "../parts/link/host_access_schema.ts";
import { masterKeys } from "../parts/link/on_master_schema.ts";

/**
 * Builds the schema of the network configuration.
 *
 * Source: containernetworking/plugins plugins/main/ipvlan/ipvlan.go `NetConf`.
 */
export const ipvlanSchema = once(() => {
  const config = netConf({
    ...masterKeys(),
    ...hostAccessKeys(),
    /** The mode; `l2` if absent. */
    mode: optional(z.string()),
  });
  return refusing(
    withHostAccess(config),
    "conflictCheck",
    ({ conflictCheck, mode }) =>
      conflictCheck && (mode || "l2") !== "l2"
        ? `needs mode "l2", got "${mode}": other modes cannot probe`
        : undefined,
  );
});

/** The decoded configuration. */
export type IpvlanConfig = SchemaOutput<ReturnType<typeof ipvlanSchema>>;
