/**
 * ADD, CHECK and DEL of multus without a cluster: rows 27 to 32, 36 and 40 of
 * the list, in the versions in which it is run.
 */

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { multus } from "../../plugins/multus/plugin.ts";
import { needsRoot } from "../../testing/capabilities.ts";
import { conformance } from "../_harness/conformance.ts";
import {
  CONTAINER,
  eachVersion,
  MultusScene,
  resultOf,
} from "../../plugins/multus/testing/scene.ts";
import { assertFailure, runCommand } from "../_harness/recorder.ts";

/** Builds a row of a scene with plugins weave-net and other-plugin. */
function row(
  run: (scene: MultusScene, cniVersion: string) => Promise<void>,
): (cniVersion: string) => Promise<void> {
  return async (cniVersion) => {
    await using scene = await MultusScene.start(cniVersion);
    scene.addPlugin("weave-net", "1.1.1.2/24");
    scene.addPlugin("other-plugin", "1.1.1.5/24");
    await run(scene, cniVersion);
  };
}

/** The networks weave1 and other1. */
function both(
  scene: MultusScene,
): { delegates: ReturnType<typeof scene.conf>[] } {
  return {
    delegates: [
      scene.conf("weave1", "weave-net"),
      scene.conf("other1", "other-plugin"),
    ],
  };
}

const FAILING = "echo 'expected plugin failure' >&2; exit 1";

conformance(
  "multus add",
  eachVersion({
    "27 two delegates: eth0's result, DEL of both": row(
      async (scene, cniVersion) => {
        const added = await scene.run("ADD", both(scene));
        assertEquals([added.exitCode, added.stderr], [0, ""], added.stdout);
        assertEquals(added.json, resultOf(cniVersion, "1.1.1.2/24"));
        assertEquals(scene.remembered, [
          CONTAINER,
          `results/other1-${CONTAINER}-net1`,
          `results/weave1-${CONTAINER}-eth0`,
        ]);
        const { exitCode, stdout, stderr } = await scene.run(
          "DEL",
          both(scene),
        );
        assertEquals([exitCode, stdout, stderr], [0, "", ""]);
        assertEquals(scene.story, [
          "weave-net ADD eth0",
          "other-plugin ADD net1",
          "other-plugin DEL net1",
          "weave-net DEL eth0",
        ]);
        assertEquals(scene.remembered, []);
      },
    ),
    "28 a result without address is accepted": row(
      async (scene, cniVersion) => {
        scene.addPlugin("weave-net");
        const added = await scene.run("ADD", both(scene));
        assertEquals(added.exitCode, 0, added.stdout);
        assertEquals(added.json, { cniVersion });
      },
    ),
    "29 an invalid namespace's error names the network": row(async (scene) => {
      const CNI_NETNS = "/nonexistent/netns";
      const env = { CNI_NETNS };
      const added = await scene.run("ADD", both(scene), { env });
      assertEquals(added.exitCode, 1);
      assertStringIncludes(
        added.json.msg,
        '[//:weave1]: error adding container to network "weave1": ' +
          'DelegateAdd: cannot set "weave-net" interface name to "eth0": ' +
          `validateIfName: no net namespace ${CNI_NETNS} found: `,
      );
      assertEquals([scene.story, scene.remembered], [[], []]);
    }),
    "31 the second of two delegates fails, both go": row(async (scene) => {
      scene.addPlugin("other-plugin", undefined, { ADD: FAILING });
      const added = await scene.run("ADD", both(scene));
      assertEquals(added.exitCode, 1);
      assertStringIncludes(
        added.json.msg,
        '[//:other1]: error adding container to network "other1": ',
      );
      assertStringIncludes(added.json.msg, "expected plugin failure");
      assertEquals(scene.story, [
        "weave-net ADD eth0",
        "other-plugin ADD net1",
        "other-plugin DEL net1",
        "weave-net DEL eth0",
      ]);
      // For the runtime's own DEL.
      assertEquals(scene.remembered, [CONTAINER]);
    }),
    "32 a second delegate without a name is never run": row(async (scene) => {
      const { delegates: [weave, other] } = both(scene);
      assert(weave && other);
      const { name: _, ...nameless } = other;
      const added = await scene.run("ADD", { delegates: [weave, nameless] });
      assertEquals([added.exitCode, added.json.code], [1, 7], added.stdout);
      assertStringIncludes(added.json.msg, "missing network name");
      assertEquals(scene.story, ["weave-net ADD eth0", "weave-net DEL eth0"]);
    }),
    "36 port mappings reach a list's plugin": row(async (scene, cniVersion) => {
      const portMappings = [
        { hostPort: 8080, containerPort: 80, protocol: "tcp" },
      ];
      const list = {
        name: "weave-list",
        cniVersion,
        plugins: [
          { type: "weave-net" },
          { type: "other-plugin", capabilities: { portMappings: true } },
        ],
      };
      const keys = { delegates: [list], runtimeConfig: { portMappings } };
      const added = await scene.run("ADD", keys);
      assertEquals(added.exitCode, 0, added.stdout);
      const [weave, other] = scene.plugins.calls;
      assertEquals(weave?.stdin.runtimeConfig, undefined);
      assertEquals(other?.stdin.runtimeConfig, { portMappings });
      const deleted = await scene.run("DEL", keys);
      assertEquals([deleted.exitCode, deleted.stdout], [0, ""]);
      assertEquals(scene.story.slice(2), [
        "other-plugin DEL eth0",
        "weave-net DEL eth0",
      ]);
    }),
  }),
  needsRoot,
);

