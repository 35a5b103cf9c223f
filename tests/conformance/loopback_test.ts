/** What runtimes count on of loopback, in every version of the specification. */

import { assertEquals } from "@std/assert";
import { isAtLeast, SPEC_VERSIONS } from "../../cni/version.ts";
import { needsRoot } from "../../testing/capabilities.ts";
import { conformance, type Row } from "../_harness/conformance.ts";
import { canPing } from "../../testing/ip_json.ts";
import { createHosts, isUp } from "../../plugins/loopback/testing.ts";

const EACH: Readonly<Record<string, (cniVersion: string) => Row>> = {
  "ADD brings lo up and answers it": (cniVersion) => async () => {
    using hosts = createHosts();
    const config = { cniVersion, name: "lo", type: "loopback" };
    const { exitCode, stdout, json } = await hosts.run(
      "loopback",
      "ADD",
      config,
    );
    assertEquals(exitCode, 0, stdout);
    assertEquals(json.cniVersion, cniVersion);
    assertEquals(canPing(hosts.sandbox, "127.0.0.1"), true);
    if (isAtLeast(cniVersion, "0.3.0")) {
      assertEquals(json.interfaces[0].name, "lo");
    } else assertEquals(json.ip4.ip, "127.0.0.1/8");
  },
  "CHECK fails while lo is down": (cniVersion) => async () => {
    using hosts = createHosts();
    const config = { cniVersion, name: "lo", type: "loopback" };
    const { json } = await hosts.run("loopback", "CHECK", config);
    const code = isAtLeast(cniVersion, "0.4.0") ? 999 : 1;
    assertEquals(json.code, code);
  },
  "DEL brings lo down, and succeeds without the sandbox":
    (cniVersion) => async () => {
      using hosts = createHosts();
      const config = { cniVersion, name: "lo", type: "loopback" };
      await hosts.run("loopback", "ADD", config);
      for (const netns of [hosts.sandbox.path, "", "/nonexistent"]) {
        const env = { CNI_NETNS: netns };
        const deleted = await hosts.run("loopback", "DEL", config, { env });
        assertEquals([deleted.exitCode, deleted.stdout], [0, ""]);
      }
      assertEquals(isUp(hosts), false);
    },
};

for (const cniVersion of SPEC_VERSIONS) {
  const rows = Object.entries(EACH).map(([name, row]) => [
    `${name}, ${cniVersion}`,
    row(cniVersion),
  ]);
  conformance("loopback", Object.fromEntries(rows), needsRoot);
}
