/**
 * What the kernel's part of ptp costs: the same requests, from a process that
 * runs already, in a loop.
 *
 * @module
 */

import { Rtnl } from "../../../ffi/rtnl/mod.ts";
import type { NetNs } from "../../../ffi/netns.ts";
import { Cidr } from "../../../net/cidr.ts";
import { Ip } from "../../../net/ip.ts";
import { ensureForwarding } from "../../../plugins/parts/ip_forward.ts";
import { connectVeth, settleVeth } from "../../../plugins/parts/veth.ts";
import {
  configureContainerEnd,
  routeToContainer,
} from "../../../plugins/ptp/routing.ts";
import type { Measures } from "./measures.ts";
import { makeNetns, pause } from "./netns.ts";
import { KERNEL_REQUESTS } from "./plan.ts";
import { ownCpuMs } from "./process.ts";
import { Recording } from "./recording.ts";
import { type CellResult, SETTLE_MS, type Workbench } from "./workbench.ts";

const ATTACHMENT = { network: "bench", containerId: "c", ifName: "eth0" };

/** Measures the requests of ADD and DEL. */
export function measureKernelRequests(
  { rounds, progress }: Pick<Workbench, "rounds" | "progress">,
): CellResult {
  progress(KERNEL_REQUESTS);
  using host = makeNetns();
  using sandboxes = new DisposableStack();
  const recording = new Recording();
  for (let round = -rounds.warmUp; round < rounds.single; round++) {
    const sandbox = sandboxes.use(makeNetns());
    pause(SETTLE_MS);
    const added = time(() => connect(host, sandbox));
    pause(SETTLE_MS);
    const deleted = time(() => disconnect(host, added.result));
    if (round < 0) continue;
    recording.add("kernel", "ADD", added.measures);
    recording.add("kernel", "DEL", deleted.measures);
  }
  return { name: KERNEL_REQUESTS, series: recording.list() };
}

function time<T>(work: () => T): { result: T; measures: Measures } {
  const cpuMs = ownCpuMs();
  const startMs = performance.now();
  const result = work();
  const wallMs = performance.now() - startMs;
  return { result, measures: { wallMs, cpuMs: ownCpuMs() - cpuMs } };
}

/** Does to the kernel what ptp's ADD does. */
function connect(hostNetns: NetNs, sandboxNetns: NetNs): number {
  using host = Rtnl.open(hostNetns.path);
  using sandbox = Rtnl.open(sandboxNetns.path);
  const address = Cidr.parse("10.22.0.2/16");
  const ips = [{ address, gateway: Ip.parse("10.22.0.1") }];
  const veth = connectVeth(host, sandbox, ATTACHMENT, {});
  const routes = [{ dst: Cidr.parse("0.0.0.0/0") }];
  configureContainerEnd(sandbox, veth.container, ips, routes);
  routeToContainer(host, veth.host, ips, () => false);
  settleVeth(host, sandbox, veth);
  ensureForwarding(host.netns, [address]);
  return veth.host.index;
}

/** Does to the kernel what ptp's DEL does. */
function disconnect(hostNetns: NetNs, ifindex: number): void {
  using host = Rtnl.open(hostNetns.path);
  host.link.ensureGone(ifindex);
}
