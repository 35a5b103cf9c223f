/**
 * Updates the status annotation of a pod after the addresses of its networks have
 * changed.
 *
 * @module
 */

import { ifPossible } from "../../../base/files/io.ts";
import {
  isObject,
  type JsonObject,
  type JsonValue,
  parseJson,
} from "../../../base/json/json.ts";
import { formatNetworkStatus, type NetworkStatus } from "./network_status.ts";

/** The current addresses and routers of an interface. */
export interface CurrentAddresses {
  readonly ifName: string;
  /** The hardware address; undefined if it has none. */
  readonly mac: string | undefined;
  readonly ips: readonly string[];
  /** The routers of its IPv6 default routes; undefined to keep those in the status. */
  readonly routers?: readonly string[] | undefined;
}

/** An entry of the status, which a different program might have written. */
type Entry = JsonObject;

/**
 * Lists the names of the networks in a status, except the cluster's own network; none
 * if the status is malformed.
 */
export function listOtherNames(text: string): string[] {
  return readEntries(text).filter(isOther).map(({ name }) => name)
    .filter((name) => typeof name === "string");
}

function readEntries(text: string): Entry[] {
  const entries = ifPossible(() => parseJson(text));
  return Array.isArray(entries) && entries.every(isObject)
    ? entries as Entry[]
    : [];
}

/** The kubelet never changes the pod's addresses on the cluster's own network. */
function isOther({ default: isDefault }: Entry): boolean {
  return isDefault !== true;
}

/**
 * Replaces addresses and IPv6 gateways in a status. An entry with a different
 * hardware address describes an earlier sandbox, and is not changed.
 *
 * @returns Undefined if nothing changes
 */
export function updateNetworkStatus(
  text: string,
  current: readonly CurrentAddresses[],
): string | undefined {
  const entries = readEntries(text);
  const updated = entries.map((entry) => {
    const found = isOther(entry) &&
      current.find(({ ifName, mac }) =>
        entry["interface"] === ifName &&
        (entry["mac"] ?? mac) === mac
      );
    return found ? updateEntry(entry, found) : entry;
  });
  if (updated.every((entry, index) => entry === entries[index])) {
    return undefined;
  }
  return formatNetworkStatus(updated as unknown as NetworkStatus[]);
}

function updateEntry(
  entry: Entry,
  { ips, routers }: CurrentAddresses,
): Entry {
  const isIpv6 = (text: string): boolean => text.includes(":");
  const gateways = listTexts(entry["gateway"]);
  const others = gateways.filter((text) => !isIpv6(text));
  const edited = withList(entry, "ips", ips, "interface");
  return routers === undefined
    ? edited
    : withList(edited, "gateway", [...others, ...routers]);
}

/**
 * Copies an entry with a list, or without the key if the list is empty. A new key is
 * inserted after a given key.
 *
 * @returns The same entry if its list has the same members
 */
function withList(
  entry: Entry,
  key: string,
  values: readonly string[],
  after?: string,
): Entry {
  const before = new Set(listTexts(entry[key])), now = new Set(values);
  if (before.size === now.size && before.isSubsetOf(now)) return entry;
  const member: [string, JsonValue][] = values.length === 0
    ? []
    : [[key, [...values]]];
  const isPresent = Object.hasOwn(entry, key);
  const members = Object.entries(entry).flatMap((one) => {
    if (one[0] === key) return member;
    return !isPresent && one[0] === after ? [one, ...member] : [one];
  });
  const isPlaced = isPresent || after !== undefined;
  return Object.fromEntries(isPlaced ? members : [...members, ...member]);
}

function listTexts(value: JsonValue | undefined): string[] {
  const items = Array.isArray(value) ? value : [];
  return items.filter((item) => typeof item === "string");
}
