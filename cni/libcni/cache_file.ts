/**
 * What is in one file of the attachment cache.
 *
 * Source: containernetworking/cni libcni/api.go `cachedInfo`.
 *
 * @module
 */

import * as z from "zod/mini";
import { CniError, ErrorCode } from "../error.ts";
import {
  decode,
  decodeLeniently,
  type JsonObject,
  type JsonValue,
  parseJson,
} from "../json.ts";
import { once, optional } from "../types.ts";
import { encodeJson } from "./json_bytes.ts";

/** What tells one attachment from another. */
export interface AttachmentKey {
  /** Name of the network. */
  readonly network: string;
  /** CNI_CONTAINERID. */
  readonly containerId: string;
  /** CNI_IFNAME. */
  readonly ifName: string;
}

/** What ADD was asked for, of which DEL and CHECK need the same. */
export interface CachedRequest {
  /** The configuration of the network as it was loaded, byte for byte. */
  readonly config: Uint8Array;
  /** The pairs of CNI_ARGS, in order; none if none were cached. */
  readonly cniArgs: readonly (readonly [key: string, value: string])[];
  /** What the runtime offered, by capability. */
  readonly capabilityArgs: JsonObject;
}

/** An attachment as its runtime describes it. */
export interface Attachment extends AttachmentKey, CachedRequest {
  /** CNI_NETNS; "" for none. */
  readonly netns: string;
}

/** What a file holds: an attachment, and what its ADD answered. */
export interface CachedDocument extends Attachment {
  /** The result in its own version; undefined if there is none. */
  readonly result: JsonObject | undefined;
}

/** What a document of this format has as its `kind`. */
export const CACHE_KIND = "cniCacheV1";

/** Encodes a file to the byte as the Go library would. */
export function encodeDocument(
  { result = {}, ...attachment }: CachedDocument,
): Uint8Array<ArrayBuffer> {
  const { capabilityArgs } = attachment;
  // In the order of the Go struct. What is empty there is left out.
  const members: (readonly [key: string, value: JsonValue])[] = [
    ["kind", CACHE_KIND],
    ["containerId", attachment.containerId],
    ["config", attachment.config.toBase64()],
    ["ifName", attachment.ifName],
    ["networkName", attachment.network],
  ];
  if (attachment.netns !== "") members.push(["netns", attachment.netns]);
  const cniArgs = attachment.cniArgs.map(([key, value]) => [key, value]);
  if (cniArgs.length > 0) members.push(["cniArgs", cniArgs]);
  if (!isEmpty(capabilityArgs)) {
    members.push(["capabilityArgs", capabilityArgs]);
  }
  if (!isEmpty(result)) members.push(["result", result]);
  const text = members.map(formatMember).join(",");
  return new TextEncoder().encode(`{${text}}`);
}

function isEmpty(object: JsonObject): boolean {
  return Object.keys(object).length === 0;
}

/** Formats a key and its value by way of an object that has only them. */
function formatMember(member: readonly [string, JsonValue]): string {
  const object = encodeJson(Object.fromEntries([member]));
  return new TextDecoder().decode(object).slice(1, -1);
}

const documentSchema = once(() => {
  const text = z._default(z.string(), "");
  const object = optional(z.looseObject({}));
  return z.looseObject({
    kind: text,
    networkName: text,
    containerId: text,
    ifName: text,
    netns: text,
    config: text,
    cniArgs: optional(z.array(z.array(z.string()))),
    capabilityArgs: object,
    result: object,
  });
});

/**
 * Decodes a file.
 *
 * @param what The file, as error messages shall call it
 * @returns The document; its kind is {@linkcode CACHE_KIND} unless it is none
 *   of this format
 * @throws {CniError} 6 If it is not JSON, or a key is of the wrong type
 */
export function decodeDocument(
  bytes: Uint8Array,
  what: string,
): CachedDocument & { readonly kind: string } {
  const json = parseJson(bytes, what);
  const raw = decode(documentSchema(), json, what, ErrorCode.DecodingFailure);
  return {
    kind: raw.kind,
    ...keyOf(raw),
    netns: raw.netns,
    config: decodeBase64(raw.config, what),
    // What is missing of a pair is empty to Go.
    cniArgs: (raw.cniArgs ?? []).map(([key = "", value = ""]) => [key, value]),
    capabilityArgs: (raw.capabilityArgs ?? {}) as JsonObject,
    result: raw.result as JsonObject | undefined,
  };
}

/** The result in a file, and whose it is as far as the file says. */
export interface OwnedResult extends AttachmentKey {
  /** The result in its own version; undefined if there is none. */
  readonly result: JsonObject | undefined;
}

/**
 * Decodes the result in a file, whatever else may be wrong with that. A file
 * without a kind is a result itself, as libcni wrote it before 0.8.
 *
 * @param what The file, as error messages shall call it
 * @throws {CniError} 6 If it is not a JSON object, or one of another kind
 */
export function decodeResult(bytes: Uint8Array, what: string): OwnedResult {
  const json = parseJson(bytes, what);
  const raw = decodeLeniently(documentSchema(), json, what, () => {});
  if (raw.kind !== "" && raw.kind !== CACHE_KIND) {
    throw new CniError(
      ErrorCode.DecodingFailure,
      `Cannot decode ${what}: its kind is "${raw.kind}"`,
    );
  }
  const result = raw.kind === "" ? json : raw.result;
  return { ...keyOf(raw), result: result as JsonObject | undefined };
}

function keyOf(
  { networkName, containerId, ifName }: Readonly<
    Record<"networkName" | "containerId" | "ifName", string>
  >,
): AttachmentKey {
  return { network: networkName, containerId, ifName };
}

function decodeBase64(text: string, what: string): Uint8Array {
  try {
    return Uint8Array.fromBase64(text);
  } catch (error) {
    throw new CniError(
      ErrorCode.DecodingFailure,
      `Cannot decode ${what}: config: not base64`,
      { cause: error },
    );
  }
}
