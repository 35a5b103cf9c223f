/**
 * Default routes in the result of an ADD, edited where they stand: what the
 * plugin has said beside them stays as it is, whatever it means.
 *
 * Source: multus-cni pkg/netutils/netutils.go `DeleteDefaultGWCache`,
 * `AddDefaultGWCache`. Those compare texts, and so never find the default route
 * of IPv6.
 *
 * @module
 */

import { CniError, ErrorCode } from "../../../cni/error.ts";
import {
  isObject,
  type JsonObject,
  type JsonValue,
} from "../../../cni/json.ts";
import { listVersionsOf } from "../../../cni/result_versions.ts";
import { isAtLeast } from "../../../cni/version.ts";
import { Cidr } from "../../../net/cidr.ts";
import { Ip, type IpFamily, unlessNoAddress } from "../../../net/ip.ts";

/**
 * Copies a result without the default routes of some families. Those of other
 * tables than main stay.
 *
 * @param document A result of any version
 * @param kept Gateways whose routes stay, with all that is said of them; one
 *   that left its gateway to the addresses names it then
 * @throws {CniError} 1 If results of that version are not known
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
 * Copies a result with default routes through gateways after its other routes,
 * except for those that it has. Before 0.3.0 a family without an address has
 * no routes either.
 *
 * @param document A result of any version
 * @throws {CniError} 1 If results of that version are not known
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

/** Whose routes a list has. */
interface Owner {
  /** The family that all of them are of; undefined if each says it. */
  readonly family?: IpFamily;
  /** The addresses' routers, through which a route leads that names none. */
  readonly routers: readonly Ip[];
}

type Edit = (routes: readonly JsonValue[], owner: Owner) => JsonValue[];

/** Where results before 0.3.0 have the address and the routes of each family. */
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

/** Edits the routes of an object, which has none if nothing is left of them. */
function editList(
  object: JsonObject,
  edit: Edit,
  owner: Owner,
): JsonObject {
  const [key, found] = readKey(object, "routes");
  const routes = edit(Array.isArray(found) ? found : [], owner);
  const { [key]: _, ...others } = object;
  return routes.length === 0 ? others : { ...object, [key]: routes };
}

/**
 * Says whether a result is of the shape with one address a family.
 *
 * @throws {CniError} 1 If nobody knows; others compare the very text
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

/** A default route of table main. */
interface DefaultRoute {
  /** Undefined if nothing says it: neither destination nor gateway is there. */
  readonly family: IpFamily | undefined;
  readonly gateway: Ip | undefined;
}

/** Source: include/uapi/linux/rtnetlink.h `rt_class_t`; 0 lets the kernel choose, main. */
const MAIN_TABLES: readonly JsonValue[] = [0, 254];

/** Reads a route if it is a default route of table main. */
function readDefaultRoute(
  value: JsonValue,
  owner: Owner,
): DefaultRoute | undefined {
  if (!isObject(value)) return undefined;
  const [, table] = readKey(value, "table");
  if (!MAIN_TABLES.includes(table ?? 0)) return undefined;
  const named = parseIp(readKey(value, "gw")[1]);
  const [, dst] = readKey(value, "dst");
  // A destination that is left out is Go's zero value: everything.
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

/** Says of which family a destination is that stands for all others. */
function parseDefaultFamily(dst: string): IpFamily | undefined {
  const cidr = unlessNoAddress(() => Cidr.parse(dst));
  if (cidr !== undefined) {
    return cidr.prefixLength === 0 ? cidr.family : undefined;
  }
  // Short for 0.0.0.0/0 in the language of iproute2.
  return /^0(\.0){0,2}\/0$/.test(dst) ? 4 : undefined;
}

function isSame(ip: Ip, other: Ip | undefined): boolean {
  return other !== undefined && ip.equals(other);
}

/** Reads a key in whichever case it is written, the last of several. */
function readKey(
  object: JsonObject,
  name: string,
): readonly [key: string, value: JsonValue | undefined] {
  const folded = name.toLowerCase();
  const key = Object.keys(object)
    .findLast((spelling) => spelling.toLowerCase() === folded) ?? name;
  return [key, object[key]];
}
