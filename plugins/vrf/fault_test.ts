/**
 * ADD that fails or is killed at any single step: nothing may be left, at the
 * latest after DEL.
 */

import { assert, assertEquals } from "@std/assert";
import { canUseNetns, rootTest } from "../../testing/capabilities.ts";
import {
  Crash,
  eachStep,
  testFaultsOfAdd,
} from "../../tests/_harness/fault_steps.ts";
import { ETH0, ETH1, needsVrf, VrfScene } from "./testing.ts";

const KEYS = { vrfname: "blue" };

if (canUseNetns && !needsVrf.ignore) {
  testFaultsOfAdd("vrf", "", { make: () => new VrfScene(KEYS), atLeast: 15 });
  const lines = [
    ...ETH0,
    ...ETH1,
    "address add 2001:db8:b::2/64 dev eth1 nodad",
    "route add 10.7.0.0/16 nexthop via 10.0.0.1 dev eth0 nexthop via 10.1.0.1 dev eth1",
    "route add 2001:db8:9::/48 nexthop via 2001:db8::1 dev eth0 nexthop via 2001:db8:b::1 dev eth1",
  ];
  testFaultsOfAdd("vrf", ", with several next hops", {
    make: () => new VrfScene(KEYS, lines),
    atLeast: 20,
  });
}

rootTest("vrf recovers from a killed ADD", needsVrf, async (t) => {
  const steps = await eachStep(t, async (step) => {
    using scene = new VrfScene(KEYS);
    const { links, prevResult } = scene;
    const killAdd = async (): Promise<boolean> => {
      using crash = new Crash(step - 1);
      await scene.run("ADD");
      return crash.hasHappened;
    };
    const wasKilled = await killAdd();
    await scene.succeed("DEL");
    assertEquals(scene.links, links, "after DEL");

    await killAdd();
    await scene.succeed("ADD", { prevResult });
    await scene.succeed("CHECK", { prevResult });
    // These are in the result.
    const defaults = ["10.0.0.1 dev eth0", "2001:db8::1 dev eth0 metric 1024"];
    const found = scene.table(1).filter((line) => line.startsWith("default"));
    assertEquals(found, defaults.map((way) => `default via ${way}`));
    await scene.succeed("DEL");
    assertEquals(scene.links, links, "after ADD and DEL");
    return wasKilled || undefined;
  });
  assert(steps.length >= 15, `only ${steps.length} steps`);
});
