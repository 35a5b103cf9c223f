/**
 * `cni gc`: removes the remains of attachments that are no longer in use.
 *
 * @module
 */

import { checkInterfaceName } from "../../cni/call/args.ts";
import { listPossible } from "../../cni/call/valid_attachments.ts";
import type { CachedAttachment, NetworkConfList } from "../../libcni/mod.ts";
import { mayHaveVersion } from "../../libcni/operation.ts";
import { isTaken } from "../../base/files/io.ts";
import { COMMAND_SINCE } from "../../cni/version.ts";
import { isOfNetns, withNetns } from "../node/node_attachments.ts";
import { resolveNetns } from "../node/target.ts";
import type { Output } from "../../base/command_line/command.ts";
import type { CniCall } from "../flags.ts";
import { findNetnsProblem, isNetns, pathOfName } from "../node/named_netns.ts";
import {
  createLocks,
  createRuntime,
  type Directories,
  getNetwork,
  readDirectories,
  refuseLate,
} from "../node/network.ts";
import { showControls } from "../../base/command_line/style.ts";
import { UsageError } from "../../base/command_line/usage_error.ts";

/** Runs DEL for attachments that are not valid, and GC. */
export async function gc(call: CniCall): Promise<Output> {
  if (call.flags.orphans) {
    return await (await import("../orphans/command.ts")).gcOrphans(call);
  }
  const [network = "", ...kept] = call.args;
  checkIntent(call, kept);
  const directories = readDirectories(call);
  const list = getNetwork(directories, network);
  const stays = kept.map((text) => parseKept(text, directories));
  const { signal } = call;
  const isDryRun = call.flags["dry-run"];
  refuseLate(call);
  // Lock before reading the cache: an attachment that was made in between is
  // not stale.
  using _lock = isDryRun
    ? undefined
    : await createLocks(directories).lockExclusively({ signal });
  const runtime = createRuntime(call, directories);
  const listing = runtime.readCache();
  const before = listing.attachments
    .filter(({ network }) => network === list.name)
    .map(withNetns);
  for (const kept of stays) checkKept(kept, list.name, before);
  const valid = before.filter((cached) =>
    stays.some((kept) => isKept(cached, kept))
  );
  if (isDryRun) return preview(list, before, valid);
  const stale = before.length - valid.length;
  call.onProgress?.(`Deleting ${stale} attachments of "${list.name}"`);
  // A truncated file does not show its namespace, which might be a namespace to keep.
  const torn = call.flags.all
    ? []
    : listPossible(listing.unreadable, list.name);
  const validAttachments = [...valid, ...torn];
  await runtime.gcNetworkList(list, { signal, validAttachments, listing });
  const deleted = before.filter(({ path }) => !isTaken(path));
  return {
    json: { network: list.name, deleted: deleted.map(describe) },
    text: deleted.map((one) => `deleted ${formatAttachment(one)}`).join("\n"),
    note: findOmission(list),
  };
}

/** Lists what would be deleted. Only the plugins can find the other orphans. */
function preview(
  list: NetworkConfList,
  cached: readonly CachedAttachment[],
  valid: readonly CachedAttachment[],
): Output {
  const stale = list.disableGc
    ? []
    : cached.filter((attachment) => !valid.includes(attachment));
  return {
    json: { network: list.name, wouldDelete: stale.map(describe) },
    text: stale.map((one) => `would delete ${formatAttachment(one)}`)
      .join("\n"),
    note: findOmission(list) ??
      `The plugins of "${list.name}" might remove more than the cache shows`,
  };
}

/** Explains which part of GC was skipped. */
function findOmission(list: NetworkConfList): string | undefined {
  const { name, cniVersion } = list;
  if (list.disableGc) return `Nothing was removed: "${name}" has disableGC`;
  if (mayHaveVersion(list, COMMAND_SINCE.GC)) return undefined;
  return `Only cached attachments are deleted: version "${cniVersion}" of ` +
    `"${name}" has no GC`;
}

/** Refuses to run without a list, so that forgetting it deletes nothing. */
function checkIntent(
  { flags, args }: CniCall,
  kept: readonly string[],
): void {
  if (args.length === 0) {
    throw new UsageError(
      'Cannot run "cni gc": name a network, or use --orphans',
    );
  }
  for (const name of ["yes", "grace", "exit-code"] as const) {
    if (!flags[name]) continue;
    throw new UsageError(`Cannot use --${name} without --orphans`);
  }
  const isAll = flags.all === true;
  if (isAll === (kept.length === 0)) return;
  throw new UsageError(
    isAll
      ? 'Cannot run "cni gc": --all removes everything; do not name namespaces with it'
      : 'Cannot run "cni gc": name the namespaces to keep, or use ' +
        "--all to remove every attachment to the network",
  );
}

/** An attachment to keep, as given. */
interface Kept {
  readonly text: string;
  readonly netns: string;
  /** Undefined for all interfaces. */
  readonly ifName: string | undefined;
}

/** Parses `NETNS` or `NETNS:IFNAME`. The name of a namespace can contain a colon. */
function parseKept(text: string, directories: Directories): Kept {
  const colon = text.lastIndexOf(":");
  const isWhole = colon < 0 || /^pid:\d+$/.test(text) ||
    isNetns(pathOf(text)) === true;
  if (isWhole) {
    return { text, netns: resolveNetns(text, directories), ifName: undefined };
  }
  const ifName = text.slice(colon + 1);
  checkInterfaceName(ifName);
  return {
    text,
    netns: resolveNetns(text.slice(0, colon), directories),
    ifName,
  };
}

function pathOf(text: string): string {
  return text.includes("/") ? text : pathOfName(text);
}

function isKept(cached: CachedAttachment, { netns, ifName }: Kept): boolean {
  return isOfNetns(cached, netns) &&
    (ifName ?? cached.ifName) === cached.ifName;
}

/**
 * Refuses an unknown name. If it is a typo, the attachment to keep would be
 * deleted. A namespace without attachments is accepted, because scripts name
 * all namespaces.
 */
function checkKept(
  kept: Kept,
  network: string,
  cached: readonly CachedAttachment[],
): void {
  const { text, netns, ifName } = kept;
  if (cached.some((attachment) => isKept(attachment, kept))) return;
  const own = cached.filter((attachment) => isOfNetns(attachment, netns));
  const problem = findNetnsProblem(netns);
  if (problem !== undefined && own.length === 0) {
    throw new Error(`Cannot keep the attachments of "${text}": ${problem}`);
  }
  if (ifName === undefined) return;
  const has = own.map(({ ifName }) => ifName).join(", ") || "none";
  throw new Error(
    `Cannot keep "${text}": "${netns}" has no attachment "${ifName}" to ` +
      `"${network}"; it has ${has}`,
  );
}

function describe(
  { containerId: containerID, ifName: ifname, netns }: CachedAttachment,
): Record<string, string> {
  return { containerID, ifname, netns };
}

function formatAttachment(
  { containerId, ifName, netns }: CachedAttachment,
): string {
  const where = netns === "" ? "" : ` in ${netns}`;
  return showControls(`${containerId} ${ifName}${where}`);
}
