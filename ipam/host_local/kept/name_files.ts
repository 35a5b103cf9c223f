/**
 * One small file for each name with persistent addresses, next to the network's
 * directory:
 *
 * `<dataDir>/.by-name/<network>/<namespace>:<interface>/<pod>`
 *
 * It contains the addresses of the name, and the last sandbox that had them. The leases
 * are authoritative, but leases in the Go plugin's format cannot name a pod: without this
 * file, a sandbox that ends without a DEL, as in a power failure, would leave a lease of
 * an unknown pod.
 *
 * @module
 */

import { basename, dirname, join } from "@std/path/posix";
import {
  ifPossible,
  removeQuietly,
  withIoFailure,
} from "../../../base/files/io.ts";
import { replaceFile } from "../../../base/files/replace.ts";
import { findBootId, findFileId } from "../../../base/files/same_file.ts";
import type { AttachmentId } from "../../../cni/config/types.ts";
import type { PodName } from "../lease.ts";

/** The directory for all networks, next to the directories of their leases. */
const BY_NAME = ".by-name";

/** Identifies a network namespace. */
export interface Sandbox {
  readonly netns: string;
  /** Device and inode; absent if it did not exist. */
  readonly id?: string | undefined;
  /** What `findBootId` returned, or "". */
  readonly boot: string;
}

/** The addresses of a name, and its last sandbox. */
export interface NameRecord extends AttachmentId {
  readonly ips: readonly string[];
  readonly sandbox: Sandbox;
}

/** Identifies the network namespace at a path. */
export function identifySandbox(netns: string): Sandbox {
  return { netns, id: findFileId(netns), boot: findBootId() ?? "" };
}

/** The files of a network's names. Use them only while the network is locked. */
export class NameFiles {
  readonly #path: string;

  /**
   * Names the directory, which need not exist.
   *
   * @param leases Path of the network's leases
   */
  constructor(leases: string) {
    this.#path = join(dirname(leases), BY_NAME, basename(leases));
  }

  /** Reads the addresses of a name; undefined without a usable file. */
  find(name: PodName): NameRecord | undefined {
    return readRecord(this.#pathOf(name));
  }

  /**
   * Writes the addresses of a name.
   *
   * @throws {CniError} 5 if it cannot be written
   */
  write(name: PodName, record: NameRecord): void {
    const path = this.#pathOf(name);
    const bytes = new TextEncoder().encode(`${JSON.stringify(record)}\n`);
    withIoFailure(`write "${path}"`, () => {
      Deno.mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
      replaceFile(path, bytes);
    });
  }

  /** Lists all names with their records. */
  list(): (readonly [PodName, NameRecord])[] {
    return namesIn(this.#path).flatMap((group) => {
      const [namespace = "", ifName = ""] = group.split(":");
      return namesIn(join(this.#path, group)).flatMap((pod) => {
        const name = { namespace, pod, ifName };
        const record = this.find(name);
        return record === undefined ? [] : [[name, record] as const];
      });
    });
  }

  /** Removes the files of names that have nothing. Never throws. */
  prune(
    hasLease: (name: PodName, record: NameRecord) => boolean,
  ): void {
    for (const [name, record] of this.list()) {
      if (!hasLease(name, record)) {
        removeQuietly(this.#pathOf(name));
      }
    }
    for (const group of namesIn(this.#path)) {
      const path = join(this.#path, group);
      if (namesIn(path).length === 0) removeQuietly(path);
    }
  }

  #pathOf({ namespace, pod, ifName }: PodName): string {
    return join(this.#path, `${namespace}:${ifName}`, pod);
  }
}

function readRecord(path: string): NameRecord | undefined {
  const found: Partial<NameRecord> | undefined = ifPossible(() =>
    JSON.parse(Deno.readTextFileSync(path))
  );
  const { containerId, ifName, ips, sandbox } = found ?? {};
  return typeof containerId === "string" && typeof ifName === "string" &&
      Array.isArray(ips) && ips.every((ip) => typeof ip === "string") &&
      typeof sandbox?.netns === "string"
    ? { containerId, ifName, ips, sandbox }
    : undefined;
}

function namesIn(path: string): string[] {
  const entries = ifPossible(() => [...Deno.readDirSync(path)]) ?? [];
  // One that begins with a dot is being written.
  return entries.map(({ name }) => name).filter((name) =>
    !name.startsWith(".")
  );
}
