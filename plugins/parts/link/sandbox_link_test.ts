import { assertEquals } from "@std/assert";
import { createLog } from "../../../base/log/log.ts";
import { Rollback } from "../../../base/rollback.ts";
import { unbatched } from "../../../cni/call/link_deletion.ts";
import { MacvlanMode } from "../../../ffi/rtnl/link_kinds.ts";
import { Rtnl } from "../../../ffi/rtnl/mod.ts";
import { rootTest } from "../../../testing/capabilities.ts";
import { linkNames } from "../../../testing/ip_json.ts";
import { TestHosts } from "../../../testing/test_hosts.ts";
import {
  type AddingLink,
  createSandboxLink,
  firstNameOf,
} from "./sandbox_link.ts";

const args = {
  containerId: "c1",
  ifName: "eth0",
  netns: "",
  args: "",
  path: "",
  netnsOverride: false,
};

rootTest("createSandboxLink() replaces a link, and is undone", async () => {
  using hosts = TestHosts.create();
  using host = Rtnl.open(hosts.host.path);
  using sandbox = Rtnl.open(hosts.sandbox.path);
  const lower = host.link.addIfb({
    name: "eth0",
    mtu: 1400,
    transmitQueueLength: 1,
  });
  const call = { network: "net1", args, linkDeletion: unbatched };
  const wanted = {
    info: { kind: "macvlan", data: { mode: MacvlanMode.Private } },
    lowerIndex: lower.index,
  } as const;
  {
    await using rollback = new Rollback(createLog({}, () => {}));
    const adding: AddingLink = { call, sandbox, rollback };
    const name = firstNameOf({
      network: "net1",
      containerId: "c1",
      ifName: "eth0",
    });
    host.link.addElsewhere({ ...wanted, netns: sandbox.netns, name });
    const link = createSandboxLink(host, adding, wanted);
    assertEquals(linkNames(hosts.sandbox), ["lo", "eth0"]);
    assertEquals([link.name, link.alias], ["eth0", "cni/net1/c1/eth0"]);
    assertEquals([link.data, link.mtu], [{ kind: "macvlan", mode: 1 }, 1400]);
    assertEquals([link.linkIndex, link.isUp], [lower.index, false]);
  }
  assertEquals(linkNames(hosts.sandbox), ["lo"]);
});
