/**
 * ptp: a cable between the host and one container.
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
 * The gateway's address is on the host's end of every cable, and the container
 * reaches everything through it, its own subnet included: there is no link that
 * containers share.
 *
 * ```json
 * {
 *   "type": "ptp",
 *   "mtu": 1450,
 *   "ipam": { "type": "host-local", "subnet": "10.1.2.0/24",
 *             "routes": [{ "dst": "0.0.0.0/0" }] }
 * }
 * ```
 *
 * With `"ipMasq": true` what the container sends to other places than its
 * subnet leaves with the host's address.
 *
 * DEL leaves nothing of the attachment behind. Forwarding, which ADD turns on
 * in the host, stays on: other attachments need it.
 *
 * @module
 */

import { CniError, ErrorCode } from "../../cni/error.ts";
import { type Call, definePlugin, type Plugin } from "../../cni/plugin.ts";
import type { Interface, Result } from "../../cni/result.ts";
import { Rollback, tryAll } from "../../cni/rollback.ts";
import { SPEC_VERSIONS } from "../../cni/version.ts";
import type { Link } from "../../ffi/rtnl/link.ts";
import { Rtnl } from "../../ffi/rtnl/mod.ts";
import type { Cidr } from "../../net/cidr.ts";
import { ensureForwarding } from "../_shared/ip_forward.ts";
import type { Masquerade } from "../_shared/masquerade/mod.ts";
import { addressesOf, readablePrevResult } from "../_shared/prev_result.ts";
import {
  checkIfNameIsFree,
  findSandbox,
  openSandbox,
} from "../_shared/sandbox.ts";
import type { PtpConfig } from "./config.ts";
import {
  type ConnectedVeth,
  connectVeth,
  deleteStaleVeths,
  deleteVeth,
  settleVeth,
  type Veth,
} from "./veth.ts";
import {
  configureContainerEnd,
  routedIpsOf,
  routeToContainer,
} from "./routing.ts";

