import { assertEquals, assertStringIncludes } from "@std/assert";
import { rootTest } from "../../testing/capabilities.ts";
import { ipJson } from "../../testing/ip_json.ts";
import { DEVICE, DeviceScene } from "./testing.ts";
import { testFaultsOfAdd } from "../../tests/_harness/fault_steps.ts";
import type { Keys } from "../../tests/_harness/plugin_scene.ts";

/** A device with addresses, routes and rules on the host. */
function makeScene(keys: Keys = {}): DeviceScene {
  const scene = new DeviceScene(
    { useInterfaceNetwork: true, ...keys },
    { hasIpam: false, isUp: true },
  );
  for (
    const command of [
      "address add 192.0.2.5/24 dev ens5",
      "address add 2001:db8:9::5/64 dev ens5 nodad",
      "route add 198.51.100.0/24 via 192.0.2.1 dev ens5 metric 7",
      "route add default via 192.0.2.1 dev ens5",
      "route add default via 192.0.2.1 dev ens5 table 100",
      "route add 2001:db8:a::/64 via 2001:db8:9::1 dev ens5",
      "nexthop add id 5 via 192.0.2.1 dev ens5",
      "route add 10.8.0.0/16 nhid 5",
      "nexthop add id 6 via 2001:db8:9::1 dev ens5",
      "route add 2001:db8:b::/64 nhid 6",
      "rule add from 192.0.2.5 lookup 100 priority 500",
      "rule add from 203.0.113.9 lookup 100 priority 501",
    ]
  ) scene.ip(command);
  return scene;
}

/** Lists the network of a device, without what the kernel adds by itself. */
function networkOf(
  { hosts: { host, sandbox } }: DeviceScene,
  where: "host" | "sandbox",
): unknown {
  const netns = where === "host" ? host : sandbox;
  const name = where === "host" ? DEVICE : "eth0";
  const [link] = ipJson(netns, "address", "show", name);
  const routes = ["-4", "-6"].flatMap((family) =>
    ipJson(netns, family, "route", "show", "table", "all", "dev", name)
  );
  return {
    isUp: link.flags.includes("UP"),
    addresses: link.addr_info
      .filter(({ scope }: Keys) => scope === "global")
      .map(({ local, prefixlen }: Keys) => `${local}/${prefixlen}`),
    routes: routes.filter(({ type, dst }: Keys) =>
      type === undefined && !String(dst).startsWith("fe80") &&
      !String(dst).startsWith("ff00")
    ).map(({ dst, gateway, metric, table }: Keys) =>
      [dst, gateway, metric, table].join(" ")
    ).sort(),
  };
}

function rulesOf({ hosts: { sandbox } }: DeviceScene): unknown[] {
  return ipJson(sandbox, "rule").filter(({ src }: Keys) => src !== "all")
    .map(({ src, table, priority }: Keys) => [src, table, priority]);
}

rootTest(
  "host-device gives the host's network to the container, and restores it",
  async () => {
    using scene = makeScene();
    const before = networkOf(scene, "host");
    const { json: prevResult } = await scene.succeed("ADD");
    assertEquals(networkOf(scene, "sandbox"), before);
    assertEquals(rulesOf(scene), [["192.0.2.5", "100", 500]]);
    assertEquals(
      prevResult.ips.map(({ address }: Keys) => address),
      ["192.0.2.5/24", "2001:db8:9::5/64"],
    );
    assertEquals(prevResult.routes.length, 6);
    await scene.succeed("CHECK", { prevResult });
    scene.ipInside("rule del priority 500");
    const text = "The container lacks rule from 192.0.2.5/32 lookup 100";
    await scene.fail("CHECK", [999, text], { prevResult });
    scene.ipInside("rule add from 192.0.2.5 lookup 100 priority 500");
    await scene.succeed("DEL", { prevResult });
    assertEquals(networkOf(scene, "host"), before);
    assertEquals(rulesOf(scene), []);
  },
);

rootTest(
  "host-device returns leased addresses for the rest of their leases",
  async () => {
    using scene = makeScene();
    const lease = (address: string, valid: number, preferred: number): void =>
      scene.ip(
        `address add ${address}/24 dev ens5 valid_lft ${valid} preferred_lft ${preferred}`,
      );
    lease("192.0.2.6", 1000, 500);
    lease("192.0.2.7", 1, 1);
    const { json: prevResult } = await scene.succeed("ADD");
    await new Promise((done) => setTimeout(done, 1100));
    const { exitCode, stderr } = await scene.run("DEL", { prevResult });
    assertEquals(exitCode, 0);
    assertStringIncludes(stderr, "Not restoring address 192.0.2.7/24");
    const [link] = ipJson(scene.hosts.host, "-4", "address", "show", DEVICE);
    const left = link.addr_info.map((one: Keys) => [
      one["local"],
      Number(one["valid_life_time"]) <= 999,
      Number(one["preferred_life_time"]) <= 499,
    ]);
    assertEquals(left, [
      ["192.0.2.5", false, false],
      ["192.0.2.6", true, true],
    ]);
  },
);

rootTest(
  "host-device adds the IPAM addresses to the addresses of the host",
  async () => {
    using scene = makeScene();
    const { hosts } = scene;
    const ipam = hosts.hostLocal("10.1.2.0/24");
    const { json } = await scene.succeed("ADD", { ipam });
    assertEquals(
      json.ips.map(({ address }: Keys) => address),
      ["10.1.2.2/24", "192.0.2.5/24", "2001:db8:9::5/64"],
    );
    await scene.succeed("CHECK", { ipam, prevResult: json });
    await scene.succeed("DEL", { ipam });
    assertEquals(hosts.leases(), []);
  },
);

rootTest("host-device reads no network from a DPDK device", async () => {
  const pciBusID = "0000:00:1f.6";
  using scene = new DeviceScene({
    ...{ device: undefined, pciBusID, useInterfaceNetwork: true },
  });
  scene.addSysfs("bus/pci/drivers/vfio-pci");
  scene.addSysfs(
    `bus/pci/devices/${pciBusID}/driver`,
    "../../drivers/vfio-pci",
  );
  const text = "useInterfaceNetwork is not supported for dpdk-bound devices";
  await scene.fail("ADD", [7, text]);
});

testFaultsOfAdd("host-device", "with the network of the host", {
  make: makeScene,
  atLeast: 14,
  optional:
    /^write .*\/net\/ipv[46]\/conf\/eth0\/(arp_notify|ndisc_notify|accept_dad|keep_addr_on_down)$/,
});
