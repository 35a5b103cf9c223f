/**
 * Traces the requests of netlink sockets, decoded.
 *
 * @module
 */

import type { JsonObject } from "../../cni/json/json.ts";
import * as nftables from "../../ffi/nftables/message.ts";
import * as addresses from "../../ffi/rtnl/address_message.ts";
import * as links from "../../ffi/rtnl/link_message.ts";
import * as neighbors from "../../ffi/rtnl/neighbor_message.ts";
import * as routes from "../../ffi/rtnl/route_message.ts";
import * as rules from "../../ffi/rtnl/rule_message.ts";
import * as traffic from "../../ffi/rtnl/traffic_control_message.ts";
import { Flag } from "../../ffi/netlink/message.ts";
import type { EncodedRequest } from "../../ffi/netlink/request.ts";
import { NetlinkSocket } from "../../ffi/netlink/socket.ts";
import { toJson } from "./record.ts";
import type { Recorder, Subject } from "./recorder.ts";

/** A kind of message, as far as it is needed here. */
interface AnyType {
  readonly name: string;
  readonly type: number;
  decode(body: Uint8Array<ArrayBuffer>): {
    readonly header: object;
    readonly attributes: object;
  };
  describe?(request: object): string | undefined;
}

/**
 * Kinds of messages by number. Of those with the same number the last one
 * counts; modules list their exports by name, so `newRule` follows `listedRule`.
 */
const TYPES = new Map(
  [links, addresses, routes, rules, neighbors, traffic, nftables]
    .flatMap((module): unknown[] => Object.values(module))
    .filter(isType).map((type) => [type.type, type]),
);

function isType(value: unknown): value is AnyType {
  return typeof value === "object" && value !== null && "type" in value &&
    "decode" in value && "name" in value;
}

/** Decodes an encoded request; nothing if that fails. */
function decode(
  type: number,
  body: Uint8Array<ArrayBuffer>,
): { readonly header?: object; readonly attributes?: object } {
  try {
    return TYPES.get(type)?.decode(body) ?? {};
  } catch {
    return {};
  }
}

/** A request before it is encoded. */
interface AnyRequest {
  readonly flags?: number;
  readonly header?: object;
  readonly attributes?: object;
}

// deno-lint-ignore no-explicit-any -- methods with any types of messages
type AnyMethod = (...args: any[]) => any;

/**
 * Records each request of this process.
 *
 * @returns Stops it
 */
export function traceNetlink(recorder: Recorder): () => void {
  const prototype = NetlinkSocket.prototype as unknown as Record<
    string,
    AnyMethod
  >;
  const originals = new Map<string, AnyMethod>();
  let isCollecting = false;
  const replace = (
    name: string,
    make: (original: AnyMethod) => AnyMethod,
  ): void => {
    const original = prototype[name];
    if (original === undefined) return;
    originals.set(name, original);
    prototype[name] = make(original);
  };
  for (const name of ["request", "get", "dump"]) {
    replace(
      name,
      (original) =>
        function (
          this: unknown,
          type: AnyType,
          request: AnyRequest,
          ...rest
        ): unknown {
          const work = (): unknown =>
            original.call(this, type, request, ...rest);
          // It is sent, and recorded, together with others.
          return isCollecting ? work() : recorder.around(
            describeRequest(type, request, name === "dump"),
            work,
            countAnswers,
          );
        },
    );
  }
  replace(
    "attemptAll",
    (original) =>
      function (this: unknown, changes: readonly (() => void)[]): unknown {
        const collect = (change: () => void) => (): void => {
          isCollecting = true;
          try {
            change();
          } finally {
            isCollecting = false;
          }
        };
        return original.call(this, changes.map(collect));
      },
  );
  for (const name of ["requestAll", "requestEach", "sendInBackground"]) {
    replace(
      name,
      (original) =>
        function (this: unknown, requests: readonly EncodedRequest[]): unknown {
          return recorder.around(
            describeAll(requests),
            () => original.call(this, requests) as unknown,
            describeRefusals,
          );
        },
    );
  }
  return () => Object.assign(prototype, Object.fromEntries(originals));
}

function kindOf(name: string): "nftables" | "netlink" {
  return /^NF/.test(name) ? "nftables" : "netlink";
}

function describeRequest(
  type: AnyType,
  request: AnyRequest,
  isDump: boolean,
): Subject {
  const { header = {}, attributes = {}, flags = 0 } = request;
  const names = isDump ? ["DUMP"] : nameFlags(flags);
  return {
    kind: kindOf(type.name),
    name: type.name,
    object: type.describe?.(request) ?? nameObject(attributes),
    detail: toJson({
      ...names.length > 0 && { flags: names },
      header,
      attributes,
    }) as JsonObject,
  };
}

/** Names what a request without a description is about. */
function nameObject(attributes: object): string {
  const { table, chain, set, name } = attributes as Record<string, unknown>;
  return [table, chain, set, name].filter((one) => typeof one === "string")
    .join(" ");
}

function nameFlags(flags: number): string[] {
  return (["Create", "Exclusive", "Replace", "Append", "Echo"] as const)
    .filter((name) => (flags & Flag[name]) !== 0)
    .map((name) => name.toUpperCase());
}

/** Describes requests that are sent together. */
function describeAll(requests: readonly EncodedRequest[]): Subject {
  const shown = requests.map(({ name, type, body, describe }) => {
    const { attributes = {} } = decode(type, body);
    return [name, describe() ?? nameObject(attributes)]
      .filter(Boolean).join(" ");
  });
  const [first] = requests;
  const changes = shown.filter((text) => !text.startsWith("NFNL_MSG_BATCH"));
  const kind = kindOf(first?.name ?? "");
  return {
    kind,
    name: kind === "nftables"
      ? "transaction"
      : requests.length === 1
      ? first?.name ?? ""
      : `${requests.length} requests`,
    object: requests.length === 1
      ? first?.describe() ?? ""
      : changes.join(", "),
    detail: toJson({
      requests: requests.map(({ name, type, body }) => ({
        name,
        ...decode(type, body),
      })),
    }) as JsonObject,
  };
}

function countAnswers(result: unknown): JsonObject | undefined {
  return Array.isArray(result) && result.length > 0
    ? { answers: result.length }
    : undefined;
}

function describeRefusals(result: unknown): JsonObject | undefined {
  const refusals = (Array.isArray(result) ? result : [])
    .filter((one) => one instanceof Error).map(({ message }) => message);
  return refusals.length > 0 ? { refused: refusals } : undefined;
}
