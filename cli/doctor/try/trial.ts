/**
 * Tries a network: attaches two throw-away namespaces, pings between them, the
 * node and beyond, and detaches them.
 *
 * @module
 */

import { deadline, JoinedSignal } from "../../../base/deadline.ts";
import {
  CheckNotSupportedError,
  NetworkRuntime,
  type RuntimeConf,
} from "../../../libcni/mod.ts";
import type { Result } from "../../../cni/result/result.ts";
import { valueOf } from "../../../metadata/plugin_metadata.ts";
import { sharedLinkOf } from "../routed.ts";
import { NetNs } from "../../../ffi/netns.ts";
import { METADATA } from "../../../plugins/lists/metadata.ts";
import { formatFailureText } from "../../../base/command_line/failure.ts";
import { createNodeInvoker } from "../../daemon/node_invoker.ts";
import { DROP_CHECKS, findDroppingRules, IPSEC_CHECKS } from "../drops.ts";
import type { Findings } from "../finding.ts";
import { diagnose } from "../diagnose.ts";
import { FORWARDING_CHECKS } from "../forwarding.ts";
import {
  type ConfiguredNetwork,
  Node,
  type NodeOptions,
  type Patience,
} from "../node.ts";
import { SYSCTL_CHECKS } from "../sysctls.ts";
import { walkAll } from "../way/walk.ts";
import {
  type Attempt,
  type AttemptOptions,
  listAttempts,
  type Reach,
  reach,
} from "./reach.ts";

/** The trial of a network. */
export interface Trial {
  readonly network: string;
  readonly file: string;
  /** Why it cannot be tried; null if it was. */
  readonly skipped: string | null;
  /** The addresses of A and of B. */
  readonly addresses: readonly (readonly string[])[];
  readonly attempts: readonly Reach[];
  /** What failed: ADD, CHECK, DEL, or something that is left. */
  readonly failures: readonly Failure[];
  /** Where packets were stopped, as far as it can be told. */
  readonly stops: readonly Stop[];
  /** How long ADD of A took. */
  readonly addMilliseconds: number | null;
}

/** A call that failed. */
export interface Failure {
  readonly command: "ADD" | "CHECK" | "DEL" | "left";
  readonly message: string;
}

/** The place where packets were stopped. */
export interface Stop {
  /** The step of the path, or the code of a finding. */
  readonly at: string;
  readonly text: string;
  readonly fix: string | null;
}

/** How to try. */
export interface TrialOptions extends NodeOptions, AttemptOptions {
  readonly patience: Patience;
}

/** Time limit of the calls of one network, and of DEL, in ms. */
const CALLS_MS = 60_000, DEL_MS = 30_000;
const IFNAME = "eth0";

/** Tries a network. Always detaches what it has attached. */
export async function tryNetwork(
  network: ConfiguredNetwork,
  options: TrialOptions,
): Promise<Trial> {
  const { name, file } = network;
  const trial = {
    network: name,
    file,
    addresses: [],
    attempts: [],
    failures: [],
    stops: [],
    addMilliseconds: null,
  };
  const skipped = findObstacle(network) ?? null;
  if (skipped !== null) return { ...trial, skipped };
  const { directories, env, hostNetns } = options;
  const runtime = new NetworkRuntime({
    pluginDirs: directories.pluginDirs,
    cacheDir: directories.cacheDir,
    env,
    ...hostNetns !== undefined && { hostNetns },
    invoker: createNodeInvoker(),
    onStderr(): void {},
  });
  using node = new Node(options);
  using a = NetNs.create();
  using b = NetNs.create();
  const id = crypto.randomUUID().slice(0, 8);
  const ends = [a, b].map((netns, at): RuntimeConf => ({
    containerId: `cni-doctor-${id}-${at === 0 ? "a" : "b"}`,
    netns: netns.path,
    ifName: IFNAME,
  }));
  const failures: Failure[] = [];
  const before = listLinks(options);
  const made = await attachAll(runtime, network, ends, options, failures);
  let attempts: Reach[] = [];
  let stops: Stop[] = [];
  try {
    if (made.results.length === ends.length) {
      const wanted = listAttempts(node, network, [a, b], made.results, options);
      attempts = await Promise.all(
        wanted.map((one) => reach(one, options.patience, options.signal)),
      );
      if (attempts.some(({ reached }) => !reached)) {
        const lost = wanted.filter((_, at) => !attempts[at]?.reached);
        stops = await findStops(network, ends, lost, options);
      }
      await checkAll(runtime, network, ends, options, failures);
    }
  } finally {
    await detachAll(runtime, network, ends, failures);
  }
  const shared = network.plugins.flatMap((conf) => sharedLinkOf(conf) ?? []);
  // Bridges are never deleted; other containers may have come meanwhile.
  const left = [...listLinks(options)].filter((link) =>
    !before.has(link) && made.links.has(link) && !shared.includes(link)
  );
  if (left.length > 0) {
    failures.push({ command: "left", message: `DEL left ${left.join(", ")}` });
  }
  return {
    ...trial,
    skipped,
    addresses: made.results.map(({ ips }) =>
      ips.map(({ address }) => `${address.ip}`)
    ),
    attempts,
    failures,
    stops,
    addMilliseconds: made.milliseconds,
  };
}

