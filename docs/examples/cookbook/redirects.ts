import {
  CniError,
  definePlugin,
  ErrorCode,
  findSandbox,
  inNetns,
  netConf,
  openSandbox,
  readSysctl,
  type Result,
  runMain,
  SPEC_VERSIONS,
  writeSysctl,
} from "@cni/plugins";

/** A chained plugin that sets a sysctl: the interface ignores ICMP redirects. */
export const redirects = definePlugin({
  name: "redirects",
  versions: SPEC_VERSIONS,
  configSchema: () => netConf({}),

  add({ args, prevResult }): Result {
    if (prevResult === undefined) {
      const why = "redirects must be called as chained plugin";
      throw new CniError(ErrorCode.InvalidNetworkConfig, why);
    }
    using sandbox = openSandbox(args);
    inNetns(sandbox.netns, () => writeSysctl(keyOf(args.ifName), "0"));
    return prevResult;
  },

  check({ args }): void {
    using sandbox = openSandbox(args);
    const value = inNetns(
      sandbox.netns,
      () => readSysctl(keyOf(args.ifName)),
    );
    if (value !== "0") {
      throw new Error(`"${args.ifName}" accepts redirects`);
    }
  },

  // Only needed if the interface outlives the attachment.
  del(call): void {
    using sandbox = findSandbox(call);
    const { ifName } = call.args;
    if (sandbox?.link.find(ifName) === undefined) return;
    inNetns(sandbox.netns, () => writeSysctl(keyOf(ifName), "1"));
  },
});

function keyOf(ifName: string): string {
  return `net/ipv4/conf/${ifName}/accept_redirects`;
}

if (import.meta.main) await runMain(redirects);
