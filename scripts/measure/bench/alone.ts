/**
 * What is measured without attachments: the start of processes that have next to
 * nothing to do, and what the kernel's part of ptp costs, which are the same
 * requests from a process that runs already.
 *
 * @module
 */

import type { NetNs } from "../../../ffi/netns.ts";
import { Rtnl } from "../../../ffi/rtnl/mod.ts";
import { Cidr } from "../../../net/cidr.ts";
import { Ip } from "../../../net/ip.ts";
import { ensureForwarding } from "../../../plugins/parts/address/ip_forward.ts";
import { connectVeth, settleVeth } from "../../../plugins/parts/link/veth.ts";
import {
  configureContainerEnd,
  routeToContainer,
} from "../../../plugins/ptp/routing.ts";
import type { Call, Outcome } from "./call.ts";
import { makeNetns, pause } from "./netns.ts";
import { KERNEL_REQUESTS, START } from "./plan.ts";
import { ownCpuMs } from "./process.ts";
import { callForVersions } from "./route.ts";
import { hasExecutable } from "./subject.ts";
import { type Measures, Recording } from "./summary.ts";
import {
  attempt,
  type CellResult,
  SETTLE_MS,
  type Workbench,
} from "./workbench.ts";

/** The executables that get VERSION, if they exist. */
const EXECUTABLES = [
  "host-local",
  "ptp",
  "bridge",
  "portmap",
  "bandwidth",
  "sbr",
  "chain",
  "multus",
] as const;

/** A process that is started. */
interface Start {
  readonly who: string;
  readonly step: string;
  readonly call: Call;
}

/** Measures starts, of all in turns. */
export function measureStarts(bench: Workbench): CellResult {
  bench.progress(START);
  using host = makeNetns();
  const recording = new Recording();
  const { runner, strace, rounds } = bench;
  let starts = [...listVersions(bench), startDeno(bench.directory)];
  const take = (run: (call: Call) => Outcome, isKept = true): void => {
    starts = starts.filter(({ who, step, call }) => {
      pause(SETTLE_MS);
      return attempt(bench, `${START}, ${who}, ${step}`, () => {
        const { measures } = run(call);
        if (isKept) recording.add(who, step, measures);
      });
    });
  };
  for (let round = -rounds.warmUp; round < rounds.single; round++) {
    take((call) => runner.runTimed(call, host), round >= 0);
  }
  for (let round = 0; round < rounds.peak; round++) {
    take((call) => runner.runForPeak(call, host));
  }
  if (strace) take((call) => runner.runTraced(call, host, strace));
  return { name: START, series: recording.list() };
}

function listVersions({ subjects }: Workbench): Start[] {
  return EXECUTABLES.flatMap((name) =>
    subjects.filter(({ bin }) => hasExecutable(bin, name))
      .map(({ name: who, bin }) => {
        const call = callForVersions(`${bin}/${name}`);
        return { who, step: `VERSION ${name}`, call };
      })
  );
}

/** Deno itself, with a program of one line: no executable of ours starts faster. */
function startDeno(directory: string): Start {
  const script = `${directory}/one_line.js`;
  const call: Call = {
    path: Deno.execPath(),
    args: ["run", "-A", "--no-config", "--no-lock", "--no-remote", script],
    env: { DENO_DIR: `${directory}/deno`, DENO_NO_UPDATE_CHECK: "1" },
    stdin: "",
    files: { [script]: "Deno.stdout.writeSync(new Uint8Array(1));\n" },
  };
  return { who: "deno", step: "run one line", call };
}

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
