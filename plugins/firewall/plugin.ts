/**
 * firewall: lets a container's traffic through the host's firewall. Chained
 * after a plugin that gives the container an address.
 *
 * ```
 *     container            host, chain forward
 *   ┌────────────┐       ┌──────────────────────────────────┐
 *   │ eth0       │       │ ingress policy: drop, or go on   │
 *   │ 10.1.2.5 ──┼───────┼→ administrator's rules           │
 *   └────────────┘       │ from 10.1.2.5: accept          ──┼─→ anywhere
 *                        │ to 10.1.2.5: accept answers    ←─┼──
 *                        └──────────────────────────────────┘
 * ```
 *
 * The rules are in firewalld, iptables or nftables. DEL removes the
 * attachment's. Chains and rules that all attachments share stay in iptables,
 * as with the Go plugin; the last DEL removes the table of nftables.
 *
 * @module
 */

import { CniError, describeError, ErrorCode } from "../../base/error.ts";
import { Rollback, tryAll } from "../../base/rollback.ts";
import { type Call, definePlugin, type Plugin } from "../../cni/plugin.ts";
import type { Result } from "../../cni/result/result.ts";
import { listVersionsFrom } from "../../cni/version.ts";
import { Rtnl } from "../../ffi/rtnl/mod.ts";
import type { Ip } from "../../net/ip.ts";
import { attachmentOf } from "../parts/owner/attachment.ts";
import { listAddresses } from "../parts/link/configure_link.ts";
import { leadsTo } from "../parts/link/host_end.ts";
import { ownerOf } from "../parts/owner/element_owner.ts";
import { isLacking } from "../parts/firewall/iptables/find.ts";
import { namesOf } from "../parts/firewall/masquerade/names.ts";
import { openNftables } from "../parts/firewall/open_nftables.ts";
import { type Owned, ownedBy, staleOf } from "../parts/owner/owned.ts";
import {
  readablePrevResult,
  requirePrevResult,
} from "../parts/sandbox/prev_result.ts";
import { findSandbox } from "../parts/sandbox/sandbox.ts";
import type { FirewallHost, IngressPolicy, Protection } from "./backend.ts";
import { backends, withBackend } from "./choose_backend.ts";
import {
  areRecorded,
  forgetOwners,
  listForeign,
  listRecorded,
  readRecords,
  recordOwner,
  type Records,
} from "./nftables.ts";
import type { FirewallConfig } from "./schema.ts";

/** The plugin. Source: containernetworking/plugins plugins/meta/firewall/firewall.go. */
export const firewall: Plugin<FirewallConfig> = definePlugin({
  name: "firewall",
  versions: listVersionsFrom("0.4.0"),
  configSchema: async () => (await import("./schema.ts")).firewallSchema(),

  async add(call): Promise<Result> {
    const { prevResult, ...protection } = await protectionOf(call);
    const { addresses, owner } = protection;
    if (addresses.length === 0) return prevResult;
    const host = hostOf(call);
    const owned = ownedBy(owner);
    using nftables = openNftables(call.hostNetns);

    await using rollback = new Rollback(call.log);
    rollback.onFailure("remove the rules", async () => {
      const records = nftables && readRecords(nftables);
      await delUnowned(host, records, owned, addresses);
      if (nftables === undefined) return;
      await forgetOwners(nftables, owned, [], records);
    });
    if (nftables !== undefined) {
      const records = readRecords(nftables);
      const earlier = listRecorded(records, owned);
      await delUnowned(host, records, owned, without(earlier, addresses));
      // Before the rules, so that DEL finds the addresses of a killed ADD.
      await tryToRecord(() => recordOwner(nftables, owner, addresses, records));
    }
    await withBackend(host, (backend) => backend.add(host, protection));
    rollback.commit();
    return prevResult;
  },

  async check(call): Promise<void> {
    const protection = await protectionOf(call);
    const host = hostOf(call);
    await withBackend(host, (backend) => backend.check(host, protection));
  },

  async repair(call): Promise<void> {
    const protection = await protectionOf(call);
    const { addresses, owner } = protection;
    if (addresses.length === 0) return;
    const host = hostOf(call);
    using nftables = openNftables(call.hostNetns);
    if (nftables !== undefined) {
      const records = readRecords(nftables);
      await tryToRecord(() => recordOwner(nftables, owner, addresses, records));
    }
    await withBackend(host, (backend) => backend.add(host, protection));
  },

  async del(call): Promise<void> {
    using nftables = openNftables(call.hostNetns);
    const owned = ownedBy(await namesOf(attachmentOf(call)));
    const records = nftables && readRecords(nftables);
    const recorded = records ? listRecorded(records, owned) : [];
    const all = [
      ...recorded,
      ...without(addressesOf(call, recorded), recorded),
    ];
    const link = findOwnLink(call);
    const gone = await delUnowned(hostOf(call), records, owned, all, link);
    // The Go plugin's DEL leaves the record of an earlier owner.
    if (nftables === undefined) return;
    await forgetOwners(nftables, owned, gone, records);
  },

  async gc(call): Promise<void> {
    const { network, validAttachments } = call;
    if (validAttachments === undefined) return;
    using nftables = openNftables(call.hostNetns);
    if (nftables === undefined) return;
    const stale = await staleOf(network, validAttachments);
    const valid = await Promise.all(
      validAttachments.map((one) => namesOf({ network, ...one })),
    );
    // An attachment of the Go plugin might have a stale address, and the rules
    // do not name their owner.
    const records = readRecords(nftables);
    if (areRecorded(records, stale, valid)) {
      const addresses = listRecorded(records, stale);
      await delUnowned(hostOf(call), records, stale, addresses);
    }
    await forgetOwners(nftables, stale, [], records);
  },

  async status(call): Promise<void> {
    const host = hostOf(call);
    const policy = hasPolicy(call.config);
    try {
      await withBackend(host, (backend) => backend.status(host, policy));
    } catch (error) {
      throw new CniError(
        ErrorCode.PluginNotAvailable,
        `Cannot let traffic through with ${
          host.backend ?? "firewalld, iptables or nftables"
        }`,
        { details: describeError(error) },
      );
    }
  },
});

