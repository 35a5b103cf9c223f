/**
 * Checks, before a container uses an address, whether a different machine uses it:
 * the link sends ARP probes and neighbour solicitations.
 *
 * @module
 */

import { formatAbort, JoinedSignal, pause } from "../../../base/deadline.ts";
import { CniError, ErrorCode } from "../../../base/error.ts";
import { type JsonObject, parseJson } from "../../../base/json/json.ts";
import { encodeJson } from "../../../base/json/json_bytes.ts";
import { yieldIfLong } from "../../../base/long_wait.ts";
import type { Conflict } from "../../../cni/config/conflicts.ts";
import { CONFLICTS } from "../../../cni/config/types.ts";
import type { Call } from "../../../cni/plugin.ts";
import { isAnnouncementSuppressed } from "../../../cni/result/announcement.ts";
import { withoutLearned } from "../../../cni/result/learned.ts";
import type { Result } from "../../../cni/result/result.ts";
import type { Link } from "../../../ffi/rtnl/link.ts";
import type { Rtnl } from "../../../ffi/rtnl/mod.ts";
import type { Ip } from "../../../net/ip.ts";
import type { Mac } from "../../../net/mac.ts";
import {
  bringingUp,
  checkRouteValues,
  listAddresses,
  makeChanges,
  withAction,
} from "../link/configure_link.ts";
import type { LinkEnd } from "../link/veth.ts";
import { addressInUseError } from "./free_ip.ts";
import type { Ipv6Options } from "./ipv6.ts";
import { ipamHas } from "../traits.ts";
import { Probes } from "./probes.ts";
import { asksOverLink, prepareInterface } from "./sandbox_addresses.ts";

/** How many probes to send, and how long to wait for answers to each, in ms. */
const PROBES = 3, PROBE_MS = 50;
/** How long to wait until the link passes frames, in ms. */
const CARRIER_MS = 100;
/** How long to wait for further answers after the first, in ms. */
const MORE_MS = 2;
/**
 * How often an ADD can get addresses of other machines before it fails.
 *
 * It probes for one lease at a time. A probe claims an address, so a node that also
 * probed for the next addresses would take them from other nodes' ADDs, which have
 * leased them. The first answer ends a round, so only the last round takes the whole
 * time.
 */
const MOST_ROUNDS = 8;
/**
 * The same limit for a server of the network: the server withholds declined addresses
 * from all machines, and a machine that answers for each address would exhaust them.
 * The DHCP daemon limits how many addresses are declined in a day.
 */
const MOST_ROUNDS_OF_SERVER = 2;

/** An ADD whose addresses are checked. */
export interface Checking {
  readonly call: Pick<
    Call,
    | "args"
    | "config"
    | "context"
    | "delegate"
    | "log"
    | "network"
    | "signal"
    | "stdin"
  >;
  /** The container's namespace. */
  readonly sandbox: Rtnl;
  /** The container's interface, which has no addresses yet. */
  readonly link: LinkEnd;
  readonly lease: Result;
  readonly ipv6?: Ipv6Options;
  /** Waits until the network can answer; for the carrier if absent. */
  readonly settle?: () => Promise<unknown>;
  /** The host's link to the same network, whose addresses are in use. */
  readonly host?: {
    readonly rtnl: Rtnl;
    readonly link: Link;
    /**
     * Whether some answers only arrive on this link, because an ipvlan has its MAC
     * address.
     */
    readonly hasSameMac: boolean;
  } | undefined;
}

/** Addresses that no other machine uses. Dispose of it after the announcement. */
export class CheckedLease implements AsyncDisposable {
  /** The IPAM plugin's last result. */
  readonly lease: Result;
  readonly #probes: Probes | undefined;

  /** @param probes The sockets that probed the network; undefined without probes */
  constructor(lease: Result, probes?: Probes) {
    this.lease = lease;
    this.#probes = probes;
  }

  /** Whether the network was probed. */
  get isChecked(): boolean {
    return this.#probes !== undefined;
  }

