/**
 * The content of a scratch file: the networks of a pod, in the format of the Go
 * version, which dumps its Go structs.
 *
 * `Bytes` contains a network's configuration; DEL needs only this and the request. Up
 * to 4.3, Go shortened the list of a file there, and kept the whole list in
 * `CNINetworkConfigList`, which it did not use for DEL. `Conf` and `ConfList` repeat
 * the keys of Go's types; they are written for the Go version and never read. The
 * format has no requested bandwidth and port mappings, which libcni's cache contains.
 *
 * Source: multus-cni pkg/types `DelegateNetConf`, containernetworking/cni
 * pkg/types/types.go `PluginConf`, `NetConfList`.
 *
 * @module
 */

import * as z from "zod/mini";
import { CniError, ErrorCode } from "../../../base/error.ts";
import {
  decode,
  decodeLeniently,
  isObject,
  type JsonObject,
  type JsonValue,
  omitAbsent,
  once,
  parseJson,
} from "../../../base/json/json.ts";
import { ifPossible } from "../../../base/files/io.ts";
import type { NetworkConfList } from "../../../libcni/conf.ts";
import { encodeJson, formatJson } from "../../../base/json/json_bytes.ts";
import {
  givenDnsSchema,
  optional,
  routeSchema,
} from "../../../cni/config/types.ts";
import { encodeRoute } from "../../../cni/result/encoding.ts";
import { Ip, unlessNoAddress } from "../../../net/ip.ts";
import {
  type AttachmentRequest,
  type Delegate,
  isList,
  loadDelegate,
  ROUTES,
} from "../model/delegate.ts";

/** The content of a scratch file. */
export interface ScratchDocument {
  /**
   * Name of the multus network that attached the container; "" if the file does not
   * contain it, for example because the Go version wrote it.
   */
  readonly owner: string;
  /** The pod's networks in order, at least one network. */
  readonly entries: readonly ScratchEntry[];
}

/**
 * Key in the first network for {@linkcode ScratchDocument.owner}. The Go version
 * ignores it, like every unknown key.
 */
const OWNER = "multusNetwork";

/**
 * Encodes a file. Without an owner it equals the Go version's file.
 *
 * @param owner Name of the multus network; "" omits the key
 */
export function encodeScratch(
  delegates: readonly Delegate[],
  owner = "",
): Uint8Array<ArrayBuffer> {
  const text = delegates
    .map((delegate, index) =>
      formatDelegate(delegate, index === 0 ? owner : "")
    )
    .join(",");
  return new TextEncoder().encode(`[${text}]`);
}

/** A key of a Go struct and its value as JSON; undefined is omitted. */
type Member = readonly [key: string, json: string | undefined];

/** Formats a Go struct, with keys in the order of its fields. */
function formatStruct(members: readonly Member[]): string {
  const present = members.filter(([, json]) => json !== undefined)
    .map(([key, json]) => `${formatJson(key)}:${json}`);
  return `{${present.join(",")}}`;
}

function formatDelegate(
  { name, conf, request, deviceId = request.deviceId, ...more }: Delegate,
  owner: string,
): string {
  const document = isList(conf)
    ? parseJson(conf.bytes, name) as JsonObject
    : conf.plugin.document;
  return formatStruct([
    ["Conf", formatView(document)],
    ["ConfList", isList(conf) ? formatList(conf, document) : "{}"],
    ["Name", formatJson(name)],
    ...formatRequest(request),
    ["IsFilterV4Gateway", formatJson(more.isFilterV4Gateway)],
    ["IsFilterV6Gateway", formatJson(more.isFilterV6Gateway)],
    ["deviceID", unlessEmpty(deviceId)],
    ["resourceName", unlessEmpty(more.resourceName)],
    ["Bytes", formatJson(conf.bytes.toBase64())],
    [OWNER, unlessEmpty(owner)],
  ]);
}

