/**
 * ptp: a veth pair between the host and a container.
 *
 * ```
 *         host                          container
 *   ┌──────────────────┐          ┌──────────────────────┐
 *   │ vethXXXXXXXXXXX ─┼──────────┼─ eth0                │
 *   │  10.1.2.1/32     │   veth   │  10.1.2.5/24         │
 *   └──────────────────┘          └──────────────────────┘
 *    10.1.2.5 dev veth…            10.1.2.1 dev eth0 scope link
 *                                  10.1.2.0/24 via 10.1.2.1
 *                                  …the routes of the IPAM plugin
 * ```
 *
 * DEL leaves no objects of the attachment behind. Forwarding, which ADD turns on in
 * the host, stays on, because other attachments need it.
 *
 * @module
 */

import { definePlugin, type Plugin } from "../../cni/plugin.ts";
import type { Result } from "../../cni/result/result.ts";
import { Rollback, type TearDownStep, tryAll } from "../../base/rollback.ts";
import { SPEC_VERSIONS } from "../../cni/version.ts";
import type { Link } from "../../ffi/rtnl/link.ts";
import { Rtnl } from "../../ffi/rtnl/mod.ts";
import { Cidr } from "../../net/cidr.ts";
import { attachmentOf } from "../parts/owner/attachment.ts";
import { checkRouteValues } from "../parts/link/configure_link.ts";
import { ensureForwarding } from "../parts/address/ip_forward.ts";
import {
  checkCanMasquerade,
  endMasquerade,
  endStaleMasquerades,
  startMasquerade,
} from "../parts/firewall/masquerade/steps.ts";
import { requirePrevResult } from "../parts/sandbox/prev_result.ts";
import { checkIfNameIsFree, openSandbox } from "../parts/sandbox/sandbox.ts";
import { connectVeth, describeVeth, lookUpVeth } from "../parts/link/veth.ts";
import type { PtpConfig } from "./schema.ts";
import {
  checkAddressesFree,
  configureContainerEnd,
  gatewaysOf,
  routedIpsOf,
  routeToContainer,
} from "./routing.ts";

/** The plugin. Source: containernetworking/plugins plugins/main/ptp/ptp.go. */
export const ptp: Plugin<PtpConfig> = definePlugin({
  name: "ptp",
  versions: SPEC_VERSIONS,
  configSchema: async () => (await import("./schema.ts")).ptpSchema(),

  async add(call): Promise<Result> {
    using host = Rtnl.open(call.hostNetns);
    using sandbox = openSandbox(call.args);
    checkIfNameIsFree(sandbox, call.args.ifName);
    await using rollback = new Rollback(call.log);

    const lease = await call.ipam.add();
    rollback.onFailureLast("release the addresses", () => call.ipam.del());
    const ips = routedIpsOf(lease);
    checkRouteValues(lease.routes);
    const attachment = attachmentOf(call);
    const owner = { call, lease };
    await checkAddressesFree(host, ips, owner);

    const { mtu } = call.config;
    const veth = connectVeth(host, sandbox, attachment, { mtu });
    rollback.onFailure(`delete "${veth.host.name}"`, async () => {
      const { deleteNow } = await import("../parts/link/delete_links.ts");
      await deleteNow([veth.host], call);
    });
    configureContainerEnd(sandbox, veth.container, ips, lease.routes);
    await routeToContainer(host, veth.host, {
      gateways: gatewaysOf(ips).map(Cidr.host),
      destinations: ips.map(({ address }) => Cidr.host(address.ip)),
      owner,
    });
    const ends = lookUpVeth(host, sandbox, veth);
    const addresses = ips.map(({ address }) => address);
    ensureForwarding(host.netns, addresses);
    await startMasquerade(call, addresses, { veth, rollback });

    const { interfaces, container } = describeVeth(ends, call.args.netns);
    rollback.commit();
    return {
      interfaces,
      ips: ips.map((ip) => ({ ...ip, interface: container })),
      routes: lease.routes,
      dns: call.config.dns ?? lease.dns,
    };
  },

  async check(call): Promise<void> {
    using host = Rtnl.open(call.hostNetns);
    using sandbox = openSandbox(call.args);
    const prevResult = requirePrevResult(
      call,
      "ptp: Required prevResult missing",
    );
    const { checkAttachment } = await import("./check.ts");
    await checkAttachment({ call, host, sandbox, prevResult });
  },

  repair: async (call, scope) =>
    await (await import("./repair.ts")).repair(call, scope),

  async del(call): Promise<void> {
    using sockets = new DisposableStack();
    const unlink: TearDownStep = [
      `delete interface "${call.args.ifName}"`,
      async () => {
        const { deleteVeth } = await import("../parts/link/delete_veth.ts");
        using host = Rtnl.open(call.hostNetns);
        await deleteVeth(host, call, isNoPort);
      },
    ];
    await tryAll([
      // This precedes the deletion of the veth pair, so that the kernel's waits for
      // both coincide.
      ["remove the masquerade", () => endMasquerade(call, sockets)],
      unlink,
      // Once an address is allocated again, it must no longer be routed to the old
      // container.
      ["release the addresses", async () => {
        if (call.config.ipam?.type) await call.ipam.del();
      }, unlink],
    ]);
  },

  async status(call): Promise<void> {
    await checkCanMasquerade(call);
    await call.ipam.status();
  },

  async gc(call): Promise<void> {
    const { collectVeths } = await import("../parts/link/delete_veth.ts");
    await tryAll([
      ["remove stale masquerades", () => endStaleMasquerades(call)],
      ...collectVeths(call),
    ]);
  },
});

/**
 * Distinguishes the Go plugin's veth pairs from the Go bridge plugin's pairs, which
 * are ports of a bridge.
 */
function isNoPort({ masterIndex }: Link): boolean {
  return masterIndex === undefined;
}
