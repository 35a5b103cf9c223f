/**
 * `cni gc`: removes what is left of attachments that nobody has any more.
 *
 * @module
 */

import { checkInterfaceName } from "../../cni/args.ts";
import type {
  CachedAttachment,
  NetworkConfList,
} from "../../cni/libcni/mod.ts";
import { mayHaveVersion } from "../../cni/libcni/operation.ts";
import { COMMAND_SINCE } from "../../cni/version.ts";
import { isOfNetns, listAttachments } from "../attachment.ts";
import type { CommandCall, Output } from "../command.ts";
import { findNetnsProblem } from "../netns/named.ts";
import {
  createLocks,
  createRuntime,
  type Folders,
  getNetwork,
  readFolders,
  resolveNetns,
} from "../network.ts";
import { showControls } from "../style.ts";
import { UsageError } from "../usage_error.ts";

/** Runs DEL for attachments that are not to stay, and GC. */
export async function gc(call: CommandCall): Promise<Output> {
  const [network = "", ...kept] = call.args;
  checkIntent(call, kept);
  const folders = readFolders(call);
  const list = getNetwork(folders, network);
  const stays = kept.map(parseKept);
  const { signal } = call;
  // What is attached while this waits is not stale, and stays if it is to stay.
  using _lock = await createLocks(folders).lockExclusively({ signal });
  const runtime = createRuntime(call, folders);
  const before = listOf(folders, list.name);
  for (const { text, netns } of stays) checkKept(text, netns, before);
  const validAttachments = before.filter((cached) =>
    stays.some(({ netns, ifName }) =>
      isOfNetns(cached, netns) && (ifName ?? cached.ifName) === cached.ifName
    )
  );
  await runtime.gcNetworkList(list, { signal, validAttachments });
  const after = listOf(folders, list.name).map(({ path }) => path);
  const deleted = before.filter(({ path }) => !after.includes(path));
  return {
    json: { network: list.name, deleted: deleted.map(describe) },
    text: deleted.map(formatDeleted).join("\n"),
    note: findOmission(list),
  };
}

/** Says what of GC was not done. */
function findOmission(list: NetworkConfList): string | undefined {
  const { name, cniVersion } = list;
  if (list.disableGc) return `Nothing was removed: "${name}" has disableGC`;
  if (mayHaveVersion(list, COMMAND_SINCE.GC)) return undefined;
  return `The plugins of "${name}" were not asked for what the cache does not ` +
    `know: its version, "${cniVersion}", has no GC`;
}

/** Nothing is removed because somebody forgot to say what stays. */
function checkIntent({ flags }: CommandCall, kept: readonly string[]): void {
  const isAll = flags.has("all");
  if (isAll === (kept.length === 0)) return;
  throw new UsageError(
    isAll
      ? 'Cannot run "cni gc": with --all no namespace stays, so name none'
      : 'Cannot run "cni gc": name the namespaces whose attachments stay, or ' +
        "say --all to remove every attachment to the network",
    { isIncomplete: !isAll },
  );
}

function listOf(folders: Folders, network: string): CachedAttachment[] {
  return listAttachments(folders).filter((cached) =>
    cached.network === network
  );
}

/** Something that stays, as it was given. */
interface Kept {
  readonly text: string;
  readonly netns: string;
  /** All interfaces if undefined. */
  readonly ifName: string | undefined;
}

/** Parses `NETNS` or `NETNS:IFNAME`; a namespace may have a colon in its name. */
function parseKept(text: string): Kept {
  const netns = resolveNetns(text);
  const colon = text.lastIndexOf(":");
  const isWhole = colon < 0 || findNetnsProblem(netns) === undefined;
  if (isWhole) return { text, netns, ifName: undefined };
  const ifName = text.slice(colon + 1);
  checkInterfaceName(ifName);
  return { text, netns: resolveNetns(text.slice(0, colon)), ifName };
}

/** A mistyped name would have removed what was to stay. */
function checkKept(
  text: string,
  netns: string,
  cached: readonly CachedAttachment[],
): void {
  const problem = findNetnsProblem(netns);
  if (problem === undefined) return;
  if (cached.some((attachment) => isOfNetns(attachment, netns))) return;
  throw new Error(`Cannot keep the attachments of "${text}": ${problem}`);
}

function describe(
  { containerId: containerID, ifName: ifname, netns }: CachedAttachment,
): Record<string, string> {
  return { containerID, ifname, netns };
}

function formatDeleted(
  { containerId, ifName, netns }: CachedAttachment,
): string {
  const where = netns === "" ? "" : ` in ${netns}`;
  return showControls(`deleted ${containerId} ${ifName}${where}`);
}
