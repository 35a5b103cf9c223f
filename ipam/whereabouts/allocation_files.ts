/**
 * Allocation files: the addresses that this node has allocated, in a file for each
 * attachment. With them, DEL needs to read neither the pools nor the current ranges,
 * and GC identifies this node's allocations. They only save requests: the pool alone
 * decides whether an allocation is valid, and without a file DEL searches the pools.
 *
 * @module
 */

import { join } from "@std/path/posix";
import type { AttachmentId } from "../../cni/config/types.ts";
import { replaceFile } from "../../base/files/replace.ts";
import { describeError } from "../../base/error.ts";
import {
  readTextFile,
  removeIfThere,
  unlessUnreachable,
  withIoFailure,
} from "../../base/files/io.ts";
import { isObject } from "../../base/json/json.ts";
import type { Log } from "../../base/log/log.ts";
import type { ClaimKey } from "./claims/ipam_claim.ts";
import type { Allocation } from "./objects.ts";

/** An allocation that this node has made. */
export interface PoolAllocation {
  readonly pool: string;
  readonly key: string;
  /** The record in the pool. */
  readonly value: Allocation;
  /** Absent if ranges must not overlap. */
  readonly reservation?: { readonly name: string; readonly uid: string };
}

/** The IPAMClaim of an attachment. */
export interface UsedClaim extends ClaimKey {
  /** Name of the pod. */
  readonly pod: string;
  /** Whether the claim ends some time after its last pod. */
  readonly isTimed?: boolean;
  /** Whether the claim names the sandbox. */
  readonly namesSandbox?: boolean;
}

/** The content of an attachment's file: its addresses. */
export interface AllocationFile {
  /** Namespace of the pools. */
  readonly namespace: string;
  readonly claims: readonly PoolAllocation[];
  /**
   * The IPAMClaim that has the addresses, which are not in `claims`: an older
   * version of this plugin releases those.
   */
  readonly ipamClaim?: UsedClaim;
}

/** The allocation files of one network. */
export class AllocationFiles {
  readonly #directory: string;
  readonly #log: Pick<Log, "warn"> | undefined;

  /**
   * Names the directory, which need not exist.
   *
   * @param log Names the files that cannot be used
   */
  constructor(
    dataDir: string,
    network: string,
    log?: Pick<Log, "warn">,
  ) {
    this.#directory = join(dataDir, network);
    this.#log = log;
  }

  /**
   * Reads the file of an attachment.
   *
   * @param namespace Namespace of the pools
   * @returns Undefined if it is missing or unusable
   */
  read(owner: AttachmentId, namespace: string): AllocationFile | undefined {
    const file = this.find(owner);
    return file?.namespace === namespace ? file : undefined;
  }

  /** Reads the file of an attachment, for pools of any namespace. */
  find(owner: AttachmentId): AllocationFile | undefined {
    const path = this.#pathOf(owner);
    try {
      const text = unlessUnreachable(() => readTextFile(path));
      return text === undefined ? undefined : parseFile(text);
    } catch (error) {
      const problem = describeError(error);
      this.#log?.warn("Ignoring an allocation file", { path, problem });
      return undefined;
    }
  }

  /**
   * Writes the file of an attachment.
   *
   * @throws {CniError} 5 if it cannot be written
   */
  write(owner: AttachmentId, file: AllocationFile): void {
    const bytes = new TextEncoder().encode(JSON.stringify(file));
    const path = this.#pathOf(owner);
    withIoFailure(`write "${path}"`, () => replaceFile(path, bytes));
  }

  /**
   * Removes the file of an attachment, if it exists.
   *
   * @throws {CniError} 5 if it cannot be removed
   */
  remove(owner: AttachmentId): void {
    removeIfThere(this.#pathOf(owner));
  }

  /**
   * Lists the attachments with a file.
   *
   * @throws {CniError} 5 if the directory cannot be read
   */
  list(): AttachmentId[] {
    const entries = withIoFailure(
      `read "${this.#directory}"`,
      () =>
        unlessUnreachable(() => [...Deno.readDirSync(this.#directory)]) ?? [],
    );
    return entries.filter(({ isFile }) => isFile).flatMap(({ name }) => {
      const end = name.indexOf(":");
      return end < 0 ? [] : [{
        containerId: name.slice(0, end),
        ifName: name.slice(end + 1),
      }];
    });
  }

  #pathOf({ containerId, ifName }: AttachmentId): string {
    return join(this.#directory, `${containerId}:${ifName}`);
  }
}

/** @throws {Error} If the text is no allocation file */
function parseFile(text: string): AllocationFile {
  const value: unknown = JSON.parse(text);
  const { namespace, claims, ipamClaim = {} } = isObject(value) ? value : {};
  const isUsable = typeof namespace === "string" && isObject(ipamClaim) &&
    Array.isArray(claims) && claims.every(isAllocation);
  if (!isUsable) throw new Error("it does not list allocations");
  return value as unknown as AllocationFile;
}

function isAllocation(value: unknown): boolean {
  return isObject(value) && typeof value["pool"] === "string" &&
    typeof value["key"] === "string" && isObject(value["value"]);
}
