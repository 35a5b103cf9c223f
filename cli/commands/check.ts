/**
 * `cni check`: checks that an attachment is as it was made.
 *
 * @module
 */

import { CniError, ErrorCode } from "../../cni/error.ts";
import type { NetworkRuntime, RuntimeConf } from "../../cni/libcni/mod.ts";
import { describeMadeAttachment } from "../attachment.ts";
import type { CommandCall, Output } from "../command.ts";
import {
  createLocks,
  createRuntime,
  getNetwork,
  readFolders,
} from "../network.ts";

/** Runs CHECK, with the arguments that ADD was given. */
export async function check(call: CommandCall): Promise<Output> {
  const [network = "", netns = ""] = call.args;
  const folders = readFolders(call);
  const list = getNetwork(folders, network);
  const runtime = createRuntime(call, folders, createLocks(folders));
  const { name } = list;
  const described = await describeMadeAttachment(call, {
    network: name,
    netns,
  });
  const conf = getKnown(runtime, name, described);
  await runtime.checkNetworkList(list, conf, { signal: call.signal });
  const { containerId: containerID, ifName: ifname } = conf;
  const json = { network: name, containerID, ifname, netns: conf.netns };
  const note = list.disableCheck
    ? `Nothing was checked: "${name}" has disableCheck`
    : undefined;
  return { json, text: "", note };
}

/** Without the result of ADD there is nothing to compare with. */
function getKnown(
  runtime: NetworkRuntime,
  network: string,
  conf: RuntimeConf,
): RuntimeConf {
  const known = runtime.findCachedConfig({ name: network }, conf);
  if (known !== undefined) return known.conf;
  throw new CniError(
    ErrorCode.UnknownContainer,
    `Cannot check "${conf.netns}": no attachment to "${network}" as ` +
      `"${conf.ifName}" is known; see cni list`,
  );
}
