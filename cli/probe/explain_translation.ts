/**
 * Explains a loss with rules that change packets: a different destination, a source
 * address that the node does not have, a low TTL, or answers that are not tracked.
 *
 * @module
 */

import {
  isNotrack,
  setsHopLimit,
  setsZone,
  translationOf,
} from "../../ffi/nftables/expression.ts";
import type { NodeReader } from "../node/node_reader.ts";
import { isOnHost } from "./endpoint.ts";
import type { Cause } from "./cause.ts";
import { listPassed, type PassedRule } from "./explain.ts";
import type { Trace } from "./trace.ts";

/** Explains a loss with the first rule that changes packets wrongly. */
export function explainTranslation(
  trace: Trace,
  node: NodeReader,
): Cause | undefined {
  for (const passed of listPassed(trace, node)) {
    if (passed.isOwn) continue;
    const cause = explainOne(passed, trace, node);
    if (cause !== undefined) return cause;
  }
  return undefined;
}

function explainOne(
  { rule: { expressions }, what, help }: PassedRule,
  { answer, connection, probe }: Trace,
  node: NodeReader,
): Cause | undefined {
  if (setsHopLimit(expressions)) {
    return {
      check: "rule-drops",
      text:
        `${what} sets the TTL of packets, so that they expire at the next hops`,
      ...help,
    };
  }
  const isUntracked = expressions.some(isNotrack);
  if (isUntracked || setsZone(expressions)) {
    return {
      check: "untracked",
      text: `${what} ${
        isUntracked
          ? "turns off connection tracking"
          : "tracks connections in a different zone"
      }, so answers do not return to the container`,
      ...help,
    };
  }
  const translates = translationOf(expressions);
  const { destination } = probe;
  if (translates === "destination") {
    const by = connection?.reply.source;
    const to = by === undefined || by.equals(destination) ? "" : ` to ${by}`;
    const port = connection?.reply.sourcePort;
    return {
      check: "rule-drops",
      text: `${what} sends packets for ${destination}${to}` +
        (port === undefined || port === probe.port ? "" : `, port ${port}`) +
        (answer.error === undefined ? ", where no host answers" : ""),
      ...help,
    };
  }
  const translated = connection?.reply.destination;
  if (translates !== "source" || translated === undefined) return undefined;
  if (isOnHost(node, translated)) return undefined;
  return {
    check: "rule-drops",
    text:
      `${what} gives packets the address ${translated}, which the node does not ` +
      "have: no answer comes back",
    ...help,
  };
}
