/**
 * IP masquerade: packets from an attachment's addresses to destinations outside
 * their subnets leave with the host's address.
 *
 * The rules are in the same places as the Go plugins' rules: in the host's iptables,
 * or in a table of nftables if the host has no iptables. Only ADD and STATUS choose a
 * backend; CHECK, DEL and GC search all of them. They query the kernel, and run
 * programs only for legacy iptables.
 *
 * @module
 */

import { CniError, describeError, ErrorCode } from "../../../../base/error.ts";
import type { Log } from "../../../../base/log/log.ts";
import { tryAll } from "../../../../base/rollback.ts";
import type { Attachment, AttachmentId } from "../../../../cni/config/types.ts";
import { Nftables } from "../../../../ffi/nftables/mod.ts";
import { NetNs } from "../../../../ffi/netns.ts";
import type { Cidr } from "../../../../net/cidr.ts";
import type { Ip } from "../../../../net/ip.ts";
import type { Link } from "../../../../ffi/rtnl/link.ts";
import { Rtnl } from "../../../../ffi/rtnl/mod.ts";
import { peerHasAddress } from "../../address/free_ip.ts";
import { findLinkOwner } from "../../owner/attachment.ts";
import { openNftables, requireNftables } from "../open_nftables.ts";
import { getIptables, isLacking } from "../iptables/find.ts";
import {
  checkIptables,
  eachLegacyIptables,
  type HostTable,
} from "../iptables/places.ts";
import {
  type MasqueradeNames,
  type MasqueradeRules,
  namesOf,
  type SourceTest,
} from "./names.ts";
import {
  addMasquerade,
  delMasquerade,
  delStaleMasquerade,
  listUnmasqueraded,
  probeOfMasquerade,
} from "./nftables.ts";
import type { MasqueradeBackend } from "./schema.ts";

/** The host and backend for masquerading. */
export interface MasqueradeHost {
  /** Path of the host's namespace. */
  readonly hostNetns: string;
  /** The configuration's `ipMasqBackend`; the host decides if undefined. */
  readonly backend: MasqueradeBackend | undefined;
  /** PATH, to find iptables. */
  readonly path: string | undefined;
  readonly log: Log;
  /** Kills a running program, and ends a removal between two runs. */
  readonly signal?: AbortSignal | undefined;
}

/** An attachment to masquerade. */
export interface Masquerade extends MasqueradeHost {
  readonly owner: Attachment;
  /** The addresses with which packets leave, instead of the addresses of links. */
  readonly outbound?: readonly Ip[] | undefined;
}

/**
 * Masquerades an attachment's addresses.
 *
 * @param addresses With their subnets' prefix lengths
 * @throws {Error} If a rule cannot be added. Other rules might remain for {@linkcode
 * tearDownMasquerade}
 */
export async function setUpMasquerade(
  { owner, outbound = [], ...host }: Masquerade,
  addresses: readonly Cidr[],
): Promise<void> {
  const names = { ...await namesOf(owner), outbound };
  using nftables = openNftables(host.hostNetns);
  const attempts = {
    iptables: () => addByIptables(host, nftables, names, addresses),
    nftables: () => addMasquerade(requireNftables(nftables), names, addresses),
  };
  try {
    await firstThatWorks(host.backend, attempts);
  } catch (error) {
    const message = `Cannot masquerade ${addresses.join(", ")}`;
    throw new Error(message, { cause: error });
  }
}

/**
 * Removes an attachment's rules from all backends, even if the Go plugins added
 * them. Needs neither the sandbox nor the interface.
 *
 * @param addresses The attachment's addresses, if known
 * @param sockets Takes ownership of the socket. Closing it waits about 10 ms
 * until the kernel has freed the rules, or not at all if it is closed later
 * @throws {Error} If a rule cannot be removed
 */
