/**
 * Edits the routes in results of any CNI version. All other parts stay as the plugin
 * wrote them, including unknown keys.
 *
 * @module
 */

import { CniError, ErrorCode } from "../../../base/error.ts";
import {
  isObject,
  type JsonObject,
  type JsonValue,
} from "../../../base/json/json.ts";
import { encodeRoute } from "../../../cni/result/encoding.ts";
import type { Route } from "../../../cni/result/result.ts";
import { listVersionsOf } from "../../../cni/result/versions.ts";
import { isAtLeast } from "../../../cni/version.ts";
import { Table } from "../../../ffi/rtnl/constants.ts";
import { Cidr } from "../../../net/cidr.ts";
import { Ip, type IpFamily, unlessNoAddress } from "../../../net/ip.ts";

/**
 * Copies a result without the default routes of some families. Default routes in
 * tables other than main are kept.
 *
 * @param document A result of any version
 * @param kept Gateways whose routes are kept, with all their keys; a route without an
 * explicit gateway gets it
 * @throws {CniError} 1 If the result's version is unknown
 */
export function dropDefaultRoutes(
  document: JsonObject,
  families: readonly IpFamily[],
  kept: readonly Ip[] = [],
): JsonObject {
  return editRoutes(document, (routes, owner) =>
    routes.flatMap((value) => {
      const route = readDefaultRoute(value, owner);
      if (route === undefined) return [value];
      const { family, gateway } = route;
      const isAsked = family === undefined
        ? families.length > 0
        : families.includes(family);
      if (!isAsked) return [value];
      const asked = kept.find((ip) => isSame(ip, gateway));
      return asked ? [nameGateway(value, asked)] : [];
    }));
}

function nameGateway(route: JsonValue, gateway: Ip): JsonValue {
  if (!isObject(route)) return route;
  const [key, named] = readKey(route, "gw");
  return named ? route : { ...route, [key]: gateway.toString() };
}

/**
 * Copies a result and appends missing default routes through gateways. Before 0.3.0,
 * a family without an address cannot have routes.
 *
 * @param document A result of any version
 * @throws {CniError} 1 If the result's version is unknown
 */
export function addDefaultRoutes(
  document: JsonObject,
  gateways: readonly Ip[],
): JsonObject {
  return editRoutes(document, (routes, owner) => {
    const missing = gateways.filter((ip) =>
      (owner.family ?? ip.family) === ip.family &&
      !routes.some((value) =>
        isSame(ip, readDefaultRoute(value, owner)?.gateway)
      )
    );
    return [...routes, ...missing.map(toDefaultRoute)];
  });
}

function toDefaultRoute(gateway: Ip): JsonObject {
  const dst = gateway.family === 4 ? "0.0.0.0/0" : "::/0";
  return { dst, gw: gateway.toString() };
}

/**
 * Copies a result and appends routes that it lacks. Before 0.3.0, they have only
 * `dst` and `gw`, and a family without an address cannot have routes.
 *
 * @param document A result of any version
 * @throws {CniError} 1 If the result's version is unknown
 */
export function addRoutes(
  document: JsonObject,
  added: readonly Route[],
): JsonObject {
  return editRoutes(document, (routes, owner) => {
    const { family } = owner;
    const missing = added.filter((route) =>
      (family ?? route.dst.family) === route.dst.family &&
      !routes.some((value) => isListed(route, value, owner))
    );
    const encoded = missing.map(({ dst, gw, ...others }) =>
      encodeRoute(family === undefined ? { dst, gw, ...others } : { dst, gw })
    );
    return [...routes, ...encoded];
  });
}

function isListed(
  { dst, gw, table = Table.Unspecified }: Route,
  value: JsonValue,
  { routers }: RouteDefaults,
): boolean {
  if (!isObject(value)) return false;
  const listed = unlessNoAddress(() =>
    Cidr.parse(String(readKey(value, "dst")[1]))
  );
  const gateway = parseIp(readKey(value, "gw")[1]) ??
    routers.find((ip) => ip.family === dst.family);
  const [, other] = readKey(value, "table");
  return listed?.masked().equals(dst) === true &&
    (gw === undefined || isSame(gw, gateway)) && (other ?? 0) === table;
}

/** Fields that the routes of a list share. */
interface RouteDefaults {
  /** The family of all routes; undefined if each route has its own. */
  readonly family?: IpFamily;
  /** The gateways of the addresses, for routes without a gateway. */
  readonly routers: readonly Ip[];
}

