// deno-lint-ignore-file no-sync-fn-in-async-fn -- nothing else waits during these calls

/**
 * What happens when another machine has a container's address, as tests of each
 * plugin with `conflictCheck`.
 *
 * @module
 */

import {
  assert,
  assertEquals,
  assertMatch,
  assertStringIncludes,
} from "@std/assert";
import type { NetNs } from "../../ffi/netns.ts";
import { ArpSocket } from "../../ffi/socket/arp_socket.ts";
import { Ip } from "../../net/ip.ts";
import { Mac } from "../../net/mac.ts";
import { allOf, type Needs, rootTest } from "../../testing/capabilities.ts";
import { ipJson, linkNames, runIn } from "../../testing/ip_json.ts";
import {
  POOLS,
  WhereaboutsScene,
} from "../../ipam/whereabouts/testing/scene.ts";
import type { TestHosts } from "../../testing/test_hosts.ts";
import { eventually } from "./eventually.ts";
import { needsBin, startPlugin } from "./executables.ts";
import { writeFakeIpam } from "./fake_ipam.ts";
import { testConflictTiming } from "./conflict_timing.ts";
import { Crash, eachStep, testFaultsOfAdd } from "./fault_steps.ts";
import type { Keys, PluginScene } from "./plugin_scene.ts";
import { howOften } from "./repetition.ts";

/** A host whose network has another machine. */
export interface ConflictScene extends Disposable {
  readonly scene: PluginScene;
  /** The other machine, and its interface. */
  readonly neighbour: NetNs;
  readonly dev: string;
}

/** The tests of one plugin. */
export interface ConflictTests {
  readonly needs: Needs;
  /**
   * Creates a host on which the first container gets 10.1.2.2 and 2001:db8:1::2.
   *
   * @param extras Keys of the configuration
   */
  readonly make: (extras: Keys) => ConflictScene;
  /** How many steps ADD undoes, at the least. */
  readonly atLeast: number;
  /** Steps that may fail without failing ADD. */
  readonly optional: RegExp;
}

/** How many squatters one call meets. */
const SQUATTERS = 5;
/** How many calls meet one each. More addresses than 10.1.2.0/24 has are too many. */
const TIMES = Math.min(howOften(3), 120);

