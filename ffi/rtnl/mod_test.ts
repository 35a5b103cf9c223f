import { assertEquals, assertThrows } from "@std/assert";
import { rootTest } from "../../testing/capabilities.ts";
import { TestHosts } from "../../testing/test_hosts.ts";
import { isMissingNetns } from "../netns.ts";
import { Rtnl } from "./mod.ts";
import { NeighborRequests } from "./neighbor.ts";

rootTest("Rtnl.open() opens one namespace for all requests", () => {
  using hosts = TestHosts.create();
  using rtnl = Rtnl.open(hosts.sandbox.path);
  assertEquals(rtnl.netns.path, hosts.sandbox.path);
  assertEquals(rtnl.link.list().map(({ name }) => name), ["lo"]);
  assertEquals(rtnl.address.list({ family: 4 }).length, 1);
  assertEquals(rtnl.route.list(), []);
  assertEquals(new NeighborRequests(rtnl.socket).list({ family: 4 }), []);
});

rootTest("Rtnl.open() fails cleanly without a namespace", () => {
  using hosts = TestHosts.create();
  for (const path of [`${hosts.directory}/none`, hosts.directory]) {
    const error = assertThrows(() => Rtnl.open(path));
    assertEquals(isMissingNetns(error), true);
  }
});

rootTest("Rtnl closes once", () => {
  using hosts = TestHosts.create();
  const rtnl = Rtnl.open(hosts.sandbox.path);
  rtnl[Symbol.dispose]();
  rtnl[Symbol.dispose]();
  assertThrows(() => rtnl.link.list(), Error, "Cannot use a closed descriptor");
});
