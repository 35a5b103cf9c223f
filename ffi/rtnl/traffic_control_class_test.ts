import { assertEquals } from "@std/assert";
import { rootTest } from "../../testing/capabilities.ts";
import { ControlledLink, errnoOf } from "./testing.ts";
import { handleOf, Parent } from "./traffic_control.ts";

rootTest("ClassRequests adds, lists, replaces and deletes classes", () => {
  using link = new ControlledLink();
  const { traffic, ifindex } = link;
  const shaped = {
    ifindex,
    parent: handleOf(1),
    handle: handleOf(1, 0x30),
    bytesPerSecond: 1_250_000,
    bufferTicks: 1_280_000,
    quantumBytes: 1514,
  };
  assertEquals(traffic.class.list(ifindex), []);
  assertEquals(errnoOf(() => traffic.class.add(shaped)), "ENOENT");
  link.addRoot({ kind: "htb", defaultClass: 0x30 });
  traffic.class.add(shaped);
  assertEquals(
    link.tc("class", "show"),
    "class htb 1:30 root prio 0 rate 10Mbit ceil 10Mbit burst 100Kb cburst 100Kb",
  );
  assertEquals(errnoOf(() => traffic.class.add(shaped)), "EEXIST");
  const fast = { ...shaped, bytesPerSecond: 100e9 };
  traffic.class.replace(fast);
  assertEquals(traffic.class.list(ifindex), [
    { ...fast, parent: Parent.Root },
  ]);
  traffic.class.del(ifindex, shaped.handle);
  assertEquals(traffic.class.list(ifindex), []);
});
