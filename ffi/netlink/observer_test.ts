import { assertEquals, assertThrows } from "@std/assert";
import { rootTest } from "../../testing/capabilities.ts";
import { TestHosts } from "../../testing/test_hosts.ts";
import { Rtnl } from "../rtnl/mod.ts";
import { observeNetlink } from "./observer.ts";

rootTest("an observer sees each exchange once, and its outcome", () => {
  using hosts = TestHosts.create();
  using rtnl = Rtnl.open(hosts.host.path);
  const seen: (string | boolean)[][] = [];
  observeNetlink((exchange, work) => {
    const { requests, isDump } = exchange;
    const names = requests.map(({ name }) => name).join(" ");
    const contents = requests.map(({ content }) =>
      JSON.stringify(content.attributes) ?? ""
    );
    try {
      const result = work();
      seen.push([names, isDump, contents.join(" "), "done"]);
      return result;
    } catch (error) {
      seen.push([names, isDump, contents.join(" "), "refused"]);
      throw error;
    }
  });
  try {
    rtnl.link.set(1, { mtu: 1400 });
    rtnl.address.list({ ifindex: 1 });
    assertThrows(() => rtnl.link.set(77, { mtu: 1400 }));
    rtnl.socket.attemptAll([
      () => rtnl.link.set(1, { mtu: 1500 }),
      () => rtnl.link.set(1, { isUp: true }),
    ]);
  } finally {
    observeNetlink(undefined);
  }
  rtnl.link.set(1, { mtu: 1400 });
  assertEquals(seen, [
    ["RTM_NEWLINK", false, '{"mtu":1400}', "done"],
    ["RTM_GETADDR", true, "", "done"],
    ["RTM_NEWLINK", false, '{"mtu":1400}', "refused"],
    ["RTM_NEWLINK RTM_NEWLINK", false, '{"mtu":1500} {}', "done"],
  ]);
});