/** Registers the tests of a plugin. */
export function testConflicts(
  type: string,
  { needs, make, atLeast, optional }: ConflictTests,
): void {
  const test = (
    name: string,
    body: (t: Deno.TestContext) => void | Promise<void>,
  ): void => rootTest(`${type}.${name}`, needs, body);
  const checked = (extras: Keys = {}): ConflictScene =>
    make({ conflictCheck: true, ...extras });

  test("add() does without addresses that another machine has", async () => {
    using conflict = checked();
    const { scene } = conflict;
    for (let host = 2; host < 2 + SQUATTERS; host++) squat(conflict, host);
    const { exitCode, stdout, stderr, json } = await scene.run("ADD");
    assertEquals(exitCode, 0, stdout);
    const next = 2 + SQUATTERS;
    assertEquals(addressesOf(json), [`10.1.2.${next}`, `2001:db8:1::${next}`]);
    assertEquals(readAddresses(scene.hosts), addressesOf(json));
    assertStringIncludes(stderr, macOf(conflict));
    assertEquals(
      readSetAside(scene.hosts),
      Array.from({ length: SQUATTERS }, (_, index) => [
        [`10.1.2.${2 + index}`, `conflict/${macOf(conflict)}`],
        [`2001:db8:1::${2 + index}`, `conflict/${macOf(conflict)}`],
      ]).flat().sort(),
    );
    await scene.succeed("CHECK", { prevResult: json });
    await scene.succeed("GC", { "cni.dev/valid-attachments": [] });
    assertEquals(readSetAside(scene.hosts).length, 2 * SQUATTERS);
    await scene.succeed("DEL", { prevResult: json });
    assertEquals(linkNames(scene.hosts.sandbox).includes("eth0"), false);
    // The next one does not meet them again.
    const again = await scene.succeed("ADD");
    assertEquals(addressesOf(again.json), [
      `10.1.2.${next + 1}`,
      `2001:db8:1::${next + 1}`,
    ]);
  });

  test("add() asks nobody without conflictCheck", async () => {
    using conflict = make({ conflictCheck: false });
    squat(conflict, 2);
    const { json } = await conflict.scene.succeed("ADD");
    assertEquals(addressesOf(json), ["10.1.2.2", "2001:db8:1::2"]);
  });

  test("add() announces the addresses that it has checked", async () => {
    using conflict = checked();
    const { neighbour, dev, scene } = conflict;
    runIn(
      neighbour,
      "sh",
      "-ec",
      `ip address replace 10.1.2.1/24 dev ${dev}
       ip neighbor add 10.1.2.2 lladdr 02:00:00:00:00:01 dev ${dev} nud stale`,
    );
    const { json } = await scene.succeed("ADD");
    const own = json.interfaces.find(({ sandbox }: Keys) => sandbox).mac;
    const known = (): string =>
      runIn(neighbour, "ip", "neighbor", "show", "10.1.2.2");
    await eventually(
      "the neighbour knows the MAC",
      () => known().includes(`lladdr ${own} `),
      known,
    );
  });

  test("add() fails if the IPAM plugin gives no other address", async (t) => {
    using conflict = checked();
    const { scene } = conflict;
    const { hosts } = scene;
    squat(conflict, 2);
    const fake = (type: string): Keys => {
      const directory = `${hosts.directory}/${type}`;
      Deno.mkdirSync(directory);
      writeFakeIpam(directory, {
        ADD: {
          stdout: { cniVersion: "1.1.0", ips: [{ address: "10.1.2.2/24" }] },
        },
      });
      // One that ignores the conflicts, as the Go plugin does.
      Deno.renameSync(`${directory}/fake-ipam`, `${directory}/${type}`);
      return { ipam: { type }, path: directory };
    };
    const rows: readonly [name: string, keys: Keys, details: string][] = [
      [
        "static",
        {
          ipam: { type: "static", addresses: [{ address: "10.1.2.2/24" }] },
        },
        'the IPAM plugin "static" gives no other address',
      ],
      ["another one", fake("other"), 'the IPAM plugin "other" gives no other'],
      [
        "another host-local",
        fake("host-local"),
        "the IPAM plugin gives the same address again",
      ],
    ];
    const before = scene.state;
    for (const [name, { path, ...keys }, details] of rows) {
      await t.step(name, async () => {
        const env = path ? { CNI_PATH: `${path}:${hosts.path}` } : {};
        const { exitCode, json } = await scene.run("ADD", keys, { env });
        assertEquals([exitCode, json.code], [1, 11], json.msg);
        assertStringIncludes(
          json.msg,
          `Cannot give the container 10.1.2.2: 10.1.2.2 is in use by ${
            macOf(conflict)
          }`,
        );
        assertStringIncludes(json.details, details);
        assertEquals(scene.state, before);
      });
    }
  });

  test("add() gives up on a machine that has every address", async () => {
    using conflict = checked();
    const { scene } = conflict;
    haveAll(conflict);
    for (let attempt = 0; attempt < 3; attempt++) {
      const { exitCode, json } = await scene.run("ADD", smallRange(scene));
      assertEquals([exitCode, json.code], [1, 11], json.msg);
      assertStringIncludes(json.msg, `is in use by ${macOf(conflict)}`);
      // A quarter of 13 addresses.
      assertEquals(readSetAside(scene.hosts).length, 3);
      assertEquals(scene.hosts.leases().length, 3);
    }
    haveNone(conflict);
    await scene.succeed("ADD", smallRange(scene));
  });

  test("add() takes what is set aside if nothing else is free", async () => {
    using conflict = checked();
    const { scene } = conflict;
    const { hosts } = scene;
    const ipam = {
      ...hosts.hostLocal(),
      ranges: [[{
        subnet: "10.1.2.0/24",
        rangeStart: "10.1.2.2",
        rangeEnd: "10.1.2.3",
      }]],
    };
    squat(conflict, 2);
    const { json: prevResult } = await scene.run("ADD", { ipam });
    await scene.succeed("STATUS", { ipam });
    await scene.succeed("DEL", { ipam, prevResult });
    const lease = `${hosts.directory}/leases/net1/10.1.2.3`;
    Deno.writeTextFileSync(lease, "other\r\neth0");
    const refused = await scene.run("ADD", { ipam });
    assertEquals([refused.exitCode, refused.json.code], [1, 11]);
    assertStringIncludes(refused.json.msg, "10.1.2.2 is in use by");
    assertEquals(readSetAside(hosts).length, 1);
    leave(conflict, 2);
    const { exitCode, json } = await scene.run("ADD", { ipam });
    assertEquals([exitCode, addressesOf(json)], [0, ["10.1.2.2"]]);
  });

  test("add() asks nobody about an address that migrates", async () => {
    using conflict = checked();
    const { scene } = conflict;
    squat(conflict, 2);
    const { type } = writeFakeIpam(scene.hosts.path, {
      ADD: {
        stdout: {
          cniVersion: "1.1.0",
          ips: [{ address: "10.1.2.2/24", "cni.dev/quiet": true }],
        },
      },
    });
    const { json } = await scene.succeed("ADD", { ipam: { type } });
    assertEquals(addressesOf(json), ["10.1.2.2"]);
  });

  test(`add() finds ${TIMES} of ${TIMES} squatters, one in each call`, async () => {
    using conflict = checked();
    for (let host = 2; host < 2 + 2 * TIMES; host += 2) {
      await meetSquatter(conflict, host);
    }
  });

  test(`add() finds ${TIMES} of ${TIMES} squatters with whereabouts`, async () => {
    using conflict = checked();
    await using cluster = await WhereaboutsScene.start();
    const ipRanges = [
      { range: "10.1.2.0/24", range_start: "10.1.2.2" },
      { range: "2001:db8:1::/64", range_start: "2001:db8:1::2" },
    ];
    for (let time = 0; time < TIMES; time++) {
      await meetSquatter(conflict, 2, { ipam: cluster.ipam({ ipRanges }) });
      // It sets aside a part of a range only.
      const pools = cluster.names("ippools");
      assertEquals(pools.length, 2);
      for (const pool of pools) {
        const left = Object.values(cluster.allocations(pool) ?? {});
        assertEquals(left.map(({ podref }) => podref), [""]);
        cluster.api.remove("ippools", POOLS, pool);
      }
      assertEquals(cluster.reservations(), []);
      leave(conflict, 2);
    }
  });

  testConflictTiming(type, { needs, make });

  rootTest(
    `${type}.add() leaves nothing if its process is killed while it asks`,
    allOf(needs, needsBin),
    async (t) => {
      for (const [name, squatters] of [["once", 0], ["again", 1]] as const) {
        await t.step(name, async () => {
          using conflict = checked();
          if (squatters > 0) squat(conflict, 2);
          const before = readOwned(conflict.scene);
          await killWhileAsking(
            conflict,
            type,
            Ip.parse("10.1.2.2").add(
              BigInt(squatters),
            ),
          );
          const { scene } = conflict;
          const { host, sandbox } = scene.hosts;
          assertEquals([host, sandbox].flatMap(listPacketSockets), []);
          await scene.succeed("DEL");
          assertEquals(readOwned(scene), before);
          const { exitCode, stdout, json } = await scene.run("ADD");
          assertEquals(exitCode, 0, stdout);
          await scene.succeed("CHECK", { prevResult: json });
        });
      }
    },
  );

  if (!needs.ignore) {
    testFaultsOfAdd(type, " and conflicts are checked", {
      make: () => asFaultScene(checked()),
      atLeast,
      optional,
    });
  }

  test("add() of a replaced address is undone after kill -9", async (t) => {
    const steps = await eachStep(t, async (step) => {
      using conflict = checked();
      const { scene } = conflict;
      squat(conflict, 2);
      const before = readOwned(scene);
      const crash = new Crash(step);
      await scene.run("ADD");
      crash[Symbol.dispose]();
      await scene.succeed("DEL");
      assertEquals(readOwned(scene), before);
      const { exitCode, stdout, json } = await scene.run("ADD");
      assertEquals(exitCode, 0, stdout);
      await scene.succeed("CHECK", { prevResult: json });
      return crash.hasHappened ? true : undefined;
    });
    assert(steps.length >= 5, `only ${steps.length} steps`);
  });
}

