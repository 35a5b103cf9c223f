import { assertEquals } from "@std/assert";
import { rootTest } from "../../testing/capabilities.ts";
import { runIn } from "../../testing/ip_json.ts";
import { TestHosts } from "../../testing/test_hosts.ts";
import { eventually } from "../../tests/_harness/eventually.ts";
import { NetNs } from "../netns.ts";
import { AddressChanges } from "./address_changes.ts";

rootTest("AddressChanges hears the namespaces that it follows", async () => {
  using hosts = TestHosts.create();
  const { host, sandbox } = hosts;
  const stranger = hosts.addNetns();
  const change = (netns: NetNs, ...args: string[]): void =>
    void runIn(netns, "ip", ...args, "dev", "lo");
  using changes = AddressChanges.open(host.path);
  change(sandbox, "address", "add", "10.9.0.1/24");
  assertEquals(changes.take(), false);
  changes.follow(sandbox.path);
  changes.follow(sandbox.path);
  assertEquals(changes.take(), false);
  for (
    const [verb, what] of [
      ["add", "10.9.0.2/24"],
      ["del", "10.9.0.2/24"],
      ["add", "2001:db8::1/64"],
    ] as const
  ) {
    change(sandbox, "address", verb, what);
    await eventually(`it hears ${verb} ${what}`, () => changes.take());
  }
  change(sandbox, "-6", "route", "add", "default");
  await eventually("it hears a route", () => changes.take());
  assertEquals(changes.take(), false);
  change(stranger, "address", "add", "10.9.0.1/24");
  assertEquals(changes.take(), false);
});

rootTest("AddressChanges keeps no namespace alive", async () => {
  using hosts = TestHosts.create();
  using changes = AddressChanges.open(hosts.host.path);
  const gone = NetNs.create();
  changes.follow(gone.path);
  // A veth pair ends with the namespace of one of its ends.
  const pair = `link add up0 type veth peer name eth0 netns ${gone.path}`;
  runIn(hosts.host, "ip", ...pair.split(" "));
  gone[Symbol.dispose]();
  const isThere = (): boolean =>
    runIn(hosts.host, "ip", "-o", "link").includes("up0");
  await eventually("the namespace is gone", () => !isThere());
});
