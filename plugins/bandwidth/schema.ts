/**
 * The configuration schema of bandwidth.
 *
 * @module
 */

import * as z from "zod/mini";
import { once, type SchemaOutput } from "../../base/json/json.ts";
import { cidrSchema, netConf, optional } from "../../cni/config/types.ts";

/**
 * Reads an integer like Go's uint64; the largest integers lose their last digits.
 */
const uint64Schema = once(() =>
  z.number().check(z.refine(
    (value) => Number.isInteger(value) && value >= 0 && value <= 2 ** 64,
    { error: "expected an integer from 0 to 2^64 - 1" },
  ))
);

/**
 * Builds the keys of the configuration and of its `runtimeConfig.bandwidth`.
 */
const blockShape = once(() => ({
  /** Towards the container, in bits per second. */
  ingressRate: optional(uint64Schema()),
  /** The burst in bits. */
  ingressBurst: optional(uint64Schema()),
  /** Out of the container, in bits per second. */
  egressRate: optional(uint64Schema()),
  /** The burst in bits. */
  egressBurst: optional(uint64Schema()),
  /** Only traffic with these subnets is limited. */
  shapedSubnets: optional(z.array(cidrSchema())),
  /** Traffic with these subnets is not limited. */
  unshapedSubnets: optional(z.array(cidrSchema())),
}));

/** Builds the schema of the network configuration. */
export const bandwidthSchema = once(() =>
  netConf({
    ...blockShape(),
    runtimeConfig: optional(
      z.looseObject({ bandwidth: optional(z.looseObject(blockShape())) }),
    ),
  })
);

/** The decoded configuration. */
export type BandwidthConfig = SchemaOutput<ReturnType<typeof bandwidthSchema>>;
