/**
 * The IPAMClaims of attachments, as the receipts of whereabouts have them.
 *
 * @module
 */

import { ifPossible } from "../../base/files/io.ts";
import { decode, objectOf } from "../../base/json/json.ts";
import {
  type CachedAttachment,
  parseNetworkConf,
  parseNetworkConfList,
  type PluginConf,
} from "../../libcni/mod.ts";
import { facts } from "../../ipam/whereabouts/facts.ts";
import { type HeldClaim, Receipts } from "../../ipam/whereabouts/receipts.ts";
import { whereaboutsSchema } from "../../ipam/whereabouts/schema.ts";
import { readSettings } from "../../ipam/whereabouts/settings.ts";
import { unfoldChains } from "../networks/chain_form.ts";

/** The claim that an attachment's addresses belong to. */
export interface AttachedClaim extends HeldClaim {
  /** Path of the kubeconfig of the network. */
  readonly kubeconfig: string;
  /** `network_name` of whereabouts; "" without one. */
  readonly networkName: string;
  /** Namespace of the pools. */
  readonly pools: string;
}

/** Finds the claim of an attachment; undefined if it has none. */
export function findAttachedClaim(
  { config, network, containerId, ifName }: CachedAttachment,
): AttachedClaim | undefined {
  for (const { document } of listPlugins(config)) {
    if (objectOf(document["ipam"])["type"] !== facts.type) continue;
    const settings = ifPossible(() =>
      readSettings(decode(whereaboutsSchema(), document, facts.type))
    );
    if (settings === undefined) continue;
    const receipts = new Receipts(settings.dataDir, network);
    const receipt = receipts.find({ containerId, ifName });
    if (receipt?.ipamClaim === undefined) continue;
    const { kubeconfig, networkName } = settings;
    const pools = receipt.namespace;
    return { ...receipt.ipamClaim, kubeconfig, networkName, pools };
  }
  return undefined;
}

/** Lists the plugins of a cached configuration; none if it cannot be read. */
function listPlugins(config: Uint8Array): readonly PluginConf[] {
  return ifPossible(() => {
    const { plugins } = parseNetworkConfList(config);
    return plugins.length > 0
      ? unfoldChains(plugins)
      : [parseNetworkConf(config).plugin];
  }) ?? [];
}
