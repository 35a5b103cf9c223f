/**
 * Tries a network: attaches two throw-away namespaces, pings between them, the
 * node and beyond, and detaches them.
 *
 * @module
 */

import { deadline, JoinedSignal } from "../../../cni/call/deadline.ts";
import { ifPossible, readTextFile } from "../../../cni/files/io.ts";
import {
  CheckNotSupportedError,
  NetworkRuntime,
  type RuntimeConf,
} from "../../../cni/libcni/mod.ts";
import type { Result } from "../../../cni/result/result.ts";
import { valueOf } from "../../../cni/tools/about.ts";
import { sharedLinkOf } from "../routed.ts";
import { NetNs } from "../../../ffi/netns.ts";
import { Ip, type IpFamily } from "../../../net/ip.ts";
import { parseResolvConf } from "../../../ipam/host_local/resolv_conf.ts";
import { findAbout } from "../../../plugins/abouts.ts";
import { formatFailureText } from "../../program/failure.ts";
import { createNodeInvoker } from "../../node_invoker.ts";
import { DROP_CHECKS, findDroppingRules } from "../drops.ts";
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
import { type Attempt, type Party, type Reach, reach } from "./reach.ts";

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
export interface TrialOptions extends NodeOptions {
  /** The resolver's configuration that pods get if their network has none. */
  readonly resolvConf: string;
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

/** Says why a network cannot be tried without harm; undefined if it can. */
function findObstacle({ plugins }: ConfiguredNetwork): string | undefined {
  for (const { type, document } of plugins) {
    const about = findAbout(type);
    if (about?.network?.lowerLink?.(document)?.use === "moved") {
      return `${type} would take a link from the node`;
    }
    if (about?.kind === "meta" && about.runs?.areNetworks) {
      return `${type} needs a pod; its networks are tried by themselves`;
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

/** Lists what must be reached if the network does what it was written for. */
function listAttempts(
  node: Node,
  { plugins }: ConfiguredNetwork,
  netns: readonly NetNs[],
  results: readonly Result[],
  options: TrialOptions,
): Attempt[] {
  const own = node.host.address.list().map(({ address }) => address.ip);
  const isOwn = (ip: Ip): boolean => own.some((one) => one.equals(ip));
  const masquerades = plugins.some(({ document }) =>
    valueOf(document, "ipMasq") === true
  );
  const [first, second] = results;
  const [a, b] = netns;
  if (!first || !second || !a || !b) return [];
  const attempts: Attempt[] = [];
  const add = (from: Party, by: NetNs, to: Party, address: Ip): void => {
    attempts.push({ from, netns: by, to, address });
  };
  for (const family of [4, 6] as const) {
    const [ipA, ipB] = [first, second].map((one) => ipOf(one, family));
    if (ipA === undefined || ipB === undefined) continue;
    add("A", a, "B", ipB.address.ip);
    add("B", b, "A", ipA.address.ip);
    const { gateway } = ipA;
    if (gateway !== undefined) {
      for (const [name, by] of [["A", a], ["B", b]] as const) {
        add(
          name,
          by,
          "gateway",
          ipOf(name === "A" ? first : second, family)
            ?.gateway ?? gateway,
        );
      }
    }
    const isRouted = gateway !== undefined && isOwn(gateway);
    if (!isRouted) continue;
    add("node", node.host.netns, "A", ipA.address.ip);
    add("node", node.host.netns, "B", ipB.address.ip);
    const [uplink] = node.host.route.list({ family }).filter((route) =>
      route.destination.prefixLength === 0 && route.ifindex !== undefined
    ).sort((left, right) => (left.priority ?? 0) - (right.priority ?? 0));
    const hasDefault = first.routes.some(({ dst }) =>
      dst.family === family && dst.prefixLength === 0
    );
    if (uplink === undefined || !hasDefault) continue;
    const address = node.host.address.list({ ifindex: uplink.ifindex ?? 0 })
      .find(({ address: { ip } }) => ip.family === family && !ip.isLinkLocal);
    if (address !== undefined) {
      add("A", a, "node", address.address.ip);
      add("B", b, "node", address.address.ip);
    }
    // Without masquerading, the outside needs a route back, which it may not have.
    if (!masquerades || uplink.gateway === undefined) continue;
    add("A", a, "outside", uplink.gateway);
    add("B", b, "outside", uplink.gateway);
  }
  for (const server of listServers(first, masquerades, options)) {
    add("A", a, "name", server);
    add("B", b, "name", server);
  }
  return attempts;
}

function ipOf(
  { ips }: Result,
  family: IpFamily,
): Result["ips"][number] | undefined {
  return ips.find(({ address }) => address.family === family);
}

/** Lists the name servers that containers of a network use, and can reach. */
function listServers(
  { dns, ips, routes }: Result,
  masquerades: boolean,
  { resolvConf }: TrialOptions,
): Ip[] {
  const ofNetwork = dns.nameservers;
  // A network without a way out is not meant to reach the node's servers.
  const hasWay = masquerades &&
    routes.some(({ dst }) => dst.prefixLength === 0);
  const text = ifPossible(() => readTextFile(resolvConf)) ?? "";
  const named = ofNetwork.length > 0
    ? ofNetwork
    : hasWay
    ? parseResolvConf(text).nameservers
    : [];
  return named.flatMap((text) => ifPossible(() => Ip.parse(text)) ?? [])
    .filter((ip) =>
      !ip.isLoopback && !ip.isLinkLocal &&
      ips.some(({ address }) => address.family === ip.family)
    ).slice(0, 1);
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
  const drops = DROP_CHECKS.map((check) => ({
    ...check,
    run: (node: Node): Findings =>
      findDroppingRules(node, lost.map(({ address }) => address)),
  }));
  const checks = [...drops, ...FORWARDING_CHECKS, ...SYSCTL_CHECKS];
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
