/**
 * host-device killed at any moment, as on a node that ends badly: the device is
 * never lost. Run with the compiled executables.
 */

import { assertEquals } from "@std/assert";
import { rootTest } from "../../testing/capabilities.ts";
import { DEVICE, DeviceScene } from "./testing.ts";
import { needsBin, startPlugin } from "../../tests/_harness/executables.ts";
import { killByTurns } from "../../tests/_harness/kills.ts";
import { createRandom } from "../../tests/_harness/repetition.ts";
import type { Spawned } from "../../tests/_harness/spawn_in.ts";

/** How many operations are killed. */
const KILLS = 10;

const name = "host-device loses no device when it is killed and DEL follows";

rootTest(name, needsBin, async () => {
  const random = createRandom(1);
  using scene = new DeviceScene({ cniVersion: "1.0.0" });
  const { hosts, config } = scene;
  const start = (command: string): Spawned =>
    startPlugin(hosts, { type: "host-device", command, config });
  const succeed = async (command: string): Promise<void> => {
    const { code, stdout, stderr } = await start(command).output;
    assertEquals(code, 0, stdout + stderr);
  };
  await killByTurns({ start, succeed, remains: () => scene.state }, {
    random,
    count: KILLS,
    afterKill: () => {
      const places = [...scene.outside, ...scene.inside];
      assertEquals(
        places.filter((name) => name === DEVICE || name === "eth0").length,
        1,
        "it is in one place",
      );
      return Promise.resolve();
    },
  });
});
