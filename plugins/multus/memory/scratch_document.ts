/**
 * What is in a scratch file: the networks of a pod, in the format of the Go
 * version, which writes what it has in memory.
 *
 * Of each network `Bytes` is what is run, and all that DEL needs besides the
 * request. `Conf` and `ConfList` say again what Go's types know of it; they are
 * written for the Go version and never read. Requested bandwidth and port
 * mappings have no place in the format: libcni's cache has them.
 *
 * Source: multus-cni pkg/types `DelegateNetConf`, containernetworking/cni
 * pkg/types/types.go `PluginConf`, `NetConfList`.
 *
 * @module
 */

import * as z from "zod/mini";
import { CniError, ErrorCode } from "../../../cni/error.ts";
import {
  decode,
  decodeLeniently,
  isObject,
  type JsonObject,
  type JsonValue,
  omitAbsent,
  parseJson,
} from "../../../cni/json.ts";
import type { NetworkConfList } from "../../../cni/libcni/conf.ts";
import { formatJson } from "../../../cni/libcni/json_bytes.ts";
import { givenDnsSchema, once, optional } from "../../../cni/types.ts";
import { Ip, unlessNoAddress } from "../../../net/ip.ts";
import {
  type AttachmentRequest,
  type Delegate,
  isList,
  loadDelegate,
} from "../networks/delegate.ts";

/** The content of a scratch file. */
export interface ScratchDocument {
  /**
   * Name of the multus network that the container was attached by; "" if a
   * program that does not write it, such as the Go version, made the file.
   */
  readonly owner: string;
  /** The pod's networks in order, never none. */
  readonly entries: readonly ScratchEntry[];
}

/**
 * Key of the first network that holds {@linkcode ScratchDocument.owner}. The Go
 * version ignores it, as every key that it does not know.
 */
const OWNER = "multusNetwork";

/**
 * Encodes a file. Without an owner it is the Go version's file to the byte.
 *
 * @param owner Name of the multus network; "" leaves the key out
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

/** A key of a Go struct and its value as JSON; undefined is left out. */
type Member = readonly [key: string, json: string | undefined];

/** Formats a Go struct, whose keys have an order of their own. */
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
  { ifName, mac, infinibandGuid, ips = [], defaultRoute }: AttachmentRequest,
): Member[] {
  // An empty list of gateways is not left out: it says that there was one.
  const gateways = defaultRoute?.map(String);
  return [
    ["ifnameRequest", unlessEmpty(ifName)],
    ["macRequest", unlessEmpty(mac)],
    ["infinibandGUIDRequest", unlessEmpty(infinibandGuid)],
    ["ipRequest", ips.length > 0 ? formatJson([...ips]) : undefined],
    ["default-route", gateways && formatJson(gateways)],
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

/** The keys of a configuration that Go's type has. */
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

/** A value of a wrong type is left out: it is in `Bytes`, for its plugin to refuse. */
function decodeView(
  document: JsonObject,
): z.infer<ReturnType<typeof viewSchema>> {
  return decodeLeniently(viewSchema(), document, "configuration", () => {});
}

/** Formats what Go's type keeps of a plugin's configuration. */
function formatView(document: JsonObject): string {
  const { capabilities = {}, ipam, dns = {}, ...view } = decodeView(document);
  const { nameservers, domain, search, options } = dns;
  const wanted = Object.entries(capabilities)
    .map(([capability, isWanted]) => [capability, isWanted ?? false] as const);
  return formatJson(omitAbsent<JsonObject>({
    capabilities: unlessNothing(Object.fromEntries(wanted)),
    cniVersion: view.cniVersion || undefined,
    dns: unlessNothing({ nameservers, domain, search, options }),
    // Go leaves no struct out.
    ipam: unlessNothing({ type: ipam?.type }) ?? {},
    name: view.name || undefined,
    prevResult: unlessNothing((view.prevResult ?? {}) as JsonObject),
    type: view.type || undefined,
  }));
}

/** Leaves out what is empty; answers undefined if that is all. */
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
    IsFilterV4Gateway: flag,
    IsFilterV6Gateway: flag,
    // Until 3.9 there was one for both families.
    IsFilterGateway: flag,
    deviceID: text,
    resourceName: text,
    Bytes: z.string(),
  });
});

/** What can be told of one network of a file: the network, or why not. */
export type ScratchEntry = Delegate | CniError;

/**
 * Decodes a file of any version.
 *
 * @param what The file, as error messages shall call it
 * @throws {CniError} 6 if it is no list of networks
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
    `Cannot decode ${what}: it is no list of networks`,
  );
}

/** A damaged network may still name the owner. */
function findOwner(first: unknown): string {
  const owner = isObject(first) ? first[OWNER] : undefined;
  return typeof owner === "string" ? owner : "";
}

function decodeEntry(value: unknown, what: string): ScratchEntry {
  try {
    const entry = decode(entrySchema(), value, what);
    const { deviceID: deviceId, resourceName, IsFilterGateway: both } = entry;
    const { IsFilterV4Gateway = both, IsFilterV6Gateway = both } = entry;
    const delegate = loadDelegate(decodeBase64(entry.Bytes), {
      ...entry.Name && { name: entry.Name },
      request: decodeRequest(entry),
    });
    return {
      ...delegate,
      // Without a resource it is the device that the annotation asks for.
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
    deviceId: entry.resourceName ? undefined : entry.deviceID || undefined,
  });
}

/** Go writes "" for an address that is none; routes need no undoing. */
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
