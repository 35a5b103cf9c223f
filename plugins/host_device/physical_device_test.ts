/**
 * host-device with a device that has hardware, as far as the kernel knows: that
 * of User-mode Linux. The kernel returns it when its namespace ends.
 */

import { assertEquals } from "@std/assert";
import { ignoreUnless, rootTest } from "../../testing/capabilities.ts";
import { ipJson, linkNames, runIn } from "../../testing/ip_json.ts";
import { NetNs } from "../../ffi/netns.ts";
import { OWN_NETNS } from "../../ffi/own_netns.ts";
import { Rtnl } from "../../ffi/rtnl/mod.ts";
import { eventually } from "../../tests/_harness/eventually.ts";
import { type Keys, PluginScene } from "../../tests/_harness/plugin_scene.ts";
import { eachRow } from "../../tests/_harness/table.ts";

const DEVICE = "vec0", MAC = "02:00:00:00:00:05";

/** Reports whether the namespace of this process has the device. */
function hasDevice(): boolean {
  using here = Rtnl.open(OWN_NETNS);
  const link = here.link.find(DEVICE);
  return link?.name === DEVICE && link.parent?.name === "uml-vector.0";
}

const needsDevice = ignoreUnless(
  hasDevice(),
  "needs the device of User-mode Linux: deno task test:kernel",
);

/** A host with the device. */
class Scene extends PluginScene {
  constructor(keys: Keys = {}) {
    super("host-device", (hosts) => ({
      cniVersion: "1.1.0",
      name: "net1",
      type: "host-device",
      device: DEVICE,
      dataDir: `${hosts.directory}/host-device`,
      ipam: hosts.hostLocal("10.1.2.0/24"),
      ...keys,
    }));
  }

  static async create(keys: Keys = {}): Promise<Scene> {
    await eventually("the kernel has returned the device", hasDevice);
    const scene = new Scene(keys);
    const { host } = scene.hosts;
    using here = NetNs.current();
    const to = `/proc/${Deno.pid}/fd/${host.fd}`;
    for (const change of ["down", `address ${MAC} mtu 1500`, `netns ${to}`]) {
      runIn(here, "ip", "link", "set", DEVICE, ...change.split(" "));
    }
    return scene;
  }

  /** Runs `ip` in the container. */
  inside(args: string): void {
    runIn(this.hosts.sandbox, "ip", ...args.split(" "));
  }

  /** The device on the host. */
  get device(): unknown {
    const [link] = ipJson(this.hosts.host, "link", "show", DEVICE);
    const { address, mtu, ifalias, altnames, parentdev, flags } = link;
    const modes = flags.filter((flag: string) => /PROMISC|ALLMULTI/.test(flag));
    return { address, mtu, ifalias, altnames, parentdev, modes };
  }
}

const IN_ITS_PLACE = [
  "link set eth0 name wan",
  `link add eth0 address ${MAC} type veth peer name p0`,
  `link set eth0 alias ${DEVICE}`,
];

const ATTACKS: readonly [name: string, commands: readonly string[]][] = [
  ["nothing", []],
  ["all of it", [
    "link set eth0 name wan",
    "link set wan alias cni0",
    "link set wan address 02:00:00:00:00:99",
    "link set wan mtu 68",
    "link set wan promisc on",
    "link set wan allmulticast on",
    `link property add dev wan altname ${DEVICE} altname lo1 altname cni0`,
  ]],
  ["a veth in its place", IN_ITS_PLACE],
  ["a dummy in its place", [
    "link set eth0 name wan",
    `link add eth0 address ${MAC} type dummy`,
    `link set eth0 alias ${DEVICE}`,
  ]],
];

rootTest(
  "host-device.del() restores hardware, whatever its container changed",
  needsDevice,
  async (t) => {
    await eachRow(t, ATTACKS, async ([, commands]) => {
      for (const isRecorded of [true, false]) {
        using scene = await Scene.create();
        const before = scene.device;
        const { json: prevResult } = await scene.succeed("ADD");
        const dataDir = `${scene.config["dataDir"]}`;
        if (!isRecorded) await Deno.remove(dataDir, { recursive: true });
        scene.inside("link set eth0 down");
        for (const command of commands) scene.inside(command);
        await scene.succeed("DEL", { prevResult });
        const isAll = isRecorded || !commands.some((one) => /mtu/.test(one));
        if (isAll) assertEquals(scene.device, before);
        assertEquals(linkNames(scene.hosts.host), ["lo", DEVICE]);
      }
    });
  },
);

rootTest(
  "host-device.del() moves no other link if the hardware was removed",
  needsDevice,
  async () => {
    for (const isRecorded of [true, false]) {
      using scene = await Scene.create();
      const { json: prevResult } = await scene.succeed("ADD");
      const dataDir = `${scene.config["dataDir"]}`;
      if (!isRecorded) await Deno.remove(dataDir, { recursive: true });
      scene.inside("link set eth0 down");
      for (const command of IN_ITS_PLACE) scene.inside(command);
      // As into a namespace that the container has made.
      const hidden = scene.hosts.addNetns();
      scene.inside(`link set wan netns /proc/${Deno.pid}/fd/${hidden.fd}`);
      const { exitCode } = await scene.run("DEL", { prevResult });
      assertEquals([exitCode, linkNames(scene.hosts.host)], [0, ["lo"]]);
      assertEquals(linkNames(scene.hosts.sandbox).includes("eth0"), true);
      if (!isRecorded) continue;
      // The kernel returns it under the container's name.
      const to = `/proc/${Deno.pid}/fd/${scene.hosts.host.fd}`;
      runIn(hidden, "ip", "link", "set", "wan", "name", "eth0");
      runIn(hidden, "ip", "link", "set", "eth0", "mtu", "68", "netns", to);
      await scene.succeed("DEL", { prevResult });
      assertEquals(linkNames(scene.hosts.host), ["lo", DEVICE]);
      assertEquals((scene.device as Keys)["mtu"], 1500);
      assertEquals(await Array.fromAsync(Deno.readDir(dataDir)), []);
    }
  },
);
