/** ADD and DEL that fail or are killed at any single step: no device is lost. */

import { assert, assertEquals } from "@std/assert";
import { rootTest } from "../../testing/capabilities.ts";
import { ipJson, runIn } from "../../testing/ip_json.ts";
import {
  Crash,
  eachStep,
  testFaultsOfAdd,
} from "../../tests/_harness/fault_steps.ts";
import { DEVICE, DeviceScene } from "./testing.ts";
import { FaultInjector, intercept } from "../../testing/fault_injector.ts";
import { eachRow } from "../../tests/_harness/table.ts";
import { RecordFile } from "./record.ts";

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

rootTest("host-device recovers from a killed ADD", async (t) => {
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
  "host-device recovers from an ADD in which a step and its undo fail",
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

rootTest("host-device recovers from a killed or failed DEL", async (t) => {
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

rootTest("host-device gives the device to one of two ADDs", async () => {
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

/**
 * A card with two macvlans, which only their indexes tell apart. The container has one as
 * net1, and is to get the other.
 *
 * @param recordsOfNet1 The directory of net1's record
 */
async function makeMacvlans(
  recordsOfNet1 = "data/host-device",
): Promise<DeviceScene> {
  const options = { hasIpam: false, isUp: true };
  const scene = new DeviceScene({ device: "ens5.2" }, options);
  for (const id of [1, 2]) {
    scene.ip(`link add link ens5 name ens5.${id} type macvlan mode bridge`);
  }
  const dataDir = `${scene.hosts.directory}/${recordsOfNet1}`;
  const keys = { device: "ens5.1", dataDir };
  await scene.succeed("ADD", keys, { ifName: "net1" });
  return scene;
}

rootTest(
  "host-device never takes a similar device of another attachment, at any failure",
  async (t) => {
    const ways = {
      "ADD fails": (step: number) => new FaultInjector(step, "instead"),
      "ADD is killed": (step: number) => new Crash(step - 1),
      "DEL is killed": (step: number) => new Crash(step - 1),
    };
    for (const [way, disturb] of Object.entries(ways)) {
      await t.step(way, async (t) => {
        const steps = await eachStep(t, async (step) => {
          using scene = await makeMacvlans("elsewhere");
          if (way === "DEL is killed") await scene.succeed("ADD");
          using disturbed = disturb(step);
          await scene.run(way.slice(0, 3));
          disturbed[Symbol.dispose]();
          await scene.succeed("DEL");
          assertEquals(scene.inside, ["lo", "net1"]);
          assertEquals(scene.outside.sort(), [DEVICE, "ens5.2"]);
          const isDone = disturbed instanceof Crash
            ? !disturbed.hasHappened
            : disturbed.steps.length < step;
          return isDone ? undefined : true;
        });
        assert(steps.length >= 4, `only ${steps.length} steps`);
      });
    }
  },
);

const VANISHING: readonly [
  name: string,
  vanish: (scene: DeviceScene) => Promise<unknown>,
][] = [
  ["from the container", async (scene) => {
    await scene.succeed("ADD");
    scene.ipInside("link del eth0");
    await scene.succeed("DEL");
  }],
  ["from the host, before ADD moves it", async (scene) => {
    using stack = new DisposableStack();
    stack.defer(intercept(RecordFile.prototype, "write", (_, work) => {
      work();
      scene.ip("link del ens5.2");
    }));
    await scene.fail("ADD", [999, 'Cannot move "ens5.2"']);
  }],
];

rootTest(
  "host-device takes no similar device if its own disappears",
  async (t) => {
    await eachRow(t, VANISHING, async ([, vanish]) => {
      using scene = await makeMacvlans();
      await vanish(scene);
      assertEquals([scene.inside, scene.outside], [["lo", "net1"], [DEVICE]]);
    });
  },
);

rootTest(
  "host-device identifies a device whose index changed among other records",
  async () => {
    using scene = await makeMacvlans();
    await scene.succeed("ADD");
    const { sandbox } = scene.hosts;
    const hidden = scene.hosts.addNetns();
    const [{ ifindex }] = ipJson(sandbox, "link", "show", "eth0");
    const taken = `link add taken index ${ifindex} type ifb`;
    runIn(hidden, "ip", ...taken.split(" "));
    for (const [from, to] of [[sandbox, hidden], [hidden, sandbox]] as const) {
      const path = `/proc/${Deno.pid}/fd/${to.fd}`;
      runIn(from, "ip", "link", "set", "eth0", "netns", path);
    }
    await scene.succeed("DEL");
    assertEquals(scene.inside, ["lo", "net1"]);
    assertEquals(scene.outside.sort(), [DEVICE, "ens5.2"]);
  },
);
