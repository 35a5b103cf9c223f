/**
 * `cni metrics`: the node's networks as metrics for Prometheus.
 *
 * @module
 */

import { PLUGINS_VERSION } from "../../base/process/build_identity.ts";
import { formatGauge, type Labels } from "../../daemon/server/metrics.ts";
import { ORPHAN_KINDS } from "../../metadata/orphans.ts";
import type { Output } from "../../base/command_line/command.ts";
import {
  formatFailureText,
  hintAtRoot,
} from "../../base/command_line/failure.ts";
import { once } from "../../base/json/json.ts";
import type { NodeAttachment } from "../node/node_attachments.ts";
import { readOrphans } from "../doctor/orphans.ts";
import { diagnose, type Diagnosis } from "../doctor/diagnose.ts";
import { NodeReader, type Replaced } from "../node/node_reader.ts";
import { countPools, type PoolUse } from "../node/pools.ts";
import type { CniCall } from "../flags.ts";
import { readDirectories } from "../node/network.ts";
import { NODE_DAEMON_STATES } from "../node/node_daemon.ts";
import { writeTarget } from "../written_file.ts";

type Sample = readonly [labels: Labels, value: number];

/** Data behind several metrics, read once. */
interface Shared {
  /** Counts the addresses of pools. */
  readonly pools: () => readonly PoolUse[];
  /** Runs the checks of `cni doctor`. */
  readonly diagnosis: () => Promise<Diagnosis>;
}

/** A metric, and where its values come from. */
interface Metric {
  readonly name: string;
  readonly help: string;
  readonly read: (
    node: NodeReader,
    shared: Shared,
  ) => readonly Sample[] | Promise<readonly Sample[]>;
}

/** The metrics of --findings. */
const FINDINGS: readonly Metric[] = [
  {
    name: "cni_findings",
    help: "Findings of cni doctor; cni explain CODE describes one.",
    read: async (_, { diagnosis }) =>
      countFindings((await diagnosis()).findings),
  },
  {
    name: "cni_findings_unchecked",
    help: "Checks of cni doctor that could not run.",
    read: async (_, { diagnosis }) => [
      [{}, (await diagnosis()).unchecked.length],
    ],
  },
];

const METRICS: readonly Metric[] = [
  {
    name: "cni_info",
    help: "Version of the cni tool.",
    read: () => [[{ version: PLUGINS_VERSION }, 1]],
  },
  {
    name: "cni_networks",
    help: "Networks that are configured.",
    read: ({ networks }) => [[{}, networks.length]],
  },
  {
    name: "cni_unusable_configurations",
    help: "Configuration files that cannot be read.",
    read: ({ configuration }) => [[{}, configuration.unusable.length]],
  },
  {
    name: "cni_attachments",
    help: "Attachments in the cache.",
    read: (node) => countByNetwork(node, node.attachments),
  },
  {
    name: "cni_stale_attachments",
    help: "Attachments in the cache whose namespace was deleted.",
    read: (node) =>
      countByNetwork(
        node,
        node.attachments.filter(({ isLive }) => isLive === false),
      ),
  },
  {
    name: "cni_pool_addresses",
    help: "Addresses that host-local can allocate.",
    read: (_, { pools }) => samplesOf(pools(), "all"),
  },
  {
    name: "cni_pool_used_addresses",
    help: "Addresses that host-local has allocated.",
    read: (_, { pools }) => samplesOf(pools(), "used"),
  },
  {
    name: "cni_node_daemon",
    help: "1 for the state of the node daemon.",
    read: async (node) => {
      const daemon = await node.daemonAt(node.daemonSocket);
      return NODE_DAEMON_STATES
        .map((state) => [{ state }, Number(state === daemon.is)]);
    },
  },
  {
    name: "cni_orphans",
    help: "Resources of deleted containers; see cni gc --orphans.",
    read: async (node) =>
      countBy(await readOrphans(node), "kind", ORPHAN_KINDS),
  },
];