export async function tearDownMasquerade(
  { owner, ...host }: Masquerade,
  addresses: readonly Ip[] | undefined,
  sockets?: DisposableStack,
): Promise<void> {
  const names = await namesOf(owner);
  using own = new DisposableStack();
  const nftables = (sockets ?? own).use(openNftables(host.hostNetns));
  const isOwn = ownSourceTest(owner, addresses, host.hostNetns);
  await tryAll([
    ["remove nftables rules", async () => {
      if (nftables !== undefined) await delMasquerade(nftables, names);
    }],
    ["remove the rules of iptables-nft", async () => {
      if (nftables === undefined) return;
      const { delIptablesNftMasquerade } = await import("./iptables_nft.ts");
      await delIptablesNftMasquerade(nftables, names, isOwn);
    }],
    [
      "remove the rules of iptables-legacy",
      () =>
        eachLegacyIptables(legacyOf(host), async (iptables) => {
          const { delIptablesMasquerade } = await import("./iptables.ts");
          await delIptablesMasquerade(iptables, names, isOwn);
        }),
    ],
  ]);
}

/**
 * Builds a test for the sources of an attachment's iptables rules. All interfaces of
 * a container on the network share a chain: if the addresses are unknown, addresses
 * of the container's other interfaces do not belong to the attachment.
 */
function ownSourceTest(
  owner: Attachment,
  addresses: readonly Ip[] | undefined,
  hostNetns: string,
): SourceTest {
  if (addresses?.length) {
    return (source) =>
      source !== undefined && addresses.some((one) => one.equals(source));
  }
  let others: readonly Link[] | undefined;
  return (source) => {
    if (source === undefined) return true;
    using host = Rtnl.open(hostNetns);
    // An interface that is missing from an interrupted list keeps no rules.
    others ??= host.link.listSome({ kind: "veth" }).items.filter((end) => {
      const other = findLinkOwner(end);
      return other?.network === owner.network &&
        other.containerId === owner.containerId &&
        other.ifName !== owner.ifName;
    });
    return !others.some((end) => peerHasAddress(host, end, source));
  };
}

/**
 * Removes the rules of attachments to a network that are no longer valid.
 *
 * @throws {Error} If a rule cannot be removed
 */
export async function collectMasqueradeGarbage(
  host: MasqueradeHost,
  network: string,
  valid: readonly AttachmentId[],
): Promise<void> {
  const names = await Promise.all(
    valid.map((attachment) => namesOf({ network, ...attachment })),
  );
  const { networkHash } = await namesOf({
    network,
    containerId: "",
    ifName: "",
  });
  // All interfaces of a container share its chain.
  const containers = new Set(valid.map(({ containerId }) => containerId));
  const staleOf = (ids: readonly string[]): Promise<MasqueradeNames[]> =>
    Promise.all(
      [...new Set(ids)].filter((id) => !containers.has(id))
        .map((containerId) => namesOf({ network, containerId, ifName: "" })),
    );
  // Otherwise, each stale chain would be searched for among all rules.
  using _kept = Nftables.keepOpen(host.hostNetns);
  using nftables = openNftables(host.hostNetns);
  await tryAll([
    ["remove stale nftables rules", async () => {
      if (nftables === undefined) return;
      await delStaleMasquerade(nftables, networkHash, names);
    }],
    ["remove stale rules of iptables-nft", async () => {
      if (nftables === undefined) return;
      const { delIptablesNftMasquerade, listIptablesNftContainers } =
        await import("./iptables_nft.ts");
      const ids = listIptablesNftContainers(nftables, network);
      const stale = await staleOf(ids);
      await tryAll(stale.map((one) => [
        `remove the chain "${one.chain}"`,
        () => delIptablesNftMasquerade(nftables, one, () => true),
      ]));
    }],
    [
      "remove stale rules of iptables-legacy",
      () =>
        eachLegacyIptables(legacyOf(host), async (iptables) => {
          const { delIptablesChains, listIptablesContainers } = await import(
            "./iptables.ts"
          );
          const ids = await listIptablesContainers(iptables, network);
          await delIptablesChains(iptables, await staleOf(ids), host.signal);
        }),
    ],
  ]);
}

