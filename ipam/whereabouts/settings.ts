/**
 * Reads the configuration: the network's `ipam` object and the flat file.
 *
 * Source: whereabouts pkg/config/config.go.
 *
 * @module
 */

import { join } from "@std/path/posix";
import type { Environment } from "../../base/process/environment.ts";
import {
  CniError,
  describeError,
  ErrorCode,
  invalidConfig,
} from "../../base/error.ts";
import { readTextFile, unlessUnreachable } from "../../base/files/io.ts";
import { decode, parseJson } from "../../base/json/json.ts";
import type { Call } from "../../cni/plugin.ts";
import { Cidr } from "../../net/cidr.ts";
import { type Range, type RangeText, resolveRange } from "./range.ts";
import {
  type IpamConfig,
  ipamSchema,
  type WhereaboutsConfig,
} from "./schema.ts";

/** Paths of the flat file, in the order in which they are tried. */
const FLAT_FILES: readonly string[] = [
  "/etc/kubernetes/cni/net.d/whereabouts.d/whereabouts.conf",
  "/etc/cni/net.d/whereabouts.d/whereabouts.conf",
  "/host/etc/cni/net.d/whereabouts.d/whereabouts.conf",
];

/** Default directory of the allocation files. */
const DEFAULT_DATA_DIR = "/var/lib/cni/whereabouts";

/** The configuration, completed with the values of the flat file. */
export interface Settings extends IpamConfig {
  readonly networkName: string;
  /** Whether addresses are unique in all ranges of the network name. */
  readonly isOverlapping: boolean;
  /** Path of the kubeconfig. */
  readonly kubeconfig: string;
  readonly dataDir: string;
  /** The flat file's directory with the node's name, if it has one. */
  readonly nodeNameDirectory: string | undefined;
}

/** The configuration names no cluster. */
export class NotConfiguredError extends CniError {}

/**
 * Reads the settings. The configuration's own keys win over the flat file's, and
 * lists are replaced as a whole.
 *
 * @throws {NotConfiguredError} 7 if `ipam` is missing or of another type, or the
 *   kubeconfig is missing
 * @throws {CniError} 7 if the flat file is unreadable
 */
export function readSettings({ ipam: own }: WhereaboutsConfig): Settings {
  if (own === undefined) throw notConfigured("IPAM config missing 'ipam' key");
  if (own.type !== "whereabouts") {
    throw notConfigured(
      "only interested in networks whose IPAM type is 'whereabouts'. " +
        `This one was: ${own.type ?? ""}`,
    );
  }
  const flat = readFlatFile(own.configuration_path) ?? {};
  const merged = { ...flat, ...pickGiven(own) };
  const kubeconfig = merged.kubernetes?.kubeconfig ||
    flat.kubernetes?.kubeconfig;
  if (!kubeconfig) {
    throw notConfigured(
      "you have not configured the storage engine (looks like you're using an " +
        "invalid `kubernetes.kubeconfig` parameter in your config)",
    );
  }
  return {
    ...merged,
    networkName: merged.network_name ?? "",
    isOverlapping: own.enable_overlapping_ranges ?? true,
    kubeconfig,
    dataDir: merged.dataDir || DEFAULT_DATA_DIR,
    nodeNameDirectory: flat.configuration_path || undefined,
  };
}

/** Returns the keys that are not empty, as Go sees it. */
function pickGiven(config: IpamConfig): IpamConfig {
  const given = Object.entries(config).filter(([, value]) =>
    value !== undefined && value !== "" && value !== 0 && value !== false &&
    !(Array.isArray(value) && value.length === 0)
  );
  return Object.fromEntries(given) as IpamConfig;
}

/**
 * Reads the first flat file that exists.
 *
 * @param first Path that is tried before the standard paths
 * @throws {CniError} 7 if it cannot be read
 */
export function readFlatFile(first?: string): IpamConfig | undefined {
  for (const path of [...first ? [first] : [], ...FLAT_FILES]) {
    const text = readText(path);
    if (text === undefined) continue;
    return decode(ipamSchema(), parseFile(text, path), `"${path}"`);
  }
  return undefined;
}

function parseFile(text: string, path: string): unknown {
  try {
    return parseJson(text, `"${path}"`);
  } catch (error) {
    throw invalidConfig(describeError(error));
  }
}

function readText(path: string): string | undefined {
  try {
    return unlessUnreachable(() => readTextFile(path));
  } catch (error) {
    throw invalidConfig(`Cannot read "${path}": ${describeError(error)}`);
  }
}

/**
 * Lists the ranges: the single range first, then the list. An attachment gets one
 * address from each.
 */
export function rangesOf(settings: Settings): Range[] {
  return configuredRanges(settings)
    .map((one) => resolveConfigured(one.range, one, settings));
}

/**
 * Checks that no range ends before it starts: addresses beyond its end would be
 * allocated. DEL does not check ranges, because it must release addresses anyway.
 *
 * @throws {CniError} 7 if a range ends before it starts
 */
export function checkEnds(settings: Settings): void {
  for (const { range, range_start, range_end } of configuredRanges(settings)) {
    const { start = range_start, end = range_end } = range;
    if (start === undefined || end === undefined) continue;
    if (start.family !== end.family || start.compare(end) <= 0) continue;
    throw invalidConfig(`range ends at ${end}, before its start ${start}`);
  }
}

function configuredRanges(
  { range, range_start, range_end, exclude, ipRanges = [] }: Settings,
): NonNullable<Settings["ipRanges"]> {
  return [
    ...range ? [{ range, range_start, range_end, exclude }] : [],
    ...ipRanges,
  ];
}

function resolveConfigured(
  { cidr, start, end }: RangeText,
  { range_start, range_end, exclude = [] }: Pick<
    IpamConfig,
    "range_start" | "range_end" | "exclude"
  >,
  { gateway, exclude_gateway }: Settings,
): Range {
  const withheld = exclude_gateway && gateway ? [Cidr.host(gateway)] : [];
  return resolveRange(cidr, {
    start: start ?? range_start,
    end: end ?? range_end,
    excluded: [...exclude, ...withheld],
  });
}

/**
 * Finds the node's name: `NODENAME`, the file `nodename` of the flat file's
 * `configuration_path`, or the host's name.
 *
 * @throws {CniError} 7 if it is unknown
 */
export function findNodeName(
  { nodeNameDirectory }: Settings,
  env: Environment,
): string {
  const paths = [
    ...nodeNameDirectory ? [join(nodeNameDirectory, "nodename")] : [],
    "/etc/hostname",
  ];
  const given = env["NODENAME"]?.trim() ||
    paths.map((path) => readText(path)?.trim()).find((name) => name);
  if (given) return given;
  throw invalidConfig(
    "node_slice_size: the node's name is unknown; set NODENAME",
  );
}

/** The pod and the interface of a call. */
export interface PodInterface {
  readonly containerId: string;
  readonly ifName: string;
  /** `NAMESPACE/NAME`; "" if the runtime does not name the pod. */
  readonly podref: string;
}

/** The parts of a call that this plugin reads. */
export type WhereaboutsCall = Call<WhereaboutsConfig>;

function notConfigured(message: string): NotConfiguredError {
  return new NotConfiguredError(ErrorCode.InvalidNetworkConfig, message);
}
