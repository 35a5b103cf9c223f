/** ADD and DEL that fail or are killed at any single step: no device is lost. */

import { assert, assertEquals } from "@std/assert";
import { rootTest } from "../../testing/capabilities.ts";
import { ipJson } from "../../testing/ip_json.ts";
import {
  Crash,
  eachStep,
  testFaultsOfAdd,
} from "../../tests/_harness/fault_steps.ts";
import { DEVICE, DeviceScene } from "./testing.ts";
import { FaultInjector } from "../../testing/fault_injector.ts";

/** A device that is up and a port of a bridge. */
function makeScene(): DeviceScene {
  const scene = new DeviceScene({}, { isUp: true });
  scene.ip("link add br0 type bridge");
  scene.ip("link set ens5 master br0");
  return scene;
}

testFaultsOfAdd("host-device", "", {
  make: makeScene,
  atLeast: 9,
  optional:
    /^write .*\/net\/ipv[46]\/conf\/eth0\/(arp_notify|ndisc_notify|accept_dad|keep_addr_on_down)$/,
});

rootTest("host-device gets over an ADD that was killed", async (t) => {
  const steps = await eachStep(t, async (step) => {
    using scene = new DeviceScene();
    const { state } = scene;
    using crash = new Crash(step - 1);
    await scene.run("ADD");
    crash[Symbol.dispose]();
    assertEquals((await scene.run("DEL")).exitCode, 0);
    assertEquals(scene.state, state, "after DEL");
    const { json: prevResult } = await scene.succeed("ADD");
    await scene.succeed("CHECK", { prevResult });
    return crash.hasHappened || undefined;
  });
  assert(steps.length >= 9, `only ${steps.length} steps`);
});

rootTest(
  "host-device gets over an ADD of which a step and an undo fail",
  async (t) => {
    const steps = await eachStep(t, async (step) => {
      using scene = new DeviceScene();
      // It goes with the move, and only the record has it.
      scene.ip("link property add dev ens5 altname eth0");
      const { state } = scene;
      const { host } = scene.hosts;
      const look = (): unknown =>
        ipJson(host, "link", "show", DEVICE)[0].altnames;
      using first = new FaultInjector(step, "instead");
      using second = new FaultInjector(step + 1, "instead");
      await scene.run("ADD");
      second[Symbol.dispose]();
      first[Symbol.dispose]();
      await scene.succeed("DEL");
      assertEquals(
        [scene.state, look()],
        [state, ["eth0"]],
        first.steps.join("\n"),
      );
      return first.steps.length < step ? undefined : true;
    });
    assert(steps.length >= 9, `only ${steps.length} steps`);
  },
);

rootTest("host-device gets over a DEL that was killed or failed", async (t) => {
  const ways = {
    "killed": (step: number) => new Crash(step - 1),
    "failed": (step: number) => new FaultInjector(step, "instead"),
    "failed afterwards": (step: number) =>
      new FaultInjector(step, "afterwards"),
  };
  for (const [way, disturb] of Object.entries(ways)) {
    await t.step(way, async (t) => {
      const steps = await eachStep(t, async (step) => {
        using scene = new DeviceScene();
        const { state } = scene;
        const { json: prevResult } = await scene.succeed("ADD");
        using disturbed = disturb(step);
        await scene.run("DEL", { prevResult });
        disturbed[Symbol.dispose]();
        await scene.succeed("DEL");
        assertEquals(scene.state, state);
        const isDone = disturbed instanceof Crash
          ? !disturbed.hasHappened
          : disturbed.steps.length < step;
        return isDone ? undefined : true;
      });
      assert(steps.length >= 4, `only ${steps.length} steps`);
    });
  }
});

rootTest("host-device: of two ADDs at once, one gets the device", async () => {
  using scene = new DeviceScene({}, { hasIpam: false });
  const sandbox = scene.hosts.addNetns();
  const other = { sandbox, containerId: "other" };
  const outcomes = await Promise.all([
    scene.run("ADD"),
    scene.run("ADD", {}, other),
  ]);
  assertEquals(outcomes.map(({ exitCode }) => exitCode).sort(), [0, 1]);
  await scene.succeed("DEL");
  await scene.succeed("DEL", {}, other);
  assertEquals(scene.outside, [DEVICE]);
});
