/**
 * `cni add`: attaches a namespace to a network.
 *
 * @module
 */

import { CniError, ErrorCode } from "../../cni/error.ts";
import type { CachedAttachment, RuntimeConf } from "../../cni/libcni/mod.ts";
import {
  describeAttachment,
  isOfNetns,
  listAttachments,
} from "../attachment.ts";
import type { CommandCall, Output } from "../command.ts";
import { findNetnsProblem } from "../netns/named.ts";
import {
  createLocks,
  createRuntime,
  type Folders,
  getNetwork,
  readFolders,
} from "../network.ts";
import { arrangeResult } from "../result_document.ts";

/** Runs ADD, and DEL if that fails, and returns the result. */
export async function add(call: CommandCall): Promise<Output> {
  const [network = "", netns = ""] = call.args;
  const folders = readFolders(call);
  const list = getNetwork(folders, network);
  const conf = await describeAttachment(call, netns);
  const { signal } = call;
  refuseMissing(conf);
  // Locked before the look into the cache: another call may be about to attach it.
  using _lock = await createLocks(folders)
    .lockContainer(conf.containerId, { signal });
  const runtime = createRuntime(call, folders);
  refuseAttached(folders, list.name, conf);
  const result = call.flags.has("no-undo")
    ? await runtime.addNetworkList(list, conf, { signal })
    : await runtime.addNetworkListOrUndo(list, conf, { signal });
  const json = arrangeResult(result);
  return { json, text: JSON.stringify(json, null, 4), isBare: true };
}

function refuseMissing({ netns }: RuntimeConf): void {
  const problem = findNetnsProblem(netns);
  if (problem === undefined) return;
  throw new CniError(
    ErrorCode.InvalidNetns,
    `Cannot attach network namespace "${netns}": ${problem}`,
  );
}

/** A second ADD would fail and be undone, and the first attachment with it. */
function refuseAttached(
  folders: Folders,
  network: string,
  conf: RuntimeConf,
): void {
  const { containerId, netns, ifName } = conf;
  const isTaken = (cached: CachedAttachment): boolean =>
    cached.ifName === ifName && (isOfNetns(cached, netns) ||
      cached.network === network && cached.containerId === containerId);
  const taken = listAttachments(folders).find(isTaken);
  if (taken === undefined) return;
  throw new CniError(
    ErrorCode.InvalidEnvironment,
    `Cannot attach "${netns}" to "${network}" as "${ifName}": it is attached ` +
      `to "${taken.network}" as that already, container ID ` +
      `"${taken.containerId}"; delete that first`,
  );
}