/** Explains why a network cannot be tried without harm; undefined if it can. */
function findObstacle({ plugins }: ConfiguredNetwork): string | undefined {
  for (const { type, document } of plugins) {
    const metadata = METADATA.get(type);
    if (metadata?.network?.lowerLink?.(document)?.use === "moved") {
      return `${type} would take a link from the node`;
    }
    if (metadata?.kind === "meta" && metadata.runs?.areNetworks) {
      return `${type} needs a pod; those of its networks that have a file are tried`;
    }
    if (valueOf(document, "mode") === "passthru") {
      return `${type} gives its master to one container only`;
    }
    if (type === "multus-shim") return `${type} needs a pod`;
  }
  return undefined;
}

/** Lists the names of the host's links. */
function listLinks(options: TrialOptions): Set<string> {
  using node = new Node(options);
  return new Set(node.host.link.list().map(({ name }) => name));
}

/** What ADD made. */
interface Attached {
  readonly results: Result[];
  readonly links: ReadonlySet<string>;
  readonly milliseconds: number | null;
}

async function attachAll(
  runtime: NetworkRuntime,
  { list }: ConfiguredNetwork,
  ends: readonly RuntimeConf[],
  options: TrialOptions,
  failures: Failure[],
): Promise<Attached> {
  const results: Result[] = [];
  let milliseconds: number | null = null;
  using limit = new JoinedSignal(CALLS_MS, options.signal);
  for (const end of ends) {
    const start = performance.now();
    try {
      const added = await runtime.addNetworkList(list, end, {
        signal: limit.signal,
      });
      results.push(added.result);
    } catch (error) {
      failures.push({ command: "ADD", message: formatFailureText(error) });
      break;
    }
    milliseconds ??= Math.round(performance.now() - start);
  }
  return { results, links: listLinks(options), milliseconds };
}

async function checkAll(
  runtime: NetworkRuntime,
  { list }: ConfiguredNetwork,
  ends: readonly RuntimeConf[],
  { signal }: TrialOptions,
  failures: Failure[],
): Promise<void> {
  using limit = new JoinedSignal(CALLS_MS, signal);
  for (const end of ends) {
    try {
      await runtime.checkNetworkList(list, end, { signal: limit.signal });
    } catch (error) {
      if (error instanceof CheckNotSupportedError) return;
      failures.push({ command: "CHECK", message: formatFailureText(error) });
    }
  }
}

/** Detaches whatever happened, with time of its own. */
async function detachAll(
  runtime: NetworkRuntime,
  { list }: ConfiguredNetwork,
  ends: readonly RuntimeConf[],
  failures: Failure[],
): Promise<void> {
  for (const end of ends) {
    try {
      await runtime.delNetworkList(list, end, {
        signal: deadline(DEL_MS),
        continueOnDelErrors: true,
      });
    } catch (error) {
      failures.push({ command: "DEL", message: formatFailureText(error) });
    }
  }
}

/** Finds what stops packets, while the containers are attached. */
async function findStops(
  { name }: ConfiguredNetwork,
  ends: readonly RuntimeConf[],
  lost: readonly Attempt[],
  options: TrialOptions,
): Promise<Stop[]> {
  using node = new Node(options);
  const stops = new Map<string, Stop>();
  for (const { containerId, netns } of ends) {
    const own = node.attachments
      .filter((one) => one.containerId === containerId);
    const ways = await walkAll(node, netns, own, options.patience)
      .catch(() => []);
    for (const { steps, endsAt } of ways) {
      const last = steps.at(-1);
      if (endsAt === undefined || last === undefined) continue;
      const { text, command = null } = last;
      stops.set(text, { at: endsAt, text, fix: command });
    }
  }
  if (stops.size > 0) return [...stops.values()];
  const addresses = lost.map(({ address }) => address);
  const drops = DROP_CHECKS.map((check) =>
    check.name !== "rule-drops" ? check : {
      ...check,
      run: (node: Node): Findings => findDroppingRules(node, addresses),
    }
  );
  const checks = [
    ...drops,
    ...IPSEC_CHECKS,
    ...FORWARDING_CHECKS,
    ...SYSCTL_CHECKS,
  ];
  const { findings } = await diagnose(node, () => {}, checks);
  return findings.filter(({ message }) =>
    message.includes(`"${name}"`) ||
    ends.some(({ containerId }) => message.includes(containerId.slice(0, 12)))
  ).map(({ code, message, command = null }) => ({
    at: code,
    text: message,
    fix: command,
  }));
}
