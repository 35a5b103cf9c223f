/**
 * A lease of either address family that is kept: renewed, rebound, lost and
 * restored, until it is released or its link is deleted.
 *
 * @module
 */

import { JoinedSignal, pause } from "../../base/deadline.ts";
import { CniError, describeError, ErrorCode } from "../../base/error.ts";
import type { Log } from "../../base/log/log.ts";
import type { Lease, LeaseRequest } from "./lease.ts";
import type { LeaseDirectory } from "./lease_directory.ts";
import type { Events } from "../../base/service/events.ts";
import {
  type ClientOptions,
  type DeclineLimit,
  RefusedError,
  retryUntilDone,
} from "./client.ts";
import { Port } from "./port.ts";
import type { LeaseProtocol } from "./protocol.ts";
import { protocol4 } from "./protocol4.ts";
import { protocol6 } from "./protocol6.ts";

/** The context of all leases of a daemon. */
export interface LeaseContext extends ClientOptions {
  readonly declines: DeclineLimit;
  readonly directory: LeaseDirectory;
  readonly events: Events;
  /** Prefix of the paths of namespaces. */
  readonly hostPrefix: string;
  readonly log: Log;
  /** Called for a lease that expires. */
  readonly onGone: (kept: KeptLease) => void;
}

/** Longest time between two checks of the link, and shortest between two attempts, in ms. */
const CHECK_MS = 60_000, SHORTEST_MS = 1000;

/** Returns the protocol of a lease. */
export function protocolOf({ family = 4 }: LeaseRequest): LeaseProtocol<Lease> {
  return { 4: protocol4, 6: protocol6 }[family];
}

/** A lease. */
export class KeptLease {
  readonly #context: LeaseContext;
  readonly #protocol: LeaseProtocol<Lease>;
  readonly #end = new AbortController();
  #running: Promise<void> | undefined;
  #lease: Lease;
  #failures = 0;

  private constructor(lease: Lease, context: LeaseContext) {
    this.#lease = lease;
    this.#context = context;
    this.#protocol = protocolOf(lease);
  }

  /** The lease as it is now. */
  get lease(): Lease {
    return this.#lease;
  }

  /**
   * Gets a lease, and keeps it.
   *
   * @throws {CniError} 8 if the namespace differs from the plugin's namespace; 11 if
   *   no server grants a lease until the time limit or the
   *   signal; 999 if the link does not exist, or the lease lacks a subnet mask
   */
  static async acquire(
    request: LeaseRequest,
    context: LeaseContext,
    signal: AbortSignal,
  ): Promise<KeptLease> {
    using port = openPort(request, context);
    if (port === undefined) throw missingLink(request);
    if (!isSeen(port, request)) throw replaced(request);
    if (!port.link.isUp) port.setUp(true);
    const protocol = protocolOf(request);
    const lease = await retryUntilDone(
      (signal) => protocol.acquire(port, request, { ...context, signal }),
      {
        ...context,
        signal,
        onFailure: (error) =>
          context.log.warn("Cannot get a lease", {
            ...fieldsOf(request),
            error: describeError(error),
          }),
      },
    );
    const kept = new KeptLease(lease, context);
    try {
      protocol.resultOf(lease);
      await context.directory.write(lease);
    } catch (error) {
      await protocol.release(port, lease);
      throw error;
    }
    kept.#inform("leased");
    kept.#run();
    return kept;
  }

  /** Keeps a lease of an earlier daemon. */
  static resume(
    lease: Lease,
    context: LeaseContext,
    delayMs: number,
  ): KeptLease {
    const kept = new KeptLease(lease, context);
    kept.#run(delayMs);
    return kept;
  }

  /** Gives a lease back that is not kept. */
  static async release(lease: Lease, context: LeaseContext): Promise<void> {
    await new KeptLease(lease, context).#giveBack();
  }

  /** Reports whether this is a valid lease of the link that a request is for. */
  isFor(request: LeaseRequest): boolean {
    using port = this.#openPort(request);
    if (port === undefined || !isSeen(port, request)) return false;
    return this.#lease.isLost !== true;
  }

