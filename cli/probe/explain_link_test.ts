import { assertEquals, assertStringIncludes } from "@std/assert";
import { rootTest } from "../../testing/capabilities.ts";
import { DoctorScene } from "../doctor/testing/scene.ts";
import { explainRedirect } from "./explain_link.ts";

rootTest(
  "explainRedirect() removes only filters of a container's link by a command",
  async () => {
    using scene = await DoctorScene.create();
    const end = scene.sh("ip -o link show master lan0").split(/[:@ ]+/)[1] ??
      "";
    scene.sh("ip link add odd0 type veth peer name odd1");
    scene.sh("ip link add cable0 up type veth peer name odd2");
    scene.sh("ip link set cable0 master lan0");
    for (const name of [end, "out0", "cable0"]) {
      scene.sh(
        `tc qdisc add dev ${name} ingress
         tc filter add dev ${name} ingress protocol all pref 7 u32 match u32 0 0 \\
           action mirred egress redirect dev odd0`,
      );
    }
    using node = scene.node();
    for (const name of [end, "out0", "cable0"]) {
      const { text, command, advice = "" } = explainRedirect(node, [name]) ??
        {};
      assertEquals(
        text,
        `a filter of "${name}" redirects what it receives to "odd0", which is down`,
      );
      const del = `tc filter del dev ${name} ingress pref 7`;
      assertEquals(command, name === end ? del : undefined);
      if (name !== end) assertStringIncludes(advice, `to remove it: ${del}`);
    }
  },
);
