/**
 * `cni del`: detaches a namespace from a network.
 *
 * @module
 */

import { shell } from "../../base/command_line/shell.ts";
import { CniError, ErrorCode } from "../../base/error.ts";
import type { NetworkRuntime, RuntimeConf } from "../../libcni/mod.ts";
import { ifPossible } from "../../base/files/io.ts";
import {
  describeMadeAttachment,
  restoreNetwork,
  tryNetwork,
} from "../node/attachment.ts";
import { isOfNetns, listNodeAttachments } from "../node/node_attachments.ts";
import type { Output } from "../../base/command_line/command.ts";
import type { CniCall } from "../flags.ts";
import {
  createLocks,
  createRuntime,
  type Directories,
  readDirectories,
  refuseLate,
} from "../node/network.ts";

/** Runs DEL with the input of ADD, and continues after plugins that fail. */
export async function del(call: CniCall): Promise<Output> {
  const [network = "", netns = ""] = call.args;
  const directories = readDirectories(call);
  const runtime = createRuntime(call, directories, createLocks(directories));
  const found = tryNetwork(directories, network);
  const { name } = found;
  const conf = await describeMadeAttachment(call, {
    network: name,
    netns,
  });
  refuseOfMultus(directories, name, conf);
  const list = restoreNetwork(runtime, found, conf);
  const wasAttached = isAttached(runtime, name, conf);
  const unknown = formatUnknown(name, conf, call);
  if (!wasAttached && call.flags.strict) {
    throw new CniError(ErrorCode.UnknownContainer, unknown);
  }
  refuseLate(call);
  await runtime.delNetworkList(list, conf, {
    signal: call.signal,
    useCachedConfig: true,
    continueOnDelErrors: true,
  });
  const { containerId: containerID, ifName: ifname } = conf;
  const { netns: path } = conf;
  return {
    json: { network: name, containerID, ifname, netns: path, wasAttached },
    text: "",
    note: wasAttached ? undefined : unknown,
  };
}

/**
 * Reports whether the attachment is cached. An unreadable file counts, because it might
 * belong to the attachment.
 */
function isAttached(
  runtime: NetworkRuntime,
  name: string,
  conf: RuntimeConf,
): boolean {
  try {
    return runtime.findCachedConfig({ name }, conf) !== undefined;
  } catch {
    return true;
  }
}

/** Refuses what multus attached: it would try to detach it again. */
function refuseOfMultus(
  directories: Directories,
  name: string,
  { netns, ifName }: RuntimeConf,
): void {
  // DEL works without the cache.
  const made = (ifPossible(() => listNodeAttachments(directories)) ?? [])
    .filter((one) =>
      one.network === name && one.ifName === ifName && isOfNetns(one, netns)
    );
  const via = made[0]?.via;
  if (via === undefined || made.some((one) => one.via === undefined)) return;
  throw new Error(
    `Cannot detach "${netns}" from "${name}": multus attached it; ` +
      shell`run cni del ${via} ${netns}`,
  );
}

/** Notes that no attachment is known. DEL succeeds anyway, so only this reveals a mistyped name. */
function formatUnknown(
  name: string,
  { containerId, ifName, netns }: RuntimeConf,
  call: CniCall,
): string {
  const id = call.flags["container-id"] === undefined
    ? ""
    : ` with container ID "${containerId}"`;
  return `No attachment of "${netns}" to "${name}" as "${ifName}"${id} is ` +
    "known; see cni list";
}
