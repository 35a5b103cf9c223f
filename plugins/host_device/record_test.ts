import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { findFileId } from "../../base/files/same_file.ts";
import type { OrphanSearch } from "../../metadata/orphans.ts";
import { rootTest } from "../../testing/capabilities.ts";
import { ipJson, runIn } from "../../testing/ip_json.ts";
import { addDevice, DEVICE, DEVICE_MAC, DeviceScene } from "./testing.ts";
import { hideBootId } from "../../tests/_harness/boot_id.ts";
import {
  keepFile,
  needsImmutableFiles,
} from "../../tests/_harness/immutable_file.ts";
import {
  afterLinkDump,
  interruptLinkDumps,
} from "../../tests/_harness/interrupted_dumps.ts";
import { spawnIn } from "../../tests/_harness/spawn_in.ts";
import { eachRow } from "../../tests/_harness/table.ts";
import { orphans } from "./orphans.ts";

const EVIL = "cni0";

/**
 * A device whose container has changed it and then ended without a DEL. So the
 * kernel has returned it with the container's name, alias, MAC and MTU.
 */
async function endContainer(scene: DeviceScene): Promise<void> {
  await scene.succeed("ADD");
  for (
    const command of [
      "link set eth0 down",
      `link set eth0 name ${EVIL}`,
      `link set ${EVIL} alias uplink`,
      `link set ${EVIL} address 02:00:00:00:00:99`,
      `link set ${EVIL} mtu 1400`,
      `link property add dev ${EVIL} altname br0`,
    ]
  ) scene.ipInside(command);
  const { host, sandbox } = scene.hosts;
  const mount = `/proc/${Deno.pid}/fd/${host.fd}`;
  runIn(sandbox, "ip", "link", "set", EVIL, "netns", mount);
  assertEquals(scene.outside, [EVIL]);
  rewrite(scene, (record) => ({
    ...record,
    netns: { ...record["netns"] as object, path: "/run/netns/none" },
  }));
}

function recordPath({ config }: DeviceScene): string {
  return `${config["dataDir"]}/net1:test-container:eth0.json`;
}

function rewrite(
  scene: DeviceScene,
  change: (record: Record<string, unknown>) => unknown,
): void {
  const path = recordPath(scene);
  const record = JSON.parse(Deno.readTextFileSync(path));
  Deno.writeTextFileSync(path, JSON.stringify(change(record)));
}

function assertRestored(scene: DeviceScene): void {
  assertEquals(scene.outside, [DEVICE]);
  const [link] = ipJson(scene.hosts.host, "link", "show", DEVICE);
  const { address, mtu, ifalias = "", altnames = [] } = link;
  assertEquals([address, mtu, ifalias, altnames], [DEVICE_MAC, 1500, "", []]);
  assertEquals([...Deno.readDirSync(`${scene.config["dataDir"]}`)], []);
}

const WAYS: readonly [
  name: string,
  restore: (scene: DeviceScene) => Promise<unknown>,
][] = [
  [
    "DEL without a namespace",
    (scene) => scene.succeed("DEL", {}, { env: { CNI_NETNS: "" } }),
  ],
  [
    "DEL with another pod's",
    (scene) => scene.succeed("DEL", {}, { sandbox: scene.hosts.addNetns() }),
  ],
  ["GC", (scene) => scene.succeed("GC", { "cni.dev/valid-attachments": [] })],
  ["cni gc --orphans", async (scene) => {
    for (const orphan of await findOrphans(scene)) await orphan.remove();
  }],
  ["ADD of the next container, and its DEL", async (scene) => {
    const sandbox = scene.hosts.addNetns();
    const next = { sandbox, containerId: "next" };
    await scene.succeed("ADD", {}, next);
    const [link] = ipJson(sandbox, "link", "show", "eth0");
    assertEquals([link.address, link.mtu, link.ifalias], [
      DEVICE_MAC,
      1500,
      DEVICE,
    ]);
    await scene.succeed("DEL", {}, next);
  }],
];

async function findOrphans(
  scene: DeviceScene,
): Promise<{ readonly where: string; remove(): Promise<void> }[]> {
  const found = [];
  const search = {
    hostNetns: scene.hosts.host.path,
    places: [scene.config["dataDir"]],
    log: { warn(): void {} },
    evidence: { findReason: () => ({ why: "its namespace has ended" }) },
  } as unknown as OrphanSearch;
  for (const find of orphans.finders ?? []) found.push(...await find(search));
  return found;
}

rootTest(
  "host-device restores a device of a container that ended without DEL",
  async (t) => {
    await eachRow(t, WAYS, async ([, restore]) => {
      using scene = new DeviceScene();
      await endContainer(scene);
      await restore(scene);
      assertRestored(scene);
    });
  },
);

rootTest(
  "host-device.gc() restores other devices if it cannot remove one record",
  needsImmutableFiles,
  async () => {
    using scene = new DeviceScene();
    await endContainer(scene);
    // The record that GC reads first, of the same device.
    const path = recordPath(scene).replace("net1:", "net1:a-");
    await Deno.copyFile(recordPath(scene), path);
    using _kept = keepFile(path);
    await scene.fail("GC", [5, `"${path}"`], {
      "cni.dev/valid-attachments": [],
    });
    assertEquals(scene.outside, [DEVICE]);
    assertEquals(findFileId(recordPath(scene)), undefined);
  },
);