function formatRequest(
  { ifName, mac, infinibandGuid, ips = [], defaultRoute, routes = [] }:
    AttachmentRequest,
): Member[] {
  // Keep an empty list of gateways, which differs from an absent list.
  const gateways = defaultRoute?.map(String);
  return [
    ["ifnameRequest", unlessEmpty(ifName)],
    ["macRequest", unlessEmpty(mac)],
    ["infinibandGUIDRequest", unlessEmpty(infinibandGuid)],
    ["ipRequest", ips.length > 0 ? formatJson([...ips]) : undefined],
    ["default-route", gateways && formatJson(gateways)],
    // For CHECK. The Go version ignores it.
    [
      ROUTES,
      routes.length > 0 ? formatJson(routes.map(encodeRoute)) : undefined,
    ],
  ];
}

function formatList(list: NetworkConfList, document: JsonObject): string {
  const { cniVersion } = decodeView(document);
  const views = list.plugins.map((plugin) => formatView(plugin.document));
  return formatStruct([
    ["cniVersion", unlessEmpty(cniVersion)],
    ["name", unlessEmpty(list.name)],
    ["disableCheck", list.disableCheck ? "true" : undefined],
    ["disableGC", list.disableGc ? "true" : undefined],
    ["plugins", views.length > 0 ? `[${views.join(",")}]` : undefined],
  ]);
}

function unlessEmpty(text: string | undefined): string | undefined {
  return text ? formatJson(text) : undefined;
}

/** The keys of the configuration in Go's type. */
const viewSchema = once(() => {
  const text = optional(z.string());
  return z.looseObject({
    cniVersion: text,
    name: text,
    type: text,
    capabilities: optional(z.record(z.string(), z.nullable(z.boolean()))),
    ipam: optional(z.looseObject({ type: text })),
    dns: optional(givenDnsSchema()),
    prevResult: optional(z.looseObject({})),
  });
});

/** Omits values of a wrong type: `Bytes` contains them, and the plugin refuses them. */
function decodeView(
  document: JsonObject,
): z.infer<ReturnType<typeof viewSchema>> {
  return decodeLeniently(viewSchema(), document, "configuration", () => {});
}

/** Formats the keys of a plugin's configuration in Go's type. */
function formatView(document: JsonObject): string {
  const { capabilities = {}, ipam, dns = {}, ...view } = decodeView(document);
  const { nameservers, domain, search, options } = dns;
  const wanted = Object.entries(capabilities)
    .map(([capability, isWanted]) => [capability, isWanted ?? false] as const);
  return formatJson(omitAbsent<JsonObject>({
    capabilities: unlessNothing(Object.fromEntries(wanted)),
    cniVersion: view.cniVersion || undefined,
    dns: unlessNothing({ nameservers, domain, search, options }),
    // Go never omits structs.
    ipam: unlessNothing({ type: ipam?.type }) ?? {},
    name: view.name || undefined,
    prevResult: unlessNothing((view.prevResult ?? {}) as JsonObject),
    type: view.type || undefined,
  }));
}

/** Omits empty values; returns undefined if none are left. */
function unlessNothing(
  object: { readonly [key: string]: JsonValue | undefined },
): JsonObject | undefined {
  const entries = Object.entries(object).filter(([, value]) =>
    typeof value === "object" && value !== null
      ? Object.keys(value).length > 0
      : value !== undefined && value !== ""
  );
  return entries.length === 0
    ? undefined
    : Object.fromEntries(entries) as JsonObject;
}

const entrySchema = once(() => {
  const text = optional(z.string());
  const flag = optional(z.boolean());
  const texts = optional(z.array(z.string()));
  return z.looseObject({
    Name: text,
    ifnameRequest: text,
    macRequest: text,
    infinibandGUIDRequest: text,
    ipRequest: texts,
    "default-route": texts,
    [ROUTES]: optional(z.array(routeSchema())),
    IsFilterV4Gateway: flag,
    IsFilterV6Gateway: flag,
    // Up to 3.9, both families had the same key.
    IsFilterGateway: flag,
    deviceID: text,
    resourceName: text,
    Bytes: z.string(),
    CNINetworkConfigList: optional(z.unknown()),
  });
});