  /**
   * Announces the IPv4 addresses once the interface has them. The kernel does so when
   * an interface comes up, but this interface came up before.
   */
  announce(): void {
    for (const { address } of this.lease.ips) {
      this.#probes?.announce(address.ip);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#probes?.[Symbol.asyncDispose]();
  }
}

/**
 * Finds addresses that no other machine uses: requests different addresses from the
 * IPAM plugin as long as another machine uses one of them. Brings the interface up.
 *
 * An address that another container of this network still has, because its virtual
 * machine migrates, is not checked.
 *
 * @throws {CniError} 11 if another machine uses an address, and the IPAM plugin
 * returns no other address
 */
export async function findUnusedAddresses(
  checking: Checking,
): Promise<CheckedLease> {
  const { lease } = checking;
  // Addresses from the network are already on the interface.
  const { ips } = withoutLearned(lease);
  if (ips.length === 0 || isAnnouncementSuppressed(lease)) {
    return new CheckedLease(lease);
  }
  const addresses = ips.map(({ address: { ip } }) => ip);
  return await yieldIfLong(() => ask(checking, addresses));
}

async function ask(
  checking: Checking,
  addresses: readonly Ip[],
): Promise<CheckedLease> {
  const { call, lease } = checking;
  const link = await bringUp(checking);
  if (link === undefined) {
    call.log.warn("Cannot check whether other machines use the addresses", {
      addresses: addresses.map(String),
      problem: `"${checking.link.name}" has no carrier`,
    });
    return new CheckedLease(lease);
  }
  const probes = Probes.open(checking, link, addresses);
  try {
    return new CheckedLease(await replaceWhileUsed(checking, probes), probes);
  } catch (error) {
    await probes[Symbol.asyncDispose]();
    throw error;
  }
}

async function replaceWhileUsed(
  checking: Checking,
  probes: Probes,
): Promise<Result> {
  const { call } = checking;
  const mostRounds = asksOverLink(call.config)
    ? MOST_ROUNDS_OF_SERVER
    : MOST_ROUNDS;
  const conflicts: Conflict[] = [];
  for (let { lease } = checking, round = 1;; round++) {
    const found = await findConflicts(checking, lease, probes);
    const [first] = found;
    if (first === undefined) return lease;
    conflicts.push(...found);
    try {
      const error = addressInUseError(first.ip, describe(first, checking));
      if (round === mostRounds) {
        await declineLast(call, conflicts);
        const others = conflicts.length - 1;
        throw withReason(error, `so are ${others} other addresses`);
      }
      lease = await replace(call, conflicts, error);
    } catch (error) {
      report(call, found);
      throw error;
    }
    report(call, found, lease);
  }
}

/**
 * Reports addresses that the container does not get.
 *
 * @param lease The final lease; undefined if ADD fails
 */
function report(
  { log, context, network, args: { ifName } }: Checking["call"],
  conflicts: readonly Conflict[],
  lease?: Result,
): void {
  for (const { ip, mac } of conflicts) {
    const instead = lease?.ips.map(({ address }) => address.ip)
      .find(({ family }) => family === ip.family);
    if (lease !== undefined) {
      log.warn("Another machine uses an address: trying a different address", {
        address: String(ip),
        mac: String(mac),
        instead: instead && String(instead),
      });
    }
    context.onConflict?.({ network, ifName, ip, mac, instead });
  }
}

/**
 * Makes the IPAM plugin decline an address that it does not replace. Otherwise, the
 * DEL after a failed ADD would release the address, and a server would grant it
 * again.
 */
async function declineLast(
  { config, stdin, delegate }: Checking["call"],
  conflicts: readonly Conflict[],
): Promise<void> {
  if (!asksOverLink(config)) return;
  const again = withConflicts(stdin, conflicts);
  // The DEL after a failed ADD reports the reason.
  await delegate(config.ipam?.type ?? "", again).del().catch(() => {});
}

/** Returns a configuration that contains the addresses that other machines use. */
function withConflicts(
  stdin: Uint8Array,
  conflicts: readonly Conflict[],
): Uint8Array {
  return encodeJson({
    ...parseJson(stdin) as JsonObject,
    [CONFLICTS]: conflicts.map(({ ip, mac }) => ({
      ip: String(ip),
      mac: String(mac),
    })),
  });
}

/** Runs ADD of the IPAM plugin again. */
async function replace(
  { config, stdin, delegate }: Checking["call"],
  conflicts: readonly Conflict[],
  error: CniError,
): Promise<Result> {
  const type = config.ipam?.type ?? "";
  if (!ipamHas(config, "replaces addresses")) {
    throw withReason(error, `the IPAM plugin "${type}" gives no other address`);
  }
  const again = withConflicts(stdin, conflicts);
  let lease: Result;
  try {
    lease = await delegate(type, again).add();
  } catch (cause) {
    throw withReason(error, "the IPAM plugin gives no other address", cause);
  }
  // Other programs with the same name, such as the Go plugin, ignore the conflicts.
  const isSame = conflicts.some(({ ip }) =>
    lease.ips.some(({ address }) => address.ip.equals(ip))
  );
  if (isSame) {
    throw withReason(error, "the IPAM plugin gives the same address again");
  }
  checkRouteValues(lease.routes);
  return lease;
}

function withReason(
  { code, message }: CniError,
  details: string,
  cause?: unknown,
): CniError {
  return new CniError(code, message, {
    details,
    ...cause !== undefined && { cause },
  });
}

/** A link that can send probes. */
interface ProbingLink extends Link {
  readonly mac: Mac;
}

/** @returns Undefined if the link currently passes no frames */
async function bringUp(checking: Checking): Promise<ProbingLink | undefined> {
  const { sandbox, link, lease, ipv6, call, settle } = checking;
  prepareInterface(sandbox, link, lease, ipv6);
  makeChanges(sandbox, [bringingUp(sandbox, link)]);
  if (settle !== undefined) await settle();
  using limit = new JoinedSignal(CARRIER_MS, call.signal);
  for (let pauseMs = 1;; pauseMs *= 2) {
    const { mac, ...rest } = sandbox.link.get(link.index);
    if (mac !== undefined && rest.isOperational) return { ...rest, mac };
    throwIfEnded(checking);
    if (limit.signal.aborted || mac === undefined) return undefined;
    await pause(pauseMs, limit.signal);
  }
}

/**
 * Throws if the call has ended, because an address without complete probes must not
 * be used.
 */
function throwIfEnded({ call: { signal }, link: { name } }: Checking): void {
  if (!signal?.aborted) return;
  throw new CniError(
    ErrorCode.TryAgainLater,
    `Cannot check whether other machines use the addresses of "${name}": the call ended`,
    { details: formatAbort(signal) },
  );
}

/** Finds addresses of a lease that other machines use. */
async function findConflicts(
  checking: Checking,
  lease: Result,
  probes: Probes,
): Promise<Conflict[]> {
  const { host, link } = checking;
  const ips = withoutLearned(lease).ips.map(({ address }) => address.ip);
  const ofHost = host === undefined ? [] : findHostAddresses(host, ips);
  if (ofHost.length > 0) return ofHost;
  for (let probe = 0; probe < PROBES; probe++) {
    withAction(`ask for the addresses of "${link.name}"`, () => {
      for (const ip of ips) probes.ask(ip);
    });
    const found = await listen(probes, ips, checking);
    if (found.length > 0) return found;
  }
  return [];
}

function findHostAddresses(
  { rtnl, link }: NonNullable<Checking["host"]>,
  ips: readonly Ip[],
): Conflict[] {
  const { mac } = link;
  if (mac === undefined) return [];
  const present = listAddresses(rtnl, link);
  return ips.filter((ip) =>
    present.some(({ address }) => address.ip.equals(ip))
  )
    .map((ip) => ({ ip, mac }));
}

/** Waits for the first answers about some addresses. */
async function listen(
  probes: Probes,
  ips: readonly Ip[],
  checking: Checking,
): Promise<Conflict[]> {
  const { signal } = checking.call;
  using limit = new JoinedSignal(PROBE_MS, signal);
  for (let pauseMs = 1;; pauseMs *= 2) {
    const isOver = limit.signal.aborted;
    const found = probes.hear(ips);
    if (found.size > 0) {
      await pause(MORE_MS, signal);
      return [...new Map([...found, ...probes.hear(ips)]).values()];
    }
    throwIfEnded(checking);
    if (isOver) return [];
    await pause(pauseMs, limit.signal);
  }
}

function describe(
  { mac }: Conflict,
  { host, link }: Checking,
): string {
  return host?.link.mac?.equals(mac)
    ? `${mac}, the host's "${host.link.name}"`
    : `${mac} on the network of "${link.name}"`;
}
