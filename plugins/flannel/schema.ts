/**
 * The configuration schema of flannel.
 *
 * @module
 */

import * as z from "zod/mini";
import { once, type SchemaOutput } from "../../base/json/json.ts";
import { netConf, optional } from "../../cni/config/types.ts";

/** Builds the schema of the network configuration. */
export const flannelSchema = once(() =>
  netConf({
    /** Unchanged, for the delegate; `call.cniVersion` is never "". */
    cniVersion: optional(z.string()),
    /** Path of flanneld's file; the default path if absent or "". */
    subnetFile: optional(z.string()),
    /** The directory of saved configurations; the default directory if absent or "". */
    dataDir: optional(z.string()),
    /** Keys of the delegate's configuration. */
    delegate: delegateSchema(),
    /** Base of the delegate's `ipam`, to which the node's ranges are added. */
    ipam: optional(z.looseObject({
      type: optional(z.string()),
      routes: optional(z.array(z.unknown())),
    })),
    /** The runtime's values, which the delegate receives. */
    runtimeConfig: optional(z.looseObject({})),
  })
);

/** Reads the keys of the delegate, which this plugin does not interpret. */
const delegateSchema = once(() => {
  const setHere = ["name", "ipam"].map((key) =>
    z.refine<object>((delegate) => !Object.hasOwn(delegate, key), {
      error: `'delegate' dictionary must not have '${key}' field, ` +
        "it'll be set by flannel",
    })
  );
  const hasType = z.refine<{ type?: unknown }>(
    (delegate) =>
      !Object.hasOwn(delegate, "type") || typeof delegate.type === "string",
    {
      error: "'delegate' dictionary, if present, must have (string) " +
        "'type' field",
    },
  );
  return optional(z.looseObject({}).check(hasType, ...setHere));
});

/** The decoded configuration. */
export type FlannelConfig = SchemaOutput<ReturnType<typeof flannelSchema>>;
