/**
 * What a container with CAP_NET_ADMIN does to its device, and to links of its
 * own: DEL returns the device as it was, and nothing else.
 */

import {
  assert,
  assertEquals,
  assertMatch,
  assertStringIncludes,
} from "@std/assert";
import { observeNetlink } from "../../ffi/netlink/observer.ts";
import { NetlinkSocket } from "../../ffi/netlink/socket.ts";
import { rootTest } from "../../testing/capabilities.ts";
import { intercept } from "../../testing/fault_injector.ts";
import { ipJson } from "../../testing/ip_json.ts";
import { DEVICE, DEVICE_MAC, DeviceScene } from "./testing.ts";
import { assertSuccess } from "../../tests/_harness/call_outcome.ts";
import { eachStep } from "../../tests/_harness/fault_steps.ts";
import type { Keys } from "../../tests/_harness/plugin_scene.ts";
import { eachRow } from "../../tests/_harness/table.ts";

/** The device as it is on the host, by the link at its other end. */
function describeDevice({ hosts }: DeviceScene): unknown {
  const links = ipJson(hosts.host, "link");
  // deno-lint-ignore no-explicit-any -- as iproute2 prints it
  const wire = links.find((link: any) => link.ifname === `wire${DEVICE}`);
  // deno-lint-ignore no-explicit-any
  const device = links.find((link: any) =>
    link.ifindex === wire.link_index && wire.link_netnsid === undefined ||
    link.ifname === wire.link
  );
  return device && {
    name: device.ifname,
    mac: device.address,
    mtu: device.mtu,
    txQLen: device.txqlen,
    alias: device.ifalias,
    altnames: device.altnames,
    flags: device.flags.filter((flag: string) =>
      ["PROMISC", "ALLMULTI", "UP", "NOARP", "MULTICAST"].includes(flag)
    ),
    group: device.group,
  };
}

/** A veth of the container's own that looks like the device. */
const OWN_VETH = [
  `link add eth0 address ${DEVICE_MAC} type veth peer name p0`,
  `link set eth0 alias ${DEVICE}`,
];

const ATTACKS: readonly [name: string, commands: readonly string[]][] = [
  ["another name", ["link set eth0 name wan"]],
  ["the name of a link of the host", ["link set eth0 name wireens5"]],
  ["another alias", ["link set eth0 alias cni0"]],
  ["no alias", ["link set eth0 alias "]],
  ["another MAC", ["link set eth0 address 02:00:00:00:00:99"]],
  ["a small MTU", ["link set eth0 mtu 68"]],
  ["promiscuous mode", [
    "link set eth0 promisc on",
    "link set eth0 allmulticast on",
    "link set eth0 txqueuelen 7",
  ]],
  ["no ARP and no multicast", [
    "link set eth0 arp off",
    "link set eth0 multicast off",
  ]],
  ["another group", ["link set eth0 group 7"]],
  ["a macvlan on it", ["link add mac0 link eth0 type macvlan"]],
  ["a macvlan that takes all its frames", [
    "link add mac0 link eth0 type macvlan mode passthru",
  ]],
  ["an alternative name of a link of the host", [
    "link property add dev eth0 altname wireens5",
  ]],
  ["its own name as an alternative one", [
    "link property add dev eth0 altname ens5",
  ]],
  ["alternative names that the host does not have", [
    "link property add dev eth0 altname cni0 altname a-long-alternative-name",
  ]],
  ["a link of the container with its name on the host", [
    "link add ens5 type veth peer name p0",
  ]],
  ["a veth in its place", ["link set eth0 name wan", ...OWN_VETH]],
  ["a veth in its place, and all changed", [
    "link set eth0 name wan",
    "link set wan alias cni0",
    "link set wan address 02:00:00:00:00:99",
    ...OWN_VETH,
  ]],
];

rootTest(
  "host-device.del() restores the device, whatever its container changed",
  async (t) => {
    await eachRow(t, ATTACKS, async ([, commands]) => {
      for (const withResult of [true, false]) {
        using scene = new DeviceScene();
        scene.ip("link property add dev ens5 altname enp0s31f6");
        scene.ip("link set ens5 alias uplink");
        const before = describeDevice(scene);
        const { state, outside } = scene;
        const { json } = await scene.succeed("ADD");
        scene.ipInside("link set eth0 down");
        for (const command of commands) scene.ipInside(command);
        const keys: Keys = withResult ? { prevResult: json } : {};
        await scene.succeed("DEL", keys);
        assertEquals(describeDevice(scene), before);
        assertEquals(scene.outside, outside);
        if (scene.inside.includes("p0")) scene.ipInside("link del p0");
        assertEquals(scene.state, state);
        assertEquals(listRecords(scene), []);
      }
    });
  },
);

