/**
 * `cni check`: checks that an attachment is as it was made.
 *
 * @module
 */

import { CniError, ErrorCode } from "../../cni/error.ts";
import type { NetworkRuntime, RuntimeConf } from "../../cni/libcni/mod.ts";
import { describeMadeAttachment } from "../attachment.ts";
import type { CommandCall, Output } from "../command.ts";
import { createRuntime, getNetwork, readFolders } from "../network.ts";

/** Runs CHECK. */
export async function check(call: CommandCall): Promise<Output> {
  const [network = "", netns = ""] = call.args;
  const folders = readFolders(call);
  const list = getNetwork(folders, network);
  const runtime = createRuntime(call, folders);
  const { name } = list;
  const conf = await describeMadeAttachment(call, runtime, {
    network: name,
    netns,
  });
  refuseUnknown(runtime, name, conf);
  await runtime.checkNetworkList(list, conf, { signal: call.signal });
  const { containerId: containerID, ifName: ifname } = conf;
  const json = { network: name, containerID, ifname, netns: conf.netns };
  const note = list.disableCheck
    ? `Nothing was checked: "${name}" has disableCheck`
    : undefined;
  return { json, text: "", note };
}

/** Without the result of ADD there is nothing to compare with. */
function refuseUnknown(
  runtime: NetworkRuntime,
  network: string,
  conf: RuntimeConf,
): void {
  if (runtime.findCachedConfig({ name: network }, conf) !== undefined) return;
  throw new CniError(
    ErrorCode.UnknownContainer,
    `Cannot check "${conf.netns}": no attachment to "${network}" as ` +
      `"${conf.ifName}" is known; see cni list`,
  );
}
