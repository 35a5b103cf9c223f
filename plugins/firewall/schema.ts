/**
 * The configuration schema of firewall.
 *
 * @module
 */

import * as z from "zod/mini";
import { once, type SchemaOutput } from "../../base/json/json.ts";
import { netConf, optional } from "../../cni/config/types.ts";

const quote = (text: unknown): string => JSON.stringify(text);

/** "" leaves the choice to the host. */
const BACKENDS = ["iptables", "firewalld", "nftables", ""] as const;
/** "" means open. */
const POLICIES = ["open", "same-bridge", "isolated", ""] as const;

/** Longest name of a chain of iptables. Source: `XT_EXTENSION_MAXNAMELEN`. */
const CHAIN_NAME = /^(?!-)[^\s"'\\!]{0,28}$/;

/** Builds the schema of the network configuration. */
export const firewallSchema = once(() =>
  netConf({
    /** The host decides if it is absent. */
    backend: optional(z.enum(BACKENDS, {
      error: ({ input }) =>
        `expected "iptables", "firewalld" or "nftables", got ${quote(input)}`,
    })),
    /** The chain of iptables with rules that override the plugin's. */
    iptablesAdminChainName: optional(
      z.string().check(z.regex(CHAIN_NAME, {
        error: ({ input }) => `${quote(input)} cannot be the name of a chain`,
      })),
    ),
    /** The zone of firewalld to which the addresses are added. */
    firewalldZone: optional(z.string()),
    /** From where connections to the container are let through. */
    ingressPolicy: optional(z.enum(POLICIES, {
      error: ({ input }) => `unknown ingress policy: ${quote(input)}`,
    })),
  })
);

/** The decoded configuration. */
export type FirewallConfig = SchemaOutput<ReturnType<typeof firewallSchema>>;
