import { assertEquals } from "@std/assert";
import { allOf, ignoreUnless, rootTest } from "../../testing/capabilities.ts";
import { ipJson, linkNames, runIn } from "../../testing/ip_json.ts";
import {
  needsOwnLink,
  ownLinkScene,
  testOwnLink,
} from "../../tests/_harness/own_link_cases.ts";
import type { Keys, PluginScene } from "../../tests/_harness/plugin_scene.ts";
import { eachRow } from "../../tests/_harness/table.ts";

testOwnLink("tap", {
  keys: { mtu: 1400 },
  changes: [[
    "another MTU",
    "sandbox",
    "ip link set eth0 mtu 1300",
    "has MTU 1300",
  ]],
  atLeast: 9,
});

const needs = needsOwnLink("tap");
const MAC = "c2:11:22:33:44:55", OTHER = "c2:11:22:33:44:66";

/** Returns the tap device of a scene, as `ip` shows it. */
// deno-lint-ignore no-explicit-any -- tests look into it as they please
function show({ hosts }: PluginScene): any {
  return ipJson(hosts.sandbox, "link", "show", "eth0")[0];
}

rootTest("tap.add() creates the device as configured", needs, async (t) => {
  const rows: readonly [Keys, Keys][] = [
    [{}, { multi_queue: false, user: undefined, group: undefined }],
    [{ multiQueue: true }, { multi_queue: true }],
    [{ owner: 4242 }, { user: "4242", group: undefined }],
    [{ group: 2 ** 32 - 2 }, { group: "4294967294" }],
    [{ owner: 0, group: 0, multiQueue: true }, {
      user: "root",
      group: "root",
      multi_queue: true,
    }],
  ];
  await eachRow(t, rows, async ([keys, expected]) => {
    using scene = ownLinkScene("tap", { ipam: undefined, ...keys });
    const { json } = await scene.succeed("ADD");
    const { address, flags, linkinfo, mtu } = show(scene);
    const { type, persist, pi, multi_queue, user, group } = linkinfo.info_data;
    assertEquals([type, persist, pi, mtu], ["tap", true, false, 1500]);
    assertEquals(flags.includes("UP"), true);
    const actual = { multi_queue, user: nameOf(user), group: nameOf(group) };
    assertEquals({ ...actual, ...expected }, actual);
    const { path: sandbox } = scene.hosts.sandbox;
    assertEquals(json.interfaces, [{ name: "eth0", mac: address, sandbox }]);
    await scene.succeed("DEL");
    assertEquals(linkNames(scene.hosts.sandbox), ["lo"]);
  }, ([keys]) => JSON.stringify(keys));
});

function nameOf(id: unknown): string | undefined {
  return id === undefined ? undefined : String(id);
}

rootTest(
  "tap.add() takes the MAC with the highest precedence",
  needs,
  async (t) => {
    const rows: readonly [Keys, string, string][] = [
      [{ mac: MAC }, "", MAC],
      [{ mac: MAC, owner: 1000, group: 1000 }, "", MAC],
      [{ mac: OTHER }, `MAC=${MAC}`, MAC],
      [{ mac: OTHER, runtimeConfig: { mac: MAC } }, `MAC=${OTHER}`, MAC],
    ];
    await eachRow(t, rows, async ([keys, args, mac]) => {
      using scene = ownLinkScene("tap", { ipam: undefined, ...keys });
      const { json } = await scene.succeed("ADD", {}, {
        env: { CNI_ARGS: args },
      });
      assertEquals([json.interfaces[0].mac, show(scene).address], [mac, mac]);
    }, ([keys, args]) => JSON.stringify([keys, args]));
    await t.step("and refuses an invalid MAC address", async () => {
      using scene = ownLinkScene("tap");
      const before = scene.state;
      await scene.fail("ADD", [7, 'Cannot use MAC "x"'], { mac: "x" });
      assertEquals(scene.state, before);
    });
  },
);