/** Reads the metrics, and prints them or writes them into a file. */
export async function metrics(
  call: CniCall,
  replaced: Replaced = {},
): Promise<Output> {
  const { env, signal, flags } = call;
  using node = new NodeReader({
    directories: readDirectories(call),
    env,
    signal,
    ...replaced,
  });
  const shared: Shared = {
    pools: once(() => countPools(node)),
    diagnosis: once(() => diagnose(node)),
  };
  const readings = [];
  for (const { name, help, read } of flags.findings ? FINDINGS : METRICS) {
    try {
      readings.push({ name, help, samples: await read(node, shared) });
    } catch (error) {
      signal.throwIfAborted();
      const text = formatFailureText(error) + hintAtRoot(error);
      readings.push({ name, help, samples: [], error: text });
    }
  }
  const errors = readings.flatMap(({ name, error }) =>
    error === undefined ? [] : [`Cannot read ${name}: ${error}`]
  );
  const text = readings.filter(({ error }) => error === undefined)
    .map(({ name, help, samples }) =>
      formatGauge({ name, help, read: () => samples })
    )
    .concat(formatErrors(readings))
    .join("");
  const { textfile } = flags;
  if (textfile !== undefined && textfile !== "-") {
    writeTarget(textfile, text);
  }
  return {
    json: [
      ...readings.flatMap(({ name, samples }) =>
        samples.map(([labels, value]) => ({ name, labels, value }))
      ),
      ...readings.flatMap(({ name: metric, error }) =>
        error === undefined ? [] : [{
          name: METRIC_FAILED,
          labels: { metric },
          value: 1,
          error,
        }]
      ),
    ],
    text: textfile === undefined || textfile === "-" ? text.trimEnd() : "",
    note: errors.length === 0 ? undefined : errors.join("\n"),
    exitCode: errors.length === 0 ? 0 : 1,
  };
}

const METRIC_FAILED = "cni_metric_failed";

function formatErrors(
  found: readonly { readonly name: string; readonly error?: string }[],
): string {
  return formatGauge({
    name: METRIC_FAILED,
    help: "1 if a metric could not be read, and is missing.",
    read: () =>
      found.map(({ name, error }) => [
        { metric: name },
        error === undefined ? 0 : 1,
      ]),
  });
}

/** Counts attachments by network: those that are configured or attached to. */
function countByNetwork(
  { networks, attachments }: NodeReader,
  counted: readonly NodeAttachment[],
): Sample[] {
  const names = networks.map(({ name }) => name)
    .concat(attachments.map(({ network }) => network));
  return countBy(counted, "network", names);
}

/**
 * Counts by the value of a key, which becomes a label.
 *
 * @param known Values that have a sample in any case: Prometheus has no 0 of what
 *   is missing
 */
function countBy<K extends string>(
  all: readonly Readonly<Record<K, string>>[],
  key: K,
  known: readonly string[],
): Sample[] {
  const found = Map.groupBy(all, (one) => one[key]);
  return [...new Set([...known, ...found.keys()])]
    .map((value) => [{ [key]: value }, found.get(value)?.length ?? 0]);
}

/** One sample for each code and severity. */
function countFindings(findings: Diagnosis["findings"]): Sample[] {
  const same = Map.groupBy(
    findings,
    ({ code, severity }) => `${code} ${severity}`,
  );
  return [...same.values()].map(([first, ...others]) => [
    {
      code: first?.code ?? "",
      finding: first?.check ?? "",
      severity: first?.severity ?? "",
    },
    1 + others.length,
  ]);
}

/** One sample for each range set. Sets with the same subnets are added up. */
function samplesOf(all: readonly PoolUse[], key: "all" | "used"): Sample[] {
  const pools = all.map((pool) => ({
    network: pool.network,
    subnets: pool.subnets.join(","),
    count: Number(pool[key]),
  }));
  const same = Map.groupBy(
    pools,
    ({ network, subnets }) => JSON.stringify([network, subnets]),
  );
  return [...same.values()].map((some) => [
    { network: some[0]?.network ?? "", subnets: some[0]?.subnets ?? "" },
    some.reduce((sum, { count }) => sum + count, 0),
  ]);
}