type Edit = (routes: readonly JsonValue[], owner: RouteDefaults) => JsonValue[];

/** Keys of results before 0.3.0, with the address and routes of a family. */
const PAIR: readonly (readonly [key: string, family: IpFamily])[] = [
  ["ip4", 4],
  ["ip6", 6],
];

function editRoutes(document: JsonObject, edit: Edit): JsonObject {
  if (!isPair(document)) {
    const [, ips] = readKey(document, "ips");
    const routers = (Array.isArray(ips) ? ips : []).flatMap(readRouter);
    return editList(document, edit, { routers });
  }
  return PAIR.reduce((edited, [name, family]) => {
    const [key, ip] = readKey(edited, name);
    if (!isObject(ip)) return edited;
    const owner = { family, routers: readRouter(ip) };
    return { ...edited, [key]: editList(ip, edit, owner) };
  }, document);
}

function readRouter(ip: JsonValue): Ip[] {
  const router = isObject(ip) ? parseIp(readKey(ip, "gateway")[1]) : undefined;
  return router === undefined ? [] : [router];
}

/** Edits the routes of an object; removes the key if none are left. */
function editList(
  object: JsonObject,
  edit: Edit,
  owner: RouteDefaults,
): JsonObject {
  const [key, found] = readKey(object, "routes");
  const routes = edit(Array.isArray(found) ? found : [], owner);
  const { [key]: _, ...others } = object;
  return routes.length === 0 ? others : { ...object, [key]: routes };
}

/**
 * Reports whether a result has the old format, with an address per family.
 *
 * @throws {CniError} 1 If the version is unknown, with the Go version's text
 */
function isPair(document: JsonObject): boolean {
  const version = readKey(document, "cniVersion")[1] ?? "";
  if (typeof version === "string") {
    if (listVersionsOf("pair").includes(version)) return true;
    if (listVersionsOf("versionedLists").includes(version)) return false;
    if (isFrom100(version)) return false;
  }
  throw new CniError(
    ErrorCode.IncompatibleVersion,
    `not supported version: ${version}`,
  );
}

function isFrom100(version: string): boolean {
  try {
    return isAtLeast(version, "1.0.0");
  } catch (error) {
    if (error instanceof RangeError) return false;
    throw error;
  }
}

/** A default route in table main. */
interface DefaultRoute {
  /** The family; undefined if the route has neither destination nor gateway. */
  readonly family: IpFamily | undefined;
  readonly gateway: Ip | undefined;
}

/** For an unspecified table the kernel uses main. */
const MAIN_TABLES: readonly JsonValue[] = [Table.Unspecified, Table.Main];

/** Reads a route if it is a default route in table main. */
function readDefaultRoute(
  value: JsonValue,
  owner: RouteDefaults,
): DefaultRoute | undefined {
  if (!isObject(value)) return undefined;
  const [, table] = readKey(value, "table");
  if (!MAIN_TABLES.includes(table ?? 0)) return undefined;
  const named = parseIp(readKey(value, "gw")[1]);
  const [, dst] = readKey(value, "dst");
  // A missing destination is Go's zero value: all destinations.
  const isUnsaid = dst === undefined || dst === null || dst === "";
  const family = isUnsaid
    ? owner.family ?? named?.family
    : parseDefaultFamily(String(dst));
  if (family === undefined && !isUnsaid) return undefined;
  const gateway = named ?? owner.routers.find((ip) => ip.family === family);
  return { family, gateway };
}

function parseIp(value: JsonValue | undefined): Ip | undefined {
  return unlessNoAddress(() => Ip.parse(String(value)));
}

/** Returns the family of a destination that covers all addresses. */
function parseDefaultFamily(dst: string): IpFamily | undefined {
  const cidr = unlessNoAddress(() => Cidr.parse(dst));
  if (cidr !== undefined) {
    return cidr.prefixLength === 0 ? cidr.family : undefined;
  }
  // iproute2's short form of 0.0.0.0/0.
  return /^0(\.0){0,2}\/0$/.test(dst) ? 4 : undefined;
}

function isSame(ip: Ip, other: Ip | undefined): boolean {
  return other !== undefined && ip.equals(other);
}

/** Reads a key case-insensitively; the last of several keys counts. */
function readKey(
  object: JsonObject,
  name: string,
): readonly [key: string, value: JsonValue | undefined] {
  const folded = name.toLowerCase();
  const key = Object.keys(object)
    .findLast((spelling) => spelling.toLowerCase() === folded) ?? name;
  return [key, object[key]];
}