/** The plugin. Source: containernetworking/plugins plugins/main/ptp/ptp.go. */
export const ptp: Plugin<PtpConfig> = definePlugin({
  name: "ptp",
  versions: SPEC_VERSIONS,
  configSchema: async () => (await import("./config.ts")).ptpSchema(),

  async add(call): Promise<Result> {
    using host = Rtnl.open(call.hostNetns);
    using sandbox = openSandbox(call.args);
    checkIfNameIsFree(sandbox, call.args.ifName);
    await using rollback = new Rollback(call.log);

    const lease = await call.ipam.add();
    rollback.onFailure("release the addresses", () => call.ipam.del());
    const ips = routedIpsOf(lease);

    const veth = connectVeth(host, sandbox, call);
    rollback.onFailure(`delete "${veth.host.name}"`, () => {
      host.link.ensureGone(veth.host.index);
    });
    configureContainerEnd(sandbox, veth.container, ips, lease.routes);
    routeToContainer(host, veth.host, ips);
    const ends = settleVeth(host, sandbox, veth);
    const addresses = ips.map(({ address }) => address);
    ensureForwarding(host.netns, addresses);
    if (call.config.ipMasq) {
      await masquerade(call, addresses, { veth, rollback });
    }

    rollback.commit();
    return {
      interfaces: interfacesOf(ends, call),
      ips: ips.map((ip) => ({ ...ip, interface: 1 })),
      routes: lease.routes,
      dns: call.config.dns ?? lease.dns,
    };
  },

  async check(call): Promise<void> {
    using host = Rtnl.open(call.hostNetns);
    using sandbox = openSandbox(call.args);
    await call.ipam.check();
    if (call.prevResult === undefined) {
      throw new CniError(
        ErrorCode.InvalidNetworkConfig,
        "ptp: Required prevResult missing",
      );
    }
    const { checkContainerEnd, checkHostEnd } = await import("./check.ts");
    const end = checkContainerEnd(sandbox, call.prevResult, call.args);
    checkHostEnd(host, call.prevResult, call.args, end);
    if (!call.config.ipMasq) return;
    const { checkMasquerade } = await import("../_shared/masquerade/mod.ts");
    const addresses = addressesOf(call.prevResult, call.args);
    await checkMasquerade(masqueradeOf(call), addresses);
  },

  async del(call): Promise<void> {
    await tryAll({
      // Before the cable: so the kernel's waiting for both is one waiting.
      "remove the masquerade": async () => {
        if (call.config.ipMasq) await endMasquerade(call);
      },
      // First the cable, then the lease: an address that is handed out again
      // must not still be routed to the old container.
      [`delete interface "${call.args.ifName}"`]: () => {
        using host = Rtnl.open(call.hostNetns);
        deleteVeth(host, call, () => findSandbox(call));
      },
      "release the addresses": async () => {
        if (call.config.ipam?.type) await call.ipam.del();
      },
    });
  },

  async status(call): Promise<void> {
    if (call.config.ipMasq) {
      const { checkMasqueradeBackend } = await import(
        "../_shared/masquerade/mod.ts"
      );
      await checkMasqueradeBackend(call.hostNetns, call.config.ipMasqBackend);
    }
    await call.ipam.status();
  },

  async gc(call): Promise<void> {
    const { network, validAttachments } = call;
    await tryAll({
      "remove stale masquerades": async () => {
        if (!call.config.ipMasq || validAttachments === undefined) return;
        const { collectMasqueradeGarbage } = await import(
          "../_shared/masquerade/mod.ts"
        );
        await collectMasqueradeGarbage(
          call.hostNetns,
          network,
          validAttachments,
        );
      },
      // As on DEL, the cables before the leases.
      "delete stale interfaces": () => {
        if (validAttachments === undefined) return;
        using host = Rtnl.open(call.hostNetns);
        deleteStaleVeths(host, network, validAttachments);
      },
      "release stale addresses": () => call.ipam.gc(),
    });
  },
});

/** Lists the host's end and the container's, in the order that `interface: 1` counts on. */
function interfacesOf(
  { host, container }: Veth<Link>,
  { args }: Call<PtpConfig>,
): Interface[] {
  return [
    { name: host.name, mac: host.mac?.toString() },
    {
      name: container.name,
      mac: container.mac?.toString(),
      sandbox: args.netns,
    },
  ];
}

/** Masquerades the container's addresses, to be undone by the rollback. */
async function masquerade(
  call: Call<PtpConfig>,
  addresses: readonly Cidr[],
  { veth, rollback }: { veth: ConnectedVeth; rollback: Rollback },
): Promise<void> {
  const { setUpMasquerade, tearDownMasquerade } = await import(
    "../_shared/masquerade/mod.ts"
  );
  const wanted = masqueradeOf(call);
  // Whoever has left the cable may have left rules for other addresses too.
  if (veth.isReplacement) await tearDownMasquerade(wanted, undefined);
  rollback.onFailure(
    "remove the masquerade",
    () => tearDownMasquerade(wanted, addresses.map(({ ip }) => ip)),
  );
  await setUpMasquerade(wanted, addresses);
}

async function endMasquerade(call: Call<PtpConfig>): Promise<void> {
  const { tearDownMasquerade } = await import("../_shared/masquerade/mod.ts");
  const prevResult = readablePrevResult(call);
  const addresses = prevResult && addressesOf(prevResult, call.args);
  await tearDownMasquerade(
    masqueradeOf(call),
    addresses?.map(({ ip }) => ip),
  );
}

function masqueradeOf(
  { hostNetns, network, args, config }: Call<PtpConfig>,
): Masquerade {
  const { containerId, ifName } = args;
  const owner = { network, containerId, ifName };
  return { hostNetns, owner, backend: config.ipMasqBackend };
}
