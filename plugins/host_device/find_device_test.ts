import { assertEquals, assertStringIncludes } from "@std/assert";
import { rootTest } from "../../testing/capabilities.ts";
import { addDevice, DEVICE_MAC, DeviceScene } from "./testing.ts";
import type { Keys } from "../../tests/_harness/plugin_scene.ts";
import { eachRow } from "../../tests/_harness/table.ts";

const PCI = "0000:00:1f.6";

/** Returns a scene with one more device. */
function makeScene(keys: Keys): DeviceScene {
  const scene = new DeviceScene({ device: undefined, ...keys });
  addDevice(scene.hosts.host, "ens6", "c2:11:22:33:44:66");
  scene.addSysfs("bus/pci/drivers/e1000e");
  scene.addSysfs("podvol/net/ens5");
  scene.addSysfs("podvol/driver", "../bus/pci/drivers/e1000e");
  scene.addSysfs("devices/pod", "../podvol");
  scene.addSysfs(`bus/pci/devices/${PCI}/driver`, "../../drivers/e1000e");
  return scene;
}

const FOUND: readonly [string, Keys][] = [
  ["hwaddr with dashes", { hwaddr: DEVICE_MAC.replaceAll(":", "-") }],
  ["the first key of several", {
    device: "",
    hwaddr: DEVICE_MAC,
    kernelpath: "/sys/devices/none",
    pciBusID: PCI,
  }],
];

rootTest(
  "host-device finds its device by each form of its keys",
  async (t) => {
    await eachRow(t, FOUND, async ([, keys]) => {
      using scene = makeScene(keys);
      const { state } = scene;
      const { json: prevResult } = await scene.succeed("ADD");
      assertEquals([prevResult.interfaces[0].mac, scene.outside], [
        DEVICE_MAC,
        ["ens6"],
      ]);
      await scene.succeed("CHECK", { prevResult });
      await scene.succeed("DEL");
      assertEquals(scene.outside.toSorted(), ["ens5", "ens6"]);
      assertEquals(scene.state, state);
    });
  },
);

rootTest("host-device finds the link of a virtio device", async () => {
  using scene = makeScene({ pciBusID: "0000:00:03.0" });
  scene.addSysfs("bus/pci/devices/0000:00:03.0/virtio0/net/ens5");
  scene.addSysfs("bus/pci/devices/0000:00:03.0/driver", "../../drivers/e1000e");
  await scene.succeed("ADD");
  assertEquals(scene.inside, ["lo", "eth0"]);
});

const REFUSED: readonly [string, Keys, number, string][] = [
  [
    "no key",
    {},
    7,
    'specify either "device", "hwaddr", "kernelpath" or "pciBusID"',
  ],
  ["an unknown device", { device: "ens9" }, 11, "Link not found"],
  ["an invalid MAC", { hwaddr: "c2:11" }, 7, 'parse MAC address "c2:11"'],
  [
    "an unknown MAC",
    { hwaddr: "02:00:00:00:00:09" },
    11,
    "failed to find physical interface",
  ],
  [
    "a path outside of /sys/devices",
    { kernelpath: "/sys/class/net/ens5" },
    7,
    'kernel device path "/sys/class/net/ens5" must be absolute and begin with',
  ],
  [
    "a link that leads out of /sys/devices",
    { kernelpath: "/sys/devices/pod" },
    7,
    'kernel device path "/sys/devices/pod" must be absolute and begin with',
  ],
  [
    "an unknown path",
    { kernelpath: "/sys/devices/none" },
    11,
    "failed to read directory",
  ],
  [
    "an unknown PCI address",
    { pciBusID: "0000:00:09.9" },
    11,
    "error with host device",
  ],
  [
    "an unknown deviceID",
    { runtimeConfig: { deviceID: "none" } },
    7,
    "runtime config DeviceID none not found or unsupported",
  ],
];

rootTest("host-device refuses keys without a device", async (t) => {
  await eachRow(t, REFUSED, async ([, keys, code, text]) => {
    using scene = makeScene(keys);
    const { state } = scene;
    await scene.fail("ADD", [code, text]);
    assertEquals(scene.state, state);
    await scene.succeed("DEL");
    assertEquals(scene.state, state);
  });
  await t.step("a PCI device without a link", async () => {
    using scene = makeScene({ pciBusID: "0000:00:03.0" });
    scene.addSysfs(
      "bus/pci/devices/0000:00:03.0/driver",
      "../../drivers/e1000e",
    );
    const text = "no net directory under pci device 0000:00:03.0";
    await scene.fail("ADD", [11, text]);
    scene.addSysfs("bus/pci/devices/0000:00:03.0/net");
    await scene.fail("ADD", [11, "failed to find network device in path"]);
  });
});

/** The places are refused as they are written, before any is looked at. */
const LEADS_AWAY: readonly [string, Keys, number, string][] = [
  [
    "a path that leads out of /sys/devices",
    { kernelpath: "/sys/devices/../class/net/ens5/device" },
    7,
    'kernelpath: expected a path without ".."',
  ],
  [
    "a PCI address that leads to another directory",
    { pciBusID: "../../../podvol" },
    7,
    'pciBusID: expected a device such as 0000:00:1f.6 or mlx5_core.sf.2, got "../../../podvol"',
  ],
  [
    "a deviceID that leads to another directory",
    { runtimeConfig: { deviceID: "../../../podvol" } },
    7,
    "runtimeConfig.deviceID: expected a device such as",
  ],
];

rootTest("host-device does not use a device name as a path", async (t) => {
  await eachRow(t, LEADS_AWAY, async ([, keys, code, text]) => {
    using scene = makeScene(keys);
    const { state } = scene;
    await scene.fail("ADD", [code, text]);
    const { exitCode, stderr } = await scene.run("DEL");
    assertEquals(exitCode, 0);
    assertStringIncludes(stderr, text.slice(0, text.indexOf(":")));
    assertEquals(scene.state, state);
  });
});

for (const driver of ["vfio-pci", "uio_pci_generic", "igb_uio"]) {
  rootTest(`host-device does not move a device of ${driver}`, async () => {
    using scene = new DeviceScene({ device: undefined, pciBusID: PCI });
    scene.addSysfs(`bus/pci/drivers/${driver}`);
    scene.addSysfs(`bus/pci/devices/${PCI}/driver`, `../../drivers/${driver}`);
    const { json: prevResult } = await scene.succeed("ADD");
    const { path: sandbox } = scene.hosts.sandbox;
    assertEquals(prevResult.interfaces, [{ name: "eth0", sandbox }]);
    assertEquals(prevResult.ips[0].address, "10.1.2.2/24");
    assertEquals([scene.inside, scene.outside], [["lo"], ["ens5"]]);
    await scene.succeed("CHECK", { prevResult });
    await scene.fail("CHECK", [7, "Required prevResult missing"]);
    await scene.succeed("DEL", { prevResult });
    assertEquals(scene.hosts.leases(), []);
    const { json } = await scene.succeed("ADD", { ipam: undefined });
    assertEquals(json.interfaces, [{ name: "eth0", sandbox }]);
    await scene.succeed("DEL", { ipam: undefined });
  });
}
