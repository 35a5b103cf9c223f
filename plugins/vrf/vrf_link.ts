/**
 * The VRF itself.
 *
 * @module
 */

import { CniError, ErrorCode } from "../../base/error.ts";
import type { Rollback } from "../../base/rollback.ts";
import { isErrno } from "../../ffi/errno.ts";
import { Table } from "../../ffi/rtnl/constants.ts";
import type { Link } from "../../ffi/rtnl/link.ts";
import type { Rtnl } from "../../ffi/rtnl/mod.ts";

/** A VRF of the sandbox. */
export interface Vrf {
  readonly index: number;
  /** The routing table of its ports. */
  readonly table: number;
}

/** Finds a VRF. Returns undefined for a link of a different kind. */
export function findVrf({ link }: Rtnl, name: string): Vrf | undefined {
  const { index = 0, data } = link.find(name) ?? {};
  return data?.kind === "vrf" ? { index, table: data.table } : undefined;
}

/**
 * Finds or creates a VRF.
 *
 * @param table 0 for the table of an existing VRF or, without such a VRF, the lowest
 * unused table
 * @throws {CniError} 7 if a different link has the name, or the VRF has a different
 * table
 * @throws {Error} If the kernel refuses
 */
export function ensureVrf(
  sandbox: Rtnl,
  name: string,
  table: number,
  rollback: Rollback,
): Vrf {
  const { link } = sandbox;
  const found = findVrf(sandbox, name);
  if (found !== undefined) {
    if (table === 0 || table === found.table) return found;
    throw new CniError(
      ErrorCode.InvalidNetworkConfig,
      `VRF ${name} already exist with different routing table ${found.table}`,
    );
  }
  if (link.find(name) !== undefined) {
    throw new CniError(
      ErrorCode.InvalidNetworkConfig,
      `Netlink ${name} is not a VRF`,
    );
  }
  const chosen = table || freeTable(link.list());
  let isOthers = false;
  rollback.onFailure(`delete VRF "${name}"`, () => {
    if (!isOthers) link.ensureGone(name);
  });
  try {
    return { index: link.addVrf({ name, table: chosen }).index, table: chosen };
  } catch (cause) {
    // A program in the container has just created a link with that name.
    isOthers = isErrno(cause, "EEXIST");
    throw new Error(`could not add VRF ${name}`, { cause });
  }
}

const RESERVED: readonly number[] = [Table.Default, Table.Main, Table.Local];

/** Returns the lowest table, from 1, that no VRF uses. */
export function freeTable(links: readonly Pick<Link, "data">[]): number {
  const taken = new Set(
    links.map(({ data }) => data?.kind === "vrf" ? data.table : undefined),
  );
  let table = 1;
  while (taken.has(table) || RESERVED.includes(table)) table++;
  return table;
}

/** Lists the links that are in a VRF. */
export function portsOf({ link }: Rtnl, { index }: Vrf): Link[] {
  return link.list().filter(({ masterIndex }) => masterIndex === index);
}

/**
 * Finds the container's interface.
 *
 * @throws {CniError} 4 if it does not exist
 */
export function getLink({ link }: Rtnl, ifName: string): Link {
  const found = link.find(ifName);
  if (found !== undefined) return found;
  throw new CniError(
    ErrorCode.InvalidEnvironment,
    `could not get link by name ${ifName}`,
  );
}

/**
 * Checks that a link is a port of nothing but a VRF.
 *
 * @throws {CniError} 7 if it is
 */
export function checkHasNoMaster(
  { link }: Rtnl,
  { name, masterIndex }: Link,
  vrf: Vrf,
): void {
  if (masterIndex === undefined || masterIndex === vrf.index) return;
  const { name: master = String(masterIndex) } = link.find(masterIndex) ?? {};
  throw new CniError(
    ErrorCode.InvalidNetworkConfig,
    `interface ${name} has already a master set: ${master}`,
  );
}
