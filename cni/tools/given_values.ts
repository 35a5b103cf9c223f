/**
 * Reads values of configurations that may be of any type, to lint them.
 *
 * @module
 */

import { Cidr } from "../../net/cidr.ts";
import { Ip, unlessNoAddress } from "../../net/ip.ts";
import {
  type JsonObject,
  type JsonValue,
  objectOf,
} from "../../base/json/json.ts";

/** Lists the items of an array as objects; empty for anything else. */
export function listOf(value: JsonValue | undefined): JsonObject[] {
  return Array.isArray(value) ? value.map(objectOf) : [];
}

/** Reads an address with a prefix length; undefined if it cannot be read. */
export function readCidr(value: unknown): Cidr | undefined {
  if (typeof value !== "string") return undefined;
  return unlessNoAddress(() => Cidr.parse(value));
}

/** Reads an address; undefined if it cannot be read. */
export function readIp(value: unknown): Ip | undefined {
  if (typeof value !== "string") return undefined;
  return unlessNoAddress(() => Ip.parse(value));
}
