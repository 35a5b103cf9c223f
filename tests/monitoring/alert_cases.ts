/**
 * What the alerts of deploy/monitoring fire at, as samples of a fault of a
 * hundred minutes and of the time after it.
 *
 * @module
 */

/** Until when the fault lasts, in minutes. */
const FAULT = 100;
/** How long there are samples, in minutes. */
export const END = 150;

/** A gauge that is `bad` during the fault, and `good` later. */
function gauge(bad: number, good: number): string {
  return `${bad}+0x${FAULT} ${good}+0x${END - FAULT}`;
}

/** A counter that grows in each minute of the fault, and by another number later. */
function counter(bad: number, later = 0): string {
  return `0+${bad}x${FAULT} ${bad * FAULT}+${later}x${END - FAULT}`;
}

const NODE = 'instance="node:9100"';
const DAEMON = 'job="cni-daemon",instance="node:9468"';
const ADD = `${DAEMON},plugin="ptp",command="ADD",network="pods"`;
const POD = `${DAEMON},namespace="default",pod="web",network="pods",` +
  `interface="eth0"`;
const DROPPED = `cni_pod_network_receive_packets_dropped_total{${POD}}`;
const GC = `${DAEMON},plugin="ptp",command="GC",network="pods"`;

/** Samples of a node that is well; a case replaces some. */
export const HEALTHY: Readonly<Record<string, string>> = {
  [`up{${DAEMON}}`]: gauge(1, 1),
  [`cni_daemon_calls_total{${ADD},code="0"}`]: counter(20, 20),
  [`cni_daemon_calls_total{${ADD},code="7"}`]: counter(0),
  [`cni_daemon_calls_total{${GC},code="0"}`]: counter(1, 1),
  [`cni_daemon_calls_total{${GC},code="999"}`]: counter(0),
  [`cni_daemon_call_duration_seconds_bucket{${ADD},le="5"}`]: counter(20, 20),
  [`cni_daemon_call_duration_seconds_bucket{${ADD},le="10"}`]: counter(20, 20),
  [`cni_daemon_call_duration_seconds_bucket{${ADD},le="+Inf"}`]: counter(
    20,
    20,
  ),
  [`cni_daemon_calls_waiting{${DAEMON}}`]: gauge(0, 0),
  [`cni_daemon_not_mine_total{${DAEMON},reason="another umask"}`]: counter(0),
  [`cni_daemon_standstill_seconds_total{${DAEMON}}`]: counter(0.1, 0.1),
  [`cni_daemon_watch_current{${DAEMON},objects="pods"}`]: gauge(1, 1),
  [`cni_daemon_leftovers_failed{${DAEMON}}`]: gauge(0, 0),
  [`cni_daemon_repairs_failed{${DAEMON}}`]: gauge(0, 0),
  [`cni_daemon_pods_missing_networks{${DAEMON}}`]: gauge(0, 0),
  [DROPPED]: counter(6, 6),
  [`cni_pod_network_transmit_packets_dropped_total{${POD}}`]: counter(0),
  [`process_start_time_seconds{${DAEMON}}`]: gauge(1000, 1000),
  [`process_resident_memory_bytes{${DAEMON}}`]: gauge(68e6, 68e6),
  [`cni_node_daemon{${NODE},state="running"}`]: gauge(1, 1),
  [`cni_node_daemon{${NODE},state="silent"}`]: gauge(0, 0),
  [`cni_pool_addresses{${NODE},network="pods",subnets="10.1.0.0/28"}`]: gauge(
    13,
    13,
  ),
  [`cni_pool_used_addresses{${NODE},network="pods",subnets="10.1.0.0/28"}`]:
    gauge(2, 2),
  [`cni_orphans{${NODE},kind="lease"}`]: gauge(0, 0),
  [`cni_networks{${NODE}}`]: gauge(2, 2),
  [`cni_unusable_configurations{${NODE}}`]: gauge(0, 0),
  [`cni_metric_failed{${NODE},metric="cni_orphans"}`]: gauge(0, 0),
  [`node_textfile_mtime_seconds{${NODE},file="/textfile/cni.prom"}`]:
    `0+60x${END}`,
};

/** An alert, the samples of its fault, and the minutes when it does not fire yet and when it does. */
export interface AlertCase {
  readonly alert: string;
  readonly samples: Readonly<Record<string, string>>;
  readonly notYet: number;
  readonly fires: number;
}

