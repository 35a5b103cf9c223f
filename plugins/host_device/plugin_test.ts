import { assertEquals, assertStringIncludes } from "@std/assert";
import { rootTest } from "../../testing/capabilities.ts";
import { assertSuccess } from "../../tests/_harness/call_outcome.ts";
import { ipJson, linkNames, runIn } from "../../testing/ip_json.ts";
import { addDevice, DEVICE, DEVICE_MAC, DeviceScene } from "./testing.ts";
import { eachRow } from "../../tests/_harness/table.ts";
import { hostDevice } from "./plugin.ts";

rootTest("host-device: the registry's plugin reads /sys", async () => {
  using scene = new DeviceScene();
  const { hosts, config } = scene;
  const { json } = await hosts.run(hostDevice, "ADD", {
    ...config,
    device: undefined,
    kernelpath: "/sys/devices/virtual/net/none",
  });
  const directory = "/sys/devices/virtual/net/none/net";
  assertStringIncludes(json.msg, `failed to read directory ${directory}`);
});

rootTest(
  "host-device.add() moves the device, with addresses and routes",
  async () => {
    using scene = new DeviceScene();
    const { sandbox } = scene.hosts;
    const { json } = await scene.succeed("ADD");
    assertEquals(json.interfaces, [
      { name: "eth0", mac: DEVICE_MAC, sandbox: sandbox.path },
    ]);
    assertEquals(
      json.ips.map((ip: { interface: number }) => ip.interface),
      [0, 0],
    );
    const [link] = ipJson(sandbox, "address", "show", "eth0");
    assertEquals([link.ifalias, link.flags.includes("UP")], [DEVICE, true]);
    const routes = ["-4", "-6"].flatMap((family) =>
      ipJson(sandbox, family, "route", "show", "default")
    );
    assertEquals(
      routes.map(({ gateway }: { gateway: string }) => gateway),
      ["10.1.2.1", "2001:db8:1::1"],
    );
    assertEquals(scene.outside, []);
    await scene.succeed("CHECK", { prevResult: json });
  },
);

rootTest("a second host-device.add() keeps the first attachment", async () => {
  using scene = new DeviceScene();
  const { json: prevResult } = await scene.succeed("ADD");
  const { state } = scene;
  const gone = [
    11,
    "failed to find host device: Link not found; " +
    'the host has no link "ens5"; another container might have it',
  ] as const;
  await scene.fail("ADD", gone);
  addDevice(scene.hosts.host, "ens6", "c2:11:22:33:44:66");
  const taken = [4, 'Cannot add interface "eth0"'] as const;
  await scene.fail("ADD", taken, { device: "ens6" });
  scene.ip("link del ens6");
  assertEquals(scene.state, state);
  await scene.succeed("CHECK", { prevResult });
});

rootTest(
  "host-device.del() returns the device, down, and is idempotent",
  async (t) => {
    for (const isUp of [false, true]) {
      await t.step(isUp ? "up" : "down", async () => {
        using scene = new DeviceScene({}, { isUp });
        scene.ip("link set ens5 down");
        const { state } = scene;
        if (isUp) scene.ip("link set ens5 up");
        const { json: prevResult } = await scene.succeed("ADD");
        await scene.succeed("DEL", { prevResult });
        assertEquals(scene.state, state);
        await scene.succeed("DEL", { prevResult });
        await scene.succeed("DEL");
        assertEquals(scene.state, state);
      });
    }
  },
);

rootTest("host-device.del() succeeds if anything is missing", async (t) => {
  await eachRow(t, ["", "/run/netns/none"], async (netns) => {
    using scene = new DeviceScene();
    const env = { CNI_NETNS: netns };
    await scene.succeed("DEL", {}, { env });
    await scene.succeed("ADD");
    await scene.succeed("DEL", {}, { env });
    assertEquals(scene.hosts.leases(), []);
    await scene.succeed("DEL");
    assertEquals(scene.outside, [DEVICE]);
  }, (netns) => `CNI_NETNS=${netns}`);
  await t.step("the device", async () => {
    using scene = new DeviceScene();
    await scene.succeed("ADD");
    scene.ipInside("link del eth0");
    await scene.succeed("DEL");
    assertEquals(scene.hosts.leases(), []);
  });
  await t.step("valid keys", async () => {
    using scene = new DeviceScene();
    await scene.succeed("ADD");
    const { exitCode, stderr } = await scene.run("DEL", {
      device: 5,
      runtimeConfig: { deviceID: "0000:00:09.9" },
    });
    assertEquals([exitCode, scene.outside], [0, [DEVICE]]);
    assertStringIncludes(stderr, "device: ");
  });
});

