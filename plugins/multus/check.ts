/**
 * CHECK: whether a pod is attached as ADD left it.
 *
 * @module
 */

import { mayHaveVersion } from "../../cni/libcni/operation.ts";
import { COMMAND_SINCE } from "../../cni/version.ts";
import type { KnownAttachment } from "./memory/cached_attachments.ts";
import { describeAll, findOwn } from "./del.ts";
import { recall } from "./memory/recall.ts";
import { selectDelegates } from "./networks/select.ts";
import type { Session } from "./session.ts";

/**
 * Checks all networks that the pod was attached to, those of its annotation
 * included; networks whose configuration is older than CHECK are passed over.
 *
 * The Go version checks the configuration's own delegates only, and fails for
 * one that is too old.
 *
 * @throws What the first network throws that finds something wrong
 */
export async function check(session: Session): Promise<void> {
  const { runtime, call: { signal }, log } = session;
  for (const attachment of await findAttachments(session)) {
    const { network, conf } = recall(session, attachment);
    if (!mayHaveVersion(network, COMMAND_SINCE.CHECK)) continue;
    await log.time(
      attachment.name,
      () => runtime.checkNetworkList(network, conf, { signal }),
    );
  }
}

/** A pod of which nothing is remembered has the networks of every pod. */
async function findAttachments(
  session: Session,
): Promise<readonly KnownAttachment[]> {
  const { attachments, isScratchOthers } = findOwn(session);
  if (attachments.length > 0 || isScratchOthers) return attachments;
  return describeAll(session, await selectDelegates(session, undefined));
}
