/**
 * Drops frames that a container sends with a foreign MAC, with the rules of
 * `spoof_rules.ts`.
 *
 * @module
 */

import { CniError, ErrorCode } from "../../base/error.ts";
import { type TearDownStep, tryAll } from "../../base/rollback.ts";
import {
  type Attachment,
  type AttachmentId,
  listedTest,
} from "../../cni/config/types.ts";
import { comparedValues, inputNameOf } from "../../ffi/nftables/expression.ts";
import { NetlinkError } from "../../ffi/netlink/error.ts";
import { Nftables, type Rule } from "../../ffi/nftables/mod.ts";
import type { Rtnl } from "../../ffi/rtnl/mod.ts";
import type { Mac } from "../../net/mac.ts";
import { checkFailure } from "../parts/link/check_link.ts";
import { commitUnlessDisturbed } from "../parts/firewall/commit_unless_disturbed.ts";
import { NO_NFTABLES, openNftables } from "../parts/firewall/open_nftables.ts";
import { hostIfNameOf } from "../parts/link/veth.ts";
import {
  additionOf,
  type AllowedSender,
  COMMENT_PREFIX,
  findLeading,
  missingSkeleton,
  namesOf,
  PREROUTING,
  removalOf,
  TABLE,
} from "./spoof_rules.ts";

/**
 * Drops frames from a port with a foreign MAC. Replaces rules left by an
 * earlier attachment with the same names.
 *
 * @throws {Error} If the kernel refuses; then nothing is changed
 */
export async function setUpSpoofCheck(
  hostNetns: string,
  owner: AttachmentId,
  allowed: AllowedSender,
): Promise<void> {
  const names = namesOf(owner);
  try {
    using nftables = openNftables(hostNetns);
    if (nftables === undefined) throw new Error(NO_NFTABLES);
    await commitUnlessDisturbed(nftables, () => [
      ...removalOf(nftables, names),
      ...missingSkeleton(nftables),
      ...additionOf(names, allowed),
    ]);
  } catch (error) {
    throw new Error(
      `Cannot drop packets that "${allowed.hostIfName}" sends with a different MAC`,
      { cause: error },
    );
  }
}

/**
 * Removes an attachment's rules, also the Go plugin's. Keeps rules for another
 * network's attachment with the same container and interface name.
 *
 * @param host The host's namespace, after the veth pair was deleted
 * @throws {NetlinkError} If the rules exist and cannot be removed
 */
export async function tearDownSpoofCheck(
  host: Rtnl,
  attachment: Attachment,
): Promise<void> {
  using nftables = openNftables(host.netns.path);
  if (nftables === undefined) return;
  const names = namesOf(attachment);
  await commitUnlessDisturbed(
    nftables,
    () => isInUse(host, nftables, attachment) ? [] : removalOf(nftables, names),
  );
}

/**
 * Reports whether rules with these names match a foreign interface that exists.
 */
function isInUse(
  host: Rtnl,
  nftables: Nftables,
  attachment: Attachment,
): boolean {
  const { comment } = namesOf(attachment);
  const ours = hostIfNameOf(attachment);
  return findLeading(nftables, comment)
    .map(({ expressions }) => inputNameOf(expressions))
    .some((name) => name !== ours && host.link.find(name) !== undefined);
}

/**
 * Checks that the rules exist.
 *
 * @throws {CniError} 999 if not
 */
export function checkSpoofCheck(
  hostNetns: string,
  owner: AttachmentId,
  { hostIfName, mac }: { hostIfName: string; mac: Mac | undefined },
): void {
  using nftables = openNftables(hostNetns);
  const rulesOf = (chain: string): Rule[] =>
    nftables?.listRules(TABLE, chain) ?? [];
  const { comment, interfaceChain, macChain } = namesOf(owner);
  const leading = nftables ? findLeading(nftables, comment) : [];
  const isLedTo = leading.some(({ expressions }) =>
    inputNameOf(expressions) === hostIfName
  );
  const senders = rulesOf(macChain)
    .map(({ expressions }) => comparedValues(expressions)[0]?.toHex());
  const isWhole = isLedTo &&
    rulesOf(interfaceChain).length === 1 &&
    senders.length === 2 && senders[0] === mac?.hex && senders[1] === undefined;
  if (isWhole) return;
  throw checkFailure(
    `Packets that "${hostIfName}" sends with a different MAC are not dropped`,
  );
}

