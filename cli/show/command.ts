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
import { listNodeAttachments } from "../node/node_attachments.ts";
import { getTarget } from "../node/target.ts";
import { NodeReader } from "../node/node_reader.ts";
import { countPools } from "../node/pools.ts";
import type { CniCall } from "../flags.ts";
import { listNamedNetns } from "../node/named_netns.ts";
import { chooseExitCode, readDirectories } from "../node/network.ts";
import { listSandboxes, readNode, type Sandbox } from "./live.ts";
import { formatMermaid, formatTree } from "./tree.ts";
import type { NodeView, PersistentView } from "./model.ts";
import { drawNode } from "./svg.ts";
import { waitReadable } from "../../ffi/libc.ts";
import { deadline, JoinedSignal } from "../../base/deadline.ts";
import { formatTime } from "../../base/time.ts";
import { writeTarget } from "../written_file.ts";
import { ifPossible } from "../../base/files/io.ts";
import { OWN_NETNS } from "../../ffi/own_netns.ts";
import { Rtnl } from "../../ffi/rtnl/mod.ts";

/** Shows the attachments of the node, or of a pod, container or namespace. */
export async function show(call: CniCall): Promise<Output> {
  const { mermaid, svg, watch, json } = call.flags;
  const forms = [json, mermaid, svg !== undefined, watch].filter(Boolean);
  if (forms.length > 1) {
    throw new UsageError(
      `Cannot run "${call.command}": use only one of --json, --mermaid, --svg and --watch`,
    );
  }
  if (watch && call.flags["exit-code"]) {
    throw new UsageError(
      `Cannot run "${call.command}": --watch ends only by a signal; do not use --exit-code with it`,
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
    isWhole ? listPersistent(call) : [],
  );
}

function listPersistent(call: CniCall): PersistentView[] {
  const { env, signal } = call;
  using node = new NodeReader({
    directories: readDirectories(call),
    env,
    signal,
  });
  return countPools(node).flatMap(({ network, persistent }) =>
    persistent.map(({ address, namespace, pod, ifName, until }) => ({
      address,
      network,
      pod: `${namespace}/${pod}`,
      interface: ifName,
      until: formatTime(until),
    }))
  );
}

function choose(call: CniCall): Sandbox[] {
  const directories = readDirectories(call);
  const [name] = call.args;
  if (name === undefined) {
    const named = listNamedNetns().filter(({ isNetns }) => isNetns !== false);
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

/** Source: include/uapi/linux/rtnetlink.h `RTNLGRP_*`: links, addresses and routes. */
const GROUPS = [1, 5, 7, 9, 11];
/** How often to check for notifications; changes in between are shown together. */
const INTERVAL_MS = 200;

/**
 * Runs `draw` now, and after changes, until the signal is aborted.
 *
 * @param choose Lists the namespaces to watch, besides the node's own
 */
export async function watchNetworks(
  choose: () => readonly Sandbox[],
  draw: () => Promise<void>,
  signal: AbortSignal,
): Promise<void> {
  while (!signal.aborted) {
    using stack = new DisposableStack();
    const paths = [OWN_NETNS, ...choose().map(({ netns }) => netns)];
    const open = paths.flatMap((path) => {
      const rtnl = ifPossible(() => Rtnl.open(path));
      if (rtnl === undefined) return [];
      stack.use(rtnl);
      for (const group of GROUPS) rtnl.socket.subscribe(group);
      return [rtnl];
    });
    // Subscribed first: a change while drawing is not missed.
    await draw();
    do await pause(signal); while (
      !signal.aborted && !open.some(({ socket }) => socket.takeNotices())
    );
  }
}

/** Waits, or until the signal is aborted. */
async function pause(signal: AbortSignal): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  using end = new JoinedSignal(deadline(INTERVAL_MS), signal);
  end.signal.addEventListener("abort", () => resolve(), { once: true });
  if (!end.signal.aborted) await promise;
}
