/**
 * The masquerade as steps of plugins' commands. A step does nothing, and loads
 * no further code, unless the configuration sets `ipMasq`. Only GC also removes
 * masquerades that the configuration no longer mentions, because DEL would have to
 * load the code of all backends to find one.
 *
 * @module
 */

import type { Call } from "../../../../cni/plugin.ts";
import type { Rollback } from "../../../../base/rollback.ts";
import type { NetConf } from "../../../../cni/config/types.ts";
import type { Cidr } from "../../../../net/cidr.ts";
import { attachmentOf } from "../../owner/attachment.ts";
import { addressesOf, readablePrevResult } from "../../sandbox/prev_result.ts";
import type { ConnectedVeth } from "../../link/veth.ts";
import type { Masquerade, MasqueradeHost } from "./mod.ts";
import type { MasqueradeBackend, MasqueradeKeys } from "./schema.ts";

/** A call of a plugin that masquerades. */
export type MasqueradingCall = Call<NetConf & MasqueradeKeys>;

/**
 * Masquerades the container's addresses. The rollback undoes it.
 *
 * @throws {Error} If a rule cannot be added
 */
export async function startMasquerade(
  call: MasqueradingCall,
  addresses: readonly Cidr[],
  { veth, rollback }: { veth: ConnectedVeth; rollback: Rollback },
): Promise<void> {
  const masqueraded = masqueradedOf(call, addresses);
  if (masqueraded.length === 0) return;
  const { setUpMasquerade, tearDownMasquerade } = await import("./mod.ts");
  const wanted = masqueradeOf(call);
  // The attachment that left the veth pair might also have left rules for other
  // addresses.
  if (veth.isReplacement) await tearDownMasquerade(wanted, undefined);
  rollback.onFailure(
    "remove the masquerade",
    () => tearDownMasquerade(wanted, masqueraded.map(({ ip }) => ip)),
  );
  await setUpMasquerade(wanted, masqueraded);
}

/**
 * Ends the masquerade of the addresses in prevResult, or of all addresses if it is
 * missing.
 *
 * @param sockets Takes ownership of the socket, see {@linkcode tearDownMasquerade}
 * @throws {Error} If a rule cannot be removed
 */
export async function endMasquerade(
  call: MasqueradingCall,
  sockets: DisposableStack,
): Promise<void> {
  if (!call.config.ipMasq) return;
  const { tearDownMasquerade } = await import("./mod.ts");
  const prevResult = readablePrevResult(call);
  const addresses = prevResult && addressesOf(prevResult, call.args);
  await tearDownMasquerade(
    masqueradeOf(call),
    addresses?.map(({ ip }) => ip),
    sockets,
  );
}

/**
 * Checks that the addresses are masqueraded.
 *
 * @throws {CniError} 999 if an address is not masqueraded
 */
export async function checkMasqueraded(
  call: MasqueradingCall,
  addresses: readonly Cidr[],
): Promise<void> {
  const masqueraded = masqueradedOf(call, addresses);
  if (masqueraded.length === 0) return;
  const { checkMasquerade } = await import("./mod.ts");
  await checkMasquerade(masqueradeOf(call), masqueraded);
}

/**
 * Masquerades addresses again that are no longer masqueraded.
 *
 * @throws {Error} If a rule cannot be added
 */
export async function repairMasquerade(
  call: MasqueradingCall,
  addresses: readonly Cidr[],
): Promise<void> {
  const masqueraded = masqueradedOf(call, addresses);
  if (masqueraded.length === 0) return;
  const { setUpMasquerade } = await import("./mod.ts");
  await setUpMasquerade(masqueradeOf(call), masqueraded);
}

/**
 * Checks that masquerading can work.
 *
 * @throws {CniError} 50 if it cannot
 */
export async function checkCanMasquerade(
  call: MasqueradingCall,
): Promise<void> {
  if (!call.config.ipMasq) return;
  const { checkMasqueradeBackend } = await import("./mod.ts");
  await checkMasqueradeBackend(hostOf(call));
}

/**
 * Ends the masquerades of attachments that are no longer valid.
 *
 * @throws {Error} If a rule cannot be removed
 */
export async function endStaleMasquerades(
  call: MasqueradingCall,
): Promise<void> {
  const { network, validAttachments } = call;
  if (validAttachments === undefined) return;
  const { collectMasqueradeGarbage } = await import("./mod.ts");
  await collectMasqueradeGarbage(hostOf(call), network, validAttachments);
}

/** Lists the addresses whose family is masqueraded. */
function masqueradedOf(
  { config: { ipMasq, ipMasqFamilies } }: MasqueradingCall,
  addresses: readonly Cidr[],
): readonly Cidr[] {
  if (!ipMasq) return [];
  if (ipMasqFamilies === undefined) return addresses;
  return addresses.filter(({ family }) => ipMasqFamilies.includes(family));
}

function masqueradeOf(call: MasqueradingCall): Masquerade {
  const { outboundAddresses: outbound } = call.config;
  return { ...hostOf(call), owner: attachmentOf(call), outbound };
}

function hostOf(call: MasqueradingCall): MasqueradeHost {
  const { hostNetns, config, context, log, signal } = call;
  // The schema rejects any other value if `ipMasq` is true.
  const backend = config.ipMasqBackend as MasqueradeBackend | undefined;
  return { hostNetns, backend, path: context.env["PATH"], log, signal };
}
