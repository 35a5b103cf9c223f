/**
 * ADD that fails or is killed at any single step: nothing may be left, at the
 * latest after DEL.
 */

import { assert, assertEquals } from "@std/assert";
import { rootTest } from "../../testing/capabilities.ts";
import {
  Crash,
  eachStep,
  testFaultsOfAdd,
} from "../../tests/_harness/fault_steps.ts";
import { intercept } from "../../testing/fault_injector.ts";
import { ALL_SETTINGS, SYSCTL, TunedLink } from "./testing.ts";

const KEYS = { ...ALL_SETTINGS, sysctl: { [SYSCTL]: "1" } };

testFaultsOfAdd("tuning", "", {
  make: () => new TunedLink(KEYS),
  // The sysctl, the link, the backup, and five settings.
  atLeast: 8,
});

rootTest("tuning recovers from a killed ADD", async (t) => {
  const steps = await eachStep(t, async (step) => {
    using scene = new TunedLink(KEYS);
    const { link: before } = scene;
    const killAdd = async (): Promise<boolean> => {
      using crash = new Crash(step - 1);
      await scene.run("ADD");
      return crash.hasHappened;
    };
    const wasKilled = await killAdd();
    await scene.succeed("DEL", { prevResult: undefined });
    assertEquals([scene.link, scene.backups], [before, {}], "after DEL");

    await killAdd();
    const { json: prevResult } = await scene.succeed("ADD");
    await scene.succeed("CHECK", { prevResult });
    await scene.succeed("DEL", { prevResult });
    assertEquals(
      [scene.link, scene.backups],
      [before, {}],
      "after ADD and DEL",
    );
    return wasKilled || undefined;
  });
  assert(steps.length >= 6, `only ${steps.length} steps`);
});

/** Ends DEL after some requests: from then on it removes no file, either. */
async function killDel(
  scene: TunedLink,
  prevResult: unknown,
  requests: number,
): Promise<boolean> {
  using crash = new Crash(requests);
  const restore = intercept(Deno, "removeSync", (_, work) => {
    if (crash.hasHappened) throw new Error("the process is dead");
    return work();
  });
  try {
    await scene.run("DEL", { prevResult });
    return crash.hasHappened;
  } finally {
    restore();
  }
}

rootTest("tuning recovers from a killed DEL", async (t) => {
  const steps = await eachStep(t, async (step) => {
    using scene = new TunedLink(KEYS);
    const { link: before } = scene;
    const { json: prevResult } = await scene.succeed("ADD");
    const wasKilled = await killDel(scene, prevResult, step - 1);
    await scene.succeed("DEL", { prevResult });
    assertEquals([scene.link, scene.backups], [before, {}]);
    return wasKilled || undefined;
  });
  assert(steps.length >= 6, `only ${steps.length} steps`);
});
