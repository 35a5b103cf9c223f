/**
 * `cni show`: the node's networks as a tree, a picture or a flowchart.
 *
 * @module
 */

import { writeStdout } from "../../base/process/stdio.ts";
import type { Output } from "../../base/command_line/command.ts";
import {
  chooseStyle,
  measureTerminal,
  type Style,
  wantsColor,
} from "../../base/command_line/style.ts";
import { UsageError } from "../../base/command_line/usage_error.ts";
import { listNodeAttachments } from "../attachments/node_attachments.ts";
import { getTarget } from "../attachments/target.ts";
import { Node } from "../doctor/node.ts";
import { countPools, formatUntil } from "../doctor/pools.ts";
import type { CniCall } from "../flags.ts";
import { listNamed } from "../netns/named.ts";
import { chooseExitCode, readDirectories } from "../networks/network.ts";
import { listSandboxes, readNode, type Sandbox } from "./live.ts";
import { formatMermaid } from "./mermaid.ts";
import type { NodeView, StayingView } from "./model.ts";
import { drawNode } from "./svg.ts";
import { formatTree } from "./tree.ts";
import { waitReadable } from "../../ffi/libc.ts";
import { JoinedSignal } from "../../base/deadline.ts";
import { watchNetworks } from "./watch.ts";
import { writeTarget } from "../written_file.ts";

/** Shows the attachments of the node, or of one pod, container or namespace. */
export async function show(call: CniCall): Promise<Output> {
  const { mermaid, svg, watch, json } = call.flags;
  const forms = [json, mermaid, svg !== undefined, watch].filter(Boolean);
  if (forms.length > 1) {
    throw new UsageError(
      `Cannot run "${call.command}": use only one of --json, --mermaid, --svg and --watch`,
    );
  }
  if (watch) return await follow(call);
  const view = await read(call);
  const exitCode = chooseExitCode(call, hasProblem(view));
  if (svg === undefined) {
    const text = mermaid
      ? formatMermaid(view)
      : (style: Style): string => formatTree(view, style);
    return { json: view, text, exitCode, note: findNote(view) };
  }
  const picture = drawNode(view);
  if (svg === "-") return { json: view, text: picture.trimEnd(), exitCode };
  writeTarget(svg, picture);
  return { json: view, text: "", exitCode, note: `Wrote ${svg}` };
}

async function read(call: CniCall): Promise<NodeView> {
  const isWhole = call.args[0] === undefined;
  return await readNode(
    choose(call),
    undefined,
    isWhole ? listStayingAddresses(call) : [],
  );
}

function listStayingAddresses(call: CniCall): StayingView[] {
  const { env, signal } = call;
  using node = new Node({ directories: readDirectories(call), env, signal });
  return countPools(node).flatMap(({ network, sticky }) =>
    sticky.map(({ address, namespace, pod, ifName, until }) => ({
      address,
      network,
      pod: `${namespace}/${pod}`,
      interface: ifName,
      until: formatUntil(until),
    }))
  );
}

function choose(call: CniCall): Sandbox[] {
  const directories = readDirectories(call);
  const [name] = call.args;
  if (name === undefined) {
    const named = listNamed().filter(({ isNetns }) => isNetns !== false);
    return listSandboxes(
      listNodeAttachments(directories),
      named.map(({ path }) => path),
    );
  }
  const { netns, attachments } = getTarget(name, directories);
  return listSandboxes(attachments, netns === "" ? [] : [netns]);
}

function hasProblem({ groups }: NodeView): boolean {
  return groups.some(({ sandboxes }) =>
    sandboxes.some(({ exists, interfaces }) =>
      exists === false ||
      interfaces.some(({ differences }) => differences.length > 0)
    )
  );
}

function findNote({ groups }: NodeView): string | undefined {
  const isDenied = groups.some(({ sandboxes }) =>
    sandboxes.some(({ exists, netns }) => exists === null && netns !== "")
  );
  return isDenied && Deno.uid() !== 0
    ? "Some namespaces cannot be read; run it as root"
    : undefined;
}

const CLEAR = "\u001b[H\u001b[2J\u001b[3J";

/** Shows the tree again whenever something changes, until Ctrl-C. */
async function follow(call: CniCall): Promise<Output> {
  let last = "";
  const draw = async (): Promise<void> => {
    const width = measureTerminal();
    const isTerminal = width !== undefined;
    const isColored = wantsColor(call.env, isTerminal);
    const text = formatTree(await read(call), chooseStyle(isColored, width));
    if (text === last) return;
    last = text;
    const problem = writeStdout(
      isTerminal ? `${CLEAR}${text}\n` : `${text}\n\n`,
    );
    if (problem !== undefined) throw new Error(`Cannot write: ${problem}`);
  };
  const gone = signalWithoutReader();
  using end = new JoinedSignal(call.interrupt, gone);
  await watchNetworks(() => choose(call), draw, end.signal);
  return { json: null, text: "" };
}

/** Returns a signal that is aborted when no process reads stdout, if it is a pipe. */
function signalWithoutReader(): AbortSignal {
  const gone = new AbortController();
  if (Deno.statSync("/proc/self/fd/1").isFifo) {
    // Nothing can be read from this end, so only the error ends the wait.
    waitReadable(1, -1).then(() => gone.abort());
  }
  return gone.signal;
}
