/**
 * The tasks of a backend of the firewall.
 *
 * @module
 */

import type { Log } from "../../base/log/log.ts";
import type { Environment } from "../../base/process/environment.ts";
import type { Ip } from "../../net/ip.ts";
import type { ElementOwner } from "../parts/owner/element_owner.ts";

/** The names of the backends. */
export type BackendName = "iptables" | "firewalld" | "nftables";

/** The host on which a backend works. */
export interface FirewallHost {
  /** Path of the host's namespace. */
  readonly hostNetns: string;
  /** The configuration's `backend`; the host decides if undefined. */
  readonly backend: BackendName | undefined;
  /** The chain of iptables with the administrator's rules. */
  readonly adminChain: string;
  /** The zone of firewalld. */
  readonly zone: string;
  /** PATH, to find programs, and the address of the system bus. */
  readonly env: Environment;
  readonly log: Log;
  /** When to give up on other programs. */
  readonly signal: AbortSignal | undefined;
}

/** A limit on connections to the containers behind a bridge. */
export interface IngressPolicy {
  readonly bridge: string;
  /** Whether containers behind the same bridge are also kept apart. */
  readonly isolated: boolean;
}

/** The input of a backend: one attachment. */
export interface Protection {
  readonly owner: ElementOwner;
  /** The addresses whose traffic is let through. */
  readonly addresses: readonly Ip[];
  /** Undefined if everyone may connect. */
  readonly policy: IngressPolicy | undefined;
  /** Whether another backend lets the traffic through. */
  readonly isPolicyOnly?: boolean;
}

/** One way to let an attachment's traffic through. */
export interface Backend {
  /**
   * Lets traffic through and enforces the policy. It may be repeated.
   *
   * @throws {Error} If it cannot. Some rules may be left for
   * {@linkcode Backend.del}
   */
  add(host: FirewallHost, protection: Protection): Promise<void>;
  /**
   * Checks what {@linkcode Backend.add} adds, without changing anything.
   *
   * @throws {CniError} 999 if something is missing
   */
  check(host: FirewallHost, protection: Protection): Promise<void>;
  /**
   * Removes the addresses' rules, even if the Go plugin added them. It succeeds
   * if there is nothing to remove, or if the host lacks the backend.
   *
   * @param link A link of this attachment only, whose policy is removed, too
   * @throws {Error} If a rule cannot be removed
   */
  del(
    host: FirewallHost,
    addresses: readonly Ip[],
    link?: string,
  ): Promise<void>;
  /**
   * Checks that the backend works, without changing anything.
   *
   * @param hasPolicy Whether {@linkcode Backend.add} is to enforce a policy
   * @throws {Error} If the host or its kernel lacks something
   */
  status(host: FirewallHost, hasPolicy: boolean): Promise<void>;
}
