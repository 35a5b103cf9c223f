/**
 * What a configuration limits.
 *
 * @module
 */

import { CniError, ErrorCode } from "../../cni/error.ts";
import type { Cidr } from "../../net/cidr.ts";
import type { BandwidthConfig } from "./config.ts";

/** What one direction may carry. */
export interface Limit {
  /** More than 0. */
  readonly bitsPerSecond: number;
  /** What may pass at once after a pause; more than 0. */
  readonly burstBits: number;
}

/** Whose traffic is limited, where it is not everybody's. */
export interface Scope {
  /** Whether the networks are those that are limited, or those that are not. */
  readonly isShaped: boolean;
  /** Of the other ends of the container's connections; at least one. */
  readonly networks: readonly Cidr[];
}

/** What is asked for, by direction; undefined is without limit. */
export interface Limits {
  /** Towards the container. */
  readonly ingress: Limit | undefined;
  /** Out of the container. */
  readonly egress: Limit | undefined;
  /** Undefined if all traffic is limited. */
  readonly scope: Scope | undefined;
}

/** Says whether nothing is limited. */
export function isUnlimited({ ingress, egress }: Limits): boolean {
  return ingress === undefined && egress === undefined;
}

type Block = Omit<BandwidthConfig, "runtimeConfig">;

/**
 * Reads the limits. Those of the configuration win over the runtime's, and all
 * of them do if there is but one.
 *
 * Source: containernetworking/plugins plugins/meta/bandwidth/main.go
 * `getBandwidth`, `validateRateAndBurst`, with its texts.
 *
 * @throws {CniError} 7 if they contradict each other
 */
export function limitsOf(config: BandwidthConfig): Limits {
  const block = hasLimits(config)
    ? config
    : config.runtimeConfig?.bandwidth ?? {};
  return {
    ingress: limitOf(block.ingressRate, block.ingressBurst),
    egress: limitOf(block.egressRate, block.egressBurst),
    // The subnets may be the operator's where the rates are the runtime's.
    scope: scopeOf(block) ?? scopeOf(config),
  };
}

function hasLimits(
  { ingressRate, ingressBurst, egressRate, egressBurst }: Block,
): boolean {
  return [ingressRate, ingressBurst, egressRate, egressBurst]
    .some((value) => value !== undefined);
}

/** What the kernel's 32 bits have no room for, in bytes. */
const TOO_LARGE_BURST = 0xffff_ffff;

function limitOf(bitsPerSecond = 0, burstBits = 0): Limit | undefined {
  if (burstBits === 0 && bitsPerSecond !== 0) {
    throw invalid("if rate is set, burst must also be set");
  }
  if (bitsPerSecond === 0 && burstBits !== 0) {
    throw invalid("if burst is set, rate must also be set");
  }
  if (Math.floor(burstBits / 8) >= TOO_LARGE_BURST) {
    throw invalid("burst cannot be more than 4GB");
  }
  return bitsPerSecond === 0 ? undefined : { bitsPerSecond, burstBits };
}

function scopeOf(
  { shapedSubnets = [], unshapedSubnets = [] }: Block,
): Scope | undefined {
  if (shapedSubnets.length > 0 && unshapedSubnets.length > 0) {
    throw invalid(
      "unshapedSubnets and shapedSubnets cannot be both specified, " +
        "one of them should be discarded",
    );
  }
  const isShaped = shapedSubnets.length > 0;
  const networks = isShaped ? shapedSubnets : unshapedSubnets;
  return networks.length === 0 ? undefined : { isShaped, networks };
}

function invalid(message: string): CniError {
  return new CniError(ErrorCode.InvalidNetworkConfig, message);
}
