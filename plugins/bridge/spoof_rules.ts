/**
 * The rules that drop a container's frames with a foreign MAC: their names, and
 * the changes that add and remove them.
 *
 * ```
 * table bridge nat {
 *   chain PREROUTING { type filter hook prerouting priority -300
 *     iifname "veth…" jump cni-br-iface-<container>-<interface>
 *   }
 *   chain cni-br-iface-<container>-<interface> {
 *     jump cni-br-iface-<container>-<interface>-mac
 *   }
 *   chain cni-br-iface-<container>-<interface>-mac {
 *     ether saddr <MAC> return
 *     drop
 *   }
 * }
 * ```
 *
 * All rules have the comment `macspoofchk-<container>-<interface>`. Table,
 * chains, rules and comments are the Go plugin's, so that each plugin removes
 * the other's rules. Only the rules of these chains are listed.
 *
 * Source: containernetworking/plugins pkg/link/spoofcheck.go.
 *
 * @module
 */

import {
  addChain,
  addTable,
  appendRule,
  type Change,
  delChainOf,
  delRuleOf,
  flushChain,
  type Table,
} from "../../ffi/nftables/change.ts";
import { COMMENT_MAX_BYTES } from "../../ffi/nftables/comment.ts";
import {
  decide,
  jumpTo,
  matchEthernetSource,
  matchInputName,
} from "../../ffi/nftables/expression.ts";
import type { Nftables, Rule } from "../../ffi/nftables/mod.ts";
import type { Mac } from "../../net/mac.ts";
import type { AttachmentId } from "../../cni/config/types.ts";
import { stableName } from "../parts/owner/stable_name.ts";

/** Table of the rules. */
export const TABLE: Table = { family: "bridge", name: "nat" };
/** The chain that jumps to the attachments' chains. */
export const PREROUTING = "PREROUTING";
/** Source: include/uapi/linux/netfilter_bridge.h `NF_BR_PRI_NAT_DST_BRIDGED`. */
const PRIORITY = -300;

/** Prefix of all attachments' comments. */
export const COMMENT_PREFIX = "macspoofchk-";
const CHAIN_PREFIX = "cni-br-iface-", MAC_SUFFIX = "-mac";
/** Source: include/uapi/linux/netfilter/nf_tables.h `NFT_CHAIN_MAXNAMELEN` less the final NUL. */
const MAX_CHAIN_LENGTH = 127;
const MAX_ID_LENGTH = Math.min(
  MAX_CHAIN_LENGTH - CHAIN_PREFIX.length - MAC_SUFFIX.length,
  COMMENT_MAX_BYTES - 1 - COMMENT_PREFIX.length,
);

/** Names of an attachment's rules. */
export interface SpoofCheckNames {
  /** Comment of all its rules. */
  readonly comment: string;
  /** Chain of all frames from the interface. */
  readonly interfaceChain: string;
  /** Chain that checks the sender. */
  readonly macChain: string;
}

/** Computes the names of an attachment's rules. */
export function namesOf(
  { containerId, ifName }: AttachmentId,
): SpoofCheckNames {
  const id = shortened(`${containerId}-${ifName}`);
  const interfaceChain = CHAIN_PREFIX + id;
  return {
    comment: COMMENT_PREFIX + id,
    interfaceChain,
    macChain: interfaceChain + MAC_SUFFIX,
  };
}

/** Hashes the end of an ID that is too long for the kernel. */
function shortened(id: string): string {
  const bytes = new TextEncoder().encode(id);
  if (bytes.length <= MAX_ID_LENGTH) return id;
  const hash = stableName("", id);
  const kept = bytes.subarray(0, MAX_ID_LENGTH - hash.length);
  return new TextDecoder().decode(kept, { stream: true }) + hash;
}

/** The sender whose frames pass. */
export interface AllowedSender {
  /** The bridge's port. */
  readonly hostIfName: string;
  /** The container's. */
  readonly mac: Mac;
}

/** Lists the changes that add the missing shared table and chain. */
export function missingSkeleton(nftables: Nftables): Change[] {
  if (nftables.hasChain(TABLE, PREROUTING)) return [];
  const base = {
    type: "filter",
    hook: "prerouting",
    priority: PRIORITY,
  } as const;
  return [addTable(TABLE), addChain(TABLE, PREROUTING, base)];
}

/** Lists the changes that add an attachment's rules. */
export function additionOf(
  { comment, interfaceChain, macChain }: SpoofCheckNames,
  { hostIfName, mac }: AllowedSender,
): Change[] {
  const rules = [
    [PREROUTING, [...matchInputName(hostIfName), jumpTo(interfaceChain)]],
    [interfaceChain, [jumpTo(macChain)]],
    [macChain, [...matchEthernetSource(mac), decide("return")]],
    [macChain, [decide("drop")]],
  ] as const;
  return [
    addChain(TABLE, interfaceChain),
    addChain(TABLE, macChain),
    ...rules.map(([chain, expressions]) =>
      appendRule(TABLE, { chain, expressions, comment })
    ),
  ];
}

/** Finds the rules that lead to the chains of attachments with a comment. */
export function findLeading(
  nftables: Nftables,
  comment: string,
): readonly Rule[] {
  return nftables.findRules(TABLE, PREROUTING, commentOf, comment).rules;
}

function commentOf({ comment }: Rule): string {
  return comment;
}

/** Lists the changes that remove an attachment's existing rules. */
export function removalOf(
  nftables: Nftables,
  { comment, interfaceChain, macChain }: SpoofCheckNames,
): Change[] {
  const chains = [interfaceChain, macChain]
    .filter((chain) => nftables.hasChain(TABLE, chain));
  // Rules jump only to existing chains: without chains, no rules exist.
  const rules = chains.length === 0 ? [] : findLeading(nftables, comment);
  return [
    ...rules.map(({ handle }) => delRuleOf(TABLE, PREROUTING, handle)),
    ...chains.map((chain) => flushChain(TABLE, chain)),
    ...chains.map((chain) => delChainOf(TABLE, chain)),
  ];
}
