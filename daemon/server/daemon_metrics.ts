/**
 * The daemon's counters.
 *
 * @module
 */

import type { AddressConflict } from "../../cni/call/context.ts";
import type { EndedCall } from "./call.ts";
import type { DeclineReason } from "./decline_reasons.ts";
import { Counter, formatGauge, type Gauge, Histogram } from "./metrics.ts";

/** The values of a call that are counted. */
type CallFigures = Omit<EndedCall, "call" | "outcome">;

/** How many networks have samples: callers choose the names. */
const MAX_NETWORKS = 100;

/** The label of all further networks. */
const OTHER = "other networks";

/** The daemon's metrics. */
export class DaemonMetrics {
  readonly #calls = new Counter(
    "cni_daemon_calls_total",
    "Calls that the daemon has run, by the code of their error (0: success).",
  );
  readonly #declined = new Counter(
    "cni_daemon_not_mine_total",
    "Calls that the daemon declined, so that their callers ran them.",
  );
  readonly #durations = new Histogram(
    "cni_daemon_call_duration_seconds",
    "Time from the arrival of a call to its answer.",
  );
  readonly #waits = new Histogram(
    "cni_daemon_call_wait_seconds",
    "Time that calls waited in the queue.",
  );
  readonly #conflicts = new Counter(
    "cni_daemon_address_conflicts_total",
    "Addresses that other machines had, by what the container gets instead.",
  );
  readonly #gauges: readonly Gauge[];
  readonly #networks = new Set<string>();

  /** @param gauges Values that are read when the metrics are shown */
  constructor(gauges: readonly Gauge[]) {
    this.#gauges = gauges;
  }

  /** Counts a call that the daemon has run. */
  countCall(
    { plugin, command, network, code, ms, waitedMs }: CallFigures,
  ): void {
    if (code < 0) return; // It counts as declined.
    const labels = { plugin, command, network: this.#label(network) };
    this.#calls.add({ ...labels, code });
    this.#durations.observe(labels, ms / 1000);
    this.#waits.observe({}, waitedMs / 1000);
  }

  /** Counts an address that a container does not get. */
  countConflict(
    { network, instead }: Pick<AddressConflict, "network" | "instead">,
  ): void {
    const outcome = instead === undefined ? "failed" : "replaced";
    this.#conflicts.add({ network: this.#label(network), outcome });
  }

  /** Bounds the number of samples. */
  #label(network: string): string {
    if (this.#networks.size < MAX_NETWORKS) this.#networks.add(network);
    return this.#networks.has(network) ? network : OTHER;
  }

  /** Counts a call that was declined. */
  countDeclined(reason: DeclineReason): void {
    this.#declined.add({ reason });
  }

  /** Formats everything for Prometheus. */
  format(): string {
    return [
      this.#calls,
      this.#declined,
      this.#durations,
      this.#waits,
      this.#conflicts,
    ].map((metric) => metric.format()).join("") +
      this.#gauges.map(formatGauge).join("");
  }
}
