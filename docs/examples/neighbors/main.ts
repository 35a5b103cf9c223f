import {
  CniError,
  definePlugin,
  ErrorCode,
  findSandbox,
  ipSchema,
  isErrno,
  Mac,
  NeighborRequests,
  netConf,
  openSandbox,
  parsedText,
  type Result,
  Rollback,
  runMain,
  SPEC_VERSIONS,
} from "@cni/plugins";
import * as z from "zod/mini";

/** Adds permanent neighbour entries: fixed MACs for IP addresses. */
export const neighbors = definePlugin({
  name: "neighbors",
  versions: SPEC_VERSIONS,
  configSchema: () => {
    const neighbor = z.object({ ip: ipSchema(), mac: parsedText(Mac.parse) });
    return netConf({ neighbors: z._default(z.array(neighbor), []) });
  },

  async add(call): Promise<Result> {
    const { args, config, log, prevResult } = call;
    if (prevResult === undefined) {
      const why = "neighbors must be called as chained plugin";
      throw new CniError(ErrorCode.InvalidNetworkConfig, why);
    }
    using sandbox = openSandbox(args);
    const table = new NeighborRequests(sandbox.socket);
    const { index } = sandbox.link.get(args.ifName);
    await using rollback = new Rollback(log);
    for (const { ip, mac } of config.neighbors) {
      table.replace(index, ip, mac);
      rollback.onFailure(`forget ${ip}`, () => table.del(index, ip));
    }
    rollback.commit();
    return prevResult;
  },

  check({ args, config }): void {
    using sandbox = openSandbox(args);
    const ifindex = sandbox.link.get(args.ifName).index;
    const known = new NeighborRequests(sandbox.socket).list({ ifindex });
    for (const { ip, mac } of config.neighbors) {
      const found = known.find((neighbor) => neighbor.ip.equals(ip));
      if (found?.isPermanent && found.mac?.equals(mac)) continue;
      throw new Error(`Neighbor ${ip} of "${args.ifName}" is not ${mac}`);
    }
  },

  del(call): void {
    using sandbox = findSandbox(call);
    const link = sandbox?.link.find(call.args.ifName);
    // The neighbour entries were deleted with the sandbox or the interface.
    if (sandbox === undefined || link === undefined) return;
    const table = new NeighborRequests(sandbox.socket);
    for (const { ip } of call.config.neighbors) {
      try {
        table.del(link.index, ip);
      } catch (error) {
        if (!isErrno(error, "ENOENT")) throw error;
      }
    }
  },
});

if (import.meta.main) await runMain(neighbors);
