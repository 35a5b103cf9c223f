/**
 * `cni probe`: tries whether one container reaches another.
 *
 * @module
 */

import { isErrno, SyscallError } from "../../ffi/errno.ts";
import { waitReadable } from "../../ffi/libc.ts";
import { isMissingNetns } from "../../ffi/netns.ts";
import { Rtnl } from "../../ffi/rtnl/mod.ts";
import { TcpSocket } from "../../ffi/socket/tcp.ts";
import { Ip } from "../../net/ip.ts";
import type { Output } from "../../base/command_line/command.ts";
import { formatFailureText } from "../../base/command_line/failure.ts";
import { showControls, type Style } from "../../base/command_line/style.ts";
import { wrap } from "../../base/command_line/table.ts";
import { refuse } from "../../base/command_line/usage_error.ts";
import { type AttachedTarget, getTarget } from "../attachments/target.ts";
import { Node, type NodeOptions } from "../doctor/node.ts";
import { sendPing } from "../doctor/way/neighbor.ts";
import type { Patience } from "../doctor/node.ts";
import { STEPS, walkAll } from "../doctor/way/walk.ts";
import type { CniCall } from "../flags.ts";
import { readDirectories } from "../networks/network.ts";

/** One end: a container, or an address outside. */
interface End {
  readonly name: string;
  /** Undefined for an address. */
  readonly target?: AttachedTarget;
  readonly ips: readonly Ip[];
}

/** The outcome of one attempt. */
interface Probe {
  readonly from: string;
  readonly to: string;
  readonly destination: string;
  readonly protocol: "icmp" | "tcp";
  readonly port: number | null;
  readonly reached: boolean;
  /** How long it took. */
  readonly milliseconds: number;
  /** Why it failed; null without an answer. */
  readonly error: string | null;
}

const REFUSED = "refused: nothing listens on this port, or a rule rejects it";
const NO_ROUTE = "no route in the namespace";
/** The first step that matters only for packets that leave the node. */
const LEAVING = STEPS.findIndex(({ name }) => name === "uplink");

/** How often to look whether a connection is made, in ms. */
const LOOK_MS = 20;

const PATIENCE: Patience = { attempts: 3, timeoutMs: 1000 };

/** Pings from A to B and back, and connects from A to B if a port is given. */
export async function probe(
  call: CniCall,
  { patience = PATIENCE, ...replaced }:
    & Pick<NodeOptions, "hostNetns" | "proc">
    & { readonly patience?: Patience } = {},
): Promise<Output> {
  const [a = "", b = "", portText] = call.args;
  const port = portText === undefined ? undefined : readPort(call, portText);
  const directories = readDirectories(call);
  const { env, signal } = call;
  using node = new Node({ directories, env, signal, ...replaced });
  const [from, to] = [openEnd(a, node, true), openEnd(b, node, false)];
  requireFamily(from, to);
  const probes = await pingAll(from, to, patience, signal);
  if (port !== undefined) {
    probes.push(...await connectAll(from, to, port, patience, signal));
  }
  if (to.target !== undefined) {
    probes.push(...await pingAll(to, from, patience, signal));
  }
  const isWell = probes.every(({ reached }) => reached);
  // An answer, such as "refused", has found its way.
  const isLost = probes.some(({ reached, error }) =>
    !reached && error !== REFUSED
  );
  const ends = isLost ? await findEnds([from, to], node, patience) : [];
  return {
    json: { ok: isWell, probes, ends },
    text: (style) => format(probes, isLost ? ends : undefined, style),
    exitCode: isWell ? 0 : 1,
  };
}

function readPort(call: CniCall, text: string): number {
  const port = Number(text);
  if (/^\d{1,5}$/.test(text) && port >= 1 && port <= 65535) return port;
  throw refuse(call.command, `PORT must be 1 to 65535, not "${text}"`);
}

/** @throws {Error} If it is unknown, or has no address */
function openEnd(name: string, node: Node, isSource: boolean): End {
  const ip = parseIp(name);
  if (ip !== undefined) {
    if (!isSource) return { name, ips: [ip] };
    throw new Error(`"${name}" is an address: probe from a container`);
  }
  const target = getTarget(name, node.directories);
  if (target.netns === "") {
    throw new Error(`The namespace of "${name}" is unknown`);
  }
  const ips = readIps(target);
  if (ips.length > 0) return { name, target, ips };
  throw new Error(`"${name}" has no address: no plugin has attached it`);
}

function parseIp(text: string): Ip | undefined {
  try {
    return Ip.parse(text);
  } catch {
    return undefined;
  }
}

/** Lists the addresses in the namespace that others can reach. */
function readIps(target: AttachedTarget): Ip[] {
  using rtnl = openNetns(target);
  return rtnl.address.list().map(({ address }) => address.ip)
    .filter((ip) => !isLocal(`${ip}`));
}

/** @throws {Error} If the namespace is gone, or cannot be entered */
function openNetns({ text, netns }: AttachedTarget): Rtnl {
  try {
    return Rtnl.open(netns);
  } catch (cause) {
    const reason = isMissingNetns(cause) ? ": its namespace is gone" : "";
    throw new Error(`Cannot look into "${text}"${reason}`, { cause });
  }
}

function isLocal(ip: string): boolean {
  return ip === "::1" || /^127\.|^fe[89ab]/.test(ip);
}