rootTest(
  "tuning and host-device return a device whose container changes its MAC",
  async (t) => {
    await eachRow(t, ["recorded", "not recorded"], async (row) => {
      using scene = new DeviceScene();
      const before = describeDevice(scene);
      const { hosts, config } = scene;
      const tune = async (command: string, prevResult: Keys): Promise<void> =>
        assertSuccess(
          await hosts.run("tuning", command, {
            cniVersion: config["cniVersion"],
            name: config["name"],
            type: "tuning",
            dataDir: `${hosts.directory}/tuning`,
            ...{ mac: "c2:11:22:33:44:77", mtu: 1400, txQLen: 77 },
            ...{ promisc: true, allmulti: true },
            prevResult,
          }),
        );
      const { json: prevResult } = await scene.succeed("ADD");
      await tune("ADD", prevResult);
      if (row === "not recorded") forget(scene);
      scene.ipInside("link set eth0 address 02:00:00:00:00:99");
      await tune("DEL", prevResult);
      await scene.succeed("DEL", { prevResult });
      assertEquals(describeDevice(scene), before);
    });
  },
);

rootTest(
  "host-device.del() tries few names, however many its container takes",
  async () => {
    using scene = new DeviceScene();
    await scene.succeed("ADD");
    scene.ip(`link add ${DEVICE} type ifb`);
    const names = Array.from({ length: 80 }, (_, number) => `dev${number}`);
    scene.ipInside(
      `link property add dev lo altname ${names.join(" altname ")}`,
    );
    let requests = 0;
    observeNetlink((_, work) => {
      requests++;
      return work();
    });
    try {
      assertEquals((await scene.run("DEL")).exitCode, 0);
    } finally {
      observeNetlink(undefined);
    }
    assertEquals(scene.inside, ["lo"]);
    const [name = "", ...others] = scene.outside.filter((one) =>
      one !== DEVICE
    );
    assertMatch(name, /^dev\d+$/);
    assertEquals([names.includes(name), others], [false, []]);
    assert(requests < 50, `${requests} requests`);
  },
);

rootTest(
  "host-device.del() moves none of the container's own links to the host",
  async (t) => {
    const gone: typeof ATTACKS = [
      ["a device that it deleted", ["link del eth0"]],
      ["and a veth in its place", ["link del eth0", ...OWN_VETH]],
      // With the index of the device, and of its other end.
      ["and the same indexes", [
        "link del eth0",
        `link add eth0 index INDEX address ${DEVICE_MAC} type veth peer name p0 index PEER`,
        `link set eth0 alias ${DEVICE}`,
      ]],
    ];
    await eachRow(t, gone, async ([, commands]) => {
      for (const isRecorded of [true, false]) {
        using scene = new DeviceScene();
        const { json: prevResult } = await scene.succeed("ADD");
        const [{ ifindex, link_index: peer }] = ipJson(
          scene.hosts.sandbox,
          "link",
          "show",
          "eth0",
        );
        if (!isRecorded) forget(scene);
        for (const command of commands) {
          scene.ipInside(
            command.replace("INDEX", ifindex).replace("PEER", peer),
          );
        }
        const { inside } = scene;
        await scene.succeed("DEL", { prevResult });
        assertEquals([scene.inside, scene.outside], [inside, []]);
        assertEquals([listRecords(scene), scene.hosts.leases()], [[], []]);
      }
    });
  },
);

rootTest(
  "host-device.del() returns the device while its container changes it",
  async (t) => {
    const changes: readonly string[] = [
      "link property add dev @ altname ens5",
      "link property add dev @ altname wireens5",
      "link property add dev @ altname cni0",
      "link set @ name cni0",
      "link set @ alias cni0",
      "link set @ up",
      "link set @ address 02:00:00:00:00:99",
    ];
    for (const change of changes) {
      await t.step(change, async (t) => {
        const steps = await eachStep(t, async (step) => {
          using scene = new DeviceScene();
          const before = describeDevice(scene);
          const { state } = scene;
          const { json: prevResult } = await scene.succeed("ADD");
          let count = 0;
          const stop = intercept(
            NetlinkSocket.prototype,
            "request",
            (_args, work) => {
              if (++count === step) changeInside(scene, change);
              return work();
            },
          );
          try {
            await scene.run("DEL", { prevResult });
          } finally {
            stop();
          }
          assertEquals(scene.outside, [DEVICE]);
          await scene.succeed("DEL", { prevResult });
          assertEquals(describeDevice(scene), before);
          assertEquals(scene.state, state);
          return count >= step || undefined;
        });
        assert(steps.length >= 3, `only ${steps.length} steps`);
      });
    }
  },
);

