/**
 * Formats probes and the causes of losses, as JSON and as text.
 *
 * @module
 */

import { showControls, type Style } from "../../base/command_line/style.ts";
import { wrap } from "../../base/command_line/table.ts";
import { hang, LABEL, labelled, labelledCommand } from "./labelled.ts";
import { describeProbe } from "./packet.ts";
import { arrives, describeLoss, isProblem, type Probed } from "./run.ts";

/** A probe in JSON. */
export interface ShownProbe {
  readonly from: string;
  readonly to: string;
  readonly destination: string;
  readonly protocol: string;
  readonly port: number | null;
  /** Length of the packet, if it must not be fragmented. */
  readonly length: number | null;
  readonly reached: boolean;
  readonly milliseconds: number;
  /** Why it failed; null if unknown. */
  readonly error: string | null;
}

/** A cause in JSON. */
export interface ShownCause {
  readonly check: string;
  readonly message: string;
  /** Whether a rule or filter drops the packets on purpose. */
  readonly intended: boolean;
  /** Which end does not reach which. */
  readonly lost: readonly string[];
  readonly fix: string | null;
  readonly advice: string | null;
  readonly look: string | null;
}

/** Converts a probe to JSON. */
export function toShown(probed: Probed): ShownProbe {
  const { wanted: { probe }, answer } = probed;
  const { from, to, destination, protocol, port, length } = probe;
  return {
    from: from.name,
    to,
    destination: `${destination}`,
    protocol: protocol === "ping" ? "icmp" : protocol,
    port: port ?? null,
    length: length ?? null,
    reached: arrives(probed),
    milliseconds: answer.milliseconds,
    error: answer.error ?? null,
  };
}

/** Converts the causes to JSON, each once. */
export function toCauses(all: readonly Probed[]): ShownCause[] {
  const byText = Map.groupBy(all, ({ cause }) => cause?.text);
  return [...byText].flatMap(([message, some]) => {
    const [{ cause } = {}] = some;
    if (cause === undefined || message === undefined) return [];
    const lost = [...new Set(some.map(({ wanted }) => describeLoss(wanted)))];
    const { check, command = null, advice = null, look = null } = cause;
    const intended = !isProblem(cause);
    return [{ check, message, intended, lost, fix: command, advice, look }];
  });
}

/** Formats probes and their causes. */
export function formatProbed(all: readonly Probed[], style: Style): string {
  const causes = toCauses(all).flatMap((
    { message, intended, lost, fix, advice, look },
  ) => [
    hang(
      (intended ? style.yellow : style.red)("lost: "),
      LABEL,
      message,
      style,
    ),
    ...labelled("so:", lost.join("; "), style),
    ...labelledCommand("fix:", fix),
    ...labelled(fix === null ? "do:" : "note:", advice, style),
    ...labelledCommand("look:", look),
  ]);
  return [...all.map((one) => formatProbe(one, style)), ...causes].join("\n");
}

function formatProbe(probed: Probed, style: Style): string {
  const { wanted: { probe }, answer, cause } = probed;
  const { width = Infinity } = style;
  const { from, to, destination } = probe;
  const head = `${showControls(`${from.name} -> ${to}`)}  ${destination}  ${
    describeProbe(probe)
  }:`;
  const { milliseconds, error } = answer;
  const isReached = arrives(probed);
  const outcome = isReached
    ? `ok, ${milliseconds} ms`
    : error ?? `no answer in ${milliseconds} ms`;
  const mark = isReached
    ? style.green
    : isProblem(cause)
    ? style.red
    : style.yellow;
  return head.length + 1 + outcome.length <= width
    ? `${head} ${mark(outcome)}`
    : [
      ...wrap(head, width),
      ...wrap(outcome, width - 4).map((line) => `    ${mark(line)}`),
    ]
      .join("\n");
}
