/**
 * Tests a network: attaches two temporary namespaces, sends probes between them, to
 * the node and beyond, and detaches them.
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
import { sharedLinkOf } from "../../node/routed.ts";
import { NetNs } from "../../../ffi/netns.ts";
import { MODULE_LINKS } from "../../../ffi/rtnl/link.ts";
import { METADATA } from "../../../plugins/lists/metadata.ts";
import { formatFailureText } from "../../../base/command_line/failure.ts";
import { createNodeInvoker } from "../../node/node_invoker.ts";
import { codeOf } from "../packets.ts";
import { findValue, objectOf } from "../../../base/json/json.ts";
import { shell } from "../../../base/command_line/shell.ts";
import { listLive } from "../../node/live.ts";
import {
  type ConfiguredNetwork,
  NodeReader,
  type NodeReaderOptions,
} from "../../node/node_reader.ts";
import { listNotForwarded } from "../sysctls.ts";
import {
  forwardingCommand,
  nameOfSysctl,
  readSysctlOf,
} from "../../node/sysctls.ts";
import type { IpFamily } from "../../../net/ip.ts";
import { FORWARDING } from "../../../plugins/parts/address/ip_forward.ts";
import { Endpoints, type ProbeEndpoint } from "../../probe/endpoint.ts";
import { isProblem, probeAll, type Probed } from "../../probe/run.ts";
import { listWanted } from "../../probe/targets.ts";
import { Guard } from "./put_back.ts";
import { ipamOf, ipamTypeOf } from "../../../cni/config/ipam.ts";

/** The result of testing a network. */
export interface Trial {
  readonly network: string;
  readonly file: string;
  /** Why the network was not tested; null if it was. */
  readonly skipped: string | null;
  /** The addresses of A and of B. */
  readonly addresses: readonly (readonly string[])[];
  readonly attempts: readonly Reach[];
  /** What failed: ADD, CHECK, DEL, or something that is left. */
  readonly failures: readonly FailedCall[];
  /** Where packets were stopped, as far as known. */
  readonly stops: readonly Stop[];
  /** How long ADD of A took. */
  readonly addMilliseconds: number | null;
}

/** A call that failed. */
export interface FailedCall {
  readonly command: "ADD" | "CHECK" | "DEL" | "left";
  readonly message: string;
}

/** The place where packets were stopped. */
export interface Stop {
  /** The step of the path, or the code of a finding. */
  readonly at: string;
  readonly text: string;
  readonly fix: string | null;
  /** Advice if no command resolves it, or a note on the command. */
  readonly advice: string | null;
}

/** An end of an attempt. */
export type Party = "A" | "B" | "node" | "gateway" | "outside" | "name";

/** Whether an end reached another end. */
export interface Reach {
  readonly from: Party;
  readonly to: Party;
  readonly address: string;
  readonly reached: boolean;
  readonly milliseconds: number;
  /** Why it failed; null without an answer. */
  readonly error: string | null;
}

/** Time limit of the calls of a network, and of DEL, in ms. */
const CALLS_MS = 60_000, DEL_MS = 30_000;
const IFNAME = "eth0";

