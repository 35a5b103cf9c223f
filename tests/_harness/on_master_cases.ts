/**
 * What all plugins that create their link on a master have in common, as tests
 * of each.
 *
 * @module
 */

import { assertEquals } from "@std/assert";
import { rootTest } from "../../testing/capabilities.ts";
import { linkNames, runIn } from "../../testing/ip_json.ts";
import { testAttaching } from "./attachment_cases.ts";
import { type Change, CHANGES, checkAfterChanges } from "./check_cases.ts";
import {
  addMaster,
  MASTER,
  MasterScene,
  needsKind,
  onMaster,
  type OnMasterType,
  readQuickly,
} from "./on_master.ts";
import { type ConflictScene, testConflicts } from "./conflict_cases.ts";
import { OPTIONAL_STEPS, testSandboxLink } from "./sandbox_link_cases.ts";

/** Another program renames the master. */
const RENAME =
  `ip link set ${MASTER} down; ip link set ${MASTER} name other0 up`;

/** Changes of the master. */
const MASTER_CHANGES: readonly Change[] = [
  [
    "no master of that name",
    "host",
    RENAME,
    `failed to lookup master "${MASTER}": Link not found`,
  ],
  [
    "another master",
    "host",
    `${RENAME}; ip link add ${MASTER} type veth peer name peer0`,
    `Interface "eth0" is not on master "${MASTER}"`,
  ],
  [
    "another link",
    "sandbox",
    "ip link del eth0; ip link add eth0 type veth peer name peer0",
    "is not a ",
  ],
  [
    "no route to the subnet",
    "sandbox",
    "ip route del 10.1.2.0/24",
    "lacks route 10.1.2.0/24",
  ],
];

/** The tests of one plugin. */
export interface OnMasterTests {
  /** Changes that CHECK must notice, or not, besides those of every plugin. */
  readonly changes: readonly Change[];
  /** Whether the interface has a MAC of its own. */
  readonly hasOwnMac: boolean;
  /** How many steps ADD undoes, at the least. */
  readonly atLeast: number;
}

/** Registers the tests of a plugin. */
export function testOnMaster(
  type: OnMasterType,
  { changes, hasOwnMac, atLeast }: OnMasterTests,
): void {
  const needs = needsKind(type);
  const test = (
    name: string,
    body: (t: Deno.TestContext) => void | Promise<void>,
  ): void => rootTest(`${type}.${name}`, needs, body);
  const make = (): MasterScene => new MasterScene(type);

  if (!needs.ignore) {
    testAttaching(
      type,
      (hosts, extras) => {
        addMaster(hosts, type);
        return onMaster(type, hosts, extras);
      },
      [],
      readQuickly,
    );
  }

  testSandboxLink(type, {
    needs,
    make,
    atLeast,
    broken: { master: "none0", mode: "none", vlanId: 9999, mtu: -1 },
  });

  test("check() reports each change", async (t) => {
    const common = CHANGES.filter(([name, where]) =>
      (where === "sandbox" || name === "no lease") &&
      (hasOwnMac || !name.startsWith("another MAC"))
    );
    await checkAfterChanges(t, make, [
      ...common,
      ...MASTER_CHANGES,
      ...changes,
    ]);
  });

  test("del() releases the addresses when the master is gone", async () => {
    using scene = make();
    const { host, sandbox } = scene.hosts;
    await scene.succeed("ADD");
    runIn(host, "ip", "link", "del", MASTER);
    await scene.succeed("DEL");
    assertEquals([linkNames(sandbox), scene.hosts.leases()], [["lo"], []]);
  });

  test("del() leaves another container behind a path that is used again", async () => {
    using scene = make();
    const { hosts } = scene;
    const other = hosts.addNetns();
    const { json } = await scene.succeed("ADD");
    const call = { containerId: "other", sandbox: other };
    await scene.succeed("ADD", { vlanId: 9 }, call);
    // The Go plugin's have none.
    runIn(other, "ip", "link", "set", "eth0", "alias", "");
    const prevResult = JSON.parse(
      JSON.stringify(json).replaceAll(hosts.sandbox.path, other.path),
    );
    await scene.succeed("DEL", { prevResult }, { sandbox: other });
    assertEquals(linkNames(other), ["lo", "eth0"]);
  });

  test("add() creates nothing that cannot be", async (t) => {
    using scene = make();
    const before = scene.state;
    const rows: readonly [keys: object, code: number, text: string][] = [
      [
        { master: "none0" },
        7,
        'failed to lookup master "none0": Link not found',
      ],
      [{ mtu: 1501 }, 7, "invalid MTU 1501, must be [0, master MTU(1500)]"],
      [{ mtu: -1 }, 7, "invalid MTU -1, must be [0, master MTU(1500)]"],
      [{ ipam: { type: "none" } }, 999, 'failed to find plugin "none"'],
    ];
    for (const [keys, code, text] of rows) {
      await t.step(text, async () => {
        await scene.fail("ADD", [code, text], { ...keys });
        assertEquals(scene.state, before);
      });
    }
  });

  test("gc() and status() forward to the IPAM plugin", async () => {
    using scene = make();
    await scene.succeed("ADD");
    await scene.succeed("GC", {
      "cni.dev/valid-attachments": [{
        containerID: "test-container",
        ifname: "eth0",
      }],
    });
    assertEquals(scene.hosts.leases().length, 2);
    await scene.succeed("GC", { "cni.dev/valid-attachments": [] });
    assertEquals(scene.hosts.leases(), []);
    await scene.succeed("STATUS");
    await scene.fail("STATUS", [7, ""], {
      ipam: { type: "host-local", ranges: [[{ subnet: "none" }]] },
    });
  });

  test("add() fails if another host has an IPv6 address", async () => {
    using scene = new MasterScene(type, { enabledad: true });
    const before = scene.state;
    const dev = type === "vlan" ? "tagged" : "wire";
    const address = ["2001:db8:1::2/64", "dev", dev, "nodad"];
    runIn(scene.neighbour, "ip", "address", "add", ...address);
    const text =
      'Cannot add address 2001:db8:1::2/64 to "eth0": another host has it';
    await scene.fail("ADD", [999, text]);
    assertEquals(scene.state, before);
  });
}

/** Registers the tests of a plugin with `conflictCheck`. */
export function testConflictsOnMaster(
  type: OnMasterType,
  { atLeast }: Pick<OnMasterTests, "atLeast">,
): void {
  testConflicts(type, {
    needs: needsKind(type),
    make(extras): ConflictScene {
      const scene = new MasterScene(type, extras);
      return {
        scene,
        neighbour: scene.neighbour,
        dev: type === "vlan" ? "tagged" : "wire",
        [Symbol.dispose]: () => scene[Symbol.dispose](),
      };
    },
    atLeast,
    optional: OPTIONAL_STEPS,
  });
}