  /** Keeps the lease with a newer request, even if it was marked as released. */
  async update(request: LeaseRequest): Promise<void> {
    const { family: _, ...newer } = request;
    await this.#save({ ...this.#lease, ...newer, isReleased: false });
    using port = this.#openPort();
    const taken = port && await this.#putBack(port);
    if (port && taken) await this.#lose(port, taken);
  }

  /** Stops keeping the lease; the container has it until it expires. */
  async stop(): Promise<void> {
    this.#end.abort();
    await this.#running;
  }

  /** Gives the lease back. */
  async release(): Promise<void> {
    await this.stop();
    await this.#giveBack();
  }

  /** Gives the lease back because a different host has its address. */
  async decline(): Promise<void> {
    await this.stop();
    await this.#giveBack(this.#context.declines.take(this.#lease));
  }

  async #giveBack(isDeclined = false): Promise<void> {
    try {
      using port = this.#openPort();
      if (port !== undefined && !this.#lease.isLost) {
        if (isDeclined) this.#protocol.decline?.(port, this.#lease);
        else await this.#protocol.release(port, this.#lease);
      }
      this.#inform(
        port === undefined
          ? "dropped, because its link was deleted"
          : isDeclined
          ? "declined, because another host has the address"
          : "released",
      );
    } catch (error) {
      this.#warn("Cannot release the lease", error);
    }
    await this.#context.directory.remove(this.#lease);
  }

  #run(delayMs?: number): void {
    this.#running = this.#keep(delayMs).catch((error) =>
      this.#warn("Cannot keep the lease", error)
    );
  }

  async #keep(delayMs: number | undefined): Promise<void> {
    const { signal } = this.#end;
    if (delayMs !== undefined) await pause(delayMs, signal);
    let isReboot = delayMs !== undefined;
    while (!signal.aborted) {
      const waitMs = await this.#attend(isReboot).catch((error) => {
        this.#warn("Cannot check the lease", error);
        return CHECK_MS;
      });
      if (waitMs === undefined) return;
      isReboot = false;
      if (waitMs > 0) await pause(waitMs, signal);
    }
  }

  /**
   * Renews, rebinds or restores the lease if that is due.
   *
   * @returns When to check again, in ms; undefined if there is nothing to keep
   */
  async #attend(isReboot: boolean): Promise<number | undefined> {
    const { directory, log, onGone } = this.#context;
    using port = this.#openPort();
    const isReleased = (await directory.find(this.#lease, log))?.isReleased;
    if (port === undefined || isReleased) {
      onGone(this);
      await this.#giveBack();
      return undefined;
    }
    if (this.#lease.isLost) return await this.#regain(port);
    const { age, renewal, rebinding, expiry } = this.#protocol.timesOf(
      this.#lease,
    );
    if (age >= expiry) return await this.#lose(port, "it has expired");
    const taken = await this.#putBack(port);
    if (taken !== undefined) return await this.#lose(port, taken);
    if (age < renewal && !isReboot) {
      return Math.min((renewal - age) * 1000, CHECK_MS);
    }
    const asksAll = isReboot || age >= rebinding;
    const leftMs = ((asksAll ? expiry : rebinding) - age) * 1000;
    return await this.#extend(port, { isReboot, asksAll, leftMs });
  }

  /**
   * Restores the parts of the lease that the container lacks.
   *
   * @returns The error if a different host has an address
   */
  async #putBack(port: Port): Promise<RefusedError | undefined> {
    try {
      const isChanged = await this.#protocol.putBack?.(
        port,
        this.#lease,
        this.#context.declines,
      );
      if (isChanged) this.#inform("restored a missing address");
    } catch (error) {
      if (error instanceof RefusedError) return error;
      this.#warn("Cannot restore a missing address", error);
    }
    return undefined;
  }

  async #extend(
    port: Port,
    { isReboot, asksAll, leftMs }: {
      readonly isReboot: boolean;
      readonly asksAll: boolean;
      readonly leftMs: number;
    },
  ): Promise<number> {
    const { timeoutMs, resendMaxMs } = this.#context;
    const limitMs = Math.min(timeoutMs, leftMs);
    const startMs = performance.now();
    using limit = new JoinedSignal(limitMs, this.#end.signal);
    try {
      const lease = await this.#protocol.extend(port, this.#lease, {
        ...this.#context,
        isReboot,
        asksAll,
        signal: limit.signal,
      });
      await this.#replace(lease, asksAll ? "confirmed" : "renewed");
      return 0;
    } catch (error) {
      if (error instanceof RefusedError) return await this.#lose(port, error);
      if (this.#end.signal.aborted) return 0;
      this.#warn("Cannot extend the lease", error);
      const restMs = Math.max(0, leftMs - (performance.now() - startMs));
      // Then there is something else to do.
      if (restMs < SHORTEST_MS) return restMs;
      return Math.max(Math.min(restMs / 2, resendMaxMs), SHORTEST_MS);
    }
  }

  /** Removes the addresses of an expired lease from the container. */
  async #lose(port: Port, reason: unknown): Promise<number> {
    this.#warn(
      `The lease expired; ${this.#protocol.lossOf(this.#lease)}`,
      reason,
    );
    this.#protocol.lose(port, this.#lease);
    await this.#save({ ...this.#lease, isLost: true });
    this.#failures = 0;
    return 0;
  }

  async #regain(port: Port): Promise<number> {
    const { timeoutMs, resendMaxMs } = this.#context;
    using limit = new JoinedSignal(timeoutMs, this.#end.signal);
    try {
      const options = { ...this.#context, signal: limit.signal };
      const lease = await this.#protocol.regain(port, this.#lease, options);
      await this.#replace(lease, "leased again");
      return 0;
    } catch (error) {
      if (this.#end.signal.aborted) return 0;
      this.#warn("Cannot restore the lease", error);
      return Math.min(SHORTEST_MS * 2 ** this.#failures++, resendMaxMs);
    }
  }

  async #replace(lease: Lease, what: string): Promise<void> {
    const { address: before } = this.#lease;
    await this.#save(lease);
    this.#inform(what);
    if (lease.address !== before) {
      this.#inform("the address changed", { before });
    }
  }

  #openPort(request: LeaseRequest = this.#lease): Port | undefined {
    const port = openPort(request, this.#context);
    const { netnsId, ifindex } = this.#lease;
    if (port?.netnsId === netnsId && port.link.index === ifindex) return port;
    port?.[Symbol.dispose]();
    return undefined;
  }

  async #save(lease: Lease): Promise<void> {
    this.#lease = lease;
    await this.#context.directory.write(lease);
  }

  #inform(what: string, more: Record<string, string> = {}): void {
    const { address, expires } = this.#lease;
    const fields = { ...fieldsOf(this.#lease), address, expires, ...more };
    this.#context.log.info(what, fields);
  }

  #warn(what: string, error: unknown): void {
    const { address } = this.#lease;
    this.#context.log.warn(what, {
      ...fieldsOf(this.#lease),
      address,
      error: describeError(error),
    });
  }
}

function openPort(
  { netns, ifName }: LeaseRequest,
  { hostPrefix, events }: LeaseContext,
): Port | undefined {
  return Port.open(`${hostPrefix}${netns}`, ifName, events);
}

/** Reports whether a port is in the plugin's namespace: its path might now lead to a different namespace. */
function isSeen({ netnsId }: Port, request: LeaseRequest): boolean {
  return (request.netnsId ?? netnsId) === netnsId;
}

function replaced({ netns }: LeaseRequest): CniError {
  return new CniError(
    ErrorCode.InvalidNetns,
    `Network namespace "${netns}" was replaced during the call`,
  );
}

function missingLink({ netns, ifName }: LeaseRequest): CniError {
  return new CniError(
    ErrorCode.Internal,
    `error looking up "${ifName}": no such link in "${netns}"`,
  );
}

function fieldsOf(
  { network, containerId: container, ifName: ifname }: LeaseRequest,
): Record<string, string> {
  return { network, container, ifname };
}
