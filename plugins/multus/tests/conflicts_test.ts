/**
 * Addresses that other machines have: what a pod's events and the daemon's metrics
 * say about them.
 */

import { assertEquals } from "@std/assert";
import type { JsonObject } from "../../../base/json/json.ts";
import { ipJson, runIn } from "../../../testing/ip_json.ts";
import { eventually } from "../../../tests/_harness/eventually.ts";
import {
  addMaster,
  MASTER,
  needsKind,
} from "../../../tests/_harness/on_master.ts";
import { MultusDaemon } from "../testing/daemon.ts";
import { type HostCall, hostTest, MultusHost } from "../testing/host.ts";

/** Starts a node whose network `lan` has a machine with 10.1.2.2. */
async function start(ipam: (host: MultusHost) => JsonObject): Promise<{
  readonly host: MultusHost;
  /** The MAC of the machine. */
  readonly mac: string;
}> {
  const host = await MultusHost.start();
  const neighbour = addMaster(host.hosts, "macvlan");
  runIn(neighbour, "ip", "address", "add", "10.1.2.2/24", "dev", "wire");
  host.api.putNad("default", "lan", {
    cniVersion: "1.0.0",
    name: "lan",
    type: "macvlan",
    master: MASTER,
    conflictCheck: true,
    ipam: ipam(host),
  });
  const [{ address: mac }] = ipJson(neighbour, "link", "show", "wire");
  return { host, mac };
}

const needs = needsKind("macvlan");

/** Never the machine's own log, in which plugins warn of conflicts. */
const LOG: HostCall = { env: { CNI_LOG_FILE: "stderr" } };

for (const isInDaemon of [false, true]) {
  const where = isInDaemon ? "the daemon" : "a process";

  hostTest(
    `multus: events name addresses that other machines use, from ${where}`,
    needs,
    async () => {
      const started = await start(({ hosts }) =>
        hosts.hostLocal("10.1.2.0/24")
      );
      await using host = started.host;
      await using daemon = isInDaemon
        ? await MultusDaemon.start(host)
        : undefined;
      const pod = host.addPod("web", { networks: "lan" });
      const { code, stdout } = await host.call("ADD", pod, LOG);
      assertEquals(code, 0, stdout);
      const about = (text: string): boolean => text.includes("net1");
      const events = (): string[] => host.api.eventTexts.filter(about);
      await eventually("the events are there", () => events().length === 2);
      assertEquals(events(), [
        `Warning AddressInUse 10.1.2.2 of default/lan is in use by ${started.mac}: net1 gets 10.1.2.3`,
        "Normal AddedInterface Add net1 [10.1.2.3/24] from default/lan",
      ]);
      const name = "cni_daemon_address_conflicts_total";
      const labels = '{network="lan",outcome="replaced"}';
      const count = await daemon?.metric(name, labels);
      assertEquals(count, isInDaemon ? 1 : undefined);
    },
  );

  hostTest(
    `multus: an event names the address that fails ADD, from ${where}`,
    needs,
    async () => {
      const started = await start(() => ({
        type: "static",
        addresses: [{ address: "10.1.2.2/24" }],
      }));
      await using host = started.host;
      await using daemon = isInDaemon
        ? await MultusDaemon.start(host)
        : undefined;
      const pod = host.addPod("web", { networks: "lan" });
      const { code, json } = await host.call("ADD", pod, LOG);
      assertEquals([code, json.code], [1, 11], json.msg);
      const events = (): string[] => host.api.eventTexts;
      await eventually("the event is there", () => events().length > 0);
      assertEquals(events(), [
        `Warning AddressInUse 10.1.2.2 of default/lan is in use by ${started.mac}: net1 gets no address`,
      ]);
      const name = "cni_daemon_address_conflicts_total";
      const labels = '{network="lan",outcome="failed"}';
      const count = await daemon?.metric(name, labels);
      assertEquals(count, isInDaemon ? 1 : undefined);
      assertEquals((await host.call("DEL", pod, LOG)).code, 0);
      assertEquals(host.remains(), [`link ${MASTER}`]);
    },
  );
}
