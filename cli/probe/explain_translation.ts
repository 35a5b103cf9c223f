/**
 * Explains that rules change a packet so that it, or its answer, goes astray: another
 * destination, a foreign address, too few hops, or answers that are not tracked.
 *
 * @module
 */

import {
  isNotrack,
  setsHopLimit,
  setsZone,
  translationOf,
} from "../../ffi/nftables/expression.ts";
import type { Rule } from "../../ffi/nftables/mod.ts";
import { openNftables } from "../../plugins/parts/firewall/open_nftables.ts";
import { shell } from "../../base/command_line/shell.ts";
import { type More, removal } from "../doctor/finding.ts";
import type { Node } from "../doctor/node.ts";
import type { Cause } from "./cause.ts";
import { describeComment, findRule } from "./explain.ts";
import type { PlacedStep, Trace } from "./trace.ts";

/** A rule that a packet passed, or its answer. */
interface Passed {
  readonly step: PlacedStep;
  readonly rule: Rule;
  /** For people, and how to remove it. */
  readonly what: string;
  readonly help: More;
}

/** Explains by the first rule that changes what it must not. */
export function explainTranslation(
  trace: Trace,
  node: Node,
): Cause | undefined {
  for (const passed of listPassed(trace, node)) {
    const cause = explainOne(passed, trace, node);
    if (cause !== undefined) return cause;
  }
  return undefined;
}

function explainOne(
  { rule: { expressions }, what, help }: Passed,
  { answer, connection, probe }: Trace,
  node: Node,
): Cause | undefined {
  if (setsHopLimit(expressions)) {
    return {
      check: "rule-drops",
      text: `${what} sets the TTL of packets, which ends them on the next hops`,
      ...help,
    };
  }
  const isUntracked = expressions.some(isNotrack);
  if (isUntracked || setsZone(expressions)) {
    return {
      check: "untracked",
      text: `${what} has connections ${
        isUntracked ? "not tracked" : "tracked in another zone"
      }, so that answers do not come back to the container`,
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
        (answer.error === undefined ? ", where nobody answers" : ""),
      ...help,
    };
  }
  const given = connection?.reply.destination;
  if (translates !== "source" || given === undefined) return undefined;
  const isOwn = node.host.address.list()
    .some(({ address }) => address.ip.equals(given));
  if (isOwn) return undefined;
  return {
    check: "rule-drops",
    text:
      `${what} gives packets the address ${given}, which the node does not ` +
      "have: no answer comes back",
    ...help,
  };
}

/** Reports whether a plugin of this project has added it. */
function isOwn({ table, chain }: PlacedStep): boolean {
  return /^cni_/.test(table.name) || /^CNI-/.test(chain);
}

function listPassed({ steps }: Trace, node: Node): Passed[] {
  return steps.flatMap((step) => {
    using nftables = openNftables(step.netns);
    const rule = nftables && findRule(nftables, step);
    if (rule === undefined || isOwn(step)) return [];
    const { table: { family, name }, chain, handle, netns } = step;
    const at = `${family} ${name} ${chain}`;
    const isOnHost = netns === node.hostNetns ||
      netns === node.host.netns.path;
    const inside = (command: string): string =>
      isOnHost ? command : shell`nsenter --net=${netns} ` + command;
    return [{
      step,
      rule,
      what: `rule ${handle} of the nftables chain "${at}"${
        describeComment(rule)
      }${isOnHost ? "" : " inside the container"}`,
      help: removal(
        inside(`nft delete rule ${at} handle ${handle}`),
        inside(`nft -a list chain ${at}`),
      ),
    }];
  });
}
