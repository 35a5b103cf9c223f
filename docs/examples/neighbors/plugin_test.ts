import { assertEquals, assertStringIncludes } from "@std/assert";
import { ipJson, rootTest, runIn, TestHosts } from "@cni/plugins/testing";
import { neighbors } from "./main.ts";

rootTest("neighbors pins, checks and forgets a neighbour", async (t) => {
  using hosts = TestHosts.create();
  const network = { cniVersion: "1.1.0", name: "net1" };
  const ptp = await hosts.run("ptp", "ADD", {
    ...network,
    type: "ptp",
    ipam: hosts.hostLocal("10.1.2.0/24"),
  });
  const config = {
    ...network,
    type: "neighbors",
    neighbors: [{ ip: "10.1.2.200", mac: "02:00:5e:10:00:01" }],
    prevResult: ptp.json,
  };
  const pinned = (): unknown =>
    ipJson(hosts.sandbox, "neighbor", "show", "nud", "permanent", "dev", "eth0")
      .map(({ dst, lladdr }: Record<string, string>) => [dst, lladdr]);

  await t.step("ADD", async () => {
    const { exitCode, json } = await hosts.run(neighbors, "ADD", config);
    assertEquals([exitCode, json], [0, ptp.json]);
    assertEquals(pinned(), [["10.1.2.200", "02:00:5e:10:00:01"]]);
  });
  await t.step("CHECK", async () => {
    const { exitCode, stdout } = await hosts.run(neighbors, "CHECK", config);
    assertEquals([exitCode, stdout], [0, ""]);
  });
  await t.step("CHECK notices another MAC", async () => {
    const mac = ["lladdr", "02:00:5e:10:00:02", "dev", "eth0"];
    runIn(hosts.sandbox, "ip", "neighbor", "replace", "10.1.2.200", ...mac);
    const { json } = await hosts.run(neighbors, "CHECK", config);
    assertStringIncludes(json.msg, "is not 02:00:5e:10:00:01");
  });
  await t.step("DEL, also when nothing is left to delete", async () => {
    for (const _ of ["first", "again"]) {
      const { exitCode, stdout } = await hosts.run(neighbors, "DEL", config);
      assertEquals([exitCode, stdout], [0, ""]);
      assertEquals(pinned(), []);
    }
    const env = { CNI_NETNS: "/run/netns/no-such" };
    const { exitCode } = await hosts.run(neighbors, "DEL", config, { env });
    assertEquals(exitCode, 0);
  });
  await t.step("ADD leaves nothing behind if it fails", async () => {
    const off = "net.ipv6.conf.eth0.disable_ipv6=1";
    runIn(hosts.sandbox, "sysctl", "-qw", off);
    const [first] = config.neighbors;
    const both = [first, { ...first, ip: "2001:db8::200" }];
    const broken = { ...config, neighbors: both };
    const { json } = await hosts.run(neighbors, "ADD", broken);
    assertStringIncludes(json.msg, "IPv6 is disabled on this device");
    assertEquals(pinned(), []);
  });
});
