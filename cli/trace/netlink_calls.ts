/**
 * Traces the requests of netlink sockets.
 *
 * @module
 */

import type { JsonObject } from "../../base/json/json.ts";
import { ControlType, Flag } from "../../ffi/netlink/message.ts";
import { type Exchange, observeNetlink } from "../../ffi/netlink/observer.ts";
import type { EncodedRequest } from "../../ffi/netlink/request.ts";
import { toJson } from "./record.ts";
import type { Recorder, Subject } from "./recorder.ts";

/**
 * Records each request of this process.
 *
 * @returns Stops it
 */
export function traceNetlink(recorder: Recorder): () => void {
  observeNetlink((exchange, work) =>
    recorder.around(describe(exchange), work, describeResult)
  );
  return () => observeNetlink(undefined);
}

function describe({ requests, isDump }: Exchange): Subject {
  const [first, ...others] = requests;
  if (first === undefined) return { kind: "netlink", name: "no requests" };
  const kind = /^NF/.test(first.name) ? "nftables" : "netlink";
  if (others.length > 0) return describeBatch(kind, requests);
  const { header, attributes = {} } = first.content;
  const flags = isDump ? ["DUMP"] : nameFlags(first.flags);
  return {
    kind,
    name: first.name,
    object: nameObject(first),
    detail: () =>
      toJson({
        ...flags.length > 0 && { flags },
        header,
        attributes,
      }) as JsonObject,
  };
}

function describeBatch(
  kind: Subject["kind"],
  requests: readonly EncodedRequest[],
): Subject {
  return {
    kind,
    name: kind === "nftables" ? "transaction" : `${requests.length} requests`,
    object: requests.filter(({ name }) => !name.startsWith("NFNL_MSG_BATCH"))
      .map((request) => `${request.name} ${nameObject(request)}`.trimEnd())
      .join(", "),
    detail: () =>
      toJson({
        requests: requests.map((
          { name, content: { header, attributes = {} } },
        ) => ({
          name,
          header,
          attributes,
        })),
      }) as JsonObject,
  };
}

/** Names what a request is about. */
function nameObject({ describe, content }: EncodedRequest): string {
  const { table, chain, set, name } = (content.attributes ?? {}) as Record<
    string,
    unknown
  >;
  return describe() ??
    [table, chain, set, name].filter((one) => typeof one === "string")
      .join(" ");
}

function nameFlags(flags: number): string[] {
  return (["Create", "Exclusive", "Replace", "Append", "Echo"] as const)
    .filter((name) => (flags & Flag[name]) !== 0)
    .map((name) => name.toUpperCase());
}

/** Counts the answers, or lists the refusals. */
function describeResult(result: unknown): JsonObject | undefined {
  const list: unknown[] = Array.isArray(result) ? result : [];
  const refused = list.filter((one) => one instanceof Error)
    .map(({ message }) => message);
  if (refused.length > 0) return { refused };
  const answers = list.filter(isAnswer).length;
  return answers > 0 ? { answers } : undefined;
}

function isAnswer(reply: unknown): boolean {
  const { type } = (reply ?? {}) as { readonly type?: number };
  return type !== undefined && type !== ControlType.Done &&
    type !== ControlType.Error;
}
