/**
 * `cni check`: checks that an attachment is as it was made.
 *
 * @module
 */

import { CniError, ErrorCode } from "../../cni/error.ts";
import type {
  NetworkConfList,
  NetworkRuntime,
  RuntimeConf,
} from "../../cni/libcni/mod.ts";
import { describeMadeAttachment } from "../attachment.ts";
import type { CommandCall, Output } from "../command.ts";
import {
  createLocks,
  createRuntime,
  getNetwork,
  readFolders,
  refuseLate,
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
  const { conf, note } = getKnown(runtime, list, described);
  refuseLate(call);
  await runtime.checkNetworkList(list, conf, { signal: call.signal });
  const { containerId: containerID, ifName: ifname } = conf;
  const json = { network: name, containerID, ifname, netns: conf.netns };
  const nothing = `Nothing was checked: "${name}" has disableCheck`;
  return { json, text: "", note: list.disableCheck ? nothing : note };
}

/** An attachment that is to be checked. */
interface Known {
  readonly conf: RuntimeConf;
  /** What is not known of it. */
  readonly note?: string;
}

/** Without the result of ADD there is nothing to compare with. */
function getKnown(
  runtime: NetworkRuntime,
  list: NetworkConfList,
  conf: RuntimeConf,
): Known {
  const known = findKnown(runtime, list, conf);
  if (known !== undefined) return known;
  throw new CniError(
    ErrorCode.UnknownContainer,
    `Cannot check "${conf.netns}": no attachment to "${list.name}" as ` +
      `"${conf.ifName}" is known; see cni list`,
  );
}

/** Finds what ADD was given, or its result alone, as libcni cached it before 0.8. */
function findKnown(
  runtime: NetworkRuntime,
  list: NetworkConfList,
  conf: RuntimeConf,
): Known | undefined {
  try {
    return runtime.findCachedConfig(list, conf);
  } catch (error) {
    if (runtime.findCachedResult(list, conf) === undefined) throw error;
    const note =
      "Checked without what the attachment was made with: only its result is known";
    return { conf, note };
  }
}
