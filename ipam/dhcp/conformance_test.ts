/**
 * dhcp, as the Go plugin's own tests have it, with a server and the daemon.
 *
 * Source: containernetworking/plugins plugins/ipam/dhcp/dhcp_test.go,
 * dhcp2_test.go.
 */

import { assertEquals } from "@std/assert";
import { isAtLeast, SPEC_VERSIONS } from "../../cni/version.ts";
import { allOf, needsRoot } from "../../testing/capabilities.ts";
import { ipJson } from "../../testing/ip_json.ts";
import { assertFailure } from "../../tests/_harness/call_outcome.ts";
import { conformance, type Row } from "../../tests/_harness/conformance.ts";
import { DhcpScene, needsDnsmasq } from "./testing.ts";

const ADDRESS = "10.9.0.10/24";

/** A server with a single address. */
const ONE = "--dhcp-range=10.9.0.10,10.9.0.10,255.255.255.0,1h";

function goesThrough(versions: readonly string[]): Row {
  return async () => {
    await using scene = await DhcpScene.start();
    await scene.startDnsmasq(ONE);
    for (const cniVersion of versions) {
      const more = { cniVersion };
      const prevResult = await scene.succeed("ADD", more);
      assertEquals(scene.addresses(), [ADDRESS], cniVersion);
      const { ip, address } = prevResult.ip4 ?? prevResult.ips[0];
      assertEquals(ip ?? address, ADDRESS);
      if (isAtLeast(cniVersion, "0.4.0")) {
        await scene.succeed("CHECK", { ...more, prevResult });
      }
      await scene.succeed("DEL", more);
      assertEquals(scene.leases, []);
    }
  };
}

conformance("dhcp", {
  "a lease from ADD to DEL, in each version": goesThrough(SPEC_VERSIONS),
  "DEL again, and without ADD": async () => {
    await using scene = await DhcpScene.start();
    await scene.succeed("DEL");
    await scene.startDnsmasq(ONE);
    await scene.succeed("ADD");
    for (const _ of [1, 2]) await scene.succeed("DEL");
    assertEquals(scene.leases, []);
  },
  "two links of a container have two leases": async () => {
    await using scene = await DhcpScene.start();
    await scene.startDnsmasq();
    const ifNames = ["eth0", "eth1"];
    const results = [];
    for (const ifName of ifNames) {
      results.push(await scene.succeed("ADD", {}, { ifName }));
    }
    const addresses = results.map(({ ips }) => ips[0].address);
    assertEquals(new Set(addresses).size, 2);
    assertEquals(scene.leases.length, 2);
    await scene.succeed("DEL", {}, { ifName: "eth0" });
    assertEquals(scene.leases.map(({ ifName }) => ifName), ["eth1"]);
    await scene.succeed("DEL", {}, { ifName: "eth1" });
  },
  "a second lease that the server does not have leaves nothing": async () => {
    // Enough for the first answer on any machine.
    await using scene = await DhcpScene.start({ resendTimeoutMs: 5000 });
    await scene.startDnsmasq(ONE);
    await scene.succeed("ADD");
    const links = (): number => ipJson(scene.hosts.sandbox, "link").length;
    const before = links();
    const output = await scene.run("ADD", {}, { ifName: "eth1" });
    assertFailure(output, 11, "No DHCP server made an offer");
    assertEquals([links(), scene.leases.length], [before, 1]);
    await scene.succeed("DEL");
  },
}, allOf(needsRoot, needsDnsmasq));
