/**
 * `cni del`: detaches a namespace from a network.
 *
 * @module
 */

import {
  type NetworkConfList,
  NetworkNotFoundError,
  type NetworkRuntime,
  NoConfigsFoundError,
  parseNetworkConfList,
  type RuntimeConf,
} from "../../cni/libcni/mod.ts";
import { describeMadeAttachment } from "../attachment.ts";
import type { CommandCall, Output } from "../command.ts";
import {
  createLocks,
  createRuntime,
  type Folders,
  getNetwork,
  readFolders,
} from "../network.ts";

/** Runs DEL with what ADD was given, and goes on after plugins that fail. */
export async function del(call: CommandCall): Promise<Output> {
  const [network = "", netns = ""] = call.args;
  const folders = readFolders(call);
  const runtime = createRuntime(call, folders, createLocks(folders));
  const found = tryNetwork(folders, network);
  const name = found.list?.name ?? network;
  const conf = await describeMadeAttachment(call, {
    network: name,
    netns,
  });
  const list = found.list ?? restoreNetwork(runtime, name, conf);
  if (list === undefined) throw found.error;
  await runtime.delNetworkList(list, conf, {
    signal: call.signal,
    useCachedConfig: true,
    continueOnDelErrors: true,
  });
  const { containerId: containerID, ifName: ifname } = conf;
  const json = { network: name, containerID, ifname, netns: conf.netns };
  return { json, text: "" };
}

/** A network whose configuration is gone may still have attachments. */
function tryNetwork(
  folders: Folders,
  network: string,
): { list?: NetworkConfList; error?: unknown } {
  try {
    return { list: getNetwork(folders, network) };
  } catch (error) {
    const isMissing = error instanceof NetworkNotFoundError ||
      error instanceof NoConfigsFoundError;
    if (!isMissing) throw error;
    return { error };
  }
}

function restoreNetwork(
  runtime: NetworkRuntime,
  name: string,
  conf: RuntimeConf,
): NetworkConfList | undefined {
  const cached = runtime.findCachedConfig({ name }, conf);
  return cached && parseNetworkConfList(cached.config);
}