/**
 * Checks that any backend masquerades the addresses.
 *
 * @throws {CniError} 999 if an address is not masqueraded
 */
export async function checkMasquerade(
  { owner, outbound = [], ...host }: Masquerade,
  addresses: readonly Cidr[],
): Promise<void> {
  const names = { ...await namesOf(owner), outbound };
  using nftables = openNftables(host.hostNetns);
  let missing = [...addresses];
  if (nftables !== undefined) {
    missing = listUnmasqueraded(nftables, names, missing);
    if (missing.length === 0) return;
    const { listIptablesNftUnmasqueraded } = await import("./iptables_nft.ts");
    missing = listIptablesNftUnmasqueraded(nftables, names, missing);
  }
  if (missing.length === 0) return;
  await eachLegacyIptables(legacyOf(host), async (iptables) => {
    const { listIptablesUnmasqueraded } = await import("./iptables.ts");
    const own = missing.filter(({ family }) => family === iptables.family);
    const still = await listIptablesUnmasqueraded(iptables, names, own);
    missing = missing.filter((one) =>
      !own.includes(one) || still.includes(one)
    );
  });
  if (missing.length === 0) return;
  throw new CniError(
    ErrorCode.Internal,
    `The masquerade is missing: ${missing.map(({ ip }) => ip).join(", ")}`,
  );
}

/**
 * Checks that masquerading can work.
 *
 * @throws {CniError} 50 if it cannot
 */
export async function checkMasqueradeBackend(
  host: MasqueradeHost,
): Promise<void> {
  const { backend } = host;
  using nftables = openNftables(host.hostNetns);
  try {
    await firstThatWorks(backend, {
      iptables: () => checkIptables({ ...host, table: "nat" }),
      nftables: () => requireNftables(nftables).tryOut(probeOfMasquerade()),
    });
  } catch (error) {
    throw new CniError(
      ErrorCode.PluginNotAvailable,
      `Cannot masquerade with ${backend ?? "iptables or nftables"}`,
      { details: describeError(error) },
    );
  }
}

/**
 * Runs the attempt of the given backend. Without a backend, it tries iptables, like
 * the Go plugins, and then nftables if iptables cannot work.
 *
 * @throws The error of the last attempt
 */
async function firstThatWorks(
  backend: MasqueradeBackend | undefined,
  attempts: Readonly<Record<MasqueradeBackend, () => void | Promise<void>>>,
): Promise<void> {
  if (backend !== undefined) return await attempts[backend]();
  try {
    return await attempts.iptables();
  } catch (error) {
    if (!isLacking(error)) throw error;
    try {
      return await attempts.nftables();
    } catch (second) {
      const why = `${describeError(error)}; ${describeError(second)}`;
      throw new Error(why, { cause: second });
    }
  }
}

async function addByIptables(
  host: MasqueradeHost,
  nftables: Nftables | undefined,
  names: MasqueradeRules,
  addresses: readonly Cidr[],
): Promise<void> {
  const programs = new Map(
    addresses.map(({ family }) => [family, getIptables(family, host.path)]),
  );
  const byNetlink = addresses.filter(({ family }) =>
    programs.get(family)?.variant === "nft"
  );
  if (byNetlink.length > 0) {
    const { addIptablesNftMasquerade } = await import("./iptables_nft.ts");
    await addIptablesNftMasquerade(requireNftables(nftables), names, byNetlink);
  }
  using netns = NetNs.open(host.hostNetns);
  for (const [family, { path, variant }] of programs) {
    if (variant === "nft") continue;
    const { addIptablesMasquerade } = await import("./iptables.ts");
    const own = addresses.filter((address) => address.family === family);
    await addIptablesMasquerade(
      { netns, family, table: "nat", path, signal: host.signal },
      names,
      own,
    );
  }
}

/** The masquerades of hosts with legacy iptables are in its table nat. */
function legacyOf(
  { backend, ...host }: MasqueradeHost,
): HostTable {
  return { ...host, isNamed: backend === "iptables", table: "nat" };
}
