/**
 * The configuration schema of tap.
 *
 * @module
 */

import * as z from "zod/mini";
import { once, type SchemaOutput } from "../../base/json/json.ts";
import { netConf, optional, uint32Schema } from "../../cni/config/types.ts";
import { dnsOverrideSchema } from "../parts/address/dns_override.ts";

/**
 * Builds the schema of the network configuration.
 *
 * Source: containernetworking/plugins plugins/main/tap/tap.go `NetConf`.
 */
export const tapSchema = once(() => {
  const text = optional(z.string());
  const id = optional(uint32Schema());
  return netConf({
    /** Whether a program can open several queues. */
    multiQueue: optional(z.boolean()),
    /** The MTU in bytes; the kernel's default if 0. */
    mtu: optional(uint32Schema()),
    mac: text,
    /** ID of the user that is permitted to open the device without CAP_NET_ADMIN. */
    owner: id,
    /**
     * ID of the group whose members are permitted to open the device without
     * CAP_NET_ADMIN.
     */
    group: id,
    /** SELinux context of the device. */
    selinuxContext: text,
    /** Name of a bridge in the container to make it a port of. */
    bridge: text,
    runtimeConfig: optional(z.looseObject({ mac: text })),
    dns: dnsOverrideSchema(),
  });
});

/** The decoded configuration. */
export type TapConfig = SchemaOutput<ReturnType<typeof tapSchema>>;