/** All of them. */
export const ALERT_CASES: readonly AlertCase[] = [
  {
    alert: "CniAddFails",
    samples: { [`cni_daemon_calls_total{${ADD},code="7"}`]: counter(5) },
    notYet: 9,
    fires: 13,
  },
  {
    alert: "CniDelFails",
    samples: { [`cni_daemon_calls_total{${GC},code="999"}`]: counter(1) },
    notYet: 9,
    fires: 13,
  },
  {
    alert: "CniAddSlow",
    samples: {
      [`cni_daemon_call_duration_seconds_bucket{${ADD},le="5"}`]: counter(
        10,
        20,
      ),
      [`cni_daemon_call_duration_seconds_bucket{${ADD},le="10"}`]: counter(
        20,
        20,
      ),
    },
    notYet: 9,
    fires: 13,
  },
  {
    alert: "CniCallsWait",
    samples: { [`cni_daemon_calls_waiting{${DAEMON}}`]: gauge(3, 0) },
    notYet: 4,
    fires: 6,
  },
  {
    alert: "CniDaemonDown",
    samples: { [`up{${DAEMON}}`]: gauge(0, 1) },
    notYet: 1,
    fires: 3,
  },
  {
    alert: "CniDaemonSilent",
    samples: { [`cni_node_daemon{${NODE},state="silent"}`]: gauge(1, 0) },
    notYet: 4,
    fires: 6,
  },
  {
    alert: "CniDaemonNotUsed",
    samples: {
      [`cni_daemon_not_mine_total{${DAEMON},reason="another umask"}`]: counter(
        5,
      ),
    },
    notYet: 9,
    fires: 13,
  },
  {
    alert: "CniDaemonStarved",
    samples: {
      [`cni_daemon_standstill_seconds_total{${DAEMON}}`]: counter(20),
    },
    notYet: 9,
    fires: 16,
  },
  {
    alert: "CniDaemonRestarts",
    samples: {
      [`process_start_time_seconds{${DAEMON}}`]: `1000+60x${FAULT} 7000+0x${
        END - FAULT
      }`,
    },
    notYet: 3,
    fires: 5,
  },
  {
    alert: "CniDaemonMemory",
    samples: {
      [`process_resident_memory_bytes{${DAEMON}}`]: gauge(140e6, 68e6),
    },
    notYet: 14,
    fires: 16,
  },
  {
    alert: "CniRepairFails",
    samples: { [`cni_daemon_repairs_failed{${DAEMON}}`]: gauge(1, 0) },
    notYet: 14,
    fires: 16,
  },
  {
    alert: "CniLeftoverStays",
    samples: { [`cni_daemon_leftovers_failed{${DAEMON}}`]: gauge(2, 0) },
    notYet: 14,
    fires: 16,
  },
  {
    alert: "CniNetworkMissing",
    samples: { [`cni_daemon_pods_missing_networks{${DAEMON}}`]: gauge(2, 0) },
    notYet: 4,
    fires: 6,
  },
  {
    alert: "CniApiWatchStale",
    samples: {
      [`cni_daemon_watch_current{${DAEMON},objects="pods"}`]: gauge(0, 1),
    },
    notYet: 9,
    fires: 11,
  },
  {
    alert: "CniPodPacketsDropped",
    samples: { [DROPPED]: counter(1200, 6) },
    notYet: 9,
    fires: 13,
  },
  {
    alert: "CniAddressesFew",
    samples: {
      [`cni_pool_used_addresses{${NODE},network="pods",subnets="10.1.0.0/28"}`]:
        gauge(12, 2),
    },
    notYet: 4,
    fires: 6,
  },
  {
    alert: "CniAddressesExhausted",
    samples: {
      [`cni_pool_used_addresses{${NODE},network="pods",subnets="10.1.0.0/28"}`]:
        gauge(13, 2),
    },
    notYet: 0,
    fires: 2,
  },
  {
    alert: "CniLeftovers",
    samples: { [`cni_orphans{${NODE},kind="lease"}`]: gauge(2, 0) },
    notYet: 89,
    fires: 91,
  },
  {
    alert: "CniNoNetwork",
    samples: { [`cni_networks{${NODE}}`]: gauge(0, 2) },
    notYet: 9,
    fires: 11,
  },
  {
    alert: "CniConfigurationUnusable",
    samples: { [`cni_unusable_configurations{${NODE}}`]: gauge(1, 0) },
    notYet: 4,
    fires: 6,
  },
  {
    alert: "CniFinding",
    samples: {
      [`cni_findings{${NODE},code="CNI0601",finding="ip-forward",severity="error"}`]:
        `2+0x${FAULT}`,
    },
    notYet: 14,
    fires: 16,
  },
  {
    alert: "CniMetricsOld",
    samples: {
      [`node_textfile_mtime_seconds{${NODE},file="/textfile/cni.prom"}`]:
        `0+0x${FAULT} ${FAULT * 60}+60x${END - FAULT}`,
    },
    notYet: 34,
    fires: 37,
  },
  {
    alert: "CniMetricFailed",
    samples: {
      [`cni_metric_failed{${NODE},metric="cni_orphans"}`]: gauge(1, 0),
    },
    notYet: 9,
    fires: 11,
  },
];