rootTest(
  "tap.add() makes the device a port of a bridge in the container",
  needs,
  async () => {
    using scene = ownLinkScene("tap", { ipam: undefined, bridge: "br0" });
    const { sandbox } = scene.hosts;
    const text = "failed to get bridge br0: Link not found";
    await scene.fail("ADD", [7, text]);
    runIn(sandbox, "ip", "link", "add", "br0", "type", "bridge");
    const { json: prevResult } = await scene.succeed("ADD");
    assertEquals(show(scene).master, "br0");
    await scene.succeed("CHECK", { prevResult });
    runIn(sandbox, "ip", "link", "set", "eth0", "nomaster");
    const changed = 'Interface "eth0" is not a port of bridge "br0"';
    await scene.fail("CHECK", [999, changed], { prevResult });
    await scene.succeed("DEL");
    assertEquals(linkNames(sandbox), ["lo", "br0"]);
  },
);

rootTest(
  "tap.add() leaves nothing if the kernel refuses a setting",
  needs,
  async (t) => {
    const rows: readonly [Keys, number, string][] = [
      [{ mtu: 1 }, 999, 'Cannot set up tap "eth0" with MTU 1'],
      [{ mtu: -1 }, 7, "mtu: expected"],
      [{ owner: -1 }, 7, "owner"],
      [{ bridge: "lo" }, 7, '"lo" of the container is not a bridge'],
    ];
    await eachRow(t, rows, async ([keys, code, text]) => {
      using scene = ownLinkScene("tap");
      const before = scene.state;
      await scene.fail("ADD", [code, text], keys);
      assertEquals(scene.state, before);
    }, ([keys]) => JSON.stringify(keys));
  },
);

const hasSelinux = Deno.lstatSync("/sys/fs").isDirectory &&
  [...Deno.readDirSync("/sys/fs")].some(({ name }) => name === "selinux");

rootTest("tap.add() refuses an SELinux context without SELinux", {
  ignore: needs.ignore || hasSelinux,
  suffix: needs.suffix,
}, async () => {
  using scene = ownLinkScene("tap");
  const before = scene.state;
  const selinuxContext = "system_u:system_r:container_t:s0";
  const text = `cannot use SELinux context "${selinuxContext}"`;
  await scene.fail("ADD", [7, text], { selinuxContext });
  assertEquals(scene.state, before);
});

rootTest(
  "frames of a program that opens the tap device arrive",
  needs,
  async () => {
    using scene = ownLinkScene("tap");
    await scene.succeed("ADD");
    // The program sends a frame with an address of its own.
    const program = `
import fcntl, os, struct, time
tap = os.open("/dev/net/tun", os.O_RDWR)
fcntl.ioctl(tap, 0x400454ca, struct.pack("16sH22x", b"eth0", 0x1002))
frame = bytes.fromhex("ffffffffffff" "020000000001" "88b5") + bytes(46)
os.write(tap, frame)
print(open("/sys/class/net/eth0/statistics/rx_packets").read())
`;
    const script = `mount -t sysfs sys /sys; python3 -c '${program}'`;
    const output = runIn(
      scene.hosts.sandbox,
      "unshare",
      "-m",
      "sh",
      "-c",
      script,
    );
    assertEquals(output.trim(), "1");
  },
);

rootTest(
  "tap.add() creates the device in an SELinux context",
  allOf(
    needs,
    ignoreUnless(hasSelinux, "needs SELinux"),
  ),
  async () => {
    const selinuxContext = "system_u:system_r:container_t:s0";
    const keys = { selinuxContext, owner: 4242, group: 4243, multiQueue: true };
    using scene = ownLinkScene("tap", keys);
    const before = scene.state;
    const { json: prevResult } = await scene.succeed("ADD");
    const { user, group, multi_queue } = show(scene).linkinfo.info_data;
    assertEquals([user, group, multi_queue], [4242, 4243, true]);
    await scene.succeed("CHECK", { prevResult });
    await scene.succeed("DEL");
    assertEquals(scene.state, before);
  },
);
