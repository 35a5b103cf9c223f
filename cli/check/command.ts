/**
 * `cni check`: checks that an attachment is unchanged since ADD.
 *
 * @module
 */

import { CniError, ErrorCode } from "../../base/error.ts";
import type {
  NetworkConfList,
  NetworkRuntime,
  RuntimeConf,
} from "../../libcni/mod.ts";
import {
  describeMadeAttachment,
  restoreNetwork,
  tryNetwork,
} from "../node/attachment.ts";
import { checkPlugins } from "../node/differences.ts";
import type { Output } from "../../base/command_line/command.ts";
import type { CniCall } from "../flags.ts";
import {
  createLocks,
  createRuntime,
  readDirectories,
  refuseLate,
} from "../node/network.ts";

/** Runs CHECK of all plugins with the arguments of ADD. */
export async function check(call: CniCall): Promise<Output> {
  const [network = "", netns = ""] = call.args;
  const directories = readDirectories(call);
  const found = tryNetwork(directories, network);
  const runtime = createRuntime(call, directories, createLocks(directories));
  const { name } = found;
  const described = await describeMadeAttachment(call, {
    network: name,
    netns,
  });
  const list = restoreNetwork(runtime, found, described);
  const { conf, note } = getKnown(runtime, list, described);
  refuseLate(call);
  const { signal } = call;
  // Fails without a result to check against.
  await runtime.checkNetworkList({ ...list, plugins: [] }, conf, { signal });
  const differences = await checkPlugins(runtime, list, conf, signal);
  const { containerId: containerID, ifName: ifname, netns: path } = conf;
  const nothing = `No plugin was checked: "${name}" has disableCheck`;
  const shown = differences.map(({ plugin, msg }) => `${plugin}: ${msg}`);
  const notes = [...shown, list.disableCheck ? nothing : note ?? ""]
    .filter((text) => text !== "");
  return {
    json: { network: name, containerID, ifname, netns: path, differences },
    text: "",
    note: notes.length === 0 ? undefined : notes.join("\n"),
    exitCode: differences.length === 0 ? 0 : 1,
  };
}

/** The attachment to check. */
interface Known {
  readonly conf: RuntimeConf;
  /** A note about what is unknown. */
  readonly note?: string;
}

/** Finds the attachment. Without the result of ADD, there is nothing to compare with. */
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

/** Finds the input of ADD, or only its result, as libcni before 0.8 cached it. */
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
      "Checked without the arguments of ADD: the cache contains only its result";
    return { conf, note };
  }
}
