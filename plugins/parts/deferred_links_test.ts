import { assertEquals, assertThrows } from "@std/assert";
import { DeferredLinks } from "../../cni/deferred_links.ts";
import type { Call } from "../../cni/plugin.ts";
import { Rtnl } from "../../ffi/rtnl/mod.ts";
import { rootTest } from "../../testing/capabilities.ts";
import { linkNames } from "../../testing/ip_json.ts";
import { TestHosts } from "../../testing/test_hosts.ts";
import { deleteOrDefer, deleteWithDeferred } from "./deferred_links.ts";

/** Returns the parts of a call that matter here. */
function callOn(hosts: TestHosts, deferredLinks?: DeferredLinks): Call {
  const call: Pick<Call, "deferredLinks" | "hostNetns"> = {
    deferredLinks,
    hostNetns: hosts.host.path,
  };
  return call as Call;
}

rootTest("deleteOrDefer() deletes at once if nothing follows", async () => {
  using hosts = TestHosts.create();
  using host = Rtnl.open(hosts.host.path);
  const add = (name: string): { index: number; name: string } =>
    host.link.addIfb({ name, mtu: 1500, transmitQueueLength: 1 });
  deleteOrDefer(host, add("a"), callOn(hosts));
  assertEquals(linkNames(hosts.host), ["lo"]);
  const links = new DeferredLinks();
  deleteOrDefer(host, add("b"), callOn(hosts, links));
  assertEquals(linkNames(hosts.host), ["lo", "b"]);
  await links.removeAll();
  assertEquals(linkNames(hosts.host), ["lo"]);
});

rootTest("deleteWithDeferred() goes on after a failure", () => {
  using hosts = TestHosts.create();
  using host = Rtnl.open(hosts.host.path);
  const links = new DeferredLinks();
  const call = callOn(hosts, links);
  const add = (name: string): { index: number; name: string } =>
    host.link.addIfb({ name, mtu: 1500, transmitQueueLength: 1 });
  deleteOrDefer(host, host.link.get("lo"), call);
  deleteOrDefer(host, add("a"), call);
  const last = add("b");
  assertThrows(
    () => deleteWithDeferred(host, last, call),
    Error,
    "EOPNOTSUPP",
  );
  assertEquals(linkNames(hosts.host), ["lo"]);
  deleteOrDefer(host, add("c"), call);
  deleteWithDeferred(host, undefined, call);
  assertEquals(linkNames(hosts.host), ["lo"]);
});
