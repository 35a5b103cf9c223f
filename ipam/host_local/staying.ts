/**
 * Lists the addresses that stay in a directory of leases, for tools. Takes no lock
 * and changes nothing.
 *
 * @module
 */

import { ifPossible } from "../../base/files/io.ts";
import { findHolder, type Holder } from "./holders.ts";
import { findIp } from "./lease.ts";
import { readLease } from "./lease_files.ts";

/** An address that stays for the name of a pod. */
export interface StayingLease extends Holder {
  readonly address: string;
  /** When its time began. */
  readonly since: Date;
}

/** Lists the addresses that stay; none if the directory cannot be read. */
export function listStaying(directory: string): StayingLease[] {
  const entries = ifPossible(() => [...Deno.readDirSync(directory)]) ?? [];
  return entries.filter(({ name }) => findIp(name))
    .flatMap(({ name: address }) => {
      const path = `${directory}/${address}`;
      const holder = findHolder(ifPossible(() => readLease(path)) ?? "");
      const since = holder && ifPossible(() => Deno.lstatSync(path).mtime);
      return holder && since ? [{ ...holder, address, since }] : [];
    })
    .sort((one, other) => one.since.getTime() - other.since.getTime());
}