/**
 * Go's `NetworkConfigList`. Its plugins are complete, unlike the plugins in its
 * bytes.
 */
const wholeListSchema = once(() =>
  z.looseObject({
    Bytes: z.string(),
    Plugins: z.array(z.looseObject({ Bytes: z.string() })).check(
      z.minLength(1),
    ),
  })
);

/** Merges the parts of a whole list; undefined if they are missing or damaged. */
function joinList(list: unknown): Uint8Array | undefined {
  const what = "CNINetworkConfigList";
  const parse = (base64: string): JsonObject =>
    parseJson(decodeBase64(base64), what) as JsonObject;
  return ifPossible(() => {
    const { Bytes, Plugins } = decode(wholeListSchema(), list, what);
    const plugins = Plugins.map((plugin) => parse(plugin.Bytes));
    return encodeJson({ ...parse(Bytes), plugins });
  });
}

/** A decoded network in a file, or the error. */
export type ScratchEntry = Delegate | CniError;

/**
 * Decodes a file of any version.
 *
 * @param what Name of the file in error messages
 * @throws {CniError} 6 if it is not a list of networks
 */
export function decodeScratch(
  bytes: Uint8Array,
  what: string,
): ScratchDocument {
  const list = parseJson(bytes, what);
  if (Array.isArray(list) && list.length > 0) {
    const entries = list.map((entry, index) =>
      decodeEntry(entry, `network ${index} of ${what}`)
    );
    return { owner: findOwner(list[0]), entries };
  }
  throw new CniError(
    ErrorCode.DecodingFailure,
    `Cannot decode ${what}: it is not a list of networks`,
  );
}

/** Finds the owner, even in a damaged network. */
function findOwner(first: unknown): string {
  const owner = isObject(first) ? first[OWNER] : undefined;
  return typeof owner === "string" ? owner : "";
}

function decodeEntry(value: unknown, what: string): ScratchEntry {
  try {
    const entry = decode(entrySchema(), value, what);
    const { deviceID: deviceId, resourceName, IsFilterGateway: both } = entry;
    const { IsFilterV4Gateway = both, IsFilterV6Gateway = both } = entry;
    const whole = joinList(entry.CNINetworkConfigList);
    const delegate = loadDelegate(whole ?? decodeBase64(entry.Bytes), {
      ...entry.Name && { name: entry.Name },
      request: decodeRequest(entry),
    });
    return {
      ...delegate,
      // Without a resource, this is the requested device.
      ...resourceName && deviceId && { resourceName, deviceId },
      isFilterV4Gateway: IsFilterV4Gateway ?? false,
      isFilterV6Gateway: IsFilterV6Gateway ?? false,
    };
  } catch (cause) {
    const message = `Cannot decode ${what}`;
    return new CniError(ErrorCode.DecodingFailure, message, { cause });
  }
}

function decodeRequest(
  entry: z.infer<ReturnType<typeof entrySchema>>,
): AttachmentRequest {
  return omitAbsent<AttachmentRequest>({
    ifName: entry.ifnameRequest || undefined,
    mac: entry.macRequest || undefined,
    infinibandGuid: entry.infinibandGUIDRequest || undefined,
    ips: entry.ipRequest,
    defaultRoute: entry["default-route"]?.flatMap(parseGateway),
    routes: entry[ROUTES],
    deviceId: entry.resourceName ? undefined : entry.deviceID || undefined,
  });
}

/** Ignores gateways that Go writes as "", because routes need not be undone. */
function parseGateway(text: string): Ip[] {
  return unlessNoAddress(() => [Ip.parse(text)]) ?? [];
}

function decodeBase64(text: string): Uint8Array {
  try {
    return Uint8Array.fromBase64(text);
  } catch {
    throw new CniError(ErrorCode.DecodingFailure, "Bytes: not base64");
  }
}