/** Pairs the source with the destinations of its families. */
function listDestinations(from: End, to: End): Ip[] {
  return to.ips.filter(({ family }) =>
    from.ips.some((ip) => ip.family === family)
  );
}

/** @throws {Error} If the ends have no address family in common */
function requireFamily(from: End, to: End): void {
  if (listDestinations(from, to).length > 0) return;
  throw new Error(
    `"${from.name}" and "${to.name}" have no address family in common: ` +
      `${from.ips.join(", ")} and ${to.ips.join(", ")}`,
  );
}

async function pingAll(
  from: End,
  to: End,
  { attempts, timeoutMs }: Patience,
  signal: AbortSignal,
): Promise<Probe[]> {
  return await tryAll(from, to, undefined, async (rtnl, destination) => {
    for (let attempt = 0; attempt < attempts; attempt++) {
      signal.throwIfAborted();
      if (await sendPing(rtnl, { destination }, timeoutMs)) return true;
    }
    return false;
  });
}

async function connectAll(
  from: End,
  to: End,
  port: number,
  { attempts, timeoutMs }: Patience,
  signal: AbortSignal,
): Promise<Probe[]> {
  return await tryAll(from, to, port, async ({ netns }, destination) => {
    using socket = new TcpSocket(netns, destination, port);
    const end = performance.now() + attempts * timeoutMs;
    while (performance.now() < end) {
      signal.throwIfAborted();
      if (socket.isConnected()) return true;
      await waitReadable(socket.fd, LOOK_MS);
    }
    return false;
  });
}

async function tryAll(
  from: End,
  to: End,
  port: number | undefined,
  attempt: (rtnl: Rtnl, destination: Ip) => Promise<boolean>,
): Promise<Probe[]> {
  if (from.target === undefined) return [];
  using rtnl = openNetns(from.target);
  const probes: Probe[] = [];
  for (const destination of listDestinations(from, to)) {
    const start = performance.now();
    let reached = false;
    let error: string | null = null;
    try {
      reached = await attempt(rtnl, destination);
    } catch (thrown) {
      if (!(thrown instanceof SyscallError)) throw thrown;
      error = explain(thrown);
    }
    probes.push({
      from: from.name,
      to: to.name,
      destination: `${destination}`,
      protocol: port === undefined ? "icmp" : "tcp",
      port: port ?? null,
      reached,
      milliseconds: Math.round((performance.now() - start) * 10) / 10,
      error,
    });
  }
  return probes;
}

function explain(error: SyscallError): string {
  if (isErrno(error, "ECONNREFUSED")) return REFUSED;
  if (isErrno(error, "ENETUNREACH")) return NO_ROUTE;
  return formatFailureText(error);
}

/** Where packets of an end stop, as `cni doctor --pod` finds it. */
interface Stop {
  readonly name: string;
  readonly endsAt: string;
  readonly text: string;
  readonly command: string | null;
}

async function findEnds(
  ends: readonly End[],
  node: Node,
  patience: Patience,
): Promise<Stop[]> {
  const stops: Stop[] = [];
  const isOnNode = ends.every(({ target }) => target !== undefined);
  for (const { name, target } of ends) {
    if (target === undefined) continue;
    const { netns, attachments } = target;
    const ways = await walkAll(node, netns, attachments, patience)
      .catch(() => []);
    for (const { steps, endsAt } of ways) {
      const last = steps.at(-1);
      if (endsAt === undefined || last === undefined) continue;
      const at = STEPS.findIndex(({ name: step }) => step === endsAt);
      if (at >= LEAVING && isOnNode) continue;
      const { text, look } = last;
      const command = last.command ?? look ?? null;
      stops.push({ name, endsAt, text, command });
    }
  }
  return stops;
}

function isSilent({ reached, error }: Probe): boolean {
  return !reached && error === null;
}

function format(
  probes: readonly Probe[],
  stops: readonly Stop[] | undefined,
  style: Style,
): string {
  const { width = Infinity } = style;
  const lines = probes.map((one) => {
    const what = one.port === null ? "ping" : `TCP port ${one.port}`;
    const names = showControls(`${one.from} -> ${one.to}`);
    const head = `${names}  ${one.destination}  ${what}:`;
    const mark = one.reached ? style.green : style.red;
    const outcome = one.reached
      ? `ok, ${one.milliseconds} ms`
      : one.error ?? `no answer in ${one.milliseconds} ms`;
    return head.length + 1 + outcome.length <= width
      ? `${head} ${mark(outcome)}`
      : [head, ...wrap(outcome, width - 4).map((line) => `    ${mark(line)}`)]
        .join("\n");
  });
  const fill = (text: string): string =>
    wrap(showControls(text), width - 4).join("\n    ");
  const reasons = (stops ?? []).map(({ name, endsAt, text, command }) =>
    fill(`Packets of ${name} end at ${endsAt}: ${text}`) +
    (command === null ? "" : `\n    run: ${showControls(command)}`)
  );
  // The other errors tell the reason.
  if (stops?.length === 0 && probes.some(isSilent)) {
    reasons.push(fill(
      "No fault is known at either end: a rule or a program in a namespace may " +
        "drop the packets; see cni doctor",
    ));
  }
  return [...lines, ...reasons].join("\n");
}
