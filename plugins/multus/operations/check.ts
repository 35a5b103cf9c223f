/**
 * CHECK: checks that a pod's attachments are unchanged since ADD.
 *
 * @module
 */

import { Differences } from "../../../cni/call/differences.ts";
import { mayHaveVersion } from "../../../libcni/operation.ts";
import { COMMAND_SINCE } from "../../../cni/version.ts";
import { restoreAttachment } from "../attach/detach.ts";
import { describeAll, findRecorded } from "./del.ts";
import type { NetworkAttachment } from "../model/attachment.ts";
import { checkAttachmentRoutes } from "../route/route.ts";
import { selectDelegates } from "../select/select.ts";
import type { Session } from "./session.ts";

/**
 * Checks all networks to which the pod was attached, including the annotation's
 * networks. Networks with a CNI version without CHECK are skipped.
 *
 * The Go version only checks the configuration's delegates, and fails if the CNI
 * version of a delegate has no CHECK.
 *
 * @throws {CniError} The differences of all networks, with the code of the first. If the
 * signal aborts CHECK, the differences that it found, or the signal's reason
 */
export async function check(session: Session): Promise<void> {
  const { runtime, call: { signal }, log } = session;
  const differences = new Differences();
  for (const attachment of await findAttachments(session)) {
    if (signal?.aborted) break;
    await differences.collect(async () => {
      const { network, conf } = restoreAttachment(session, attachment);
      if (!mayHaveVersion(network, COMMAND_SINCE.CHECK)) return;
      await log.time(attachment.name, async () => {
        await differences.collect(() =>
          runtime.checkNetworkList(network, conf, { signal })
        );
        await differences.collect(() =>
          checkAttachmentRoutes(session, attachment)
        );
      });
    });
  }
  differences.throwAny();
  signal?.throwIfAborted();
}

/** Falls back to the networks of every pod if no attachment is recorded. */
async function findAttachments(
  session: Session,
): Promise<readonly NetworkAttachment[]> {
  const { attachments, isScratchOfAnother } = findRecorded(session);
  if (attachments.length > 0 || isScratchOfAnother) return attachments;
  return describeAll(session, await selectDelegates(session, undefined));
}
