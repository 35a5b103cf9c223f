// deno-lint-ignore-file no-sync-fn-in-async-fn -- nothing else waits during these calls

/**
 * multus whose delegates fail, whose disk does, or that is killed: a pod has all
 * its networks or none.
 */

import {
  assert,
  assertEquals,
  assertMatch,
  assertStringIncludes,
} from "@std/assert";
import type { JsonObject } from "../../../base/json/json.ts";
import type { NetNs } from "../../../ffi/netns.ts";
import { rootTest } from "../../../testing/capabilities.ts";
import { FaultInjector, type Moment } from "../../../testing/fault_injector.ts";
import { eachStep } from "../../../tests/_harness/fault_steps.ts";
import { runIn } from "../../../testing/ip_json.ts";
import { killByTurns } from "../../../tests/_harness/kills.ts";
import { hostTest, MultusHost } from "../testing/host.ts";
import { CONTAINER, MultusScene } from "../testing/scene.ts";
import { createRandom } from "../../../tests/_harness/repetition.ts";
import { type CallOutput, TestHosts } from "../../../testing/test_hosts.ts";
import { eachRow } from "../../../tests/_harness/table.ts";

/** The plugins of four networks. */
const PLUGINS = ["a", "b", "c", "d"];

function delegatesOf(scene: MultusScene): { delegates: JsonObject[] } {
  return {
    delegates: PLUGINS.map((type) => scene.conf(`network-${type}`, type)),
  };
}

/** The calls for the networks up to one, the last of which fails. */
function undoneStory(failing: number): string[] {
  const calls = PLUGINS.slice(0, failing + 1)
    .map((type, index) => [type, index === 0 ? "eth0" : `net${index}`]);
  return [
    ...calls.map(([type, ifName]) => `${type} ADD ${ifName}`),
    ...calls.toReversed().map(([type, ifName]) => `${type} DEL ${ifName}`),
  ];
}

const REFUSAL = { code: 123, msg: "there is no room", details: "for anybody" };
const REFUSE = `echo '${JSON.stringify(REFUSAL)}'; exit 1`;

rootTest("multus detaches in reverse if any network fails", async (t) => {
  await eachRow(t, PLUGINS.entries(), async ([failing, type]) => {
    await using scene = await MultusScene.start();
    for (const one of PLUGINS) scene.addPlugin(one);
    scene.addPlugin(type, undefined, { ADD: REFUSE });
    const added = await scene.run("ADD", delegatesOf(scene));
    assertEquals(added.exitCode, 1);
    assertEquals(added.json, {
      cniVersion: "1.0.0",
      ...REFUSAL,
      msg: `[//:network-${type}]: error adding container to network ` +
        `"network-${type}": ${REFUSAL.msg}`,
    });
    assertEquals(scene.story, undoneStory(failing));
    assertEquals(scene.remembered, [CONTAINER]);
  }, ([failing]) => `network ${failing}`);
});

rootTest("multus keeps undoing, and reports the first failure", async () => {
  await using scene = await MultusScene.start();
  for (const one of PLUGINS) {
    scene.addPlugin(one, undefined, { DEL: "echo no >&2; exit 1" });
  }
  scene.addPlugin("d", undefined, { ADD: REFUSE, DEL: REFUSE });
  const added = await scene.run("ADD", delegatesOf(scene));
  assertEquals([added.exitCode, added.json.code], [1, REFUSAL.code]);
  assertStringIncludes(added.json.msg, "[//:network-d]: ");
  assertEquals(scene.story, undoneStory(3));
});

rootTest("multus DEL tries everything, and records failures", async () => {
  await using scene = await MultusScene.start();
  for (const one of PLUGINS) scene.addPlugin(one);
  await scene.run("ADD", delegatesOf(scene));
  const remembered = scene.remembered;
  scene.addPlugin("b", undefined, { DEL: "echo b fails >&2; exit 1" });
  scene.addPlugin("d", undefined, { DEL: REFUSE });
  const deleted = await scene.run("DEL", delegatesOf(scene));
  assertEquals(deleted.exitCode, 1);
  assertStringIncludes(deleted.json.msg, REFUSAL.msg);
  assertStringIncludes(deleted.json.msg, "b fails");
  assertEquals(scene.story.slice(4), undoneStory(3).slice(4));
  assertEquals(
    scene.remembered,
    remembered.filter((name) => !/network-[ac]/.test(name)),
  );
  // The runtime tries again, when what was wrong is put right.
  for (const one of PLUGINS) scene.addPlugin(one);
  const { exitCode, stdout } = await scene.run("DEL", delegatesOf(scene));
  assertEquals([exitCode, stdout, scene.remembered], [0, "", []]);
});

rootTest("multus attaches nothing that it cannot record", async (t) => {
  await t.step("the scratch file cannot be written", async () => {
    await using scene = await MultusScene.start();
    scene.addPlugin("a");
    Deno.writeTextFileSync(scene.cniDir, "no directory");
    const keys = { delegates: [scene.conf("network-a", "a")] };
    const added = await scene.run("ADD", keys);
    assertEquals([added.exitCode, added.json.code], [1, 5], added.stdout);
    assertEquals(scene.story, []);
  });
  await t.step("libcni's cache cannot be written", async () => {
    await using scene = await MultusScene.start();
    for (const one of PLUGINS) scene.addPlugin(one);
    Deno.mkdirSync(scene.cniDir);
    Deno.writeTextFileSync(`${scene.cniDir}/results`, "no directory");
    const added = await scene.run("ADD", delegatesOf(scene));
    assertEquals([added.exitCode, added.json.code], [1, 5], added.stdout);
    assertEquals(scene.story, undoneStory(0));
  });
});