rootTest("host-device.del() recognizes the device", async (t) => {
  await t.step("without the alias, by prevResult", async () => {
    using scene = new DeviceScene();
    const { json: prevResult } = await scene.succeed("ADD");
    scene.ipInside("link set eth0 alias ");
    await scene.succeed("DEL", { prevResult });
    assertEquals(scene.outside, [DEVICE]);
  });
  await t.step("not another attachment's device, by its alias", async () => {
    using scene = new DeviceScene();
    await scene.succeed("ADD");
    const hwaddr = "c2:11:22:33:44:66";
    addDevice(scene.hosts.host, "ens6", hwaddr);
    const other = { name: "net2", device: undefined, hwaddr };
    const taken = [4, 'Cannot add interface "eth0"'] as const;
    await scene.fail("ADD", taken, other);
    await scene.succeed("DEL", other);
    assertEquals([scene.inside, scene.outside], [["lo", "eth0"], ["ens6"]]);
  });
  await t.step("with a different MAC, by the alias", async () => {
    using scene = new DeviceScene({ device: undefined, hwaddr: DEVICE_MAC });
    const { json: prevResult } = await scene.succeed("ADD");
    scene.ipInside("link set eth0 address 02:00:00:00:00:01");
    await scene.succeed("DEL", { prevResult });
    assertEquals(scene.outside, [DEVICE]);
  });
  await t.step("partly returned by a killed DEL", async () => {
    using scene = new DeviceScene();
    await scene.succeed("ADD");
    scene.ipInside("link set eth0 down");
    scene.ipInside("link set eth0 name ens5");
    await scene.succeed("DEL");
    assertEquals(scene.outside, [DEVICE]);
  });
  await t.step("by an alternative name", async () => {
    const device = "a-name-longer-than-fifteen-bytes";
    using scene = new DeviceScene({ device });
    scene.ip(`link property add dev ens5 altname ${device}`);
    await scene.succeed("ADD");
    await scene.succeed("DEL");
    assertEquals(scene.outside, [DEVICE]);
  });
});

rootTest("host-device.del() moves no other links", async (t) => {
  await t.step("another attachment's interface", async () => {
    using scene = new DeviceScene();
    await scene.succeed("ADD");
    addDevice(scene.hosts.host, "ens6", "c2:11:22:33:44:66");
    await scene.succeed("DEL", { name: "net2", device: "ens6" });
    assertEquals(scene.inside, ["lo", "eth0"]);
  });
  await t.step("an interface that another plugin created", async () => {
    using scene = new DeviceScene();
    scene.ipInside("link add eth0 type ifb");
    await scene.fail("ADD", [4, 'Cannot add interface "eth0"']);
    await scene.succeed("DEL");
    assertEquals(scene.inside, ["lo", "eth0"]);
  });
  await t.step("another device, already named as on the host", async () => {
    using scene = new DeviceScene();
    await scene.succeed("ADD", {}, { ifName: DEVICE });
    addDevice(scene.hosts.host, "ens6", "c2:11:22:33:44:66");
    await scene.succeed("DEL", { device: "ens6" }, { ifName: "eth0" });
    assertEquals(scene.inside, ["lo", DEVICE]);
  });
});

rootTest(
  "host-device.del() renames the device if its name is in use",
  async () => {
    using scene = new DeviceScene();
    await scene.succeed("ADD");
    scene.ip("link add ens5 type ifb");
    const { exitCode, stderr } = await scene.run("DEL");
    assertEquals([exitCode, scene.inside], [0, ["lo"]]);
    assertStringIncludes(stderr, "device=ens5 name=dev0");
    const [link] = ipJson(scene.hosts.host, "link", "show", "dev0");
    assertEquals([link.address, link.ifalias], [DEVICE_MAC, DEVICE]);
    // Once the name is free, the next container gets the device as usual.
    scene.ip("link del ens5");
    await scene.succeed("ADD");
    await scene.succeed("DEL");
    assertEquals(scene.outside, [DEVICE]);
  },
);