/** Has a container meet the other machine at the addresses that are next. */
async function meetSquatter(
  conflict: ConflictScene,
  host: number,
  extras: Keys = {},
): Promise<void> {
  const { scene } = conflict;
  const before = readOwned(scene);
  squat(conflict, host);
  const env = {
    CNI_ARGS: "IgnoreUnknown=1;K8S_POD_NAMESPACE=test;K8S_POD_NAME=p1",
  };
  const added = await scene.run("ADD", extras, { env });
  const { exitCode, stdout, stderr, json } = added;
  assertEquals(exitCode, 0, stdout);
  assertEquals(addressesOf(json), addressesAt(host + 1));
  assertEquals(readAddresses(scene.hosts), addressesOf(json));
  addressesAt(host).forEach((used, index) => {
    const instead = addressesAt(host + 1)[index];
    assertMatch(
      stderr,
      new RegExp(
        `address=${used} mac=${macOf(conflict)} instead=${instead}$`,
        "m",
      ),
    );
  });
  await scene.succeed("DEL", { ...extras, prevResult: json }, { env });
  assertEquals(readOwned(scene), before);
}

/** Returns the addresses of both families with a number. */
function addressesAt(host: number): string[] {
  return [
    `10.1.2.${host}`,
    String(Ip.parse("2001:db8:1::").add(BigInt(host))),
  ];
}

