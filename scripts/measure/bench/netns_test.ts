import { assert } from "@std/assert";
import { Rtnl } from "../../../ffi/rtnl/mod.ts";
import { rootTest } from "../../../testing/capabilities.ts";
import { awaitTeardown, makeNetns } from "./netns.ts";

rootTest("makeNetns() brings the loopback up", () => {
  using netns = makeNetns();
  using rtnl = Rtnl.open(netns.path);
  assert(rtnl.link.get("lo").isUp);
});

rootTest("awaitTeardown() waits until closed namespaces are gone", () => {
  using host = makeNetns();
  using rtnl = Rtnl.open(host.path);
  for (let count = 0; count < 20; count++) {
    using netns = makeNetns();
    const peer = { netns, name: "eth0" };
    rtnl.link.addVeth({ name: `veth${count}`, peer });
  }
  awaitTeardown();
  const left = rtnl.link.list().filter(({ name }) => name !== "lo");
  assert(left.length === 0, left.map(({ name }) => name).join());
});
