/**
 * host-local for tools. Takes no lock and changes nothing.
 *
 * @module
 */

import { ifPossible } from "../../base/files/io.ts";
import { decode, type JsonObject } from "../../base/json/json.ts";
import { SET_ASIDE_MS } from "../../cni/config/types.ts";
import { metadata } from "./metadata.ts";
import { dataDirOf, rangeSetsOf } from "./config.ts";
import { persistentMsOf } from "./kept/retention.ts";
import {
  findIp,
  isOfLink,
  parsePersistent,
  parseSetAside,
  type PodName,
} from "./lease.ts";
import { LOCK_FILE, readLease } from "./lease_files.ts";
import { countAddresses, findRange, type RangeSet } from "./range.ts";
import { hostLocalSchema } from "./schema.ts";

export type { Range } from "./range.ts";
export { parseResolvConf } from "./resolv_conf.ts";

/** Addresses that a configuration hands out. */
export interface Pool {
  /** The directory with its leases. */
  readonly directory: string;
  /** Path of the file that each call locks. */
  readonly lock: string;
  readonly sets: readonly RangeSet[];
  /** How long a pod's name keeps an unused address, in ms; 0 if it does not. */
  readonly persistentMs: number;
}

/**
 * Reads the pool of a plugin's configuration.
 *
 * @throws {CniError} 7 If the ranges are invalid, or `stay` lacks `stayTime`, which
 *   validation reports
 */
export function readPool(
  document: JsonObject,
  { name, cniVersion }: { readonly name: string; readonly cniVersion: string },
): Pool {
  const config = decode(hostLocalSchema(), document, metadata.type);
  const directory = `${dataDirOf(config)}/${name}`;
  return {
    directory,
    lock: `${directory}/${LOCK_FILE}`,
    sets: rangeSetsOf(config, cniVersion),
    persistentMs: persistentMsOf(config),
  };
}

/** A persistent address that no pod uses, and when it expires. */
export interface PersistentAddress extends PodName {
  readonly address: string;
  readonly until: Date;
}

/** An address that is set aside, the machine that has it, and when that expires. */
export interface SetAsideAddress {
  readonly address: string;
  readonly mac: string;
  readonly until: Date;
}

/** How many addresses of a range set are in use. */
export interface SetUse {
  /** The subnets, as configured. */
  readonly subnets: readonly string[];
  /** The addresses of containers. */
  readonly used: bigint;
  /** Unused persistent addresses; ADD takes them if no other address is free. */
  readonly persistent: readonly PersistentAddress[];
  /** Addresses of other machines; ADD takes them if no other address is free. */
  readonly setAside: readonly SetAsideAddress[];
  readonly all: bigint;
}

/** Counts the leases in each range set of a pool. */
export function countLeases({ directory, sets, persistentMs }: Pool): SetUse[] {
  const names = ifPossible(() => [...Deno.readDirSync(directory)]) ?? [];
  const addresses = names.flatMap(({ name }) => {
    const ip = findIp(name);
    return ip === undefined ? [] : [{ name, ip }];
  });
  const links = addresses.flatMap(({ name, ip }) => {
    const path = `${directory}/${name}`;
    const content = ifPossible(() => readLease(path)) ?? "";
    const since = isOfLink(content) &&
      ifPossible(() => Deno.lstatSync(path).mtime);
    if (!since) return [];
    const untilAfter = (ms: number): Date => new Date(since.getTime() + ms);
    return [{ address: name, ip, content, untilAfter }];
  });
  const persistent = persistentMs === 0 ? [] : links.flatMap(
    ({ address, ip, content, untilAfter }) => {
      const podName = parsePersistent(content);
      const until = untilAfter(persistentMs);
      return podName ? [{ ...podName, address, ip, until }] : [];
    },
  ).sort(byEnd);
  const setAside = links.flatMap(({ address, ip, content, untilAfter }) => {
    const mac = parseSetAside(content), until = untilAfter(SET_ASIDE_MS);
    return mac === undefined ? [] : [{ address, ip, mac, until }];
  }).sort(byEnd);
  const kept = [...persistent, ...setAside];
  const leased = addresses.filter(({ name }) =>
    !kept.some(({ address }) => address === name)
  );
  const now = Date.now();
  return sets.map((set) => ({
    subnets: set.map(({ subnet }) => `${subnet}`),
    used: BigInt(leased.filter(({ ip }) => findRange(set, ip)).length),
    persistent: persistent.filter(({ ip, until }) =>
      until.getTime() > now && findRange(set, ip)
    ).map(({ ip: _, ...one }) => one),
    setAside: setAside.filter(({ ip, until }) =>
      until.getTime() > now && findRange(set, ip)
    ).map(({ ip: _, ...one }) => one),
    all: countAddresses(set),
  }));
}

function byEnd(
  one: { readonly until: Date },
  other: { readonly until: Date },
): number {
  return one.until.getTime() - other.until.getTime();
}
