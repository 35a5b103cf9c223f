/**
 * host-device  compared with the Go plugin: what each leaves in both
 * namespaces, what it reports, and one checking and returning what the other
 * has moved. The differences that are meant are listed here, and nowhere else
 * is a difference allowed.
 */

import { assert, assertEquals } from "@std/assert";
import { isAtLeast } from "../../cni/version.ts";
import { rootTest } from "../../testing/capabilities.ts";
import { ipJson } from "../../testing/ip_json.ts";
import { DEVICE, DEVICE_MAC, DeviceScene } from "./testing.ts";
import {
  callAs,
  listPeers,
  nameOf,
  normaliseResult,
  observeNetns,
  testLeavesTheSame,
  type Who,
} from "../../tests/_harness/parity.ts";
import type { Keys } from "../../tests/_harness/plugin_scene.ts";
import type { CallOutput } from "../../testing/test_hosts.ts";
import { eachRow } from "../../tests/_harness/table.ts";

const ROWS: readonly [string, Keys][] = [
  ["addresses of both families", {}],
  ["no IPAM", { ipam: undefined }],
  ["by MAC", { device: undefined, hwaddr: DEVICE_MAC }],
  ["an old version", { cniVersion: "0.2.0" }],
  ["DNS", { dns: { nameservers: ["10.1.2.9"] } }],
];

async function call(
  who: Who,
  { hosts, config }: DeviceScene,
  command: string,
  extras: Keys = {},
): Promise<CallOutput> {
  const type = "host-device";
  return await callAs(who, hosts, {
    type,
    command,
    config: { ...config, ...extras },
  });
}

async function succeed(
  who: Who,
  scene: DeviceScene,
  command: string,
  extras: Keys = {},
): Promise<CallOutput> {
  const output = await call(who, scene, command, extras);
  assertEquals(output.exitCode, 0, output.stdout + output.stderr);
  return output;
}

/** Returns the name, MAC, alias and state of a scene's device on the host. */
function atHome({ hosts }: DeviceScene): unknown {
  const [link] = ipJson(hosts.host, "link", "show", DEVICE);
  return [link.address, link.flags.includes("UP")];
}

/** The Go plugin's text, which is the beginning of ours or within it. */
const ERRORS: readonly [string, Keys, string][] = [
  ["no key", { device: undefined }, "specify either"],
  ["an unknown device", { device: "ens9" }, "failed to find host device: Link"],
  [
    "an unknown MAC",
    { device: undefined, hwaddr: "02:00:00:00:00:09" },
    "failed to find host device: failed to find physical interface",
  ],
  [
    "an invalid MAC",
    { device: undefined, hwaddr: "c2:11" },
    'failed to find host device: failed to parse MAC address "c2:11"',
  ],
  [
    "a path outside of /sys/devices",
    { device: undefined, kernelpath: "/sys/class/net/ens5" },
    'failed to find host device: kernel device path "/sys/class/net/ens5" ' +
    "must be absolute and begin with /sys/devices/",
  ],
  [
    "an unknown PCI address",
    { device: undefined, pciBusID: "ffff:00:09.9" },
    "error with host device",
  ],
  [
    "an unknown deviceID",
    { device: undefined, runtimeConfig: { deviceID: "none" } },
    "runtime config DeviceID none not found or unsupported",
  ],
];

/** Rows in which 1.1.1 says something else: it had no such text yet. */
const NOT_IN_1_1_1 = ["an unknown device", "an unknown deviceID"];

