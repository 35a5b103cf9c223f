/**
 * The executable of firewall: on a host without programs, many at the same
 * time, killed, and with firewalld on the bus.
 */

import { assertEquals, assertStringIncludes } from "@std/assert";
import { findFileId } from "../../base/files/same_file.ts";
import type { NetNs } from "../../ffi/netns.ts";
import { allOf, rootTest } from "../../testing/capabilities.ts";
import {
  BIN,
  needsBin,
  startPlugin,
} from "../../tests/_harness/executables.ts";
import { eventually } from "../../tests/_harness/eventually.ts";
import {
  FakeFirewalld,
  needsBus,
} from "../../tests/_harness/fake_firewalld.ts";
import { FirewallScene } from "./testing.ts";
import { killByTurns } from "../../tests/_harness/kills.ts";
import type { Keys } from "../../tests/_harness/plugin_scene.ts";
import { createRandom } from "../../tests/_harness/repetition.ts";
import { needsInetRules, needsRuleTools } from "../../tests/_harness/rules.ts";
import type { Spawned } from "../../tests/_harness/spawn_in.ts";
import { withoutPrograms } from "../../tests/_harness/host_programs.ts";
import type { CallOptions } from "../../testing/test_hosts.ts";

const needs = allOf(needsBin, needsRuleTools, needsInetRules);

/** Starts a command of the executable. */
function start(
  scene: FirewallScene,
  command: string,
  { path, keys = {}, options = {} }: {
    readonly path?: string;
    readonly keys?: Keys;
    readonly options?: CallOptions;
  } = {},
): Spawned {
  const { prevResult } = scene;
  const config = { ...scene.config, prevResult, ...keys };
  const call = { type: "firewall", command, config, ...path && { path } };
  return startPlugin(scene.hosts, call, options);
}

/** Waits for commands that must succeed, side by side. */
async function finish(started: readonly Spawned[]): Promise<void> {
  for (const { code, stdout, stderr } of await outputsOf(started)) {
    assertEquals([code, stderr], [0, ""], stdout);
  }
}

function outputsOf(
  started: readonly Spawned[],
): Promise<Awaited<Spawned["output"]>[]> {
  return Promise.all(started.map(({ output }) => output));
}

rootTest(
  "firewall uses nftables on a host without iptables",
  needs,
  async () => {
    using scene = new FirewallScene({ ingressPolicy: "same-bridge" });
    const path = withoutPrograms(scene.hosts.directory, `${BIN}/firewall`);
    for (const command of ["STATUS", "ADD", "ADD", "CHECK"]) {
      await finish([start(scene, command, { path })]);
    }
    assertStringIncludes(scene.table, '"cni0" . "cni0" : return');
    assertEquals(scene.ownRules, []);
    await finish([start(scene, "DEL", { path })]);
    assertEquals(scene.table, "");
  },
);

for (const backend of ["iptables", "nftables"]) {
  rootTest(`firewall runs concurrently (${backend})`, needs, async () => {
    using scene = new FirewallScene({ backend, ingressPolicy: "isolated" });
    const containers = Array.from({ length: 6 }, (_, index) => ({
      keys: {
        prevResult: {
          ...scene.prevResult,
          ips: [{ address: `10.0.0.${index + 10}/24` }],
        },
      },
      options: { containerId: `c${index}` },
    }));
    const all = (command: string): Promise<void> =>
      finish(containers.map((one) => start(scene, command, one)));
    await all("ADD");
    await all("CHECK");
    const { rules } = scene;
    // `-P` is there once for each family.
    const twice = rules.filter((rule, at) =>
      !rule.startsWith("-P") && rules.indexOf(rule) !== at
    );
    assertEquals(twice, []);
    await all("DEL");
    const left = [...scene.rules, scene.table].join("\n");
    assertEquals(/10\.0\.0\./.test(left), false, left);
  });
}

rootTest("firewall DEL leaves nothing after killed calls", needs, async () => {
  using scene = new FirewallScene({ backend: "iptables" });
  const succeed = (command: string): Promise<void> =>
    finish([
      start(scene, command, {
        keys: command === "DEL" ? { prevResult: undefined } : {},
      }),
    ]);
  await killByTurns({
    start: (command) => start(scene, command),
    succeed,
    remains: () => [scene.ownRules, scene.table],
  }, {
    random: createRandom(7),
    count: 8,
    // An iptables that was started goes on without its parent.
    afterKill: () =>
      eventually("no program is left", () => !isInUse(scene.hosts.host)),
  });
});

/** Reports whether a process other than this one is in a namespace. */
function isInUse({ path }: NetNs): boolean {
  const id = findFileId(path);
  return [...Deno.readDirSync("/proc")].some(({ name }) =>
    /^\d+$/.test(name) && Number(name) !== Deno.pid &&
    findFileId(`/proc/${name}/ns/net`) === id
  );
}

rootTest("firewall calls firewalld", allOf(needs, needsBus), async () => {
  using scene = new FirewallScene();
  await using firewalld = await FakeFirewalld.start(scene.hosts.directory);
  const { env } = firewalld, options = { env };
  for (const command of ["STATUS", "ADD", "CHECK"]) {
    await finish([start(scene, command, { options })]);
  }
  assertEquals(firewalld.sources.size, 2);
  const keys = { prevResult: undefined };
  await finish([start(scene, "DEL", { options, keys })]);
  assertEquals(firewalld.sources.size, 0);
});
