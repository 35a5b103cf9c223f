/**
 * The format of one file of the attachment cache.
 *
 * Source: containernetworking/cni libcni/api.go `cachedInfo`.
 *
 * @module
 */

import * as z from "zod/mini";
import { CniError, ErrorCode } from "../base/error.ts";
import {
  decode,
  decodeLeniently,
  type JsonObject,
  type JsonValue,
  parseJson,
} from "../base/json/json.ts";
import { once, optional } from "../cni/config/types.ts";
import { encodeJson } from "../base/json/json_bytes.ts";

/** Identifies an attachment. */
export interface AttachmentKey {
  /** Name of the network. */
  readonly network: string;
  /** CNI_CONTAINERID. */
  readonly containerId: string;
  /** CNI_IFNAME. */
  readonly ifName: string;
}

/** The input of ADD, which DEL and CHECK need again. */
export interface CachedRequest {
  /** The network's configuration as it was loaded, byte for byte. */
  readonly config: Uint8Array;
  /** The pairs of CNI_ARGS, in order; empty if none were cached. */
  readonly cniArgs: readonly (readonly [key: string, value: string])[];
  /** The runtime's capability arguments, by capability. */
  readonly capabilityArgs: JsonObject;
}

/** An attachment as its runtime describes it. */
export interface Attachment extends AttachmentKey, CachedRequest {
  /** CNI_NETNS; "" for none. */
  readonly netns: string;
}

/** The content of a file: an attachment and its result. */
export interface CachedDocument extends Attachment {
  /** The result in its own version; undefined if absent. */
  readonly result: JsonObject | undefined;
}

/** The `kind` of documents in this format. */
export const CACHE_KIND = "cniCacheV1";

/** Encodes a file exactly as the Go library would. */
export function encodeDocument(
  { result = {}, ...attachment }: CachedDocument,
): Uint8Array<ArrayBuffer> {
  const { capabilityArgs } = attachment;
  // The order of the Go struct, which omits empty values.
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

/** Formats one key and its value. */
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
 * @param what The file's name in error messages
 * @returns The document; its kind differs from {@linkcode CACHE_KIND} if it is
 *   in another format
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
    // Go reads missing parts of a pair as empty.
    cniArgs: (raw.cniArgs ?? []).map(([key = "", value = ""]) => [key, value]),
    capabilityArgs: (raw.capabilityArgs ?? {}) as JsonObject,
    result: raw.result as JsonObject | undefined,
  };
}

/** The result in a file, and its attachment as far as the file names it. */
export interface OwnedResult extends AttachmentKey {
  /** The result in its own version; undefined if absent. */
  readonly result: JsonObject | undefined;
}

/**
 * Decodes the result in a file, even if other parts of the file are malformed.
 * A file without a kind is itself a result, as libcni before 0.8 wrote it.
 *
 * @param what The file's name in error messages
 * @throws {CniError} 6 If it is not a JSON object, or is of another kind
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