/**
 * Checks that the kernel can filter by the sender's MAC.
 *
 * @throws {CniError} 50 if not
 */
export function checkCanCheckSpoofing(hostNetns: string): void {
  using nftables = openNftables(hostNetns);
  if (nftables !== undefined) return;
  throw new CniError(
    ErrorCode.PluginNotAvailable,
    "Cannot filter packets by sender MAC",
    { details: NO_NFTABLES },
  );
}

/** How many attachments lose their rules in one commit. */
const REMOVED_AT_ONCE = 100;

/**
 * Removes the rules of stale attachments to a network whose veth pairs are deleted.
 * Many go with one commit: for each, the kernel writes all rules of the chain again,
 * and compares the jumps of all.
 *
 * @throws {Error} If a rule exists and cannot be removed; the others are removed
 */
export async function endStaleSpoofChecks(
  host: Rtnl,
  network: string,
  valid: readonly AttachmentId[],
): Promise<void> {
  const isValid = listedTest(valid);
  // Otherwise each stale rule would be searched for among all rules.
  using _kept = Nftables.keepOpen(host.netns.path);
  const stale = listAttachments(host, network).filter((one) =>
    !isValid(one) && host.link.find(hostIfNameOf(one)) === undefined
  );
  await tryAll([...chunked(stale)].map((some): TearDownStep => [
    "remove the rules of stale attachments",
    () => tearDownTogether(host, some),
  ]));
}

function* chunked(all: readonly Attachment[]): Generator<Attachment[], void> {
  for (let at = 0; at < all.length; at += REMOVED_AT_ONCE) {
    yield all.slice(at, at + REMOVED_AT_ONCE);
  }
}

/** Removes the rules of attachments; one that keeps its rules does not keep the others'. */
async function tearDownTogether(
  host: Rtnl,
  attachments: readonly Attachment[],
): Promise<void> {
  try {
    using nftables = openNftables(host.netns.path);
    if (nftables === undefined) return;
    return await commitUnlessDisturbed(
      nftables,
      () =>
        attachments.filter((one) => !isInUse(host, nftables, one))
          .flatMap((one) => removalOf(nftables, namesOf(one))),
    );
  } catch (error) {
    if (!(error instanceof NetlinkError)) throw error;
  }
  await tryAll(attachments.map((attachment) => [
    `remove the rules of "${attachment.ifName}" of "${attachment.containerId}"`,
    () => tearDownSpoofCheck(host, attachment),
  ]));
}

/** Lists the attachments to a network that have rules, each once. */
function listAttachments(host: Rtnl, network: string): Attachment[] {
  using nftables = openNftables(host.netns.path);
  const rules = nftables?.listRules(TABLE, PREROUTING) ?? [];
  const found = rules
    .filter(({ comment }) => comment.startsWith(COMMENT_PREFIX))
    .flatMap(({ comment, expressions }) => {
      const id = comment.slice(COMMENT_PREFIX.length);
      return ownersNamed(id).map((owner) => ({ ...owner, network }))
        .filter((one) => hostIfNameOf(one) === inputNameOf(expressions))
        .map((one) => [`${one.containerId}/${one.ifName}`, one] as const);
    });
  return [...new Map(found).values()];
}

/**
 * Lists the possible owners of an ID: the names that it joins may contain
 * hyphens. The caller picks the owner by the link's name, which follows from
 * network and attachment.
 */
function ownersNamed(id: string): AttachmentId[] {
  return [...id.matchAll(/-/g)].map(({ index }) => ({
    containerId: id.slice(0, index),
    ifName: id.slice(index + 1),
  }));
}
