/** ADD that fails or is killed at any single step: nothing may be left. */

import { assert, assertEquals } from "@std/assert";
import { rootTest } from "../../testing/capabilities.ts";
import {
  Crash,
  eachStep,
  testFaultsOfAdd,
} from "../../tests/_harness/fault_steps.ts";
import { FlannelScene } from "./testing.ts";

testFaultsOfAdd("flannel", "", {
  make: () => new FlannelScene(),
  // The file, and the steps of bridge.
  atLeast: 15,
  optional:
    /^write .*\/conf\/(eth0|cni0|veth[0-9a-f]{11})\/(accept_ra|accept_dad|keep_addr_on_down|arp_notify|ndisc_notify)$/,
});

rootTest("flannel recovers from a killed ADD", async (t) => {
  const steps = await eachStep(t, async (step) => {
    using scene = new FlannelScene();
    const before = scene.state;
    using crash = new Crash(step - 1);
    await scene.run("ADD");
    crash[Symbol.dispose]();
    // Without subnet.env: it is gone after a reboot.
    scene.writeEnv([]);
    await scene.succeed("DEL");
    assertEquals(scene.state, before);
    return crash.hasHappened || undefined;
  });
  assert(steps.length >= 10, `only ${steps.length} steps`);
});
