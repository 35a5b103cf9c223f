/**
 * IP masquerade: what leaves an attachment's addresses for other places than
 * their subnets goes out with the host's address.
 *
 * @module
 */

import { CniError, describeError, ErrorCode } from "../../../cni/error.ts";
import { tryAll } from "../../../cni/rollback.ts";
import type { ValidAttachment } from "../../../cni/types.ts";
import type { Table } from "../../../ffi/nftables/change.ts";
import type { Nftables } from "../../../ffi/nftables/mod.ts";
import { inNetns, NetNs } from "../../../ffi/netns.ts";
import type { Cidr } from "../../../net/cidr.ts";
import type { Ip, IpFamily } from "../../../net/ip.ts";
import { openNftables } from "../open_nftables.ts";
import type { Attachment } from "../attachment.ts";
import { type MasqueradeNames, namesOf } from "./names.ts";
import {
  addMasquerade,
  delMasquerade,
  delStaleMasquerade,
  findUnmasqueraded,
} from "./nftables.ts";
import type { Iptables, Variant } from "./iptables.ts";

/** Who keeps the rules. */
export type Backend = "nftables" | "iptables";

/** An attachment to masquerade. */
export interface Masquerade {
  /** Path of the host's namespace. */
  readonly hostNetns: string;
  readonly owner: Attachment;
  /** The configuration's `ipMasqBackend`; nftables where the kernel has it if undefined. */
  readonly backend: Backend | undefined;
}

const FAMILIES: readonly IpFamily[] = [4, 6];
/** Where iptables-nft keeps its rules. */
const NAT_TABLES: Readonly<Record<IpFamily, Table>> = {
  4: { family: "ip", name: "nat" },
  6: { family: "ip6", name: "nat" },
};
/** Which tables the legacy iptables has in a namespace. */
const LEGACY_TABLES: Readonly<Record<IpFamily, string>> = {
  4: "/proc/thread-self/net/ip_tables_names",
  6: "/proc/thread-self/net/ip6_tables_names",
};

/**
 * Masquerades an attachment's addresses.
 *
 * @param addresses With the prefix lengths of their subnets
 * @throws {Error} If a rule cannot be added; what was added may be left, for
 * {@linkcode tearDownMasquerade}
 */
export async function setUpMasquerade(
  { hostNetns, owner, backend }: Masquerade,
  addresses: readonly Cidr[],
): Promise<void> {
  const names = await namesOf(owner);
  try {
    using nftables = backend === "iptables"
      ? undefined
      : openNftables(hostNetns);
    if (nftables !== undefined) {
      return addMasquerade(nftables, names, addresses);
    }
    if (backend === "nftables") throw new Error("the kernel has no nf_tables");
    await setUpIptables(hostNetns, names, addresses);
  } catch (error) {
    const message = `Cannot masquerade ${addresses.join(", ")}`;
    throw new Error(message, { cause: error });
  }
}

/**
 * Removes an attachment's rules, whoever of us and the Go plugins has added
 * them and by which backend. Needs neither the sandbox nor the interface.
 *
 * @param addresses Those that the attachment is known to have, if any
 * @param sockets Takes the socket. To close it is to wait until the kernel has
 * freed the rules, some 10 ms, or for nothing where it had that time meanwhile
 * @throws {Error} If a rule is there and cannot be removed
 */
export async function tearDownMasquerade(
  { hostNetns, owner }: Pick<Masquerade, "hostNetns" | "owner">,
  addresses: readonly Ip[] | undefined,
  sockets?: DisposableStack,
): Promise<void> {
  const names = await namesOf(owner);
  using own = new DisposableStack();
  const nftables = (sockets ?? own).use(openNftables(hostNetns));
  using netns = NetNs.open(hostNetns);
  await tryAll({
    "remove nftables rules": () => {
      if (nftables !== undefined) delMasquerade(nftables, names, addresses);
    },
    "remove iptables rules": async () => {
      const used = listUsedIptables(netns, nftables, names.chain);
      if (used.length === 0) return;
      const { delIptablesMasquerade } = await import("./iptables.ts");
      for (const iptables of used) {
        await delIptablesMasquerade(iptables, names, addresses);
      }
    },
  });
}

/**
 * Removes the rules of attachments to a network that are no longer valid.
 *
 * @throws {Error} If a rule is there and cannot be removed
 */
export async function collectMasqueradeGarbage(
  hostNetns: string,
  network: string,
  valid: readonly ValidAttachment[],
): Promise<void> {
  const names = await Promise.all(
    valid.map((attachment) => namesOf({ network, ...attachment })),
  );
  const { networkHash } = await namesOf({
    network,
    containerId: "",
    ifName: "",
  });
  using nftables = openNftables(hostNetns);
  using netns = NetNs.open(hostNetns);
  await tryAll({
    "remove stale nftables rules": () => {
      if (nftables === undefined) return;
      delStaleMasquerade(nftables, networkHash, names);
    },
    "remove stale iptables rules": async () => {
      for (const iptables of listUsedIptables(netns, nftables, "POSTROUTING")) {
        await delStaleIptables(iptables, network, valid);
      }
    },
  });
}