/** Tests a network, and always detaches the test's namespaces. */
export async function runTrial(
  network: ConfiguredNetwork,
  options: NodeReaderOptions,
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
  using node = new NodeReader(options);
  const skipped = findObstacle(node, network) ?? null;
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
  using a = NetNs.create();
  using b = NetNs.create();
  const id = crypto.randomUUID().slice(0, 8);
  // An address or a VLAN is enough for one container.
  const isForOne = listStatic(network).length > 0 || hasVlan(network);
  const places = isForOne ? [a] : [a, b];
  const ends = places.map((netns, at): RuntimeConf => ({
    containerId: `cni-doctor-${id}-${at === 0 ? "a" : "b"}`,
    netns: netns.path,
    ifName: IFNAME,
  }));
  const failures: FailedCall[] = [];
  const before = listLinks(options);
  const off = [...listNotForwarded(node).keys()];
  const shared = network.plugins.flatMap((conf) => sharedLinkOf(conf) ?? []);
  let made: Attached = { results: [], links: new Set(), milliseconds: null };
  let attempts: Reach[] = [];
  let stops: Stop[] = [];
  const guard = Guard.start({
    host: node.host.netns,
    links: before,
    shared,
    commands: ends.map((end) => delCommand(name, end, options)),
  });
  try {
    made = await attachAll(runtime, network, ends, options, failures);
    if (made.results.length === ends.length) {
      const probed = await probeEnds(ends, options);
      attempts = listAttempts(probed);
      stops = listStops(probed);
      await checkAll(runtime, network, ends, options, failures);
    }
  } finally {
    await detachAll(runtime, network, ends, failures);
    stops = [...stops, ...await putBack(guard, failures)];
  }
  if (made.results.length === ends.length) {
    stops.push(
      ...off.filter((family) => isOff(node, family))
        .map((family) => explainOff(node, family)),
    );
  }
  // Bridges are never deleted; during the test, other containers might have been attached.
  const known = new Set([...before, ...shared, ...MODULE_LINKS]);
  const leftLinks = [...listLinks(options)].filter((link) =>
    !known.has(link) && made.links.has(link)
  );
  if (leftLinks.length > 0) {
    failures.push({
      command: "left",
      message: `DEL left ${leftLinks.join(", ")}`,
    });
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

function isOff({ host }: NodeReader, family: IpFamily): boolean {
  return readSysctlOf(host, FORWARDING[family]) === "0";
}

/** Explains forwarding that only ADD enabled: it is restored, and stays off. */
function explainOff({ host }: NodeReader, family: IpFamily): Stop {
  const name = nameOfSysctl(FORWARDING[family]);
  return {
    at: "CNI0601",
    text: `${name} was 0 before ADD turned it on, and is again`,
    fix: forwardingCommand(host, family),
    advice: null,
  };
}

/** Restores forwarding. @returns What stays as ADD has set it */
async function putBack(
  guard: Guard,
  failures: FailedCall[],
): Promise<Stop[]> {
  try {
    return (await guard.release()).map((key) => ({
      at: "CNI0601",
      text:
        `${nameOfSysctl(key)} was 0 before ADD turned it on, and stays 1: ` +
        "another interface appeared on the node during the test",
      fix: null,
      advice: null,
    }));
  } catch (error) {
    failures.push({ command: "left", message: formatFailureText(error) });
    return [];
  }
}

/** Writes the command that detaches an end if this process is killed. */
function delCommand(
  network: string,
  { containerId, netns, ifName }: RuntimeConf,
  { directories: { pluginDirs, confDir, cacheDir } }: NodeReaderOptions,
): string {
  return shell`${Deno.execPath()} del ${network} ${netns} ` +
    shell`--container-id ${containerId} --ifname ${ifName} ` +
    shell`--cni-path ${pluginDirs.join(":")} --conf-dir ${confDir} ` +
    shell`--cache-dir ${cacheDir}`;
}

/** Probes from the ends, to each other, and from the node. */
async function probeEnds(
  ends: readonly RuntimeConf[],
  options: NodeReaderOptions,
): Promise<readonly Probed[]> {
  // The cache has the ends now.
  using node = new NodeReader(options);
  using endpoints = new Endpoints(node);
  const found = ends.map(({ containerId, netns }, at) =>
    endpoints.add(
      netns,
      node.attachments.filter((one) => one.containerId === containerId),
    ).map((end): ProbeEndpoint => ({
      ...end,
      origin: { ...end.origin, name: at === 0 ? "A" : "B" },
    }))
  );
  return await probeAll(
    node,
    found.flatMap((some, at) =>
      some.flatMap((end) => {
        const peer = found[1 - at]?.find(({ start: { address } }) =>
          address.family === end.start.address.family
        );
        return listWanted(node, end, peer);
      })
    ),
  );
}

const PARTIES = {
  gateway: "gateway",
  node: "node",
  outside: "outside",
  "name server": "name",
} as const;

/** Groups the probes from one end to another. */
function listPairs(probed: readonly Probed[]): Probed[][] {
  return [
    ...Map.groupBy(
      probed,
      ({ wanted: { kind, probe } }) =>
        [kind, probe.from.name, probe.destination].join(),
    ).values(),
  ];
}

/** Reports whether no probe of a pair was answered. */
function isSilent(some: readonly Probed[]): boolean {
  return some.every(({ answer }) => !answer.isReached);
}

/** Describes each pair once. */
function listAttempts(probed: readonly Probed[]): Reach[] {
  return listPairs(probed).flatMap((some) => {
    const [{ wanted } = {}] = some;
    if (wanted === undefined) return [];
    const { kind, probe: { from, to, destination } } = wanted;
    const isStopped = some.some(({ cause }) => isProblem(cause));
    const isFar = kind === "outside" || kind === "name server";
    // What lies beyond the node need not answer.
    const mayBeSilent = isFar && !wanted.subject.isMasqueraded;
    if (isSilent(some) && !isStopped && mayBeSilent) return [];
    const lost = some.find(({ cause }) => isProblem(cause)) ?? some[0];
    const name = (text: string): Party => text === "B" ? "B" : "A";
    return [{
      from: kind === "back" ? "node" : name(from.name),
      to: kind === "back" || kind === "peer"
        ? name(to)
        : PARTIES[kind as keyof typeof PARTIES],
      address: `${destination}`,
      reached: !isStopped && !isSilent(some),
      milliseconds: Math.max(...some.map(({ answer }) => answer.milliseconds)),
      error: lost?.answer.error ?? null,
    }];
  });
}

/**
 * Lists what stopped packets, each once. A rule that drops on purpose is listed only if
 * an end does not reach another end at all.
 */
function listStops(probed: readonly Probed[]): Stop[] {
  const stops = new Map<string, Stop>();
  const shown = listPairs(probed).flatMap((some) =>
    some.filter(({ cause }) => isProblem(cause) || isSilent(some))
  );
  for (const { cause } of shown) {
    if (cause === undefined) continue;
    const { check, text, command: fix = null, advice = null } = cause;
    stops.set(text, { at: codeOf(check), text, fix, advice });
  }
  return [...stops.values()];
}

/** Lists the addresses that a network has for a container. */
function listStatic({ plugins }: ConfiguredNetwork): string[] {
  return plugins.flatMap((conf) => {
    const { traits } = METADATA.get(ipamTypeOf(conf.document) ?? "") ?? {};
    if (!traits?.includes("assigns requests")) return [];
    const addresses = findValue(ipamOf(conf.document), "addresses");
    return (Array.isArray(addresses) ? addresses : [])
      .map((one) =>
        String(findValue(objectOf(one), "address")).replace(/\/.*/, "")
      );
  });
}

/** Reports whether the kernel has the link of a network only once: a VLAN of a master. */
function hasVlan({ plugins }: ConfiguredNetwork): boolean {
  return plugins.some(({ type }) => type === "vlan");
}

/** Explains why a network cannot be tried without harm; undefined if it can. */
function findObstacle(
  node: NodeReader,
  network: ConfiguredNetwork,
): string | undefined {
  const { plugins } = network;
  const used = listLive(node).flatMap(({ addresses, attachment }) =>
    addresses.map(({ ip }) => ({ ip: `${ip}`, attachment }))
  ).find(({ ip }) => listStatic(network).includes(ip));
  if (used !== undefined) {
    return `its address ${used.ip} is in use by ${used.attachment}`;
  }
  for (const { type, document } of plugins) {
    const metadata = METADATA.get(type);
    if (metadata?.network?.lowerLink?.(document)?.use === "moved") {
      return `${type} would take a link from the node`;
    }
    if (metadata?.kind === "meta" && metadata.runs?.areNetworks) {
      return `${type} needs a pod; those of its networks that have a file are tested`;
    }
    if (findValue(document, "linkInContainer") === true) {
      return `${type} needs a master in the container`;
    }
    if (findValue(document, "mode") === "passthru") {
      return `${type} gives its master to one container only`;
    }
    if (type === "multus-shim") return `${type} needs a pod`;
  }
  const holder = listLive(node)
    .find(({ cached }) => cached.network === network.name);
  return hasVlan(network) && holder !== undefined
    ? `its VLAN is in use by ${holder.attachment}`
    : undefined;
}

/** Lists the names of the host's links. */
function listLinks(options: NodeReaderOptions): Set<string> {
  using node = new NodeReader(options);
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
  options: NodeReaderOptions,
  failures: FailedCall[],
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
  { signal }: NodeReaderOptions,
  failures: FailedCall[],
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
  failures: FailedCall[],
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
