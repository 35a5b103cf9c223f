import {
  CniError,
  definePlugin,
  ErrorCode,
  findSandbox,
  isErrno,
  netConf,
  openSandbox,
  type Result,
  runMain,
  SPEC_VERSIONS,
} from "@cni/plugins";
import { Parent, TrafficControl } from "@cni/plugins/traffic-control";
import * as z from "zod/mini";

/** A chained plugin with traffic control: what the container sends has a limit. */
export const ceiling = definePlugin({
  name: "ceiling",
  versions: SPEC_VERSIONS,
  configSchema: () =>
    netConf({ bytesPerSecond: z._default(z.int().check(z.positive()), 1e6) }),

  add({ args, config, prevResult }): Result {
    if (prevResult === undefined) {
      const why = "ceiling must be called as chained plugin";
      throw new CniError(ErrorCode.InvalidNetworkConfig, why);
    }
    using sandbox = openSandbox(args);
    const { index: ifindex } = sandbox.link.get(args.ifName);
    const { bytesPerSecond } = config;
    new TrafficControl(sandbox.socket).qdisc.add({
      ifindex,
      parent: Parent.Root,
      kind: "tbf",
      bucket: {
        bytesPerSecond,
        bufferTicks: 1e8 / 64, // 100 ms
        limitBytes: bytesPerSecond,
      },
    });
    return prevResult;
  },

  check({ args, config }): void {
    using sandbox = openSandbox(args);
    const { index } = sandbox.link.get(args.ifName);
    const { qdisc } = new TrafficControl(sandbox.socket);
    const { bucket } = qdisc.find(index, Parent.Root) ?? {};
    if (bucket?.bytesPerSecond === config.bytesPerSecond) return;
    throw new Error(
      `"${args.ifName}" has no limit of ${config.bytesPerSecond} bytes per second`,
    );
  },

  del(call): void {
    using sandbox = findSandbox(call);
    const link = sandbox?.link.find(call.args.ifName);
    if (sandbox === undefined || link === undefined) return;
    try {
      new TrafficControl(sandbox.socket).qdisc.del(link.index, Parent.Root);
    } catch (error) {
      if (!isErrno(error, "ENOENT", "EINVAL")) throw error;
    }
  },
});

if (import.meta.main) await runMain(ceiling);
