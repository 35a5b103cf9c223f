// deno-lint-ignore-file no-sync-fn-in-async-fn -- nothing else waits during these calls
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { FileLock } from "../../base/files/lock.ts";
import { ifPossible } from "../../base/files/io.ts";
import { eventually } from "../../tests/_harness/eventually.ts";
import {
  assertFailure,
  assertSuccess,
} from "../../tests/_harness/call_outcome.ts";
import { NetNs } from "../../ffi/netns.ts";
import { rootTest } from "../../testing/capabilities.ts";
import { lockNetns } from "../parts/sandbox/lock_netns.ts";
import type { Keys } from "../../tests/_harness/plugin_scene.ts";
import { IP4, SbrScene } from "./testing.ts";
import { eachRow } from "../../tests/_harness/table.ts";
import { ETH0, NET1 } from "../../tests/_harness/two_networks.ts";

const RULE = "32765: from 192.168.1.209 lookup 100";

rootTest("sbr.add() returns prevResult unchanged", async (t) => {
  const lists = {
    interfaces: [{ name: "net1", sandbox: "/x", custom: 1 }],
    ips: [{ ...IP4, interface: 0, custom: [2] }],
    routes: [{ dst: "10.0.0.0/8", custom: "3" }],
    custom: { deeply: null },
  };
  const rows: [string, string, Keys, Keys][] = [
    ["unknown keys", "1.1.0", { cniVersion: "1.1.0", ...lists }, {
      cniVersion: "1.1.0",
      ...lists,
    }],
    ["no cniVersion", "1.0.0", lists, { cniVersion: "1.0.0", ...lists }],
    ["an empty cniVersion", "0.4.0", { cniVersion: "", ips: [IP4] }, {
      cniVersion: "0.4.0",
      ips: [{ version: "4", ...IP4 }],
      dns: {},
    }],
    ["another version of the family", "1.1.0", {
      cniVersion: "1.0.0",
      ips: [IP4],
    }, { cniVersion: "1.1.0", ips: [IP4] }],
    ["0.2.0", "0.2.0", { ip4: { ip: IP4.address, gateway: IP4.gateway } }, {
      cniVersion: "0.2.0",
      ip4: { ip: IP4.address, gateway: IP4.gateway },
      dns: {},
    }],
  ];
  await eachRow(t, rows, async ([, cniVersion, prevResult, answer]) => {
    using scene = new SbrScene();
    const added = await scene.run("ADD", { cniVersion, prevResult });
    assertSuccess(added);
    assertEquals(added.json, answer);
    assertEquals(scene.networks.rules(), [RULE]);
    await scene.succeed("DEL", { cniVersion, prevResult });
  });
});

rootTest("sbr.add() changes nothing if it refuses the input", async (t) => {
  const rows: [name: string, keys: Keys, code: number, text: string][] = [
    [
      "a prevResult of another family",
      { prevResult: { cniVersion: "0.4.0", ips: [IP4] } },
      1,
      "could not parse prevResult",
    ],
    ["an invalid prevResult", { prevResult: { ips: [{}] } }, 7, "ips"],
    [
      "no address",
      { prevResult: { ips: [] } },
      7,
      "No IP addresses supplied on interface: net1",
    ],
    [
      "addresses of another interface",
      {
        prevResult: {
          interfaces: [{ name: "eth0" }],
          ips: [{ ...IP4, interface: 0 }],
        },
      },
      7,
      "No IP addresses supplied on interface: net1",
    ],
    [
      "a link-local address",
      { prevResult: { ips: [{ address: "fe80::209/64" }] } },
      7,
      "No IP addresses supplied on interface: net1",
    ],
    [
      "a gateway out of reach",
      { gateways: ["198.51.100.1"] },
      999,
      "Cannot add route 0.0.0.0/0 via 198.51.100.1 of table 100",
    ],
    [
      "three gateways",
      { gateways: ["192.168.1.1", "fd00::1", "fd00::2"] },
      7,
      "gateways list cannot contain more than 2 entries (one IPv4, one IPv6)",
    ],
    [
      "two gateways of IPv6",
      { gateways: ["fd00::1", "fd00::2"] },
      7,
      "gateways list contains multiple IPv6 addresses: fd00::1 and fd00::2",
    ],
    [
      "an invalid gateway",
      { gateways: ["gw"] },
      7,
      "invalid static gateway IP address: gw",
    ],
    [
      "a gateway with a prefix length",
      { gateways: ["192.168.1.1/24"] },
      7,
      "invalid static gateway IP address: 192.168.1.1/24",
    ],
    [
      "gateways that are not a list",
      { gateways: "192.168.1.1" },
      7,
      "gateways: expected an array",
    ],
    ["no table", { table: 0 }, 7, "table: expected at least 1, got 0"],
    [
      "a table beyond all",
      { table: 2 ** 32 },
      7,
      "table: expected at most 4294967295",
    ],
    ["a table in words", { table: "100" }, 7, "table: expected a number"],
    [
      "hints in words",
      { addSourceHints: "yes" },
      7,
      "addSourceHints: expected a boolean",
    ],
  ];
  await eachRow(t, rows, async ([, keys, code, text]) => {
    using scene = new SbrScene();
    const before = scene.networks.state();
    assertFailure(await scene.run("ADD", keys), code, text);
    assertEquals(scene.networks.state(), before);
    assertEquals((await scene.run("DEL", keys)).exitCode, 0);
    assertEquals(scene.networks.state(), before);
  });
  await t.step("an interface that is not there", async () => {
    using scene = new SbrScene();
    scene.ip("link delete dev net1");
    const before = scene.networks.state();
    const text = "Cannot find network interface net1";
    assertFailure(await scene.run("ADD"), 999, text);
    assertEquals(scene.networks.state(), before);
  });
  await t.step("the host's own namespace", async () => {
    using scene = new SbrScene();
    const { host } = scene.networks.hosts;
    const env = { CNI_NETNS: host.path };
    const { networks, keys } = scene;
    assertFailure(await networks.run("sbr", "ADD", keys, env), 8, "");
    assertFailure(await networks.run("sbr", "DEL", keys, env), 8, "");
  });
});