const BRIDGE = "br-blue";

/** Three networks of this project's plugins, in this process. */
class Networks implements Disposable {
  readonly hosts = TestHosts.create();
  readonly cniDir = `${this.hosts.directory}/multus`;

  run(command: string): Promise<CallOutput> {
    const { hosts } = this;
    const cniVersion = "1.0.0";
    const address = "192.168.10.5/24";
    const blue = {
      cniVersion,
      name: "blue",
      type: "bridge",
      bridge: BRIDGE,
      ipam: { type: "static", addresses: [{ address }] },
    };
    const green = {
      cniVersion,
      name: "green",
      plugins: [
        { type: "ptp", ipam: hosts.hostLocal("10.20.0.0/16") },
        { type: "sbr" },
      ],
    };
    const pods = {
      cniVersion,
      name: "pods",
      type: "ptp",
      ipam: hosts.hostLocal("10.10.0.0/16"),
    };
    return hosts.run("multus", command, {
      cniVersion,
      name: "multus-cni-network",
      type: "multus",
      cniDir: this.cniDir,
      binDir: hosts.path,
      delegates: [pods, blue, green],
    });
  }

  /** Lists everything but the bridge, which stays. */
  state(): string[] {
    const { hosts } = this;
    return [
      ...listAll(hosts.host),
      ...listAll(hosts.sandbox),
      ...["pods", "green"].flatMap((name) => hosts.leases(name)),
    ];
  }

  /** Lists what is remembered. */
  remembered(): string[] {
    return [this.cniDir, `${this.cniDir}/results`]
      .flatMap((directory) => [...Deno.readDirSync(directory)])
      .filter(({ isFile }) => isFile).map(({ name }) => name);
  }

  [Symbol.dispose](): void {
    this.hosts[Symbol.dispose]();
  }
}

/** Lists links, addresses, routes and rules, in one process for there is much to list. */
function listAll(netns: NetNs): string[] {
  const show = ["link", "address", "rule", "route show table all"]
    .flatMap((what) => [`ip -o -4 ${what}`, `ip -o -6 ${what}`]);
  return runIn(netns, "sh", "-c", show.join("; ")).split("\n")
    .filter((line) => !line.includes(BRIDGE));
}

/** Steps that plugins may do without; which, their own tests tell. */
const OPTIONAL = /^write \/proc\/sys\//;

/** @param before What there was before, and shall be afterwards */
async function addWithFault(
  networks: Networks,
  failing: number,
  { moment, before }: { moment: Moment; before: unknown },
): Promise<"done without" | "undone" | undefined> {
  using fault = new FaultInjector(failing, moment);
  const added = await networks.run("ADD");
  fault[Symbol.dispose]();
  const step = fault.steps[failing - 1];
  const isUndone = added.exitCode === 1;
  if (isUndone) {
    assertStringIncludes(added.stdout, "injected into");
    assertEquals(networks.state(), before, step);
    assertEquals(networks.remembered().filter((name) => name !== ID), []);
  } else if (step !== undefined) assertMatch(step, OPTIONAL);
  const deleted = await networks.run("DEL");
  assertEquals([deleted.exitCode, deleted.stdout], [0, ""], step);
  assertEquals(networks.remembered(), []);
  if (isUndone) return "undone";
  assertEquals(networks.state(), before, step);
  return step === undefined ? undefined : "done without";
}

const ID = "test-container";

for (const moment of ["instead", "afterwards"] as const) {
  rootTest(
    `multus leaves nothing when any step fails, ${moment}`,
    async (t) => {
      using networks = new Networks();
      // The bridge is there for good.
      for (const command of ["ADD", "DEL"]) {
        const { exitCode, stdout } = await networks.run(command);
        assertEquals(exitCode, 0, stdout);
      }
      const before = networks.state();
      const outcomes = await eachStep(
        t,
        (step) => addWithFault(networks, step, { moment, before }),
        400,
      );
      const undone = outcomes.filter((outcome) => outcome === "undone");
      assert(undone.length > 40, `only ${undone.length} steps were undone`);
    },
  );
}

/** How many operations are killed. */
const KILLS = 16;

hostTest("multus DEL leaves nothing after a killed ADD", async () => {
  await using host = await MultusHost.start();
  const networks = [{ name: "blue", ips: ["192.168.10.5/24"] }, {
    name: "green",
  }];
  const pod = host.addPod("web", { networks });
  await killByTurns({
    start: (command) => host.start(command, pod),
    succeed: async (command) => {
      if (command === "ADD") return void await host.succeed("ADD", pod);
      // It may have something to say on stderr.
      const deleted = await host.call("DEL", pod);
      assertEquals([deleted.code, deleted.stdout], [0, ""]);
    },
    remains: () => host.remains(),
  }, { random: createRandom(3), count: KILLS });
  assertEquals(host.remains(), []);
});