/**
 * Checks that the addresses are masqueraded.
 *
 * @throws {CniError} 999 if one is not
 */
export async function checkMasquerade(
  { hostNetns, owner, backend }: Masquerade,
  addresses: readonly Cidr[],
): Promise<void> {
  const names = await namesOf(owner);
  using nftables = backend === "iptables" ? undefined : openNftables(hostNetns);
  const missing = nftables === undefined
    ? await findMissingIptablesRule(hostNetns, names, addresses)
    : findUnmasqueraded(nftables, names, addresses.map(({ ip }) => ip));
  if (missing === undefined) return;
  // Where no backend is named the Go plugins have chosen iptables.
  if (
    backend === undefined && isInIptables(hostNetns, nftables, names.chain) &&
    await findMissingIptablesRule(hostNetns, names, addresses) === undefined
  ) return;
  throw new CniError(
    ErrorCode.Internal,
    `The masquerade is gone: ${missing}`,
  );
}

/**
 * Checks that masquerading can work.
 *
 * @throws {CniError} 50 if it cannot
 */
export async function checkMasqueradeBackend(
  hostNetns: string,
  backend: Backend | undefined,
): Promise<void> {
  const problem = await findProblem(hostNetns, backend);
  if (problem === undefined) return;
  throw new CniError(
    ErrorCode.PluginNotAvailable,
    `Cannot masquerade by ${backend ?? "nftables or iptables"}`,
    { details: problem },
  );
}

async function findProblem(
  hostNetns: string,
  backend: Backend | undefined,
): Promise<string | undefined> {
  if (backend !== "iptables") {
    using nftables = openNftables(hostNetns);
    if (nftables !== undefined) return undefined;
    if (backend === "nftables") return "the kernel has no nf_tables";
  }
  const { findIptablesProblem } = await import("./iptables.ts");
  using netns = NetNs.open(hostNetns);
  return await findIptablesProblem({ netns, family: 4 });
}

async function setUpIptables(
  hostNetns: string,
  names: MasqueradeNames,
  addresses: readonly Cidr[],
): Promise<void> {
  const { addIptablesMasquerade } = await import("./iptables.ts");
  using netns = NetNs.open(hostNetns);
  for (const family of FAMILIES) {
    const own = addresses.filter((address) => address.family === family);
    if (own.length === 0) continue;
    await addIptablesMasquerade({ netns, family }, names, own);
  }
}

function isInIptables(
  hostNetns: string,
  nftables: Nftables | undefined,
  chain: string,
): boolean {
  using netns = NetNs.open(hostNetns);
  return listUsedIptables(netns, nftables, chain).length > 0;
}

async function findMissingIptablesRule(
  hostNetns: string,
  names: MasqueradeNames,
  addresses: readonly Cidr[],
): Promise<string | undefined> {
  const { findMissingRule } = await import("./iptables.ts");
  using netns = NetNs.open(hostNetns);
  for (const family of FAMILIES) {
    const own = addresses.filter((address) => address.family === family);
    const missing = await findMissingRule({ netns, family }, names, own);
    if (missing !== undefined) return missing;
  }
  return undefined;
}

async function delStaleIptables(
  iptables: Iptables,
  network: string,
  valid: readonly ValidAttachment[],
): Promise<void> {
  const { delIptablesMasquerade, listIptablesContainers } = await import(
    "./iptables.ts"
  );
  for (const containerId of await listIptablesContainers(iptables, network)) {
    // The chain is the container's, whichever interface it is for.
    if (valid.some((attachment) => attachment.containerId === containerId)) {
      continue;
    }
    const names = await namesOf({ network, containerId, ifName: "" });
    await delIptablesMasquerade(iptables, names, undefined);
  }
}

/**
 * Lists the iptables, of both families and variants, that have a chain in table
 * nat or may have it, without starting a program to find that out.
 */
function listUsedIptables(
  netns: NetNs,
  nftables: Nftables | undefined,
  chain: string,
): Iptables[] {
  const used = (family: IpFamily, variant: Variant): boolean =>
    variant === "nft"
      ? nftables?.hasChain(NAT_TABLES[family], chain) === true
      : hasLegacyNat(netns, family);
  return FAMILIES.flatMap((family) =>
    (["nft", "legacy"] as const)
      .filter((variant) => used(family, variant))
      .map((variant) => ({ netns, family, variant }))
  );
}

function hasLegacyNat(netns: NetNs, family: IpFamily): boolean {
  return inNetns(netns, () => {
    try {
      return Deno.readTextFileSync(LEGACY_TABLES[family]).split("\n")
        .includes("nat");
    } catch (error) {
      if (error instanceof Deno.errors.NotFound) return false;
      throw new Error(`Cannot read ${LEGACY_TABLES[family]}`, {
        cause: describeError(error),
      });
    }
  });
}
