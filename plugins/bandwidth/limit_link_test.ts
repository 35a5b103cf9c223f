import { assertEquals } from "@std/assert";
import { Rtnl } from "../../ffi/rtnl/mod.ts";
import type { Link } from "../../ffi/rtnl/link.ts";
import { Parent, TrafficControl } from "../../ffi/rtnl/traffic_control.ts";
import type {
  NewQdisc,
  TokenBucket,
} from "../../ffi/rtnl/traffic_control_qdisc.ts";
import { rootTest } from "../../testing/capabilities.ts";
import { runIn } from "../../testing/ip_json.ts";
import { TestHosts } from "../../testing/test_hosts.ts";
import { limitLink, type LinkLimit, unlimitLink } from "./limit_link.ts";
import { bucketOf } from "./token_bucket.ts";
import { eachRow, testRows } from "../../tests/_harness/table.ts";

function limitOf(bitsPerSecond: number, burstBits: number): LinkLimit {
  const bucket = bucketOf({ bitsPerSecond, burstBits }, 1500);
  return { bucket, scope: undefined, remote: "source" };
}

/** An old kernel, which truncates ticks that exceed 32 bits in nanoseconds. */
class CuttingKernel {
  bucket: TokenBucket | undefined;
  readonly qdisc = {
    add: (qdisc: NewQdisc): void => this.#take(qdisc),
    replace: (qdisc: NewQdisc): void => this.#take(qdisc),
    find: (): { bucket: TokenBucket | undefined } => ({ bucket: this.bucket }),
  };

  #take(qdisc: NewQdisc): void {
    if (qdisc.kind !== "tbf") throw new Error(`${qdisc.kind} is unknown`);
    const { bucket } = qdisc;
    this.bucket = bucket.burstBytes === undefined
      ? { ...bucket, bufferTicks: Math.min(bucket.bufferTicks, 2 ** 26 - 1) }
      : bucket;
  }
}

testRows("limitLink() sends bytes if the kernel truncates a burst", [
  ["a short burst", limitOf(8e6, 8e6), undefined],
  ["a long burst", limitOf(10e6, 2 ** 31 - 1), 2 ** 28 - 1],
  ["a burst beyond all ticks", limitOf(1e6, 2 ** 31 - 1), 2 ** 28 - 1],
], ([, limit, burst]: [string, LinkLimit, number | undefined]) => {
  const kernel = new CuttingKernel();
  const link = { index: 2, name: "veth0" } as Link;
  limitLink(kernel as unknown as TrafficControl, link, limit);
  assertEquals(kernel.bucket?.burstBytes, burst);
});

rootTest("unlimitLink() removes this project's limits only", async (t) => {
  const rows: [name: string, qdisc: string, isOurs: boolean][] = [
    ["none", "", false],
    ["tbf", "handle 1: tbf rate 1mbit burst 10k limit 10k", true],
    ["htb", "handle 1: htb", true],
    ["htb with another's classes", "handle 1: htb", false],
    ["another handle", "handle 2: htb", false],
    ["another kind", "handle 1: bfifo", false],
  ];
  await eachRow(t, rows, ([name, qdisc, isOurs]) => {
    using hosts = TestHosts.create();
    using rtnl = Rtnl.open(hosts.host.path);
    const { index } = rtnl.link.addIfb({
      name: "ifb0",
      mtu: 1500,
      transmitQueueLength: 0,
    });
    if (qdisc !== "") {
      const args = `qdisc add dev ifb0 root ${qdisc}`.split(" ");
      runIn(hosts.host, "tc", ...args);
    }
    const traffic = new TrafficControl(rtnl.socket);
    if (name === "htb with another's classes") {
      const args = "class add dev ifb0 parent 1: classid 1:10 htb rate 1mbit";
      runIn(hosts.host, "tc", ...args.split(" "));
    }
    const before = traffic.qdisc.find(index, Parent.Root);
    assertEquals(unlimitLink(traffic, index), isOurs);
    const after = traffic.qdisc.find(index, Parent.Root);
    assertEquals(after?.kind, isOurs ? "noqueue" : before?.kind);
  });
});
