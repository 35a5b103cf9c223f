/**
 * Receipts: what this node has allocated, in a file for each attachment. With
 * them, DEL needs neither to read the pools nor the current ranges, and GC knows
 * which allocations are this node's. They only save requests: an allocation is
 * valid by the pool alone, and without a receipt DEL looks into the pools.
 *
 * @module
 */

import { join } from "@std/path/posix";
import { replaceFile } from "../../base/files/replace.ts";
import {
  ifPossible,
  removeIfThere,
  unlessUnreachable,
  withIoFailure,
} from "../../base/files/io.ts";
import type { ClaimKey } from "./ipam_claim.ts";
import type { Allocation } from "./objects.ts";

/** An allocation that this node has made. */
export interface Claim {
  readonly pool: string;
  readonly key: string;
  /** The record in the pool. */
  readonly value: Allocation;
  /** Absent if ranges may not overlap. */
  readonly reservation?: { readonly name: string; readonly uid: string };
}

/** An attachment, as receipts name it. */
export interface ReceiptOwner {
  readonly containerId: string;
  readonly ifName: string;
}

/** The IPAMClaim of an attachment. */
export interface ReceiptClaim extends ClaimKey {
  /** Name of the pod. */
  readonly pod: string;
  /** Whether the claim ends some time after its last pod. */
  readonly isTimed?: boolean;
  /** Whether the claim names the sandbox. */
  readonly namesSandbox?: boolean;
}

/** The addresses of an attachment. */
export interface Receipt {
  /** Namespace of the pools. */
  readonly namespace: string;
  readonly claims: readonly Claim[];
  /**
   * The IPAMClaim that has the addresses, which are not in `claims`: an older
   * version of this plugin releases those.
   */
  readonly ipamClaim?: ReceiptClaim;
}

/** The receipts of one network. */
export class Receipts {
  readonly #directory: string;

  /** Names the directory, which need not exist. */
  constructor(dataDir: string, network: string) {
    this.#directory = join(dataDir, network);
  }

  /**
   * Reads the receipt of an attachment.
   *
   * @param namespace Namespace of the pools
   * @returns Undefined if it is missing or unusable
   */
  read(owner: ReceiptOwner, namespace: string): Receipt | undefined {
    const receipt = this.find(owner);
    return receipt?.namespace === namespace ? receipt : undefined;
  }

  /** Reads the receipt of an attachment, whatever namespace it is of. */
  find(owner: ReceiptOwner): Receipt | undefined {
    return ifPossible((): Receipt =>
      JSON.parse(Deno.readTextFileSync(this.#pathOf(owner)))
    );
  }

  /**
   * Writes the receipt of an attachment.
   *
   * @throws {CniError} 5 if it cannot be written
   */
  write(owner: ReceiptOwner, receipt: Receipt): void {
    const bytes = new TextEncoder().encode(JSON.stringify(receipt));
    const path = this.#pathOf(owner);
    withIoFailure(`write "${path}"`, () => replaceFile(path, bytes));
  }

  /**
   * Removes the receipt of an attachment, if there is one.
   *
   * @throws {CniError} 5 if it cannot be removed
   */
  remove(owner: ReceiptOwner): void {
    removeIfThere(this.#pathOf(owner));
  }

  /**
   * Lists the attachments with a receipt.
   *
   * @throws {CniError} 5 if the directory cannot be read
   */
  list(): ReceiptOwner[] {
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

  #pathOf({ containerId, ifName }: ReceiptOwner): string {
    return join(this.#directory, `${containerId}:${ifName}`);
  }
}
