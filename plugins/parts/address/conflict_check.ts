/**
 * Finds out whether another machine has an address before a container uses it: the
 * link asks by ARP and neighbour discovery.
 *
 * @module
 */

import { formatAbort, JoinedSignal, pause } from "../../../base/deadline.ts";
import { CniError, ErrorCode } from "../../../base/error.ts";
import { type JsonObject, parseJson } from "../../../base/json/json.ts";
import { encodeJson } from "../../../base/json/json_bytes.ts";
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
import { ipamHas } from "./ipam_traits.ts";
import { Probes } from "./probes.ts";
import { asksOverLink, prepareInterface } from "./sandbox_addresses.ts";

/** How often to ask, and how long to wait for answers each time, in ms. */
const PROBES = 3, PROBE_MS = 50;
/** How long to wait until the link passes frames, in ms. */
const CARRIER_MS = 100;
/** How long to wait for further answers after the first one, in ms. */
const MORE_MS = 2;
/**
 * How often an ADD may get addresses of other machines before it fails.
 *
 * It asks about one lease at a time. To probe for an address is to claim it, so a
 * node that probed for the next addresses as well would take them from other nodes'
 * ADDs, which have leased them. The first answer ends a round: only the last one lasts
 * until nobody has answered.
 */
const MOST_ROUNDS = 8;
/**
 * The same for a server of the network: it keeps declined addresses from all machines,
 * and one that answers for each address would use them up. The DHCP daemon limits how
 * many are declined in a day.
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
  /** The host's link to the same network: its addresses are not free. */
  readonly host?: {
    readonly rtnl: Rtnl;
    readonly link: Link;
    /** Whether some answers arrive at this link only: ipvlan has its MAC. */
    readonly hasSameMac: boolean;
  } | undefined;
}

/** Addresses that no other machine has. Dispose of it after the announcement. */
export class CheckedLease implements AsyncDisposable {
  /** The IPAM plugin's last result. */
  readonly lease: Result;
  readonly #probes: Probes | undefined;

  /** @param probes What the network was asked with; undefined if it was not */
  constructor(lease: Result, probes?: Probes) {
    this.lease = lease;
    this.#probes = probes;
  }

  /** Whether the network was asked. */
  get isChecked(): boolean {
    return this.#probes !== undefined;
  }

  /**
   * Announces the IPv4 addresses, once the interface has them: the kernel does
   * when an interface comes up, which it did before.
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
 * Finds addresses that nobody else has: asks the IPAM plugin for different ones as
 * long as somebody has one. Brings the interface up.
 *
 * An address that another container of this network still has, since its virtual
 * machine migrates, is not checked.
 *
 * @throws {CniError} 11 if another machine has an address, and the IPAM plugin gives
 *   no other one
 */
export async function findUnusedAddresses(
  checking: Checking,
): Promise<CheckedLease> {
  const { call, lease } = checking;
  // What comes from the network is on the interface already.
  const { ips } = withoutLearned(lease);
  if (ips.length === 0 || isAnnouncementSuppressed(lease)) {
    return new CheckedLease(lease);
  }
  const addresses = ips.map(({ address: { ip } }) => ip);
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
 * @param lease What it gets; undefined if ADD fails
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
 * Has the IPAM plugin decline an address for which no other follows: the DEL after
 * a failed ADD would release it, and a server would grant it again.
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

/** Returns a configuration with the addresses that other machines have. */
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
  // Other programs of that name, such as the Go plugin, ignore the conflicts.
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

/** A link that can ask. */
interface ProbingLink extends Link {
  readonly mac: Mac;
}

/** @returns Undefined if the link passes no frames now */
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

/** An address that was not asked about is not used. */
function throwIfEnded({ call: { signal }, link: { name } }: Checking): void {
  if (!signal?.aborted) return;
  throw new CniError(
    ErrorCode.TryAgainLater,
    `Cannot check whether other machines use the addresses of "${name}": the call ended`,
    { details: formatAbort(signal) },
  );
}

/** Finds addresses of a lease that somebody else has. */
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