rootTest("host-device keeps the records of running containers", async () => {
  using scene = new DeviceScene();
  await scene.succeed("ADD");
  assertEquals(await findOrphans(scene), []);
  await scene.succeed("GC", { "cni.dev/valid-attachments": [] });
  addDevice(scene.hosts.host, "ens6", "c2:11:22:33:44:66");
  const next = { sandbox: scene.hosts.addNetns(), containerId: "next" };
  await scene.succeed("ADD", { device: "ens6" }, next);
  assert((await Deno.stat(recordPath(scene))).isFile);
  assertEquals(scene.inside, ["lo", "eth0"]);
});

rootTest(
  "host-device.del() keeps the record of hardware that has not returned yet",
  async () => {
    using scene = new DeviceScene();
    await scene.succeed("ADD");
    rewrite(scene, (record) => ({
      ...record,
      kind: "",
      parent: { bus: "pci", name: "0000:00:1f.6" },
      linkIndex: undefined,
      isLinkHere: false,
    }));
    const env = { CNI_NETNS: "" };
    const { exitCode, stderr } = await scene.run("DEL", {}, { env });
    assertEquals(exitCode, 0);
    assertStringIncludes(stderr, "keeping its record");
    assert((await Deno.stat(recordPath(scene))).isFile);
  },
);

rootTest(
  "host-device keeps the record of a virtual device in a living namespace",
  async () => {
    using scene = new DeviceScene();
    await scene.succeed("ADD");
    scene.ipInside("link set eth0 address 02:00:00:00:00:99");
    rewrite(scene, (record) => ({
      ...record,
      netns: { ...record["netns"] as object, path: "/run/netns/none" },
    }));
    using stack = new DisposableStack();
    const inside = spawnIn(scene.hosts.sandbox, {
      path: "/bin/sleep",
      args: ["600"],
      env: {},
      stdin: "",
    });
    stack.defer(() => inside.kill());
    assertEquals(await findOrphans(scene), []);
    addDevice(scene.hosts.host, "ens6", "c2:11:22:33:44:66");
    const next = { sandbox: scene.hosts.addNetns(), containerId: "next" };
    await scene.succeed("ADD", { device: "ens6" }, next);
    await scene.succeed("GC", { "cni.dev/valid-attachments": [] });
    await scene.run("DEL", {}, { env: { CNI_NETNS: "" } });
    await scene.succeed("DEL", { device: "ens6" }, next);
    await scene.succeed("DEL");
    scene.ip("link del ens6");
    assertRestored(scene);
    inside.kill();
    await inside.output;
  },
);

rootTest("host-device.add() moves no device without a record", async () => {
  using scene = new DeviceScene();
  const { state } = scene;
  const dataDir = `${scene.hosts.directory}/file`;
  await Deno.writeTextFile(dataDir, "");
  await scene.fail("ADD", [5, `Cannot write "${dataDir}/net1:`], { dataDir });
  assertEquals(scene.state, state);
});

rootTest(
  "host-device DEL moves the device out although the boot ID is hidden",
  async (t) => {
    for (const command of ["ADD", "DEL"] as const) {
      await t.step(`from ${command}`, async () => {
        using scene = new DeviceScene();
        const run = async (which: "ADD" | "DEL"): Promise<void> => {
          using _hidden = which === command ? hideBootId() : undefined;
          await scene.succeed(which);
        };
        await run("ADD");
        await run("DEL");
        assertRestored(scene);
      });
    }
  },
);

/** Adds a second device, and attaches it to the next container. */
async function attachNext(
  scene: DeviceScene,
): ReturnType<DeviceScene["run"]> {
  addDevice(scene.hosts.host, "ens6", "c2:11:22:33:44:66");
  const next = { sandbox: scene.hosts.addNetns(), containerId: "next" };
  return await scene.run("ADD", { device: "ens6" }, next);
}

rootTest(
  "host-device.add() succeeds although another container's device cannot be restored",
  async () => {
    using scene = new DeviceScene();
    await endContainer(scene);
    const gc = { "cni.dev/valid-attachments": [] };
    {
      using _interrupted = interruptLinkDumps("none");
      const { exitCode, stderr } = await attachNext(scene);
      assertEquals(exitCode, 0);
      assertStringIncludes(stderr, `Cannot restore \\"${DEVICE}\\"`);
      const { stdout } = await scene.run("GC", gc);
      assertStringIncludes(stdout, "the list changed during each of");
    }
    await scene.succeed("GC", gc);
    const [link] = ipJson(scene.hosts.host, "link", "show", DEVICE);
    assertEquals(link.address, DEVICE_MAC);
  },
);

rootTest("host-device.del() succeeds if the device disappears", async (t) => {
  await eachRow(t, ["ADD", "GC", "DEL"], async (command) => {
    using scene = new DeviceScene();
    await endContainer(scene);
    const vanish = (): void => scene.ip(`link del ${EVIL}`);
    using _vanishing = afterLinkDump(vanish);
    const { exitCode, stdout } = command === "ADD"
      ? await attachNext(scene)
      : await scene.run(command, { "cni.dev/valid-attachments": [] }, {
        env: { CNI_NETNS: "" },
      });
    assertEquals(exitCode, 0, stdout);
    assert(!scene.outside.includes(EVIL));
  });
});

rootTest("host-device.gc() without a list restores nothing", async () => {
  using scene = new DeviceScene();
  await endContainer(scene);
  await scene.succeed("GC");
  assertEquals([scene.outside, scene.hosts.leases().length], [[EVIL], 2]);
  assert((await Deno.stat(recordPath(scene))).isFile);
});