rootTest(
  "host-device.del() returns the device if both sides have its name",
  async () => {
    using scene = new DeviceScene();
    scene.ipInside("link add ens5 type ifb");
    await scene.succeed("ADD");
    scene.ip("link add ens5 type ifb");
    assertEquals((await scene.run("DEL")).exitCode, 0);
    assertEquals(scene.inside, ["lo", DEVICE]);
    assertEquals(scene.outside.toSorted(), ["dev0", DEVICE]);
  },
);

rootTest(
  "host-device.add() accepts a container link of the device's name",
  async () => {
    using scene = new DeviceScene();
    scene.ipInside("link add ens5 type ifb");
    await scene.succeed("ADD");
    assertEquals(scene.inside, ["lo", DEVICE, "eth0"]);
    await scene.succeed("DEL");
    assertEquals([scene.inside, scene.outside], [["lo", DEVICE], [DEVICE]]);
  },
);

rootTest(
  "host-device.del() returns a device that the container has renamed",
  async (t) => {
    await eachRow(t, [
      {},
      { device: undefined, hwaddr: DEVICE_MAC },
    ], async (keys) => {
      using scene = new DeviceScene(keys);
      const { json: prevResult } = await scene.succeed("ADD");
      scene.ipInside("link set eth0 down");
      scene.ipInside("link set eth0 name wan");
      // A DEL without a result may follow another attachment's failed ADD.
      await scene.succeed("DEL", { prevResult }, { ifName: "net1" });
      await scene.succeed("DEL", {}, { ifName: "net1" });
      assertEquals(scene.inside, ["lo", "wan"]);
      await scene.succeed("DEL", { prevResult });
      assertEquals([scene.inside, scene.outside], [["lo"], [DEVICE]]);
      const [link] = ipJson(scene.hosts.host, "link", "show", DEVICE);
      assertEquals(link.ifalias ?? "", "");
    }, ({ hwaddr }) => `by its ${hwaddr ? "MAC" : "name"}`);
  },
);

rootTest(
  "host-device finds a device that returned with a different name",
  async (t) => {
    const comeBack = (scene: DeviceScene, name: string): void => {
      const { host } = scene.hosts;
      const mount = `/proc/${Deno.pid}/fd/${host.fd}`;
      runIn(scene.hosts.sandbox, "ip", "link", "set", "eth0", "netns", mount);
      if (name !== "eth0") scene.ip(`link set eth0 name ${name}`);
      assertEquals(scene.outside, [name]);
    };
    await eachRow(t, ["eth0", "dev7"], async (name) => {
      using scene = new DeviceScene();
      const { json: prevResult } = await scene.succeed("ADD");
      comeBack(scene, name);
      await scene.succeed("DEL", { prevResult }, { env: { CNI_NETNS: "" } });
      assertEquals(scene.outside, [DEVICE]);
      const [link] = ipJson(scene.hosts.host, "link", "show", DEVICE);
      assertEquals(link.ifalias ?? "", "");
    }, (name) => `DEL, ${name}`);
    await t.step(
      "DEL keeps the device's name while another link has its old name",
      async () => {
        using scene = new DeviceScene();
        await scene.succeed("ADD");
        comeBack(scene, "eth0");
        scene.ip("link add ens5 type ifb");
        const env = { CNI_NETNS: "" };
        const { exitCode, stderr } = await scene.run("DEL", {}, { env });
        assertEquals([exitCode, scene.outside.sort()], [0, [DEVICE, "eth0"]]);
        assertStringIncludes(stderr, "Keeping the device's name");
      },
    );
    await eachRow(t, [
      {},
      { device: undefined, hwaddr: DEVICE_MAC },
    ], async (keys) => {
      using scene = new DeviceScene(keys);
      await scene.succeed("ADD");
      comeBack(scene, "eth0");
      const sandbox = scene.hosts.addNetns();
      await scene.succeed("ADD", {}, { sandbox, containerId: "next" });
      assertEquals(linkNames(sandbox), ["lo", "eth0"]);
      await scene.succeed("DEL", {}, { sandbox, containerId: "next" });
      assertEquals(scene.outside, [DEVICE]);
    }, ({ hwaddr }) => `ADD, by its ${hwaddr ? "MAC" : "name"}`);
  },
);

