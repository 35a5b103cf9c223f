/**
 * `cni netns`: network namespaces with names, as `ip netns` has them.
 *
 * @module
 */

import type { CachedAttachment } from "../../cni/libcni/mod.ts";
import { isOfNetns, listAttachments } from "../attachment.ts";
import type { CommandCall, Output } from "../command.ts";
import { execInNetns } from "../netns/exec.ts";
import {
  addNamed,
  delNamed,
  findNetnsProblem,
  listNamed,
  type NamedNetns,
  pathOfName,
} from "../netns/named.ts";
import { readFolders, resolveNetns } from "../network.ts";
import { type Column, formatTable } from "../table.ts";

/** Makes a namespace. */
export function addNetns({ args: [name = ""] }: CommandCall): Output {
  return { json: { name, path: addNamed(name) }, text: "" };
}

/** Takes a namespace's name away; warns of attachments that are still there. */
export function delNetns(call: CommandCall): Output {
  const [name = ""] = call.args;
  const path = pathOfName(name);
  const left = readAttachments(call)
    .filter((cached) => isOfNetns(cached, path));
  delNamed(name);
  for (const { network, ifName } of left) {
    call.onStderr(
      `"${name}" is still attached to "${network}" as "${ifName}": ` +
        `run cni del ${network} ${path} --ifname ${ifName}\n`,
    );
  }
  return { json: { name, path }, text: "" };
}

/** A named namespace, as it is shown. */
interface Row extends NamedNetns {
  /** Networks and interfaces, `pods/eth0`. */
  readonly attachments: readonly string[];
}

/** Lists the namespaces with names. */
export function listNetns(call: CommandCall): Output {
  const cached = readAttachments(call);
  const rows = listNamed().map((netns): Row => ({
    ...netns,
    attachments: cached.filter((one) => isOfNetns(one, netns.path))
      .map(({ network, ifName }) => `${network}/${ifName}`),
  }));
  const json = rows.map(({ isNetns, inode, ...row }) => ({
    ...row,
    isNetns: isNetns ?? null,
    inode: inode ?? null,
  }));
  return { json, text: (style) => formatTable(COLUMNS, rows, style) };
}

/** What is cached is of interest here, but its absence does no harm. */
function readAttachments(call: CommandCall): CachedAttachment[] {
  try {
    return listAttachments(readFolders(call));
  } catch {
    return [];
  }
}

const COLUMNS: readonly Column<Row>[] = [
  { heading: "NAME", cell: ({ name }) => name },
  { heading: "PATH", cell: ({ path }) => path },
  {
    heading: "NAMESPACE",
    cell: ({ isNetns, inode }) =>
      isNetns === undefined ? "unknown" : isNetns ? `net:[${inode}]` : "none",
    mark: ({ isNetns }, style) => isNetns === false ? style.red : undefined,
  },
  {
    heading: "ATTACHMENTS",
    cell: ({ attachments }) => attachments.join(","),
  },
];

/** Goes on as another program in a namespace. */
export function execNetns({ args, onStderr }: CommandCall): never {
  const [netns = "", ...command] = args;
  const path = resolveNetns(netns);
  const problem = findNetnsProblem(path);
  if (problem !== undefined) {
    throw new Error(`Cannot enter network namespace "${netns}": ${problem}`);
  }
  execInNetns({
    path,
    name: netns.includes("/") ? "" : netns,
    command,
    warn: (text) => onStderr(`${text}\n`),
  });
}
