/**
 * Schemas of capabilities that both the runtime and annotations set.
 *
 * @module
 */

import * as z from "zod/mini";
import { once, optional } from "../../../cni/types.ts";

/**
 * Reads `portMappings`; other keys are kept.
 *
 * Source: multus-cni pkg/types/types.go `PortMapEntry`.
 */
export const portMappingsSchema = once(() => {
  const port = optional(z.int()), text = optional(z.string());
  return z.array(z.looseObject({
    hostPort: port,
    containerPort: port,
    protocol: text,
    hostIP: text,
  }));
});

/**
 * Reads `bandwidth`, in bits and bits per second; other keys are kept.
 *
 * Source: multus-cni pkg/types/types.go `BandwidthEntry`.
 */
export const bandwidthSchema = once(() => {
  const bits = optional(z.int());
  return z.looseObject({
    ingressRate: bits,
    ingressBurst: bits,
    egressRate: bits,
    egressBurst: bits,
  });
});
