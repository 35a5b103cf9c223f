/**
 * `cni status`: asks whether a network could take another container.
 *
 * @module
 */

import { isAtLeast } from "../../cni/version.ts";
import type { CommandCall, Output } from "../command.ts";
import { createRuntime, getNetwork, readFolders } from "../network.ts";

/** Runs STATUS. */
export async function status(call: CommandCall): Promise<Output> {
  const [network = ""] = call.args;
  const folders = readFolders(call);
  const list = getNetwork(folders, network);
  const runtime = createRuntime(call, folders);
  await runtime.statusNetworkList(list, { signal: call.signal });
  const { name, cniVersion } = list;
  const isAsked = hasStatus(cniVersion);
  return {
    json: { network: name, ready: isAsked || null },
    text: "",
    note: isAsked
      ? undefined
      : `The plugins of "${name}" were not asked: its version, ` +
        `"${cniVersion}", has no STATUS`,
  };
}

/** The first version of a configuration that has STATUS. */
const STATUS_SINCE = "1.1.0";

function hasStatus(cniVersion: string): boolean {
  try {
    return isAtLeast(cniVersion, STATUS_SINCE);
  } catch {
    return false;
  }
}
