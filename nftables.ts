/**
 * nf_tables for plugins: tables, chains, sets and rules as values, committed
 * together, all or none, without running `nft`.
 *
 * @module
 */

export {
  type Chain,
  ElementList,
  type FoundElements,
  type FoundRules,
  type HookedChain,
  Nftables,
  Rule,
} from "./ffi/nftables/mod.ts";
export {
  addChain,
  addElements,
  addSet,
  addTable,
  appendRule,
  type BaseChain,
  type Change,
  delChainOf,
  delElementsOf,
  delRuleOf,
  delSetOf,
  delTableOf,
  type Element,
  flushChain,
  type Hook,
  type NewRule,
  type NewSet,
  prependRule,
  type Table,
  type ValueType,
  type ValueTypes,
} from "./ffi/nftables/change.ts";
export {
  count,
  decide,
  encodeName,
  type Expression,
  goTo,
  jumpTo,
  masquerade,
  matchAddressIn,
  matchEstablished,
  matchEthernetSource,
  matchFamily,
  matchInputIn,
  matchInputName,
  matchNetwork,
  type Operator,
  type Verdict,
} from "./ffi/nftables/expression.ts";
export type { RuleKey } from "./ffi/nftables/known_rules.ts";
export type { TableFamilyName } from "./ffi/nftables/message.ts";
export type { AddressField } from "./ffi/socket/ip_header.ts";
