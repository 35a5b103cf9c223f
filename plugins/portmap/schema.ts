/**
 * The configuration schema of portmap.
 *
 * @module
 */

import * as z from "zod/mini";
import { once, type SchemaOutput } from "../../base/json/json.ts";
import { netConf, optional, optionalIpSchema } from "../../cni/config/types.ts";

/** Where the rules are kept. */
export type BackendName = "iptables" | "nftables";

/** The protocols with ports that can be mapped. */
export type Protocol = "tcp" | "udp" | "sctp";

const BACKENDS = ["iptables", "nftables"] as const;
const PROTOCOLS = ["tcp", "udp", "sctp"] as const;

const quote = (text: unknown): string => JSON.stringify(text);

const backendSchema = once(() =>
  z.enum(BACKENDS, {
    error: ({ input }) => `unrecognized backend ${quote(input)}`,
  })
);

/** Reads a protocol in any case; "" means tcp, as in Kubernetes. */
const protocolSchema = once(() =>
  z.pipe(
    z.string(),
    z.transform((given, { issues }): Protocol => {
      const wanted = given.toLowerCase() || "tcp";
      const protocol = PROTOCOLS.find((one) => one === wanted);
      if (protocol !== undefined) return protocol;
      const message = `expected ${PROTOCOLS.map(quote).join(" or ")}, got ${
        quote(given)
      }`;
      issues.push({ code: "custom", message, input: given });
      return z.NEVER;
    }),
  )
);

/** Builds the schema of an element of `portMappings`. */
export const mappingSchema = once(() =>
  z.looseObject({
    hostPort: optional(z.int()),
    containerPort: optional(z.int()),
    protocol: optional(protocolSchema()),
    hostIP: optionalIpSchema(),
  })
);

/** Builds the schema of the network configuration. */
export const portmapSchema = once(() =>
  netConf({
    /** The host decides if it is absent. */
    backend: optional(backendSchema()),
    /** Whether to masquerade connections from the host and the container itself. */
    snat: optional(z.boolean()),
    /** Words that IPv4 packets must match besides, in the backend's syntax. */
    conditionsV4: optional(z.array(z.string())),
    /** Conditions for IPv6. */
    conditionsV6: optional(z.array(z.string())),
    /** Whether to masquerade all connections to the ports. */
    masqAll: optional(z.boolean()),
    /** The bit of the packet mark that means masquerade, for iptables. */
    markMasqBit: optional(
      z.int().check(z.refine((bit) => bit >= 0 && bit <= 31, {
        error: "MasqMarkBit must be between 0 and 31",
      })),
    ),
    /** A chain of iptables that sets such a mark. */
    externalSetMarkChain: optional(z.string()),
    runtimeConfig: optional(
      z.looseObject({ portMappings: optional(z.array(mappingSchema())) }),
    ),
  })
);

/** The decoded configuration. */
export type PortmapConfig = SchemaOutput<ReturnType<typeof portmapSchema>>;

/** One decoded element of `runtimeConfig.portMappings`. */
export type GivenMapping = NonNullable<
  NonNullable<PortmapConfig["runtimeConfig"]>["portMappings"]
>[number];