rootTest("host-device.check() reports each change", async (t) => {
  const changes: [string, string][] = [
    ["link set eth0 down", "is down"],
    ["link set eth0 address 02:00:00:00:00:01", "has MAC 02:00:00:00:00:01"],
    ["address del 10.1.2.2/24 dev eth0", "lacks address 10.1.2.2/24"],
    ["-6 route del default", "lacks route ::/0"],
    ["link set eth0 alias ", "lacks the alias"],
    ["link del eth0", 'Interface "eth0" no longer exists'],
  ];
  await eachRow(t, changes, async ([change, text]) => {
    using scene = new DeviceScene();
    const { json: prevResult } = await scene.succeed("ADD");
    scene.ipInside(change);
    await scene.fail("CHECK", [999, text], { prevResult });
  });
  await t.step("the lease", async () => {
    using scene = new DeviceScene();
    const { json: prevResult } = await scene.succeed("ADD");
    await Deno.remove(`${scene.hosts.directory}/leases/net1/10.1.2.2`);
    await scene.fail("CHECK", [999, "host-local"], { prevResult });
  });
  await t.step("no prevResult", async () => {
    using scene = new DeviceScene();
    await scene.succeed("ADD");
    await scene.fail("CHECK", [7, "Required prevResult missing"]);
  });
});

rootTest(
  "host-device.gc() releases stale leases, and moves no device",
  async () => {
    using scene = new DeviceScene();
    await scene.succeed("ADD");
    await scene.succeed("GC", { "cni.dev/valid-attachments": [] });
    assertEquals([scene.hosts.leases(), scene.inside], [[], ["lo", "eth0"]]);
  },
);

rootTest(
  "host-device.add() does not touch the device if IPAM fails",
  async () => {
    using scene = new DeviceScene({}, { isUp: true });
    scene.ip("address add 192.0.2.1/24 dev ens5");
    const { state } = scene;
    const ipam = { type: "host-local", subnet: "10.1.2.0/33" };
    assertEquals((await scene.run("ADD", { ipam })).exitCode, 1);
    assertEquals(scene.state, state);
  },
);

rootTest(
  "host-device runs the IPAM plugin dhcp while the container has the device",
  async () => {
    using scene = new DeviceScene({ ipam: { type: "dhcp" } });
    const { path } = scene.hosts;
    const log = `${path}/dhcp.calls`;
    const result = JSON.stringify({
      cniVersion: "1.1.0",
      ips: [{ address: "10.1.2.2/24" }],
    });
    await Deno.remove(`${path}/dhcp`);
    const script = `#!/bin/sh
PATH=/usr/sbin:/usr/bin:/sbin:/bin
nsenter "--net=$CNI_NETNS" ip -br link show "$CNI_IFNAME" > /dev/null &&
  echo "$CNI_COMMAND" >> '${log}'
[ "$CNI_COMMAND" != ADD ] || echo '${result}'
`;
    await Deno.writeTextFile(`${path}/dhcp`, script, { mode: 0o755 });
    await scene.succeed("ADD");
    await scene.succeed("DEL");
    assertEquals(await Deno.readTextFile(log), "ADD\nDEL\n");
  },
);

rootTest("host-device works in a chain with tuning and sbr", async () => {
  using scene = new DeviceScene();
  const { hosts, config, state } = scene;
  const { type, device, ipam, ...network } = config;
  const chained = {
    ...network,
    type: "chain",
    plugins: [
      { type, device, ipam },
      {
        type: "tuning",
        mac: "c2:11:22:33:44:77",
        mtu: 1400,
        dataDir: `${hosts.directory}/tuning`,
      },
      { type: "sbr" },
    ],
  };
  const added = await hosts.run("chain", "ADD", chained);
  assertSuccess(added);
  const withResult = { ...chained, prevResult: added.json };
  assertSuccess(await hosts.run("chain", "CHECK", withResult));
  const [link] = ipJson(hosts.sandbox, "link", "show", "eth0");
  assertEquals([link.address, link.mtu], ["c2:11:22:33:44:77", 1400]);
  assertSuccess(await hosts.run("chain", "DEL", withResult));
  assertEquals(scene.state, state);
  const [returned] = ipJson(hosts.host, "link", "show", DEVICE);
  assertEquals(returned.mtu, 1500);
});
