/**
 * The ranges in the configuration of an IPAM plugin that also assigns addresses
 * outside of them, such as whereabouts.
 *
 * @module
 */

import {
  findValue,
  type JsonObject,
  objectOf,
} from "../../../base/json/json.ts";
import { Cidr } from "../../../net/cidr.ts";
import { unlessNoAddress } from "../../../net/ip.ts";

/** Lists the networks of the ranges. */
export function listRanges(ipam: JsonObject): Cidr[] {
  const more = findValue(ipam, "ipRanges");
  return [ipam, ...Array.isArray(more) ? more.map(objectOf) : []]
    .flatMap((range) => {
      const text = findValue(range, "range");
      if (typeof text !== "string") return [];
      const network = text.slice(text.indexOf("-") + 1);
      return unlessNoAddress(() => Cidr.parse(network).masked()) ?? [];
    });
}
