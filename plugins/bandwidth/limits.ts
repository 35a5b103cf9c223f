/**
 * The limits in a configuration.
 *
 * @module
 */

import { invalidConfig } from "../../base/error.ts";
import type { Cidr } from "../../net/cidr.ts";
import type { BandwidthConfig } from "./schema.ts";

/** The limit of a direction. */
export interface Limit {
  /** The rate, more than 0. */
  readonly bitsPerSecond: number;
  /** Amount that can pass in a single burst after a pause; more than 0. */
  readonly burstBits: number;
}

/** The limited part of the traffic. */
export interface TrafficScope {
  /** Whether only these networks are limited, or all other networks. */
  readonly isShaped: boolean;
  /** Networks of the container's peers; at least one network. */
  readonly networks: readonly Cidr[];
}

/** Limits by direction; undefined for unlimited. */
export interface Limits {
  /** The limit towards the container. */
  readonly ingress: Limit | undefined;
  /** The limit out of the container. */
  readonly egress: Limit | undefined;
  /** The limited traffic; undefined if all traffic is limited. */
  readonly scope: TrafficScope | undefined;
}

/** Reports whether both directions are unlimited. */
export function isUnlimited({ ingress, egress }: Limits): boolean {
  return ingress === undefined && egress === undefined;
}

type Block = Omit<BandwidthConfig, "runtimeConfig">;

/**
 * Reads the limits. If the configuration contains any limit, all of the runtime's
 * limits are ignored.
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
    // The rates can come from the runtime, and the subnets from the operator.
    scope: scopeOf(block) ?? scopeOf(config),
  };
}

function hasLimits(
  { ingressRate, ingressBurst, egressRate, egressBurst }: Block,
): boolean {
  return [ingressRate, ingressBurst, egressRate, egressBurst]
    .some((value) => value !== undefined);
}

/** In bytes; does not fit into the kernel's 32 bits. */
const TOO_LARGE_BURST = 0xffff_ffff;

/**
 * The default burst: a tenth of a second, and enough for two packets of 9000 bytes.
 */
const DEFAULT_BURST_SECONDS = 0.1, LEAST_DEFAULT_BURST_BITS = 18_432 * 8;

function limitOf(bitsPerSecond = 0, givenBurst = 0): Limit | undefined {
  const burstBits = bitsPerSecond === 0 || givenBurst !== 0
    ? givenBurst
    : defaultBurstOf(bitsPerSecond);
  if (bitsPerSecond === 0 && burstBits !== 0) {
    throw invalidConfig("if burst is set, rate must also be set");
  }
  if (Math.floor(burstBits / 8) >= TOO_LARGE_BURST) {
    throw invalidConfig("burst cannot be more than 4GB");
  }
  return bitsPerSecond === 0 ? undefined : { bitsPerSecond, burstBits };
}

function defaultBurstOf(bitsPerSecond: number): number {
  const bits = Math.floor(bitsPerSecond * DEFAULT_BURST_SECONDS);
  // Less than the largest possible burst, whatever the rate.
  const most = (TOO_LARGE_BURST - 1) * 8;
  return Math.min(Math.max(bits, LEAST_DEFAULT_BURST_BITS), most);
}

function scopeOf(
  { shapedSubnets = [], unshapedSubnets = [] }: Block,
): TrafficScope | undefined {
  if (shapedSubnets.length > 0 && unshapedSubnets.length > 0) {
    throw invalidConfig(
      "unshapedSubnets and shapedSubnets cannot be both specified, " +
        "one of them should be discarded",
    );
  }
  const isShaped = shapedSubnets.length > 0;
  const networks = isShaped ? shapedSubnets : unshapedSubnets;
  return networks.length === 0 ? undefined : { isShaped, networks };
}
