import { canUseNetns, ignoreUnless } from "../../testing/capabilities.ts";
import { runIn } from "../../testing/ip_json.ts";
import {
  type ConflictScene,
  testConflicts,
} from "../../tests/_harness/conflict_cases.ts";
import { OPTIONAL_STEPS } from "../../tests/_harness/sandbox_link_cases.ts";
import { DeviceScene } from "./testing.ts";

testConflicts("host-device", {
  needs: ignoreUnless(canUseNetns, "needs network namespaces"),
  make(extras): ConflictScene {
    const scene = new DeviceScene(extras);
    const { host } = scene.hosts;
    const neighbour = scene.hosts.addNetns();
    const script = `
      ip link add wires type bridge
      ip link add wire master wires type veth peer name eth0 netns ${neighbour.path}
      ip link set wireens5 master wires
      ip link set wires up
      ip link set wire up`;
    runIn(host, "sh", "-ec", script);
    runIn(neighbour, "ip", "link", "set", "eth0", "up");
    return {
      scene,
      neighbour,
      dev: "eth0",
      [Symbol.dispose]: () => scene[Symbol.dispose](),
    };
  },
  atLeast: 12,
  optional: OPTIONAL_STEPS,
});
