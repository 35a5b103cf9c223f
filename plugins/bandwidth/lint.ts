/**
 * Mistakes in a configuration of bandwidth, and keys without effect.
 *
 * @module
 */

import type { Linted } from "../../metadata/plugin_metadata.ts";
import type { JsonObject } from "../../base/json/json.ts";
import { errorAt, type Problem, warningAt } from "../../metadata/problem.ts";
import { frameBytes } from "./token_bucket.ts";

/** Source: limits.ts. */
const MAX_BURST_BITS = 0xffff_ffff * 8;

/** The smallest bucket that lets a packet with the usual MTU pass. */
const PACKET_BITS = frameBytes(1500) * 8;

/** See {@linkcode Lint}. */
export function lint({ conf, capabilities }: Linted): Problem[] {
  const directions = (["ingress", "egress"] as const)
    .flatMap((direction) => checkLimit(conf, direction));
  const both = !SUBNETS.every((key) => hasSubnets(conf, [key])) ? [] : [
    errorAt(
      ["unshapedSubnets"],
      "shapedSubnets and unshapedSubnets cannot be combined",
    ),
  ];
  const hasRate = [conf["ingressRate"], conf["egressRate"]].some(Boolean);
  const idle = hasRate || capabilities["bandwidth"] ? [] : [
    warningAt(
      [],
      "bandwidth limits nothing: neither a rate nor the capability " +
        '"bandwidth" is set',
      "no-effect",
    ),
  ];
  return [...directions, ...both, ...idle];
}

const SUBNETS = ["shapedSubnets", "unshapedSubnets"];

function hasSubnets(conf: JsonObject, keys = SUBNETS): boolean {
  return keys.some((key) => {
    const subnets = conf[key];
    return Array.isArray(subnets) && subnets.length > 0;
  });
}

function checkLimit(conf: JsonObject, direction: string): Problem[] {
  const rateKey = `${direction}Rate`, burstKey = `${direction}Burst`;
  const rate = Number(conf[rateKey] ?? 0);
  const burst = Number(conf[burstKey] ?? 0);
  if (burst > 0 && rate === 0) {
    return [errorAt([burstKey], `${rateKey} must also be set`)];
  }
  if (burst >= MAX_BURST_BITS) {
    return [errorAt([burstKey], "more than 4 GB; the unit is bits")];
  }
  // With subnets, a queue lets them pass.
  if (burst > 0 && burst < PACKET_BITS && !hasSubnets(conf)) {
    return [
      warningAt(
        [burstKey],
        `${burst} bits are less than a packet of 1500 bytes, which never ` +
          `passes; write ${PACKET_BITS} or more`,
      ),
    ];
  }
  return [];
}
