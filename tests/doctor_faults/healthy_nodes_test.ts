/**
 * Nodes of different kinds on which everything works: `cni doctor` finds nothing,
 * neither by itself nor for a pod.
 *
 * @module
 */

import { assert, assertEquals, assertMatch } from "@std/assert";
import { rootTest } from "../../testing/capabilities.ts";
import { type Control, dns, tcp } from "./controls.ts";
import {
  CACHE,
  DB,
  FAR,
  FAR6,
  FaultNode,
  HOST_PORT,
  NEEDS,
  NODE,
  ROUTER,
} from "./fault_node.ts";
import { CHECKED, comesToWork } from "./evaluate.ts";
import type { CniFlags } from "../../cli/flags.ts";
import { diagnose } from "../../cli/doctor/diagnose.ts";
import type { ShownCause } from "../../cli/probe/show.ts";
import { HEALTHY } from "./rows/healthy.ts";

/** What works on each of them. */
const USES: readonly Control[] = [
  tcp("web", FAR),
  tcp("web", FAR6),
  dns("web", ROUTER),
  tcp("db", CACHE),
  tcp("db", FAR),
  tcp("shop", FAR),
  tcp("router", NODE, HOST_PORT),
  tcp("node", DB),
];

rootTest("cni doctor has no finding on a healthy node", NEEDS, async (t) => {
  await using node = await FaultNode.create();
  const { scene } = node;
  for (const { name, seed, needs, drops } of HEALTHY) {
    const ignore = needs?.ignore ?? false;
    const fn = async (): Promise<void> => {
      const undo = await seed(node);
      try {
        for (const use of USES) {
          assert(await comesToWork(node, use), `${use.text}: it does not work`);
        }
        using own = scene.node();
        const { findings, unchecked } = await diagnose(own, () => {}, CHECKED);
        const said = findings.map(({ code, message }) => `${code} ${message}`);
        assertEquals([said, unchecked], [[], []]);
        for (const pod of ["default/web", "default/db", "default/shop"]) {
          const { json } = await scene.doctor({ pod });
          const { ok, ways } = json as { ok: boolean; ways: unknown };
          assert(ok, JSON.stringify(ways, null, 2));
        }
        if (drops !== undefined) {
          const flags: object = { pod: "default/web", to: DB };
          const { json } = await scene.doctor(flags as CniFlags);
          const { ok, causes: [cause, ...more] } = json as {
            readonly ok: boolean;
            readonly causes: readonly ShownCause[];
          };
          const { message = "", fix, intended, advice } = cause ?? {};
          assertMatch(message, drops);
          assertMatch(advice ?? "", /^a network policy drops this on purpose;/);
          assertEquals([ok, fix, intended, more], [false, null, true, []]);
        }
      } finally {
        await undo();
      }
    };
    await t.step({ name: `${name}${needs?.suffix ?? ""}`, ignore, fn });
  }
});
