/** macvlan killed at any moment. Run with the compiled executables. */

import { assertEquals } from "@std/assert";
import { allOf, rootTest } from "../../testing/capabilities.ts";
import { needsBin, startPlugin } from "../../tests/_harness/executables.ts";
import { killByTurns } from "../../tests/_harness/kills.ts";
import { MasterScene, needsKind } from "../../tests/_harness/on_master.ts";
import { createRandom } from "../../tests/_harness/repetition.ts";
import type { Spawned } from "../../tests/_harness/spawn_in.ts";

/** How many operations are killed. */
const KILLS = 12;

rootTest(
  "macvlan's DEL leaves nothing after a killed ADD",
  allOf(needsKind("macvlan"), needsBin),
  async () => {
    using scene = new MasterScene("macvlan");
    const { hosts, config } = scene;
    const start = (command: string): Spawned =>
      startPlugin(hosts, { type: "macvlan", command, config }, {});
    await killByTurns({
      start,
      succeed: async (command): Promise<void> => {
        const { code, stdout, stderr } = await start(command).output;
        assertEquals(code, 0, stdout + stderr);
      },
      remains: () => scene.state,
    }, { random: createRandom(5), count: KILLS });
  },
);