for (const peer of listPeers("host-device")) {
  const isNewest = isAtLeast(peer.cniVersion, "1.1.0");
  for (const [name, keys] of ROWS) {
    testLeavesTheSame(peer, ["host-device", name], async (who) => {
      const { cniVersion } = peer;
      using scene = new DeviceScene({ cniVersion, ...keys });
      const { hosts } = scene;
      const { stdout, json } = await succeed(who, scene, "ADD");
      const [{ ifalias }] = ipJson(hosts.sandbox, "link", "show", "eth0");
      const moved = {
        result: normaliseResult(stdout, hosts),
        ifalias,
        sandbox: await observeNetns(hosts.sandbox),
        outside: scene.outside,
      };
      await succeed(who, scene, "DEL", { prevResult: json });
      return { ...moved, inside: scene.inside, atHome: atHome(scene) };
    });
  }

  if (isNewest) {
    testLeavesTheSame(
      peer,
      ["host-device", "the network of the host"],
      async (who) => {
        using scene = new DeviceScene({
          cniVersion: "1.1.0",
          useInterfaceNetwork: true,
        }, { isUp: true });
        const { hosts } = scene;
        for (
          const command of [
            "address add 192.0.2.5/24 dev ens5",
            "address add 2001:db8:9::5/64 dev ens5 nodad",
            "route add 198.51.100.0/24 via 192.0.2.1 dev ens5 metric 7",
            "route add 203.0.113.0/24 dev ens5",
            "route add default via 192.0.2.1 dev ens5 table 100",
            "route add 2001:db8:a::/64 via 2001:db8:9::1 dev ens5",
            "rule add from 192.0.2.5 lookup 100 priority 500",
          ]
        ) scene.ip(command);
        const { stdout } = await succeed(who, scene, "ADD");
        const rules = ipJson(hosts.sandbox, "rule");
        return {
          result: normaliseResult(stdout, hosts),
          sandbox: await observeNetns(hosts.sandbox),
          rules,
        };
      },
    );
  }

  rootTest(`host-device prints the errors of ${peer.name}`, async (t) => {
    const rows = ERRORS.filter(([name]) =>
      isNewest || !NOT_IN_1_1_1.includes(name)
    );
    await eachRow(t, rows, async ([, keys, text]) => {
      using scene = new DeviceScene({ cniVersion: peer.cniVersion, ...keys });
      for (const who of ["ours", peer] as const) {
        const { json } = await call(who, scene, "ADD");
        assert(json.msg.startsWith(text), `${nameOf(who)}: ${json.msg}`);
      }
      assertEquals(scene.outside, [DEVICE]);
    });
  });

  for (const [adder, other] of [["ours", peer], [peer, "ours"]] as const) {
    rootTest(
      `host-device: what ${nameOf(adder)} moves in, ${
        nameOf(other)
      } checks and returns`,
      async (t) => {
        await eachRow(t, ROWS, async ([, keys]) => {
          const { cniVersion } = peer;
          using scene = new DeviceScene({ cniVersion, ...keys });
          const { json: prevResult } = await succeed(adder, scene, "ADD");
          if (isAtLeast(`${scene.config["cniVersion"]}`, "0.4.0")) {
            await succeed(other, scene, "CHECK", { prevResult });
          }
          await succeed(other, scene, "DEL", { prevResult });
          assertEquals([scene.inside, scene.outside], [["lo"], [DEVICE]]);
          assertEquals(atHome(scene), [DEVICE_MAC, false]);
          assertEquals(scene.hosts.leases(), []);
          // And it can be moved again.
          await succeed(adder, scene, "ADD");
          await succeed(other, scene, "DEL");
          assertEquals(scene.outside, [DEVICE]);
        });
      },
    );
  }

  rootTest(
    `host-device returns what ${peer.name} leaves in the container`,
    async () => {
      using scene = new DeviceScene({ cniVersion: peer.cniVersion });
      const { json: prevResult } = await succeed(peer, scene, "ADD");
      scene.ip(`link add ${DEVICE} type ifb`);
      assertEquals(
        (await call(peer, scene, "DEL", { prevResult })).exitCode,
        1,
      );
      assertEquals(scene.inside, ["lo", "eth0"]);
      await succeed("ours", scene, "DEL", { prevResult });
      assertEquals([scene.inside, scene.outside.sort()], [["lo"], [
        "dev0",
        DEVICE,
      ]]);
    },
  );
}