conformance(
  "multus add",
  eachVersion({
    "30 input that is not JSON fails ADD and DEL": async (cniVersion) => {
      const text = '{"name":"node-cni-network","type":"multus",' +
        `"cniVersion":"${cniVersion}","delegates":[{"name":"weave1",`;
      for (const command of ["ADD", "DEL"]) {
        assertFailure(await runCommand(multus, command, text), { code: 6 });
      }
    },
  }),
);

conformance(
  "multus add",
  eachVersion({
    "40 CHECK runs all delegates": row(async (scene) => {
      await scene.run("ADD", both(scene));
      const { exitCode, stdout } = await scene.run("CHECK", both(scene));
      assertEquals([exitCode, stdout], [0, ""]);
      assertEquals(scene.story.slice(2), [
        "weave-net CHECK eth0",
        "other-plugin CHECK net1",
      ]);
    }),
    "40 CHECK runs plugins in the order of ADD": row(
      async (scene, cniVersion) => {
        const plugins = [{ type: "weave-net" }, { type: "other-plugin" }];
        const list = { name: "weave-list", cniVersion, plugins };
        await scene.run("ADD", { delegates: [list] });
        const checked = await scene.run("CHECK", { delegates: [list] });
        assertEquals(checked.exitCode, 0, checked.stdout);
        assertEquals(scene.story.slice(2), [
          "weave-net CHECK eth0",
          "other-plugin CHECK eth0",
        ]);
      },
    ),
    "40 CHECK fails as the first that fails": row(async (scene) => {
      const error = JSON.stringify({ code: 101, msg: "it is gone" });
      scene.addPlugin("other-plugin", "1.1.1.5/24", {
        CHECK: `echo '${error}'; exit 1`,
      });
      await scene.run("ADD", both(scene));
      const { exitCode, json } = await scene.run("CHECK", both(scene));
      assertEquals([exitCode, json.code, json.msg], [1, 101, "it is gone"]);
    }),
  }, ["0.4.0", "1.0.0"]),
  needsRoot,
);

conformance("multus add", {
  "40 CHECK passes over a delegate that is older than CHECK": async () => {
    await using scene = await MultusScene.start("1.0.0");
    scene.addPlugin("weave-net", "1.1.1.2/24");
    scene.addPlugin("other-plugin");
    const old = { cniVersion: "0.3.1" };
    const delegates = [
      scene.conf("other1", "other-plugin", old),
      scene.conf("weave1", "weave-net"),
    ];
    await scene.run("ADD", { delegates });
    const { exitCode, stdout } = await scene.run("CHECK", { delegates });
    assertEquals([exitCode, stdout], [0, ""]);
    assertEquals(scene.story.slice(2), ["weave-net CHECK net1"]);
  },
}, needsRoot);