/** Gives the other machine addresses. */
export function squat(conflict: ConflictScene, host: number): void {
  changeAddresses(conflict, "add", host);
}

/** Takes addresses from the other machine. */
function leave(conflict: ConflictScene, host: number): void {
  changeAddresses(conflict, "del", host);
}

function changeAddresses(
  { neighbour, dev }: ConflictScene,
  verb: "add" | "del",
  host: number,
): void {
  const [v4, v6] = addressesAt(host);
  const script = `
    ip address ${verb} ${v4}/24 dev ${dev}
    ip address ${verb} ${v6}/64 dev ${dev} nodad`;
  runIn(neighbour, "sh", "-ec", script);
}

/**
 * Kills ADD while it asks for an address. An ADD that ends before that, on a machine
 * that is busy, is tried again.
 */
async function killWhileAsking(
  { scene, neighbour, dev }: ConflictScene,
  type: string,
  ip: Ip,
): Promise<void> {
  const [{ ifindex: index, address }] = ipJson(neighbour, "link", "show", dev);
  using socket = new ArpSocket(neighbour, { index, mac: Mac.parse(address) });
  for (let attempt = 0; attempt < 10; attempt++) {
    for (const _ of socket.receiveClaims());
    const { hosts, config } = scene;
    const add = startPlugin(hosts, { type, command: "ADD", config });
    const isAsked = (): boolean =>
      [...socket.receiveClaims()].some((claim) => claim.ip.equals(ip));
    await eventually(`ADD asks for ${ip}`, isAsked);
    add.kill();
    if ((await add.output).code !== 0) return;
    await scene.succeed("DEL");
    Deno.removeSync(hosts.hostLocal().dataDir, { recursive: true });
  }
  throw new Error("ADD always ends first");
}

const ALL = ["route", "add", "local", "10.1.2.0/24", "dev", "lo"];

/** Lets the other machine answer for every address. */
function haveAll({ neighbour }: ConflictScene): void {
  runIn(neighbour, "ip", ...ALL);
}

function haveNone({ neighbour }: ConflictScene): void {
  runIn(neighbour, "ip", ...ALL.with(1, "del"));
}

function smallRange({ hosts }: PluginScene): Keys {
  return { ipam: hosts.hostLocal("10.1.2.0/28") };
}

function macOf({ neighbour, dev }: ConflictScene): string {
  return ipJson(neighbour, "link", "show", dev)[0].address;
}

/** Lists the addresses of a result, which has a prefix length for each. */
function addressesOf(
  { ips }: { ips: readonly { readonly address: string }[] },
): string[] {
  return ips.map(({ address }) => address.split("/")[0] ?? "");
}

function readAddresses({ sandbox }: TestHosts): string[] {
  return ipJson(sandbox, "address", "show", "dev", "eth0", "scope", "global")
    .flatMap(({ addr_info }: Keys) => addr_info as Keys[])
    .flatMap(({ local }: Keys) => local ? [String(local)] : []);
}

/** Lists the packet sockets of a namespace, by their inodes. */
export function listPacketSockets(netns: NetNs): string[] {
  const [, ...lines] = runIn(netns, "cat", "/proc/net/packet").trim()
    .split("\n");
  return lines.map((line) => line.trim().split(/\s+/).at(-1) ?? "");
}

/** Lists the addresses that are set aside, and where their links lead. */
function readSetAside(hosts: TestHosts): string[][] {
  return hosts.leases().flatMap((name) => {
    const path = `${hosts.directory}/leases/net1/${name}`;
    return Deno.lstatSync(path).isSymlink
      ? [[name, Deno.readLinkSync(path)]]
      : [];
  });
}

/** Reads all that an attachment changes, without what is set aside. */
function readOwned({ hosts, state }: PluginScene): unknown {
  const aside = readSetAside(hosts).map(([name]) => name);
  return [
    linkNames(hosts.sandbox),
    (state as unknown[]).slice(0, -1),
    hosts.leases().filter((name) => !aside.includes(name)),
  ];
}

function asFaultScene(conflict: ConflictScene): Disposable & {
  readonly state: unknown;
  run: PluginScene["run"];
} {
  const { scene } = conflict;
  return {
    get state(): unknown {
      return scene.state;
    },
    run: (...args) => scene.run(...args),
    [Symbol.dispose]: () => conflict[Symbol.dispose](),
  };
}
