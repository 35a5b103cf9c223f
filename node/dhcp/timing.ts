/**
 * The daemon's default times.
 *
 * @module
 */

import type { Timing } from "./client.ts";

/** Source: containernetworking/plugins plugins/ipam/dhcp/lease.go. */
export const DEFAULT_TIMING: Timing = {
  timeoutMs: 10_000,
  resendMaxMs: 62_000,
  resendTimeoutMs: 208_000,
};
