import { assertEquals, assertMatch } from "@std/assert";
import { Ip } from "../../net/ip.ts";
import { rootTest } from "../../testing/capabilities.ts";
import { runIn } from "../../testing/ip_json.ts";
import { TestHosts } from "../../testing/test_hosts.ts";
import { connectOutside } from "../../tests/_harness/outside.ts";
import { needsInetRules } from "../../tests/_harness/rules.ts";
import { EchoSocket } from "../../cli/probe/echo_socket.ts";
import { FlowTrace, IpProtocol } from "./trace.ts";

rootTest(
  "FlowTrace names the rule that drops one flow, and leaves no table",
  needsInetRules,
  () => {
    using hosts = TestHosts.create();
    const outside = connectOutside(hosts);
    const rules =
      "table inet fw { chain in { type filter hook input priority 0; " +
      'icmp type echo-request counter drop comment "no pings"; }; }';
    runIn(hosts.host, "sh", "-c", 'echo "$1" | nft -f -', "sh", rules);
    const source = Ip.parse("192.0.2.2"), destination = Ip.parse("192.0.2.1");
    using socket = EchoSocket.open(outside, { destination, source });
    using other = EchoSocket.open(outside, { destination, source });
    const tables = (): string => runIn(hosts.host, "nft", "list", "tables");
    {
      const flow = { protocol: IpProtocol.icmp, source, id: socket.id };
      using trace = FlowTrace.open(hosts.host, [flow], ["out0"]);
      assertMatch(tables(), /cni_probe_/);
      other.send();
      assertEquals(trace.take(), []);
      socket.send();
      const steps = trace.take();
      assertEquals(
        steps.map(({ table, chain, verdict }) => [
          `${table.family} ${table.name}`,
          chain,
          verdict,
        ]),
        [["inet fw", "in", 0]],
      );
    }
    assertEquals(tables().includes("cni_probe"), false);
  },
);

rootTest(
  "the tables of FlowTrace go away with a process that is killed",
  needsInetRules,
  async () => {
    using hosts = TestHosts.create();
    const script = `
      import { NetNs } from "${new URL("../netns.ts", import.meta.url)}";
      import { Ip } from "${new URL("../../net/ip.ts", import.meta.url)}";
      import { FlowTrace } from "${new URL("./trace.ts", import.meta.url)}";
      const netns = NetNs.open(Deno.args[0]);
      const flow = { protocol: 6, source: Ip.parse("192.0.2.2"), id: 7 };
      FlowTrace.open(netns, [flow]);
      console.log("traces");
      await new Promise((end) => setTimeout(end, 600_000));
    `;
    const file = `${hosts.directory}/trace.ts`;
    await Deno.writeTextFile(file, script);
    const child = new Deno.Command(Deno.execPath(), {
      args: ["run", "-A", "--no-check", "--no-lock", file, hosts.host.path],
      stdout: "piped",
      stderr: "inherit",
    }).spawn();
    const reader = child.stdout.getReader();
    await reader.read();
    const tables = (): string => runIn(hosts.host, "nft", "list", "tables");
    assertMatch(tables(), /cni_probe_/);
    child.kill("SIGKILL");
    await reader.cancel();
    await child.status;
    assertEquals(tables(), "");
  },
);
