/**
 * Pods of a real containerd, whose plugins are our executables.
 */

import { assertEquals, assertMatch, assertRejects } from "@std/assert";
import { allOf, rootTest } from "../testing/capabilities.ts";
import { findReached, linkNames } from "../testing/ip_json.ts";
import { TestHosts } from "../testing/test_hosts.ts";
import { actingRules } from "./_harness/acting_rules.ts";
import { Containerd, needsContainerd } from "./_harness/containerd.ts";
import { eventually } from "./_harness/eventually.ts";
import { needsInetRules } from "./_harness/rules.ts";

/** Lists links, rules and leases of pods. */
function stateOf(hosts: TestHosts): unknown {
  return {
    links: linkNames(hosts.host).filter((name) => name !== "cni0"),
    rules: actingRules(hosts.host).filter((rule) => /10\.88|8080/.test(rule)),
    leases: hosts.leases("pods"),
  };
}

rootTest(
  "containerd runs pods, survives a crash, and leaves nothing",
  allOf(needsContainerd, needsInetRules),
  async () => {
    using hosts = TestHosts.create();
    const { host } = hosts;
    const plugins = [
      {
        type: "bridge",
        bridge: "cni0",
        isGateway: true,
        ipMasq: true,
        ipam: hosts.hostLocal("10.88.0.0/24", "fd00:88::/64"),
      },
      { type: "portmap", capabilities: { portMappings: true } },
      { type: "firewall" },
    ];
    const before = stateOf(hosts);
    await using containerd = await Containerd.start(hosts, plugins);

    // Several pods at the same time, one of them with a host port.
    const ids = await Promise.all([
      containerd.run("web", [{ hostPort: 8080, containerPort: 80 }]),
      containerd.run("one"),
      containerd.run("two"),
    ]);
    const found = (await Promise.all(
      ids.map((id) => containerd.addresses(id)),
    )).flat();
    assertEquals(found.toSorted(), [
      ...["10.88.0.2", "10.88.0.3", "10.88.0.4"],
      ...["fd00:88::2", "fd00:88::3", "fd00:88::4"],
    ]);
    assertEquals(findReached(host, found), found);
    assertMatch(actingRules(host).join("\n"), /8080/);

    // A crash while a pod starts.
    const lost = assertRejects(() => containerd.run("lost"));
    await eventually("ADD runs", () => hosts.leases("pods").length > 6);
    await containerd.crash();
    await lost;
    assertEquals(findReached(host, found), found);

    // A plugin that fails: the error is the message, and DEL cleans up.
    const bad = { type: "tuning", sysctl: { "net.ipv4.no_such": "1" } };
    containerd.configure([...plugins, bad]);
    await eventually("containerd uses the new list", async () => {
      try {
        await containerd.remove(await containerd.run("bad"));
        return false;
      } catch (error) {
        assertMatch(
          String(error),
          /plugin type="tuning" failed \(add\): Cannot set sysctl net\/ipv4\/no_such to "1"/,
        );
        return true;
      }
    });
    containerd.configure(plugins);

    const known = await containerd.pods();
    assertEquals(ids.filter((id) => !known.includes(id)), []);
    await Promise.all(known.map((id) => containerd.remove(id)));
    // containerd 2 runs no DEL for a pod during whose ADD it crashed.
    containerd.cni("gc", "--orphans", "--yes", "--grace", "0s");
    assertEquals(stateOf(hosts), before);
  },
);