/** Changes the device in the container, if it is there, whatever its name is. */
function changeInside(scene: DeviceScene, change: string): void {
  const [name] = scene.inside.filter((name) => name !== "lo");
  if (name === undefined) return;
  try {
    scene.ipInside(change.replace("@", name));
  } catch {
    // The kernel refuses it now.
  }
}

rootTest(
  "host-device.del() identifies a device without a record by kernel data",
  async (t) => {
    const rows: typeof ATTACKS = ATTACKS.filter(([name]) =>
      /veth in its place$|own name as|host does not have|name of a link|promisc|macvlan|another (MAC|alias)/
        .test(name)
    );
    assert(rows.length >= 7);
    await eachRow(t, rows, async ([, commands]) => {
      using scene = new DeviceScene();
      const { json: prevResult } = await scene.succeed("ADD");
      forget(scene);
      scene.ipInside("link set eth0 down");
      for (const command of commands) scene.ipInside(command);
      await scene.succeed("DEL", { prevResult });
      const { name, flags, altnames } = describeDevice(scene) as Keys;
      assertEquals([name, flags], [DEVICE, ["MULTICAST"]]);
      assertEquals(altnames, undefined);
      assertEquals(scene.inside.includes("mac0"), false);
      assertEquals(scene.outside, [DEVICE]);
    });
  },
);

rootTest("host-device keeps its records for root only", async () => {
  using scene = new DeviceScene();
  await scene.succeed("ADD");
  const directory = `${scene.config["dataDir"]}`;
  const path = `${directory}/net1:test-container:eth0.json`;
  const modeOf = (path: string): number =>
    (Deno.statSync(path).mode ?? 0) & 0o777;
  assertEquals([modeOf(directory), modeOf(path)], [0o700, 0o600]);
  const { netns, index, linkIndex, ...record } = JSON.parse(
    await Deno.readTextFile(path),
  );
  assertEquals(netns.path, scene.hosts.sandbox.path);
  assertEquals([typeof index, typeof linkIndex], ["number", "number"]);
  assertEquals(record, {
    network: "net1",
    containerId: "test-container",
    ifName: "eth0",
    name: DEVICE,
    kind: "veth",
    isLinkHere: true,
    alternativeNames: [],
    settings: {
      mac: DEVICE_MAC,
      mtu: 1500,
      promisc: false,
      allmulti: false,
      arp: true,
      multicast: true,
      group: 0,
      txQLen: 1000,
    },
  });
});

rootTest(
  "host-device.del() ignores a malformed record, with a warning",
  async () => {
    using scene = new DeviceScene();
    const { json: prevResult } = await scene.succeed("ADD");
    const [path = ""] = listRecords(scene);
    await Deno.writeTextFile(path, "{}");
    const { exitCode, stderr } = await scene.run("DEL", { prevResult });
    assertEquals([exitCode, scene.outside], [0, [DEVICE]]);
    assertStringIncludes(stderr, "it is not a record of a device");
  },
);

rootTest(
  "host-device moves a device whose alternative name exists in the container",
  async (t) => {
    const rows: [name: string, altname: string, inside: string[]][] = [
      ["CNI_IFNAME", "eth0", []],
      ["a link of the container", "net1", ["link add net1 type ifb"]],
      ["an alternative name of one", "net1", [
        "link property add dev lo altname net1",
      ]],
    ];
    await eachRow(t, rows, async ([, altname, inside]) => {
      using scene = new DeviceScene();
      for (const command of inside) scene.ipInside(command);
      scene.ip(
        `link property add dev ens5 altname ${altname} altname enp0s31f6`,
      );
      const before = describeDevice(scene);
      await scene.succeed("ADD");
      const [{ altnames }] = ipJson(
        scene.hosts.sandbox,
        "link",
        "show",
        "eth0",
      );
      assertEquals(altnames, ["enp0s31f6"]);
      await scene.succeed("DEL");
      // The order changes: names are added at the end.
      const after = describeDevice(scene) as { altnames: string[] };
      assertEquals(
        { ...after, altnames: after.altnames.toSorted().reverse() },
        before,
      );
      // An ADD that fails keeps them.
      const ipam = { type: "host-local", subnet: "10.1.2.0/33" };
      assertEquals((await scene.run("ADD", { ipam })).exitCode, 1);
      assertEquals(
        (describeDevice(scene) as { altnames: string[] }).altnames.length,
        2,
      );
    });
  },
);

function listRecords({ config }: DeviceScene): string[] {
  const directory = `${config["dataDir"]}`;
  return [...Deno.readDirSync(directory)].map(({ name }) =>
    `${directory}/${name}`
  );
}

/** Removes the records, as if the Go plugin or an early build had moved it. */
function forget(scene: DeviceScene): void {
  for (const path of listRecords(scene)) Deno.removeSync(path);
}
