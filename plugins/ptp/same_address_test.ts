import { assertEquals, assertMatch } from "@std/assert";
import type { NetNs } from "../../ffi/netns.ts";
import { allOf, rootTest } from "../../testing/capabilities.ts";
import { dualStack } from "../../tests/_harness/dual_stack.ts";
import { runIn } from "../../testing/ip_json.ts";
import { MasqueradeScene } from "../../tests/_harness/masquerade_scene.ts";
import { OUTSIDE, reached } from "../../tests/_harness/outside.ts";
import { needsGo, succeedAs } from "../../tests/_harness/parity.ts";
import { needsRuleTools } from "../../tests/_harness/rules.ts";
import type { CallOutput } from "../../testing/test_hosts.ts";
import { eachRow } from "../../tests/_harness/table.ts";

/** A host on which two networks hand out the same addresses. */
class TwoNetworks extends MasqueradeScene {
  readonly other: NetNs = this.hosts.addNetns();

  constructor(backend?: string) {
    super("ptp", dualStack, backend);
  }

  /** Runs a command for a container of the second network. */
  runOther(command: string): Promise<CallOutput> {
    const options = { sandbox: this.other, containerId: "other" };
    return this.run(command, { name: "net2" }, options);
  }

  /** Asserts that attaching the second container fails and changes nothing. */
  async assertRefused(reason: RegExp): Promise<void> {
    const { rules, state } = this;
    const { exitCode, stdout } = await this.runOther("ADD");
    assertEquals(exitCode, 1);
    assertMatch(stdout, reason);
    assertEquals(this.rules, rules);
    assertEquals(this.state, state);
    assertEquals(this.hosts.leases("net2"), []);
  }
}

rootTest(
  "ptp.add() refuses another network's address",
  needsRuleTools,
  async (t) => {
    await eachRow(t, ["nftables", "iptables"], async (backend) => {
      using scene = new TwoNetworks(backend);
      const { sandbox } = scene.hosts;
      await scene.succeed("ADD");
      await scene.assertRefused(
        /10\.1\.2\.2 is in use by \\"veth[0-9a-f]{11}\\" \(cni\/net1\/test-container\/eth0\)/,
      );
      assertEquals(reached(sandbox), OUTSIDE);
      // A runtime runs DEL after a failed ADD.
      assertEquals((await scene.runOther("DEL")).exitCode, 0);
      assertEquals(reached(sandbox), OUTSIDE);
      await scene.succeed("DEL");
      assertEquals((await scene.runOther("ADD")).exitCode, 0);
      assertEquals(reached(scene.other), OUTSIDE);
      await scene.succeed("DEL");
      assertEquals(reached(scene.other), OUTSIDE);
      assertEquals((await scene.runOther("DEL")).exitCode, 0);
      assertEquals(scene.rules, "");
    });
  },
);

rootTest(
  "ptp.add() refuses an address of the Go plugin",
  allOf(needsRuleTools, needsGo("ptp")),
  async () => {
    using scene = new TwoNetworks();
    const { hosts } = scene;
    const config = { ...scene.config, cniVersion: "1.0.0" };
    await succeedAs("go", hosts, { type: "ptp", command: "ADD", config });
    await scene.assertRefused(/10\.1\.2\.2 is in use by \\"veth[0-9a-f]{8}\\"/);
    assertEquals(reached(hosts.sandbox), OUTSIDE);
  },
);

rootTest(
  "ptp.add() takes a dead container's address",
  needsRuleTools,
  async () => {
    using scene = new TwoNetworks();
    await scene.succeed("ADD");
    runIn(scene.hosts.sandbox, "ip", "link", "set", "eth0", "down");
    assertEquals((await scene.runOther("ADD")).exitCode, 0);
    assertEquals(reached(scene.other), OUTSIDE);
    await scene.succeed("DEL");
    assertEquals(reached(scene.other), OUTSIDE);
  },
);
