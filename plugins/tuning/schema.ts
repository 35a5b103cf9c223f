/**
 * The configuration schema of tuning.
 *
 * @module
 */

import * as z from "zod/mini";
import { once, type SchemaOutput } from "../../base/json/json.ts";
import {
  netConf,
  optional,
  parsedText,
  uint32Schema,
} from "../../cni/config/types.ts";
import { Mac } from "../../net/mac.ts";

/** Builds the keys of the configuration and of its `args.cni`. */
const tunedShape = once(() => ({
  /** Values by name, such as `net.core.somaxconn`. */
  sysctl: optional(z.record(z.string(), z.string())),
  /** The hardware address. */
  mac: optional(z.string()),
  /** Whether it accepts all frames; false keeps the link unchanged. */
  promisc: optional(z.boolean()),
  /** The MTU in bytes; 0 keeps the link unchanged. */
  mtu: optional(uint32Schema()),
  /** Whether it accepts all multicast frames. */
  allmulti: optional(z.boolean()),
  /** Length of its queue in packets. */
  txQLen: optional(uint32Schema()),
}));

/**
 * Builds the schema of the network configuration.
 *
 * Source: containernetworking/plugins plugins/meta/tuning/tuning.go
 * `TuningConf`.
 */
export const tuningSchema = once(() =>
  netConf({
    ...tunedShape(),
    dataDir: optional(z.string()),
    args: optional(
      z.looseObject({ cni: optional(z.looseObject(tunedShape())) }),
    ),
    runtimeConfig: optional(z.looseObject({ mac: optional(z.string()) })),
  })
);

/** Builds the schema of a backup, in the Go plugin's format. */
export const backupSchema = once(() => {
  const { promisc, mtu, allmulti, txQLen } = tunedShape();
  const mac = optional(parsedText(Mac.parse));
  return z.looseObject({
    ...{ mtu, promisc, allmulti, txQLen, mac },
    netns: optional(z.string()),
    index: optional(uint32Schema()),
  });
});

/** The decoded configuration. */
export type TuningConfig = SchemaOutput<ReturnType<typeof tuningSchema>>;
