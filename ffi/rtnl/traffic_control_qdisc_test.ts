import { assert, assertEquals } from "@std/assert";
import { rootTest } from "../../testing/capabilities.ts";
import { ControlledLink, errnoOf } from "./testing.ts";
import { runIn } from "../../testing/ip_json.ts";
import { tcJson } from "../../plugins/bandwidth/testing/limited_pair.ts";
import { handleOf, Parent } from "./traffic_control.ts";
import type { QdiscSettings } from "./traffic_control_qdisc.ts";
import { eachRow } from "../../tests/_harness/table.ts";

const BUCKET = {
  bytesPerSecond: 1_250_000,
  bufferTicks: 1_280_000,
  limitBytes: 133_650,
};
const TBF = { kind: "tbf", bucket: BUCKET } as const;
const HTB = { kind: "htb", defaultClass: 0x30 } as const;

rootTest("QdiscRequests.add() adds what tc would add", async (t) => {
  const rows: [name: string, settings: QdiscSettings, tc: string][] = [
    ["tbf", TBF, "tbf rate 10mbit burst 102400 limit 133650"],
    [
      "tbf above 32 bits",
      {
        kind: "tbf",
        bucket: { ...BUCKET, bytesPerSecond: 40e9, bufferTicks: 40 },
      },
      "tbf rate 320gbit burst 102400 limit 133650",
    ],
    ["htb", HTB, "htb default 30"],
    ["bfifo", { kind: "bfifo", limitBytes: 7000 }, "bfifo limit 7000"],
  ];
  await eachRow(t, rows, ([, settings, tc]) => {
    using link = new ControlledLink();
    const { traffic, ifindex } = link;
    link.addRoot(settings);
    const ours = link.tc("qdisc", "show", "root");
    traffic.qdisc.del(ifindex, Parent.Root);
    runIn(
      link.host,
      "tc",
      ..."qdisc add dev v0 root handle 1:".split(" "),
      ...tc.split(" "),
    );
    assertEquals(ours, link.tc("qdisc", "show", "root"));
  });
  await eachRow(t, ["ingress", "clsact"] as const, (kind) => {
    using link = new ControlledLink();
    const { traffic, ifindex } = link;
    traffic.qdisc.add({ ifindex, parent: Parent.Ingress, kind });
    const found = traffic.qdisc.find(ifindex, Parent.Ingress);
    assertEquals([found?.kind, found?.handle], [kind, handleOf(0xffff)]);
    const kinds = tcJson(link.host, "qdisc", "show", "dev", "v0")
      .map((qdisc) => qdisc.kind);
    assertEquals(kinds, ["noqueue", kind]);
  });
});

rootTest("QdiscRequests.add() takes a burst that ticks cannot tell", () => {
  using link = new ControlledLink();
  const bucket = { ...BUCKET, bufferTicks: 7, burstBytes: 268_435_455 };
  link.addRoot({ kind: "tbf", bucket });
  const [{ options }] = tcJson(link.host, "qdisc", "show", "dev", "v0");
  // tc derives the burst from the ticks that the kernel reports.
  assert(Math.abs(options.burst - 268_435_455) < 3, `${options.burst}`);
});

rootTest("QdiscRequests adds, finds, lists, replaces and deletes", () => {
  using link = new ControlledLink();
  const { traffic, ifindex } = link;
  const { qdisc } = traffic;
  const root = { ifindex, parent: Parent.Root, handle: handleOf(1) };
  assertEquals(qdisc.find(ifindex, Parent.Root)?.handle, 0);
  assertEquals(qdisc.find(ifindex, Parent.Ingress), undefined);
  assertEquals(errnoOf(() => qdisc.find(999, Parent.Root)), "ENODEV");
  assertEquals(errnoOf(() => qdisc.del(ifindex, Parent.Root)), "ENOENT");

  link.addRoot(TBF);
  const found = qdisc.find(ifindex, Parent.Root);
  assertEquals(found, { ...root, ...TBF, defaultClass: undefined });
  assertEquals(qdisc.list(ifindex), [found]);
  assert(qdisc.list().some((one) => one.ifindex === link.other));
  assertEquals(errnoOf(() => link.addRoot(TBF)), "EEXIST");
  assertEquals(errnoOf(() => link.addRoot(HTB)), "EEXIST");

  const bucket = { ...BUCKET, bytesPerSecond: 8e9 };
  qdisc.replace({ ...root, kind: "tbf", bucket });
  assertEquals(qdisc.find(ifindex, Parent.Root)?.bucket, bucket);
  assertEquals(errnoOf(() => qdisc.replace({ ...root, ...HTB })), "EINVAL");

  qdisc.del(ifindex, Parent.Root);
  assertEquals(qdisc.find(ifindex, Parent.Root)?.kind, "noqueue");
  qdisc.replace({ ...root, ...HTB });
  assertEquals(qdisc.find(ifindex, Parent.Root)?.defaultClass, 0x30);
});
