import {
  type Call,
  checkIfNameIsFree,
  definePlugin,
  findSandbox,
  netConf,
  openSandbox,
  type Result,
  Rollback,
  Rtnl,
  runMain,
  SPEC_VERSIONS,
  stableName,
  type TearDownStep,
  tryAll,
} from "@cni/plugins";

/** A main plugin: a veth pair with the addresses of the IPAM plugin. */
export const wire = definePlugin({
  name: "wire",
  versions: SPEC_VERSIONS,
  configSchema: () => netConf({}),

  async add(call): Promise<Result> {
    const { args, hostNetns, ipam, log } = call;
    using host = Rtnl.open(hostNetns);
    using sandbox = openSandbox(args);
    checkIfNameIsFree(sandbox, args.ifName);
    await using rollback = new Rollback(log);
    const lease = await ipam.add();
    rollback.onFailureLast("release the addresses", () => ipam.del());
    const name = hostEndOf(call);
    const peer = { netns: sandbox.netns, name: args.ifName };
    const { index: hostIndex } = host.link.addVeth({ name, peer });
    rollback.onFailure(`delete "${name}"`, () => {
      host.link.ensureGone(name);
    });
    host.link.set(hostIndex, { isUp: true });
    const { index: ifindex, mac } = sandbox.link.get(args.ifName);
    sandbox.link.set(ifindex, { isUp: true });
    for (const { address } of lease.ips) {
      sandbox.address.add({ ifindex, address });
    }
    rollback.commit();
    const own = { name: args.ifName, mac: `${mac}`, sandbox: args.netns };
    const ips = lease.ips.map((ip) => ({ ...ip, interface: 1 }));
    return { ...lease, ips, interfaces: [{ name }, own] };
  },

  async check(call): Promise<void> {
    using sandbox = openSandbox(call.args);
    sandbox.link.get(call.args.ifName);
    await call.ipam.check();
  },

  async del(call): Promise<void> {
    using sandbox = findSandbox(call);
    using host = Rtnl.open(call.hostNetns);
    // Once an address is allocated again, no old link must have it.
    const unlink: TearDownStep = ["delete the link", () => {
      host.link.ensureGone(hostEndOf(call));
      sandbox?.link.ensureGone(call.args.ifName);
    }];
    await tryAll([
      unlink,
      ["release the addresses", () => call.ipam.del(), unlink],
    ]);
  },

  gc: (call) => call.ipam.gc(),
  status: (call) => call.ipam.status(),
});

/** DEL finds the host's end by the same name. */
function hostEndOf({ network, args }: Call): string {
  return stableName("wire", network, args.containerId, args.ifName);
}

if (import.meta.main) await runMain(wire);