rootTest("sbr with a table changes rules to that table only", async () => {
  using scene = new SbrScene([
    ...ETH0,
    ...NET1,
    "route add default via 192.168.1.1 table 5000",
    "rule add from 192.168.1.209 lookup 150",
    "rule add from 192.168.1.209 to 10.9.0.0/16 lookup 5000",
    "rule add from 10.0.0.2 lookup 5000",
  ], { ips: [IP4, { address: "192.168.1.210/24" }], table: 5000 });
  const before = scene.networks.state();
  const rules = [
    "32761: from 192.168.1.210 lookup 5000",
    "32762: from 192.168.1.209 lookup 5000",
    "32763: from 10.0.0.2 lookup 5000",
    "32764: from 192.168.1.209 to 10.9.0.0/16 lookup 5000",
    "32765: from 192.168.1.209 lookup 150",
  ];
  for (const _attempt of ["ADD", "ADD again"]) {
    await scene.succeed("ADD");
    assertEquals(scene.networks.rules(), rules);
  }
  await scene.succeed("CHECK");
  await scene.succeed("DEL");
  await scene.succeed("DEL");
  assertEquals(scene.networks.state(), before);
  const added = await scene.run("ADD", {
    gateways: ["192.168.1.254"],
    addSourceHints: true,
  });
  assertEquals(added.exitCode, 0, added.stdout);
  assertStringIncludes(
    added.stderr,
    "Ignoring gateways and addSourceHints: the configuration sets a table",
  );
});

rootTest("sbr waits for another call's lock on the namespace", async (t) => {
  await eachRow(t, ["ADD", "CHECK", "DEL"], async (command) => {
    using scene = new SbrScene();
    const { hosts, sandbox } = scene.networks;
    if (command === "CHECK") await scene.succeed("ADD");
    // Through another path.
    const path = `${hosts.directory}/netns`;
    Deno.symlinkSync(sandbox.path, path);
    using other = NetNs.open(path);
    const held = await lockNetns(other, {});
    let isHeld = true;
    const running = scene.succeed(command).finally(() =>
      assert(!isHeld, "it did not wait")
    );
    await eventually("it waits", () => countOpenLocks() > 1);
    isHeld = false;
    held[Symbol.dispose]();
    await running;
  });
});

/** Counts this process's descriptors of locks on namespaces. */
function countOpenLocks(): number {
  return [...Deno.readDirSync("/proc/self/fd")].filter(({ name }) =>
    ifPossible(() => Deno.readLinkSync(`/proc/self/fd/${name}`))
      ?.startsWith("/run/cni/locks/netns-")
  ).length;
}

rootTest("sbr stops waiting for the namespace at its time limit", async (t) => {
  const acquire = FileLock.acquireTemporary;
  const limits: (number | undefined)[] = [];
  FileLock.acquireTemporary = (path, wait = {}): Promise<FileLock> => {
    limits.push(wait.limitMs);
    return acquire(path, { ...wait, limitMs: 10 });
  };
  try {
    await eachRow(t, ["ADD", "CHECK", "DEL"], async (command) => {
      using scene = new SbrScene();
      const before = scene.networks.state();
      const { path } = scene.networks.sandbox;
      using netns = NetNs.open(path);
      const openBefore = countOpenLocks();
      using held = await lockNetns(netns, {});
      const output = await scene.run(command);
      if (command === "DEL") {
        assertEquals(output.exitCode, 0);
        assertStringIncludes(output.stderr, "Continuing without the lock");
      } else {
        assertFailure(output, 11, `Cannot lock network namespace "${path}"`);
        assertStringIncludes(output.json.details, `process ${Deno.pid} (`);
      }
      held[Symbol.dispose]();
      // The waiting thread gets the lock now, and closes the file.
      await eventually("it is closed", () => countOpenLocks() === openBefore);
      assertEquals(scene.networks.state(), before);
    });
    assertEquals(limits, [
      undefined,
      10_000,
      undefined,
      10_000,
      undefined,
      10_000,
    ]);
  } finally {
    FileLock.acquireTemporary = acquire;
  }
});

rootTest("sbr's STATUS checks the configuration, and GC succeeds", async () => {
  using scene = new SbrScene();
  await scene.succeed("ADD");
  const before = scene.networks.state();
  const current = { cniVersion: "1.1.0", prevResult: undefined };
  await scene.succeed("STATUS", { ...current, gateways: ["192.168.1.1"] });
  const status = await scene.run("STATUS", { ...current, table: -1 });
  assertFailure(status, 7, "table: expected at least 1, got -1");
  await scene.succeed("GC", { ...current, "cni.dev/valid-attachments": [] });
  assertEquals(scene.networks.state(), before);
});
