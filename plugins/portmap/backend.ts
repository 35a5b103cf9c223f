/**
 * The operations of a backend, which keeps port mappings in the kernel.
 *
 * @module
 */

import type { Log } from "../../base/log/log.ts";
import type { Attachment, AttachmentId } from "../../cni/config/types.ts";
import type { IpFamily } from "../../net/ip.ts";
import type { ForwardedPort, Forwarding } from "./mapping.ts";
import type { BackendName } from "./schema.ts";

/** The host on which a backend works. */
export interface PortmapHost {
  /** Path of the host's namespace. */
  readonly hostNetns: string;
  /** The configuration's `backend`; the host decides if undefined. */
  readonly backend: BackendName | undefined;
  /** PATH, to find programs. */
  readonly path: string | undefined;
  readonly log: Log;
  /** Kills a program that runs, and ends a removal between two runs. */
  readonly signal?: AbortSignal | undefined;
}

/** The effect of an ADD on other ports. */
export interface Addition {
  /**
   * The ports that it took away: an earlier ADD's, or a dead attachment's. Their
   * connections are deleted.
   */
  readonly gone: readonly ForwardedPort[];
  /** The ports that come before the added ones. Their connections stay. */
  readonly kept: readonly ForwardedPort[];
}

/**
 * One way to keep port mappings in the kernel. It uses neither the sandbox nor
 * the container's interface.
 */
export interface Backend {
  /**
   * Forwards an attachment's ports. Replaces everything that an earlier ADD of
   * the same attachment left, also one of the Go plugin.
   *
   * @throws {Error} If the ports cannot be forwarded. Some may be left for
   * {@linkcode Backend.del}
   */
  add(host: PortmapHost, forwarding: Forwarding): Promise<Addition>;
  /**
   * Checks that the attachment's ports are forwarded, even if the Go plugin
   * added the rules.
   *
   * @throws {CniError} 999 if something is missing
   */
  check(host: PortmapHost, forwarding: Forwarding): Promise<void>;
  /**
   * Removes everything of an attachment, even if the Go plugin added it. It
   * succeeds if there is nothing to remove, or if the host lacks the backend.
   *
   * @param named The ports that the configuration names
   * @param gone Receives the ports that were forwarded, even if it then fails. None
   * if nothing is left of the attachment: its address and ports may be another
   * container's now
   * @throws {Error} If something cannot be removed
   */
  del(
    host: PortmapHost,
    owner: Attachment,
    named: readonly ForwardedPort[],
    gone: ForwardedPort[],
  ): Promise<void>;
  /**
   * Removes everything of attachments to a network that are no longer valid.
   *
   * @param gone As in {@linkcode Backend.del}
   * @throws {Error} If something cannot be removed
   */
  gc(
    host: PortmapHost,
    network: string,
    valid: readonly AttachmentId[],
    gone: ForwardedPort[],
  ): Promise<void>;
  /**
   * Checks that ports can be forwarded, without changing anything.
   *
   * @param families Of the containers' addresses; IPv4 if undefined
   * @throws {Error} If the host or its kernel lacks something
   */
  status(host: PortmapHost, families?: readonly IpFamily[]): Promise<void>;
}
