/**
 * The directory next to the daemon's socket in which it keeps the leases: a
 * file for each, that the plugin marks if the daemon does not run.
 *
 * @module
 */

import { describeError } from "../../base/error.ts";
import {
  isOfFile,
  readTextFile,
  removeIfThere,
  unlessUnreachable,
  withIoFailure,
} from "../../base/files/io.ts";
import { isObject } from "../../base/json/json.ts";
import { replaceFile } from "../../base/files/replace.ts";
import type { Log } from "../../base/log/log.ts";
import { sha512 } from "../../base/process/sha512.ts";
import { type TearDownStep, tryAll } from "../../base/rollback.ts";
import { Ip } from "../../net/ip.ts";
import type { Attachment } from "../../cni/config/types.ts";
import type { Lease, LeaseFamily } from "./lease.ts";

/** A lease, by its interface and its address family, which is 4 if absent. */
export type FamilyKey = Attachment & { readonly family?: LeaseFamily };

/** Longest name of a file, without its suffix. */
const NAME_BYTES = 240;

/** The leases of a daemon. */
export class LeaseDirectory {
  /** The directory's path. */
  readonly path: string;

  /** Takes the path of the daemon's socket: `/run/cni/dhcp.sock` has `/run/cni/dhcp`. */
  constructor(socket: string) {
    this.path = socket.replace(
      /(\.sock)?$/,
      socket.endsWith(".sock") ? "" : ".d",
    );
  }

  async #pathOf(key: FamilyKey): Promise<string> {
    const name = nameOf(key);
    return `${this.path}/${
      name.length > NAME_BYTES ? await sha512(name) : name
    }.json`;
  }

  /**
   * Lists the leases; skips files that hold none.
   *
   * @param log Where those are named
   */
  list(log?: Pick<Log, "warn">): Lease[] {
    const names = unlessUnreachable(() => [...Deno.readDirSync(this.path)]);
    return (names ?? []).filter(({ name }) => name.endsWith(".json"))
      .flatMap(({ name }) => readLease(`${this.path}/${name}`, log) ?? []);
  }

  /**
   * Reads a lease; returns undefined if it is not there, or its file cannot be read.
   *
   * @param log See {@linkcode LeaseDirectory.list}
   */
  async find(
    key: FamilyKey,
    log?: Pick<Log, "warn">,
  ): Promise<Lease | undefined> {
    return readLease(await this.#pathOf(key), log);
  }

  /** @throws {CniError} 5 if it cannot be written */
  async write(lease: Lease): Promise<void> {
    const path = await this.#pathOf(lease);
    const bytes = new TextEncoder().encode(JSON.stringify(lease));
    withIoFailure(`write the lease "${path}"`, () => replaceFile(path, bytes));
  }

  /** @throws {CniError} 5 if it cannot be removed */
  async remove(key: FamilyKey): Promise<void> {
    removeIfThere(await this.#pathOf(key));
  }

  /**
   * Marks leases, so that a daemon that starts releases them.
   *
   * @param log See {@linkcode LeaseDirectory.list}
   * @throws {CniError} 5 if a lease cannot be written, after all other leases are
   */
  async markReleased(
    isOver: (lease: Lease) => boolean,
    log?: Pick<Log, "warn">,
  ): Promise<void> {
    await tryAll(
      this.list(log).filter(isOver).map((lease): TearDownStep => [
        `mark the lease of ${lease.address} as released`,
        () => this.write({ ...lease, isReleased: true }),
      ]),
    );
  }
}

/**
 * Reads a lease; returns undefined if there is none, or the file holds none.
 *
 * @throws {Error} If no file can be read now
 */
function readLease(path: string, log?: Pick<Log, "warn">): Lease | undefined {
  try {
    const text = unlessUnreachable(() => readTextFile(path));
    return text === undefined ? undefined : parseLease(text);
  } catch (error) {
    if (!isOfFile(error)) throw error;
    const fields = { path, error: describeError(error) };
    log?.warn("Skipping a file that is no lease", fields);
    return undefined;
  }
}

/** @throws {Error} If the text is no lease */
function parseLease(text: string): Lease {
  const value: unknown = JSON.parse(text);
  const { address = "", ...names } = isObject(value) ? value : {};
  const hasNames = NAMES.every((name) => typeof names[name] === "string");
  if (!hasNames) throw new Error("it does not name its interface");
  Ip.parse(String(address));
  return value as unknown as Lease;
}

const NAMES = ["network", "containerId", "ifName", "netns"] as const;

/** Names a lease. */
export function nameOf(
  { network, containerId, ifName, family = 4 }: FamilyKey,
): string {
  const name = `${network}:${containerId}:${ifName}`;
  return family === 4 ? name : `${name}:v${family}`;
}
