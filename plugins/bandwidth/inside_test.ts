/** Limits of interfaces without an end on the host, inside the container. */

import { assert, assertEquals } from "@std/assert";
import { rootTest } from "../../testing/capabilities.ts";
import { linkNames, runIn } from "../../testing/ip_json.ts";
import { MasterScene, needsKind } from "../../tests/_harness/on_master.ts";
import type { Keys } from "../../tests/_harness/plugin_scene.ts";
import type { CallOutput } from "../../testing/test_hosts.ts";
import { measureFlows, measureUndisturbed } from "./testing/flows.ts";
import {
  assertFailure,
  assertSuccess,
  hostLimits,
  tcJson,
} from "./testing/limited_pair.ts";

const RATES = { ingressRate: 20e6, egressRate: 10e6 };

/** A container that a plugin attaches, and bandwidth limits. */
class InsideScene extends MasterScene {
  #prevResult: unknown;

  async attach(): Promise<void> {
    this.#prevResult = (await this.succeed("ADD")).json;
  }

  limit(
    command: string,
    keys: Keys = {},
    env: Record<string, string> = {},
  ): Promise<CallOutput> {
    const config = {
      cniVersion: "1.1.0",
      name: "net1",
      type: "bandwidth",
      prevResult: this.#prevResult,
      ...RATES,
      ...keys,
    };
    return this.hosts.run("bandwidth", command, config, { env });
  }

  get limits(): unknown {
    return hostLimits(this.hosts.sandbox);
  }
}

for (const type of ["macvlan", "ipvlan", "vlan"] as const) {
  const needs = needsKind(type);

  rootTest(`bandwidth limits the interface of ${type}`, needs, async () => {
    using scene = new InsideScene(type);
    await scene.attach();
    const { hosts: { sandbox, host }, neighbour } = scene;
    const before = [scene.limits, hostLimits(host)];
    const added = await scene.limit("ADD");
    assertSuccess(added);
    assertEquals(added.json.interfaces.length, 1);
    assertEquals(hostLimits(host), before[1]);
    const container = [{ sandbox, address: "10.1.2.2" }];
    for (
      const [direction, rate] of [
        ["ingress", RATES.ingressRate],
        ["egress", RATES.egressRate],
      ] as const
    ) {
      const how = { to: "10.1.2.1", warmMs: 1000, windowMs: 2500 };
      const [measured = 0] = await measureUndisturbed(
        () => measureFlows(neighbour, container, direction, how),
        [rate],
        0.1,
      );
      const share = measured / rate;
      assert(share > 0.9 && share < 1.1, `${direction}: ${measured} bit/s`);
    }
    assertSuccess(await scene.limit("CHECK"));
    assertSuccess(await scene.limit("ADD"));
    assertSuccess(await scene.limit("CHECK"));
    assertSuccess(await scene.limit("DEL"));
    assertEquals([scene.limits, hostLimits(host)], before);
    assertSuccess(await scene.limit("DEL"));
  });

  rootTest(
    `bandwidth checks and repairs the interface of ${type}`,
    needs,
    async () => {
      using scene = new InsideScene(type);
      await scene.attach();
      const { hosts: { sandbox } } = scene;
      assertSuccess(await scene.limit("ADD"));
      const [ifb = ""] = linkNames(sandbox).filter((name) => /^bwp/.test(name));
      const after = scene.limits;
      for (
        const command of [
          "tc qdisc del dev eth0 root",
          "tc qdisc del dev eth0 ingress",
          `ip link del ${ifb}`,
          `tc qdisc del dev ${ifb} root`,
        ]
      ) {
        runIn(sandbox, "sh", "-ec", command);
        assertEquals((await scene.limit("CHECK")).json.code, 999, command);
        const { json } = await scene.limit("REPAIR");
        assertEquals(json.remaining.length > 0, true);
        const env = { CNI_REPAIR_SANDBOX: "1" };
        assertSuccess(await scene.limit("REPAIR", {}, env));
        assertSuccess(await scene.limit("CHECK"));
      }
      assertEquals(scene.limits, after);
      // The interface goes first.
      await scene.succeed("DEL");
      assertSuccess(await scene.limit("DEL", {}, { CNI_NETNS: "" }));
    },
  );
}

rootTest(
  "bandwidth keeps another program's qdisc of the interface",
  needsKind("macvlan"),
  async () => {
    using scene = new InsideScene("macvlan");
    await scene.attach();
    const { sandbox } = scene.hosts;
    runIn(sandbox, "tc", "qdisc", "add", "dev", "eth0", "root", "pfifo");
    const before = scene.limits;
    assertFailure(await scene.limit("ADD"), 999, 'Cannot limit "eth0"');
    assertEquals(scene.limits, before);
    assertEquals(tcJson(sandbox, "qdisc", "show", "dev", "eth0").length, 1);
    // Only what the container receives.
    const keys = { egressRate: 0 };
    assertSuccess(await scene.limit("ADD", keys));
    assertSuccess(await scene.limit("CHECK", keys));
    assertSuccess(await scene.limit("DEL", keys));
    assertEquals(scene.limits, before);
  },
);
