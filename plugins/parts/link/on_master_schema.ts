/**
 * The configuration keys of plugins that create their link on a master.
 *
 * @module
 */

import * as z from "zod/mini";
import { optional } from "../../../cni/config/types.ts";
import { once } from "../../../base/json/json.ts";
import { dnsOverrideSchema } from "../address/dns_override.ts";

/** Builds the schemas of the keys of `MasterConfig`. */
export const masterKeys = once(() => ({
  master: optional(z.string()),
  mtu: optional(z.int()),
  linkInContainer: optional(z.boolean()),
  enabledad: optional(z.boolean()),
  conflictCheck: optional(z.boolean()),
  dns: dnsOverrideSchema(),
}));
