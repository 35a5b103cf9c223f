/**
 * Links of containers on a node whose udev gives links MACs
 * (`MACAddressPolicy=persistent`, the default of systemd).
 */

import { assert, assertEquals, assertNotEquals } from "@std/assert";
import { Rtnl } from "../ffi/rtnl/mod.ts";
import { requireRoot } from "../testing/capabilities.ts";
import { TestHosts } from "../testing/test_hosts.ts";
import { assertSuccess } from "./_harness/call_outcome.ts";
import { needsUdev, Udevd, withUdev } from "./_harness/udevd.ts";

/** udevd is a process that ends after its test. */
const sanitize = { sanitizeOps: false, sanitizeResources: false };

Deno.test({
  ...requireRoot("udevd changes MACs that the kernel has chosen", needsUdev),
  ...sanitize,
  fn(): void {
    using hosts = TestHosts.create();
    using udevd = new Udevd(hosts.host);
    using rtnl = Rtnl.open(hosts.host.path);
    const peer = { netns: hosts.sandbox, name: "eth0" };
    rtnl.link.addVeth({ name: "veth0", peer });
    udevd.settle();
    const first = rtnl.link.get("veth0").mac;
    rtnl.link.ensureGone("veth0");
    rtnl.link.addVeth({ name: "veth0", peer });
    udevd.settle();
    assertEquals(rtnl.link.get("veth0").mac, first);
    assert(first);
  },
});

for (const type of ["ptp", "bridge"]) {
  Deno.test({
    ...requireRoot(`${type} returns MACs that udev does not change`, needsUdev),
    ...sanitize,
    fn: () =>
      withUdev(async () => {
        using hosts = TestHosts.create();
        const ipam = hosts.hostLocal("10.1.2.0/24");
        const config = { cniVersion: "1.1.0", name: "net1", type, ipam };
        const added = await hosts.run(type, "ADD", config);
        assertSuccess(added);
        using host = Rtnl.open(hosts.host.path);
        const onHost = added.json.interfaces
          .filter(({ sandbox }: { sandbox?: string }) => !sandbox);
        assertNotEquals(onHost, []);
        for (const { name, mac } of onHost) {
          assertEquals([name, `${host.link.get(name).mac}`], [name, mac]);
        }
        const prevResult = added.json;
        assertSuccess(
          await hosts.run(type, "CHECK", { ...config, prevResult }),
        );
        assertSuccess(await hosts.run(type, "DEL", config));
      }),
  });
}
