/**
 * `cni status`: asks whether a network could take another container.
 *
 * @module
 */

import { mayHaveVersion } from "../../cni/libcni/operation.ts";
import { COMMAND_SINCE } from "../../cni/version.ts";
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
  const isAsked = mayHaveVersion(list, COMMAND_SINCE.STATUS);
  return {
    json: { network: name, ready: isAsked || null },
    text: "",
    note: isAsked
      ? undefined
      : `The plugins of "${name}" were not asked: its version, ` +
        `"${cniVersion}", has no STATUS`,
  };
}
