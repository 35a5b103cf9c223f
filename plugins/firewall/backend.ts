/**
 * What a backend of the firewall must do, and the choice between the backends.
 *
 * @module
 */

import { describeError } from "../../cni/error.ts";
import type { Log } from "../../cni/log.ts";
import type { Environment } from "../../cni/args.ts";
import type { Ip } from "../../net/ip.ts";
import type { Attachment } from "../parts/attachment.ts";
import { isLacking } from "../parts/iptables/find.ts";

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
}

/** Who may connect to containers behind a bridge. */
export interface IngressPolicy {
  readonly bridge: string;
  /** Whether containers behind the same bridge are kept apart, too. */
  readonly isolated: boolean;
}

/** What an attachment needs from the firewall. */
export interface Protection {
  readonly owner: Attachment;
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
   * Removes the addresses' rules, also if the Go plugin added them. It succeeds
   * if there are none, or if the host lacks the backend.
   *
   * @throws {Error} If a rule cannot be removed
   */
  del(host: FirewallHost, addresses: readonly Ip[]): Promise<void>;
  /**
   * Checks that the backend works, without changing anything.
   *
   * @throws {Error} If the host or its kernel lacks something
   */
  status(host: FirewallHost): Promise<void>;
}

/** All backends, loaded on use. */
export const backends: Readonly<Record<BackendName, () => Promise<Backend>>> = {
  firewalld: async () => (await import("./firewalld.ts")).firewalldBackend,
  iptables: async () => (await import("./iptables.ts")).iptablesBackend,
  nftables: async () => (await import("./nftables.ts")).nftablesBackend,
};

/**
 * Works with the configuration's backend. Without one it is firewalld if that
 * runs, else iptables, as in the Go plugin, and nftables if iptables cannot work
 * on this host.
 *
 * @throws The error of the last backend that was tried
 */
export async function withBackend(
  host: FirewallHost,
  work: (backend: Backend) => Promise<void>,
): Promise<void> {
  if (host.backend !== undefined) return work(await backends[host.backend]());
  const { isFirewalldRunning } = await import("./system_bus.ts");
  if (await isFirewalldRunning(host.env)) {
    return await work(await backends.firewalld());
  }
  await withRules(work);
}

/** Works with the first backend of rules that the host supports. */
export async function withRules(
  work: (backend: Backend) => Promise<void>,
): Promise<void> {
  try {
    return await work(await backends.iptables());
  } catch (error) {
    if (!isLacking(error)) throw error;
    try {
      return await work(await backends.nftables());
    } catch (second) {
      if (!isLacking(second)) throw second;
      const why = `${describeError(error)}; ${describeError(second)}`;
      throw new Error(why, { cause: second });
    }
  }
}