function hostOf(call: Call<FirewallConfig>): FirewallHost {
  const { hostNetns, config, context, log, signal } = call;
  return {
    hostNetns,
    backend: config.backend || undefined,
    adminChain: config.iptablesAdminChainName || "CNI-ADMIN",
    zone: config.firewalldZone || "trusted",
    env: context.env,
    log,
    signal,
  };
}

/** @throws {CniError} 7 if prevResult is missing, or has no bridge for the policy */
async function protectionOf(
  call: Call<FirewallConfig>,
): Promise<Protection & { readonly prevResult: Result }> {
  const prevResult = requirePrevResult(
    call,
    "missing prevResult from earlier plugin",
  );
  return {
    prevResult,
    owner: await ownerOf(attachmentOf(call), call.args.netns),
    addresses: prevResult.ips.map(({ address }) => address.ip),
    policy: policyOf(call.config, prevResult),
  };
}

function hasPolicy({ ingressPolicy }: FirewallConfig): boolean {
  return Boolean(ingressPolicy) && ingressPolicy !== "open";
}

function policyOf(
  config: FirewallConfig,
  { interfaces }: Result,
): IngressPolicy | undefined {
  if (!hasPolicy(config)) return undefined;
  const { ingressPolicy } = config;
  // A pod can choose a name of the host's for its own interface.
  const bridge = interfaces.find(({ sandbox }) => !sandbox);
  const refuse = (why: string): CniError =>
    new CniError(ErrorCode.InvalidNetworkConfig, why);
  if (bridge === undefined) {
    throw refuse(
      `interface needs to be set for ingress policy "${ingressPolicy}", make sure to chain "firewall" plugin with "bridge"`,
    );
  }
  if (bridge.name === "") throw refuse("got empty bridge name");
  if (!/^[^\s/]{1,15}$/.test(bridge.name)) {
    throw refuse(`"${bridge.name}" cannot be the name of a bridge`);
  }
  return { bridge: bridge.name, isolated: ingressPolicy === "isolated" };
}

/**
 * Lists the addresses that an attachment may have besides the recorded ones: in
 * prevResult, or else on the interface if it still exists.
 */
function addressesOf(call: Call, recorded: readonly Ip[]): Ip[] {
  const prevResult = readablePrevResult(call);
  if (prevResult !== undefined) {
    return prevResult.ips.map(({ address }) => address.ip);
  }
  if (recorded.length > 0) return [];
  return readContainerLinks(call, (sandbox) => {
    const link = sandbox?.link.find(call.args.ifName);
    if (sandbox === undefined || link === undefined) return [];
    return listAddresses(sandbox, link).map(({ address }) => address.ip)
      .filter(({ isLinkLocal }) => !isLinkLocal);
  }) ?? [];
}

/** Returns what a look into the sandbox gives; undefined if it is impossible. */
function readContainerLinks<T>(
  call: Call,
  look: (sandbox: Rtnl | undefined) => T,
): T | undefined {
  try {
    using sandbox = findSandbox(call);
    return look(sandbox);
  } catch (error) {
    call.log.warn("Ignoring the sandbox", { problem: describeError(error) });
    return undefined;
  }
}

/**
 * Returns the host's end of a pair that has no bridge, as ptp makes it. The
 * interface is deleted with the container, and so is its policy. A link of that
 * name that leads to another container is not it.
 */
function findOwnLink(call: Call<FirewallConfig>): string | undefined {
  if (!hasPolicy(call.config)) return undefined;
  const { interfaces = [] } = readablePrevResult(call) ?? {};
  const [{ name } = { name: "" }, ...others] = interfaces
    .filter(({ sandbox }) => !sandbox);
  if (others.length > 0 || !name.startsWith("veth")) return undefined;
  using host = Rtnl.open(call.hostNetns);
  const link = host.link.find(name);
  if (link === undefined) return name;
  const isOwn = readContainerLinks(
    call,
    (sandbox) => sandbox && leadsTo(host, link, sandbox),
  );
  return isOwn ? name : undefined;
}

/** Records an owner, unless the kernel has no tables for IPv4 and IPv6. */
async function tryToRecord(work: () => Promise<void>): Promise<void> {
  try {
    await work();
  } catch (error) {
    if (!isLacking(error)) throw error;
  }
}

/**
 * Removes the rules of addresses that no other living container has, and of a
 * link's policy, from all backends, whichever ADD used.
 *
 * @returns The addresses whose rules are removed
 */
async function delUnowned(
  host: FirewallHost,
  records: Records | undefined,
  owned: Owned,
  addresses: readonly Ip[],
  link?: string,
): Promise<Ip[]> {
  const others = records ? listForeign(records, owned, addresses) : [];
  const gone = without(addresses, others);
  if (gone.length === 0 && link === undefined) return gone;
  await tryAll(
    Object.entries(backends).map(([name, load]) => [
      `remove the rules of ${name}`,
      async () => (await load()).del(host, gone, link),
    ]),
  );
  return gone;
}

/** Returns the addresses that are in none of the other lists. */
function without(
  addresses: readonly Ip[],
  others: readonly Ip[],
): Ip[] {
  const left = new Set(others.map(String));
  return addresses.filter((ip) => !left.has(String(ip)));
}
