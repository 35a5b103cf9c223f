/**
 * multus with plugins of others: the Go plugins as delegates, by themselves and
 * beside those of this project.
 */

import { assertEquals, assertStringIncludes } from "@std/assert";
import type { JsonObject } from "../../../base/json/json.ts";
import { hasCommand, ignoreUnless } from "../../../testing/capabilities.ts";
import { runIn } from "../../../testing/ip_json.ts";
import {
  type HostCall,
  type HostPod,
  MultusHost,
  onHost,
} from "../testing/host.ts";
import { listPeers } from "../../../tests/_harness/parity.ts";
import type { Peer } from "../../../tests/_harness/peers.ts";
import { PluginDirectory } from "../../../tests/_harness/plugin_directory.ts";

const needs = ignoreUnless(hasCommand("iptables"), "needs iptables");

const PORTS = [{ hostPort: 8080, containerPort: 80, protocol: "tcp" }];

/** The network that clusters have: veth pairs, and host ports. */
function masterOf(host: MultusHost): JsonObject {
  const ipam = {
    ...host.hosts.hostLocal("10.10.0.0/16"),
    routes: [{ dst: "0.0.0.0/0" }],
  };
  return {
    cniVersion: "1.0.0",
    name: "pods",
    plugins: [
      { type: "ptp", ipam },
      { type: "portmap", capabilities: { portMappings: true } },
    ],
  };
}

function callOf(host: MultusHost, binDir: string, peer: Peer): HostCall {
  const runtimeConfig = { portMappings: PORTS };
  const capabilities = { portMappings: true };
  const delegates = [masterOf(host)];
  return {
    keys: { binDir, delegates, capabilities, runtimeConfig },
    env: { CNI_PATH: peer.directory },
  };
}

/** Lists the rules for host ports. */
function hostPorts(host: MultusHost): string[] {
  return runIn(host.hosts.host, "iptables-save", "-t", "nat").split("\n")
    .filter((line) => line.includes("--to-destination"))
    .map((line) => line.replace(/.*--to-destination /, ""));
}

async function attachAndDetach(
  host: MultusHost,
  pod: HostPod,
  call: HostCall,
): Promise<void> {
  // The Go sbr tells stderr what it does.
  const run = async (command: string): Promise<void> => {
    const { code, stdout } = await host.call(command, pod, call);
    assertEquals(code, 0, stdout);
  };
  await run("ADD");
  assertEquals(host.interfaces(pod), ["eth0", "lo", "net1"]);
  assertEquals(
    host.status(pod).map((
      one: { name: string; ips: string[] },
    ) => [one.name, ...one.ips]),
    [["pods", "10.10.0.2"], ["default/green", "10.20.0.2"]],
  );
  const rules = runIn(pod.sandbox, "ip", "rule");
  assertStringIncludes(rules, "from 10.20.0.2 lookup 100");
  assertEquals(hostPorts(host), ["10.10.0.2:80"]);
  // No CHECK: that of Debian's portmap wants rules for IPv6 in any case.
  await run("DEL");
  assertEquals([host.remains(), hostPorts(host)], [[], []]);
}

for (const peer of listPeers("multus")) {
  Deno.test({
    ...onHost(`multus runs the Go plugins (${peer.name})`, needs),
    async fn(t): Promise<void> {
      await t.step("all of them", async () => {
        await using host = await MultusHost.start();
        using empty = new PluginDirectory();
        const pod = host.addPod("web", { networks: "green" });
        await attachAndDetach(host, pod, callOf(host, empty.path, peer));
      });
      await t.step("those that this project does not have", async () => {
        await using host = await MultusHost.start();
        const pod = host.addPod("web", { networks: "green" });
        const { binDir } = host.conf();
        await attachAndDetach(host, pod, callOf(host, String(binDir), peer));
      });
    },
  });
}
