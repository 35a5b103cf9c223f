/**
 * The configuration of ptp.
 *
 * @module
 */

import * as z from "zod/mini";
import type { SchemaOutput } from "../../cni/json.ts";
import { netConf, once, optional } from "../../cni/types.ts";
import { dnsOverrideSchema } from "../_shared/dns_override.ts";
import { masqueradeBackendSchema } from "../_shared/masquerade/schema.ts";

/** Builds the schema of the network configuration. */
export const ptpSchema = once(() =>
  netConf({
    /** MTU of both ends in bytes; the kernel's default if absent, 0 or less. */
    mtu: optional(z.int()),
    ipMasq: optional(z.boolean()),
    ipMasqBackend: optional(masqueradeBackendSchema()),
    dns: dnsOverrideSchema(),
  })
);

/** The decoded configuration. */
export type PtpConfig = SchemaOutput<ReturnType<typeof ptpSchema>>;
