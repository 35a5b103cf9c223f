/**
 * Settings of a link that plugins change and restore, by their keys in
 * configurations, backups and records.
 *
 * @module
 */

import type { Link } from "../../../ffi/rtnl/link.ts";
import type { Rtnl } from "../../../ffi/rtnl/mod.ts";
import type { Mac } from "../../../net/mac.ts";

/** Settings of a link; absent settings are not changed. */
export interface LinkSettings {
  /** The MTU in bytes. */
  readonly mtu?: number | undefined;
  /** Whether it accepts all frames. */
  readonly promisc?: boolean | undefined;
  /** Whether it accepts all multicast frames. */
  readonly allmulti?: boolean | undefined;
  /** Whether it uses ARP. */
  readonly arp?: boolean | undefined;
  /** Whether it supports multicast. */
  readonly multicast?: boolean | undefined;
  /** Its group. */
  readonly group?: number | undefined;
  /** Length of its queue in packets. */
  readonly txQLen?: number | undefined;
  /** The hardware address. */
  readonly mac?: Mac | undefined;
}

/**
 * The settings in the order of their changes. The MAC is last: it identifies
 * the link's owner, in case DEL is interrupted.
 */
const KEYS = [
  "mtu",
  "promisc",
  "allmulti",
  "arp",
  "multicast",
  "group",
  "txQLen",
  "mac",
] as const;

/** Lists the settings that are present. */
export function keysOf(settings: LinkSettings): (keyof LinkSettings)[] {
  return KEYS.filter((key) => settings[key] !== undefined);
}

/** Returns a link's own values of the given settings. */
export function readSettings(
  link: Link,
  keys: readonly (keyof LinkSettings)[],
): LinkSettings {
  const all: LinkSettings = {
    mtu: link.mtu,
    promisc: link.isPromiscuous,
    allmulti: link.isAllMulticast,
    arp: link.hasArp,
    multicast: link.hasMulticast,
    group: link.group,
    txQLen: link.transmitQueueLength,
    mac: link.mac,
  };
  return Object.fromEntries(keys.map((key) => [key, all[key]]));
}

/** Returns all settings of a link. */
export function readAllSettings(link: Link): LinkSettings {
  return readSettings(link, KEYS);
}

/** A link by its index and name. */
export type NamedLink = Pick<Link, "index" | "name">;

/**
 * Changes a setting of a link.
 *
 * @throws {Error} If the kernel refuses
 */
export function changeSetting(
  { link }: Rtnl,
  { index, name }: NamedLink,
  settings: LinkSettings,
  key: keyof LinkSettings,
): void {
  const only: LinkSettings = { [key]: settings[key] };
  try {
    link.set(index, {
      mtu: only.mtu,
      isPromiscuous: only.promisc,
      isAllMulticast: only.allmulti,
      hasArp: only.arp,
      hasMulticast: only.multicast,
      group: only.group,
      transmitQueueLength: only.txQLen,
      mac: only.mac,
    });
  } catch (error) {
    throw new Error(`Cannot set ${key} of "${name}" to ${settings[key]}`, {
      cause: error,
    });
  }
}

/**
 * Changes the settings in which a link differs, as far as the kernel permits.
 *
 * @param which The link's index or name; the link might have been deleted
 * @returns The kernel's refusals
 */
export function restoreSettings(
  rtnl: Rtnl,
  which: number | string,
  settings: LinkSettings,
): Error[] {
  const link = rtnl.link.find(which);
  if (link === undefined) return [];
  const keys = keysOf(settings);
  const present = readSettings(link, keys);
  return keys.flatMap((key) => {
    if (`${present[key]}` === `${settings[key]}`) return [];
    try {
      changeSetting(rtnl, link, settings, key);
      return [];
    } catch (error) {
      return [error as Error];
    }
  });
}
