/**
 * `cni doctor --pod`: goes the way of a packet, and says where it ends.
 *
 * @module
 */

import { getTarget } from "../../attachments/target.ts";
import type { Node, Patience } from "../node.ts";
import { UPLINK_GATEWAY } from "./host.ts";
import { type Made, walkAll, type Way } from "./walk.ts";
import type { Output } from "../../../base/command_line/command.ts";
import { showControls, type Style } from "../../../base/command_line/style.ts";

/**
 * Goes the ways of all addresses of a pod.
 *
 * @param name A pod, container, process or namespace
 * @throws {Error} If it is unknown, or has no address
 */
export async function showWay(
  node: Node,
  name: string,
  { isStrict, patience }: {
    readonly isStrict: boolean;
    readonly patience?: Patience | undefined;
  },
): Promise<Output> {
  const { netns, attachments } = getTarget(name, node.directories);
  if (netns === "") throw new Error(`The namespace of "${name}" is unknown`);
  const ways = await walkAll(node, netns, attachments, patience)
    .catch((cause) => {
      throw new Error(`Cannot look into "${name}"`, { cause });
    });
  if (ways.length === 0) {
    throw new Error(`"${name}" has no address: no plugin has attached it`);
  }
  const isWell = ways.every(({ endsAt, steps }) =>
    endsAt === undefined &&
    (!isStrict || steps.every(({ state }) => state !== "doubt"))
  );
  return {
    json: {
      ok: isWell,
      ways: ways.map(({ endsAt, steps, ...way }) => ({
        ...way,
        endsAt: endsAt ?? null,
        steps: steps.map(({ step, state, text, ...help }) => ({
          step,
          state,
          text,
          command: help.command ?? help.look ?? null,
          fix: help.command ?? null,
          advice: help.advice ?? null,
          look: help.look ?? null,
        })),
      })),
    },
    text: (style) => ways.map((way) => format(way, style)).join("\n\n"),
    exitCode: isWell ? 0 : 1,
  };
}

const MARKS = { ok: "ok", doubt: "doubt", end: "ends", leaves: "leaves" };
const INDENT = "  ";

function format({ from, steps, endsAt }: Way, style: Style): string {
  const width = Math.max(...steps.map(({ step }) => step.length)) + 2;
  return [
    style.bold(showControls(from)),
    ...steps.map((made) => formatStep(made, width, style)),
    endsAt === undefined
      ? style.green(describeArrival(steps.at(-1)))
      : style.red(`The packet ends here: ${endsAt}`),
  ].join("\n");
}

/** An uplink without a gateway has no router to ask, and some do not answer. */
function describeArrival(last: Made | undefined): string {
  if (last?.state === "leaves") return "Nothing on this node stops the packet";
  return last?.step === UPLINK_GATEWAY && last.state === "ok"
    ? "The packet leaves this node, and the next router answers"
    : "The packet leaves this node";
}

function formatStep(
  { step, state, text, command, advice, look }: Made,
  width: number,
  style: Style,
): string {
  const colors = {
    ok: style.green,
    doubt: style.yellow,
    end: style.red,
    leaves: style.bold,
  };
  const mark = colors[state](MARKS[state].padEnd(7));
  const line = `${INDENT}${mark}${step.padEnd(width)}${showControls(text)}`;
  const indent = " ".repeat(INDENT.length + 7 + width);
  if (state === "ok") return line;
  const help = [
    ...command === undefined ? [] : [`fix:  ${command}`],
    ...advice === undefined ? [] : [`do:   ${advice}`],
    ...look === undefined ? [] : [`look: ${look}`],
  ];
  return [line, ...help.map((text) => indent + showControls(text))].join("\n");
}
