/**
 * portmap: makes ports of the container reachable as ports of the host. Chained
 * after a plugin that gives the container an address.
 *
 * ```
 *     client                host                          container
 *       │          ┌────────────────────────┐          ┌─────────────┐
 *       └─ :8080 ──┼→ nat: 8080 → 10.1.2.5:80 ─────────┼→ 10.1.2.5:80│
 *                  └────────────────────────┘          └─────────────┘
 * ```
 *
 * The rules are in nftables or in iptables. DEL leaves nothing of the
 * attachment; the last DEL removes the table of nftables.
 *
 * @module
 */

import { CniError, describeError, ErrorCode } from "../../base/error.ts";
import { Rollback, tryAll } from "../../base/rollback.ts";
import { type Call, definePlugin, type Plugin } from "../../cni/plugin.ts";
import type { Result } from "../../cni/result/result.ts";
import { listVersionsFrom } from "../../cni/version.ts";
import { attachmentOf } from "../parts/owner/attachment.ts";
import {
  readablePrevResult,
  requirePrevResult,
} from "../parts/sandbox/prev_result.ts";
import type { Backend, PortmapHost } from "./backend.ts";
import { backends, chooseBackend } from "./choose_backend.ts";
import {
  type ForwardedPort,
  type Forwarding,
  forwardingOf,
  portsOf,
  refuseForeignOptions,
} from "./mapping.ts";
import type { PortmapConfig } from "./schema.ts";

/** The plugin. Source: containernetworking/plugins plugins/meta/portmap/main.go. */
export const portmap: Plugin<PortmapConfig> = definePlugin({
  name: "portmap",
  versions: listVersionsFrom("0.1.0"),
  configSchema: async () => (await import("./schema.ts")).portmapSchema(),

  async add(call): Promise<Result> {
    const prevResult = requirePrevResult(
      call,
      "must be called as chained plugin",
    );
    const forwarding = forwardingOf(call, prevResult);
    if (forwarding === undefined) return prevResult;
    const host = hostOf(call);
    const backend = await chosenBackend(host, call.config, forwarding);

    await using rollback = new Rollback(call.log);
    rollback.onFailure(
      "stop the forwarding",
      () =>
        endForwarding(
          host,
          (one, gone) => one.del(host, forwarding.owner, [], gone),
        ),
    );
    const others = await backend.add(host, forwarding);
    rollback.commit();
    const { deleteConnections } = await import("./connections.ts");
    deleteConnections(host, { added: portsOf(forwarding), ...others });
    return prevResult;
  },

  async check(call): Promise<void> {
    const prevResult = requirePrevResult(call, "Required prevResult missing");
    const forwarding = forwardingOf(call, prevResult);
    if (forwarding === undefined) return;
    const host = hostOf(call);
    const backend = await chosenBackend(host, call.config, forwarding);
    await backend.check(host, forwarding);
  },

  async repair(call): Promise<void> {
    const prevResult = requirePrevResult(call, "Required prevResult missing");
    const forwarding = forwardingOf(call, prevResult);
    if (forwarding === undefined) return;
    const host = hostOf(call);
    const backend = await chosenBackend(host, call.config, forwarding);
    const others = await backend.add(host, forwarding);
    const { deleteConnections } = await import("./connections.ts");
    deleteConnections(host, { added: portsOf(forwarding), ...others });
  },

  async del(call): Promise<void> {
    const host = hostOf(call);
    const owner = attachmentOf(call), named = namedPorts(call);
    await endForwarding(
      host,
      (backend, gone) => backend.del(host, owner, named, gone),
    );
  },

  async gc(call): Promise<void> {
    const { network, validAttachments } = call;
    if (validAttachments === undefined) return;
    const host = hostOf(call);
    await endForwarding(
      host,
      (backend, gone) => backend.gc(host, network, validAttachments, gone),
    );
  },

  async status(call): Promise<void> {
    const host = hostOf(call);
    const name = await chooseBackend(host);
    refuseForeignOptions(name, call.config);
    const backend = await backends[name]();
    try {
      await backend.status(host);
    } catch (error) {
      throw new CniError(
        ErrorCode.PluginNotAvailable,
        `Cannot forward ports with ${host.backend ?? "iptables or nftables"}`,
        { details: describeError(error) },
      );
    }
  },
});

function hostOf(call: Call<PortmapConfig>): PortmapHost {
  const { hostNetns, config: { backend }, context, log, signal } = call;
  return { hostNetns, backend, path: context.env["PATH"], log, signal };
}

async function chosenBackend(
  host: PortmapHost,
  config: PortmapConfig,
  { addresses }: Forwarding,
): Promise<Backend> {
  const families = addresses.map(({ family }) => family);
  const name = await chooseBackend(host, families);
  refuseForeignOptions(name, config);
  return await backends[name]();
}

/** Removes from all backends: the host's choice may have changed since ADD. */
async function endForwarding(
  host: PortmapHost,
  remove: (backend: Backend, gone: ForwardedPort[]) => Promise<void>,
): Promise<void> {
  const gone: ForwardedPort[] = [];
  try {
    await tryAll(
      Object.entries(backends).map(([name, load]) => [
        `remove the port mappings of ${name}`,
        async () => await remove(await load(), gone),
      ]),
    );
  } finally {
    if (gone.length > 0) {
      const { deleteConnections } = await import("./connections.ts");
      deleteConnections(host, { added: [], gone, kept: [] });
    }
  }
}

/** Lists the ports that the configuration of a DEL still names. */
function namedPorts(call: Call<PortmapConfig>): ForwardedPort[] {
  const prevResult = readablePrevResult(call);
  if (prevResult === undefined) return [];
  try {
    const forwarding = forwardingOf(call, prevResult);
    return forwarding === undefined ? [] : portsOf(forwarding);
  } catch (error) {
    call.log.warn("Ignoring the ports", { problem: describeError(error) });
    return [];
  }
}
