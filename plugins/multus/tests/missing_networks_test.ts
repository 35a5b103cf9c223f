/**
 * Pods that run without networks that they request: what the node daemon and the
 * tool say, as executables.
 */

import { assertEquals, assertMatch } from "@std/assert";
import type { JsonObject } from "../../../base/json/json.ts";
import { until } from "../../../tests/_harness/eventually.ts";
import { hostTest } from "../testing/host.ts";
import { FollowedNode } from "../testing/followed_node.ts";

hostTest(
  "the daemon, cni list and cni daemon status name pods without their networks",
  async () => {
    await using scene = await FollowedNode.start();
    const { host } = scene;
    const running = (podIP: string): JsonObject => ({
      phase: "Running",
      podIP,
    });
    const web = scene.addPod("web", "green");
    const partly = scene.addPod("partly", "green");
    for (const pod of [web, partly]) {
      await host.succeed("ADD", pod);
      const networks = pod === partly ? "green,blue" : "green";
      scene.report(pod, running(scene.addressOf(pod)), { networks });
    }
    // After a reboot without multus it has the status of its earlier sandbox.
    const boot = scene.addPod("boot", "green");
    await host.succeed("ADD", boot);
    await host.succeed("DEL", boot);
    scene.report(boot, running("10.10.99.9"));
    // multus was away.
    scene.report(scene.addPod("lost", "green,green@x0"), running("10.10.0.77"));
    // These lack nothing, or nobody knows yet.
    scene.report(scene.addPod("node", "green"), running("192.0.2.1"), {
      spec: { hostNetwork: true },
    });
    const ended = { phase: "Succeeded", podIP: "10.10.0.78" };
    scene.report(scene.addPod("done", "green"), ended);
    scene.report(scene.addPod("new", "green"), { phase: "Pending" });

    // Each is seen in two looks, which are 30 seconds apart.
    await until("three are reported", () => scene.warnings.length >= 3);
    const all =
      ". To attach what it requests, delete the pod and create it again";
    assertEquals(scene.warnings, [
      `boot: The pod runs without default/green${all}`,
      `lost: The pod runs without default/green, default/green${all}`,
      `partly: The pod runs without default/blue${all}`,
    ]);
    const { body } = await scene.daemon.ask("/metrics");
    assertMatch(body, /^cni_daemon_pods_missing_networks 3$/m);

    const status = await scene.cni("daemon", "status");
    assertMatch(status, /3 pods, such as default\/\w+ run without a network/);
    const flags = ["--cache-dir", scene.cacheDir, "--conf-dir", scene.cacheDir];
    const rows: JsonObject[] = JSON.parse(
      await scene.cni("list", "--json", ...flags),
    );
    assertEquals(
      Object.fromEntries(
        rows.map(({ pod = "", missingNetworks }) => [pod, missingNetworks]),
      ),
      {
        "default/boot": ["default/green"],
        "default/done": [],
        "default/lost": ["default/green", "default/green"],
        "default/new": [],
        "default/node": [],
        "default/partly": ["default/blue"],
        "default/web": [],
      },
    );
    assertMatch(await scene.cni("list", ...flags), /MISSING .*default\/blue/s);
    const found = await scene.cni("doctor", "--json", ...flags);
    assertEquals(
      JSON.parse(found).findings
        .filter(({ code }: JsonObject) => code === "CNI0709").length > 0,
      true,
      found,
    );
  },
);
