import { assertEquals } from "@std/assert";
import { Rtnl } from "../../ffi/rtnl/mod.ts";
import { rootTest } from "../../testing/capabilities.ts";
import { runIn } from "../../testing/ip_json.ts";
import { TestHosts } from "../../testing/test_hosts.ts";
import { eventually } from "../../tests/_harness/eventually.ts";
import { listUplinks } from "../node/routers.ts";
import { findWithoutCarrier } from "./uplinks.ts";

rootTest(
  "a default route with two next hops has two uplinks",
  async (t) => {
    using hosts = TestHosts.create();
    const { host } = hosts;
    const ip = (line: string): unknown => runIn(host, "ip", ...line.split(" "));
    for (
      const [name, address] of [["up1", "192.0.2.1"], ["up2", "198.51.100.1"]]
    ) {
      ip(`link add ${name} type veth peer name ${name}-peer`);
      ip(`link set ${name}-peer up`);
      ip(`link set ${name} up`);
      ip(`address add ${address}/24 dev ${name}`);
    }
    using rtnl = Rtnl.open(host.path);
    const node = { host: rtnl };
    const uplinks = (): string[] => listUplinks(node).map(({ name }) => name);
    const messages = (): string[] =>
      [...findWithoutCarrier(node)].map(({ message }) => message);
    await t.step("two next hops", () => {
      ip(
        "route add default nexthop via 192.0.2.2 dev up1 " +
          "nexthop via 198.51.100.2 dev up2",
      );
      ip("route add default via 192.0.2.3 dev up1 metric 7");
      assertEquals(uplinks(), ["up1", "up2"]);
    });
    await t.step("the second has no carrier", async () => {
      // The kernel tells the other end a little later.
      const shown = (expected: string): Promise<void> =>
        eventually(
          `doctor says "${expected}"`,
          () => messages().join() === expected,
        );
      await shown("");
      ip("link set up2-peer down");
      await shown('the uplink "up2" has no carrier');
      ip("link set up2-peer up");
      await shown("");
    });
  },
);
