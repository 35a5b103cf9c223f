/**
 * host-device, as the Go plugin's own tests have it.
 *
 * Source: containernetworking/plugins
 * plugins/main/host-device/host-device_test.go.
 */

import { assert, assertEquals } from "@std/assert";
import { isAtLeast, SPEC_VERSIONS } from "../../cni/version.ts";
import { needsRoot } from "../../testing/capabilities.ts";
import { ipJson } from "../../testing/ip_json.ts";
import { conformance, type Row } from "../_harness/conformance.ts";
import {
  DEVICE,
  DEVICE_MAC,
  DeviceScene,
} from "../../plugins/host_device/testing.ts";
import { eachRow } from "../_harness/table.ts";

const PCI = "0000:00:1f.6";

/** Returns a scene in which the device is known by every key. */
function onBus(keys: Record<string, unknown>, hasIpam = true): DeviceScene {
  const scene = new DeviceScene({ device: undefined, ...keys }, { hasIpam });
  scene.addSysfs("bus/pci/drivers/e1000e");
  scene.addSysfs(`bus/pci/devices/${PCI}/driver`, "../../drivers/e1000e");
  scene.addSysfs(`bus/pci/devices/${PCI}/net/${DEVICE}`);
  scene.addSysfs(`devices/pci0000:00/${PCI}/net/${DEVICE}`);
  scene.addSysfs(`bus/auxiliary/devices/mlx5_core.sf.2/net/${DEVICE}`);
  return scene;
}

const KEYS: readonly [string, Record<string, unknown>][] = [
  ["device", { device: DEVICE }],
  ["hwaddr", { hwaddr: DEVICE_MAC }],
  ["kernelpath", { kernelpath: `/sys/devices/pci0000:00/${PCI}` }],
  ["pciBusID", { pciBusID: PCI }],
  ["deviceID, PCI", { runtimeConfig: { deviceID: PCI } }],
  ["deviceID, auxiliary", { runtimeConfig: { deviceID: "mlx5_core.sf.2" } }],
];

const EACH: Readonly<Record<string, (cniVersion: string) => Row>> = {
  "HD-1 ADD, CHECK and DEL with IPAM": (cniVersion) => async () => {
    using scene = new DeviceScene({ cniVersion });
    const { state } = scene;
    const { json: prevResult } = await scene.succeed("ADD");
    assertEquals([scene.inside, scene.outside], [["lo", "eth0"], []]);
    const [link] = ipJson(scene.hosts.sandbox, "address", "show", "eth0");
    assert(link.flags.includes("UP"), "it is down");
    assertEquals([link.ifalias, link.address], [DEVICE, DEVICE_MAC]);
    if (isAtLeast(cniVersion, "0.4.0")) {
      await scene.succeed("CHECK", { prevResult });
    }
    await scene.succeed("DEL", { prevResult });
    assertEquals(scene.state, state);
  },
};

const ONCE: Readonly<Record<string, Row>> = {
  "HD-2 ADD and DEL without IPAM": async (t) => {
    await eachRow(t, SPEC_VERSIONS, async (cniVersion) => {
      using scene = new DeviceScene({ cniVersion }, { hasIpam: false });
      if (!isAtLeast(cniVersion, "0.3.0")) {
        const text = "cannot convert: no valid IP addresses";
        return await scene.fail("ADD", [1, text]);
      }
      const { json } = await scene.succeed("ADD");
      const { path: sandbox } = scene.hosts.sandbox;
      const [{ mac }] = json.interfaces;
      assertEquals(json.interfaces, [{ name: "eth0", mac, sandbox }]);
      assertEquals([mac, json.ips ?? []], [DEVICE_MAC, []]);
      await scene.succeed("DEL");
      assertEquals(scene.outside, [DEVICE]);
    });
  },

  "HD-3 the device by each key, with and without IPAM": async (t) => {
    await eachRow(t, KEYS, async ([, keys]) => {
      for (const hasIpam of [true, false]) {
        using scene = onBus(keys, hasIpam);
        const { json: prevResult } = await scene.succeed("ADD");
        assertEquals(scene.inside, ["lo", "eth0"]);
        await scene.succeed("CHECK", { prevResult });
        await scene.succeed("DEL");
        assertEquals(scene.outside, [DEVICE]);
      }
    });
  },

  "HD-4 a device of DPDK is not moved": async () => {
    using scene = new DeviceScene({ device: undefined, pciBusID: PCI });
    scene.addSysfs("bus/pci/drivers/vfio-pci");
    scene.addSysfs(`bus/pci/devices/${PCI}/driver`, "../../drivers/vfio-pci");
    const { json: prevResult } = await scene.succeed("ADD");
    assertEquals([scene.inside, scene.outside], [["lo"], [DEVICE]]);
    assertEquals(prevResult.ips[0].address, "10.1.2.2/24");
    await scene.succeed("CHECK", { prevResult });
    await scene.succeed("DEL");
    assertEquals(scene.hosts.leases(), []);
  },

  "HD-5 a configuration without a device is refused": async () => {
    using scene = new DeviceScene({ device: undefined });
    const text =
      'specify either "device", "hwaddr", "kernelpath" or "pciBusID"';
    await scene.fail("ADD", [7, text]);
  },

  "HD-6 a link of the device's name on the host does not keep DEL from returning the device":
    async () => {
      using scene = new DeviceScene();
      await scene.succeed("ADD");
      scene.ip(`link add ${DEVICE} type ifb`);
      assertEquals((await scene.run("DEL")).exitCode, 0);
      assertEquals([scene.inside, scene.hosts.leases()], [["lo"], []]);
      const [link] = ipJson(scene.hosts.host, "link", "show", "dev0");
      assertEquals([link.address, link.ifalias], [DEVICE_MAC, DEVICE]);
    },

  "HD-7 the container may have a link of the device's name": async () => {
    using scene = new DeviceScene();
    scene.ipInside(`link add ${DEVICE} type ifb`);
    const { json: prevResult } = await scene.succeed("ADD");
    await scene.succeed("CHECK", { prevResult });
    await scene.succeed("DEL");
    assertEquals([scene.inside, scene.outside], [["lo", DEVICE], [DEVICE]]);
  },

  "HD-8 DEL without a namespace, and with the namespace gone": async (t) => {
    await eachRow(t, ["", "/run/netns/none"], async (netns) => {
      using scene = new DeviceScene();
      await scene.succeed("ADD");
      await scene.succeed("DEL", {}, { env: { CNI_NETNS: netns } });
      assertEquals(scene.hosts.leases(), []);
    }, (netns) => `CNI_NETNS=${netns}`);
  },
};

for (const cniVersion of SPEC_VERSIONS) {
  const rows = Object.entries(EACH).map(([name, row]) => [
    `${name}, ${cniVersion}`,
    row(cniVersion),
  ]);
  conformance("host-device", Object.fromEntries(rows), needsRoot);
}
conformance("host-device", ONCE, needsRoot);
