/**
 * Gauges of the daemon itself, read when its metrics are shown.
 *
 * @module
 */

import { PLUGINS_VERSION } from "../../base/process/build_identity.ts";
import type { Gauge } from "./metrics.ts";

/** The current state of the daemon. */
export interface OwnState {
  /** Calls that run. */
  readonly running: number;
  /** Calls that wait for their turn. */
  readonly waiting: number;
  /** How many callers are connected. */
  readonly connections: number;
  /** How many batches of deleted links the kernel has not acknowledged. */
  readonly unacknowledged: number;
  /** How long the event loop was blocked, in seconds. */
  readonly lagSeconds: number;
}

/**
 * Lists the gauges. Values of any process have the names that Prometheus defines.
 *
 * @param build Identifies the code
 * @param read Returns the current state of the daemon
 */
export function listOwnGauges(build: string, read: () => OwnState): Gauge[] {
  const startedAt = (Date.now() - performance.now()) / 1000;
  return [
    {
      name: "cni_daemon_info",
      help: "Version of the daemon, and the identity of its code.",
      read: () => [[{ version: PLUGINS_VERSION, build }, 1]],
    },
    {
      name: "cni_daemon_calls_running",
      help: "Calls that are running.",
      read: () => [[{}, read().running]],
    },
    {
      name: "cni_daemon_calls_waiting",
      help: "Calls that wait in the queue.",
      read: () => [[{}, read().waiting]],
    },
    {
      name: "cni_daemon_connections",
      help: "Callers that are connected.",
      read: () => [[{}, read().connections]],
    },
    {
      name: "cni_daemon_link_deletions_unacknowledged",
      help: "Batches of deleted links that the kernel has not acknowledged.",
      read: () => [[{}, read().unacknowledged]],
    },
    {
      name: "cni_daemon_standstill_seconds_total",
      type: "counter",
      help: "Time in which the daemon was stopped, starved or blocked.",
      read: () => [[{}, read().lagSeconds]],
    },
    {
      name: "process_resident_memory_bytes",
      help: "Resident memory size in bytes.",
      read: () => [[{}, Deno.memoryUsage().rss]],
    },
    {
      name: "process_start_time_seconds",
      help: "Start time of the process since unix epoch in seconds.",
      read: () => [[{}, startedAt]],
    },
  ];
}
