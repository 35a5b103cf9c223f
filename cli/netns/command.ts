/**
 * `cni netns`: named network namespaces, compatible with `ip netns`.
 *
 * @module
 */

import { shell } from "../../base/command_line/shell.ts";
import {
  isCovered,
  isOfNetns,
  listNodeAttachments,
  type NodeAttachment,
} from "../node/node_attachments.ts";
import { findTarget, findUnknown } from "../node/target.ts";
import { basename } from "@std/path/posix";
import type { Output } from "../../base/command_line/command.ts";
import type { CniCall } from "../flags.ts";
import { formatFailureText } from "../../base/command_line/failure.ts";
import { execInNetns } from "./exec.ts";
import {
  addNamed,
  delNamed,
  findNetnsProblem,
  listNamedNetns,
  type NamedNetns,
  pathOfName,
} from "../node/named_netns.ts";
import { readDirectories } from "../node/network.ts";
import { type Column, formatListing } from "../../base/command_line/table.ts";

/** Creates a namespace. */
export async function addNetns(
  { args: [name = ""] }: CniCall,
): Promise<Output> {
  return { json: { name, path: await addNamed(name) }, text: "" };
}

/** Deletes a namespace's name, unless it is attached to networks. */
export function delNetns(call: CniCall): Output {
  const [name = ""] = call.args;
  const path = pathOfName(name);
  const isThere = findNetnsProblem(path) === undefined;
  const remaining = isThere ? listLeft(call, path) : [];
  if (remaining.length > 0 && !call.flags.force) {
    throw new Error(
      `Cannot delete network namespace "${name}": ${
        remaining.join("; ")
      }; or use ` +
        "--force",
    );
  }
  delNamed(name);
  const note = remaining.length === 0 ? undefined : remaining.join("\n");
  return { json: { name, path }, text: "", note };
}

/** Lists the remaining attachments of a namespace, and how to delete them. */
function listLeft(call: CniCall, path: string): string[] {
  const { attachments, problem } = readAttachments(call);
  if (problem !== undefined) return [problem];
  return attachments
    .filter((cached) => cached.via === undefined && isOfNetns(cached, path))
    .map(({ network, ifName }) =>
      `it is attached to "${network}" as "${ifName}": run ` +
      shell`cni del ${network} ${path} --ifname ${ifName}`
    );
}

/** A named namespace, as shown. */
interface Row extends NamedNetns {
  /** Networks and interfaces, `pods/eth0`; undefined if unknown. */
  readonly attachments: readonly string[] | undefined;
}

/** Lists the named namespaces. */
export function listNetns(call: CniCall): Output {
  const { attachments, problem } = readAttachments(call);
  const rows = listNamedNetns().map((netns): Row => ({
    ...netns,
    attachments: problem === undefined
      ? attachments.filter((one) => isOfNetns(one, netns.path))
        .map(({ network, ifName }) => `${network}/${ifName}`)
      : undefined,
  }));
  const json = rows.map(({ isNetns, inode, attachments, ...row }) => ({
    ...row,
    isNetns: isNetns ?? null,
    inode: inode ?? null,
    attachments: attachments ?? null,
  }));
  return {
    json,
    text: formatListing(call.flags, COLUMNS, rows, ({ name }) => name),
    note: problem,
  };
}

/** The node's attachments, or why they are unknown. */
interface Found {
  readonly attachments: readonly NodeAttachment[];
  readonly problem?: string;
}

/** Reads the cache if possible. Anybody can list namespaces, but often only root can read the cache. */
function readAttachments(call: CniCall): Found {
  try {
    const all = listNodeAttachments(readDirectories(call));
    return { attachments: all.filter((one) => !isCovered(one, all)) };
  } catch (error) {
    const problem = `Attachments are unknown: ${formatFailureText(error)}`;
    return { attachments: [], problem };
  }
}

const COLUMNS: readonly Column<Row>[] = [
  { heading: "NAME", cell: ({ name }) => name },
  { heading: "PATH", cell: ({ path }) => path, dropped: 2 },
  {
    heading: "NAMESPACE",
    cell: ({ isNetns, inode }) =>
      isNetns === undefined ? "unknown" : isNetns ? `net:[${inode}]` : "none",
    mark: ({ isNetns }, style) => isNetns === false ? style.red : undefined,
    dropped: 1,
  },
  {
    heading: "ATTACHMENTS",
    cell: ({ attachments }) => attachments?.join(",") ?? "unknown",
    narrow: "wrap",
  },
];

/** Runs another program in a namespace, in this process. */
export function execNetns(call: CniCall): never {
  const { args, onStderr } = call;
  const [netns = "", ...command] = args;
  const directories = readDirectories(call);
  const target = findTarget(netns, directories);
  const problem = findUnknown(target, directories);
  if (problem !== undefined) {
    throw new Error(`Cannot enter "${netns}": ${problem}`);
  }
  const { netns: path } = target;
  execInNetns({
    path,
    name: path === pathOfName(basename(path)) ? basename(path) : "",
    command,
    warn: (text) => onStderr(`${text}\n`),
  });
}
