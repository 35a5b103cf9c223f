/**
 * The schema of dhcp's configuration.
 *
 * @module
 */

import * as z from "zod/mini";
import { once, type SchemaOutput } from "../../base/json/json.ts";
import { netConf, optional, uint32Schema } from "../../cni/config/types.ts";

/** Builds the schema of the whole network configuration. */
export const dhcpSchema = once(() => {
  const text = z._default(z.string(), "");
  return netConf({
    ipam: optional(z.looseObject({
      type: optional(z.string()),
      daemonSocketPath: optional(
        z.string().check(z.regex(/^(\/.*)?$/s, {
          error: ({ input }) => `expected an absolute path, got "${input}"`,
        })),
      ),
      family: optional(z.literal([4, 6, "both"])),
      defaultRoute: optional(z.boolean()),
      priority: optional(uint32Schema()),
      provide: optional(z.array(
        z.looseObject({ option: text, value: text, fromArg: text }),
      )),
      request: optional(z.array(
        z.looseObject({ option: text, skipDefault: optional(z.boolean()) }),
      )),
    })),
  });
});

/** The decoded configuration. */
export type DhcpConfig = SchemaOutput<ReturnType<typeof dhcpSchema>>;
