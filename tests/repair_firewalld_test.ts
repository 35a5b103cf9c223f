/**
 * `cni daemon --repair` beside a real firewalld, whose reload takes away the sources of
 * its zones and all rules of iptables, and beside the table of netavark.
 */

import { assertEquals } from "@std/assert";
import { pause } from "../base/deadline.ts";
import { allOf, rootTest } from "../testing/capabilities.ts";
import { TestHosts } from "../testing/test_hosts.ts";
import { eventually } from "./_harness/eventually.ts";
import { needsBin } from "./_harness/executables.ts";
import { Firewalld, needsFirewalld } from "./_harness/firewalld.ts";
import { NodeDaemon } from "./_harness/node_daemon.ts";
import { needsInetRules, needsRuleTools } from "./_harness/rules.ts";
import { ToolHost } from "./_harness/tool_host.ts";

const needs = allOf(needsBin, needsFirewalld, needsInetRules, needsRuleTools);

/** How many containers there are; more with `CNI_REPAIR=100`, which also measures. */
const CONTAINERS = Number(Deno.env.get("CNI_REPAIR") ?? 6);
const MEASURES = Deno.env.has("CNI_REPAIR");
/** After so long without a round, a daemon begins two without a rest. */
const REST_MS = 10_000;

/** `outside` answers only what comes from the host's own address. */
const SET_UP = `
ip link set lo up
ip netns add outside
ip -n outside link set lo up
ip link add out type veth peer name out netns outside
ip link set out up
ip -n outside link set out up
ip address add 192.0.2.1/24 dev out
ip -n outside address add 192.0.2.2/24 dev out`;

/** Prints the names of containers that get no answer from outside. */
const LIST_LOST = `
for name; do
  { nsenter --net=/run/netns/$name ping -nqc1 -W1 192.0.2.2 >/dev/null || echo $name; } &
done; wait`;

const LIST = "nft -s list ruleset 2>/dev/null";

/** What netavark makes of one container. Source: netavark src/firewall/nft.rs. */
const NETAVARK = `
table inet netavark
delete table inet netavark
table inet netavark {
  chain POSTROUTING {
    type nat hook postrouting priority srcnat; policy accept;
    ip saddr 10.88.0.0/16 jump nv_2f259bab_10_88_0_0_nm16
  }
  chain nv_2f259bab_10_88_0_0_nm16 {
    ip daddr 10.88.0.0/16 accept
    ip daddr != 224.0.0.0/4 masquerade
  }
}`;

rootTest(
  "cni daemon --repair restores rules after a reload of firewalld",
  needs,
  async (t) => {
    await using host = await ToolHost.create();
    const sh = async (script: string): Promise<string> => {
      const { code, stdout, stderr } = await host.run(["sh", "-ec", script]);
      assertEquals([code, stderr], [0, ""], script);
      return stdout;
    };
    const cni = async (line: string): Promise<void> => {
      const { code, stdout, stderr } = await host.cni(line);
      assertEquals(code, 0, `${line}: ${stdout}${stderr}`);
    };
    await sh(SET_UP);
    using hosts = TestHosts.create();
    await using firewalld = await Firewalld.start({
      enter: host.enter,
      directory: hosts.directory,
    });
    Object.assign(host.env, firewalld.env);
    host.addNetwork("pods", [
      {
        type: "bridge",
        bridge: "br0",
        isDefaultGateway: true,
        ipMasq: true,
        ipMasqBackend: "iptables",
        ipam: host.hostLocal("10.1.0.0/16"),
      },
      {
        type: "portmap",
        backend: "iptables",
        capabilities: { portMappings: true },
      },
      { type: "firewall", backend: "firewalld" },
    ]);
    for (let number = 1; number <= CONTAINERS; number++) {
      const port = { hostPort: 8000 + number, containerPort: 80 };
      host.env["CAP_ARGS"] = JSON.stringify({
        portMappings: [{ ...port, protocol: "tcp" }],
      });
      await cni(`netns add c${number}`);
      await cni(`add pods c${number}`);
    }
    delete host.env["CAP_ARGS"];
    /** Waits until packets of all containers flow; asks only those that lack an answer. */
    const packetsFlow = async (explain = (): string => ""): Promise<void> => {
      let lost = Array.from(
        { length: CONTAINERS },
        (_, index) => `c${index + 1}`,
      );
      await eventually("packets of all containers flow", async () => {
        const line = ["sh", "-ec", LIST_LOST, "sh", ...lost];
        lost = (await host.run(line)).stdout.split("\n").slice(0, -1);
        return lost.length === 0;
      }, explain);
    };
    await packetsFlow();
    await using daemon = await NodeDaemon.start(hosts, {
      wrapper: host.enter,
      socketDir: "/run/cni",
      args: ["--repair"],
      env: { CNI_PATH: host.path, ...firewalld.env },
    });
    const state = async (): Promise<{ rounds: number; lastAt?: string }> =>
      JSON.parse((await daemon.ask("/state")).body).repairs;
    const rounds = async (): Promise<number> => (await state()).rounds;
    /** Waits until the rest after a round is over. */
    const rested = (): Promise<void> =>
      eventually("it is ready for a round", async () => {
        const { lastAt = "" } = await state();
        return Date.now() - Date.parse(lastAt) > REST_MS;
      });
    await eventually("it has swept", async () => await rounds() > 0);
    await sh(`nft -f - <<'END'${NETAVARK}\nEND`);
    const ofNetavark = "nft list table inet netavark";
    const before = await sh(ofNetavark);
    for (const flag of ["--reload", "--complete-reload"]) {
      await t.step(`firewall-cmd ${flag}`, async () => {
        const repaired = await daemon.metric("cni_daemon_repairs_total");
        await rested();
        const startMs = performance.now();
        firewalld.command(flag);
        const reloadedMs = performance.now();
        await packetsFlow(() => daemon.log);
        if (MEASURES) {
          const [all, since] = [startMs, reloadedMs]
            .map((ms) => (performance.now() - ms).toFixed());
          const [line] = daemon.log.split("\n").reverse()
            .filter((line) => line.includes("Repaired"));
          console.log(`${flag}: ${all} ms, ${since} ms after it: ${line}`);
        }
        await eventually(
          "all are repaired",
          async () =>
            await daemon.metric("cni_daemon_repairs_total") ===
              repaired + CONTAINERS,
          () => daemon.log,
        );
        await cni("repair --all --dry-run");
        assertEquals(firewalld.sources().length, CONTAINERS);
        assertEquals(await sh(ofNetavark), before);
      });
    }
    await t.step("firewalld is restarted", async () => {
      await rested();
      await firewalld.stop();
      // The daemon looks before firewalld is back.
      const past = await rounds();
      await eventually("it has looked", async () => await rounds() > past);
      await firewalld.start();
      await eventually(
        "all sources are back",
        () => firewalld.sources().length === CONTAINERS,
        () => daemon.log,
      );
      await packetsFlow(() => daemon.log);
      await rested();
      await cni("repair --all --dry-run");
    });
    await t.step("a table of netavark is not changed", async () => {
      await rested();
      const past = await rounds();
      const rules = await sh(LIST);
      await sh(`nft -f - <<'END'${NETAVARK}\nEND`);
      await sh("nft delete table inet netavark");
      await sh(`nft -f - <<'END'${NETAVARK}\nEND`);
      // A round would have begun.
      await pause(1000);
      assertEquals(await rounds(), past);
      const sorted = (text: string): string[] => text.split("\n").toSorted();
      assertEquals(sorted(await sh(LIST)), sorted(rules));
      assertEquals(await sh(ofNetavark), before);
    });
  },
);
