/**
 * Attachments of namespaces: what the cache knows of them.
 *
 * @module
 */

import { checkContainerId, checkInterfaceName } from "../cni/args.ts";
import { isSameFile } from "../cni/same_file.ts";
import type {
  CachedAttachment,
  NetworkRuntime,
  RuntimeConf,
} from "../cni/libcni/mod.ts";
import { type CommandCall, findFlag } from "./command.ts";
import { makeContainerId } from "./container_id.ts";
import { readArgs, resolveNetns } from "./network.ts";

/** Says whether an attachment is of the namespace at a path, by whatever path it was made. */
export function isOfNetns(
  { netns }: Pick<CachedAttachment, "netns">,
  path: string,
): boolean {
  return netns !== "" && (netns === path || isSameFile(netns, path));
}

/**
 * Describes an attachment to be made: the container's ID is made of the
 * namespace's path unless it is given.
 *
 * @throws {Error} If something that the command line or the environment says
 *   cannot be
 */
export async function describeAttachment(
  call: CommandCall,
  netns: string,
): Promise<RuntimeConf> {
  const path = resolveNetns(netns);
  const containerId = findFlag(call, "container-id") ??
    await makeContainerId(path);
  const conf = { containerId, netns: path, ...readArgs(call) };
  checkContainerId(conf.containerId);
  checkInterfaceName(conf.ifName);
  return conf;
}

/**
 * Describes an attachment that was made before, be it by the tool or by a
 * runtime, under another path of the namespace or another container ID.
 *
 * @param network Name of the network
 * @throws {Error} If there are several in the namespace
 */
export async function describeMadeAttachment(
  call: CommandCall,
  runtime: NetworkRuntime,
  { network, netns }: { readonly network: string; readonly netns: string },
): Promise<RuntimeConf> {
  const conf = await describeAttachment(call, netns);
  if (findFlag(call, "container-id") !== undefined) return conf;
  const made = runtime.listCachedAttachments().filter((cached) =>
    cached.network === network && cached.ifName === conf.ifName &&
    isOfNetns(cached, conf.netns)
  );
  const isOwn = made.some(({ containerId }) =>
    containerId === conf.containerId
  );
  const [only] = made;
  if (only === undefined || isOwn) return conf;
  if (made.length === 1) return { ...conf, containerId: only.containerId };
  const ids = made.map(({ containerId }) => containerId).join(", ");
  throw new Error(
    `Cannot tell which attachment of "${conf.netns}" to "${network}" is ` +
      `meant: choose by --container-id one of ${ids}`,
  );
}
