import { assertEquals } from "@std/assert";
import { rootTest } from "../testing/capabilities.ts";
import { ipJson } from "../testing/ip_json.ts";
import { listPeers } from "../tests/_harness/parity.ts";
import { TestHosts } from "../testing/test_hosts.ts";
import { buildLoopback } from "./loopback.ts";

Deno.test("buildLoopback() has the name that other runtimes know", () => {
  const { name, plugins } = buildLoopback();
  assertEquals([name, plugins.map(({ type }) => type)], [
    "cni-loopback",
    ["loopback"],
  ]);
});

for (const peer of listPeers("buildLoopback()")) {
  rootTest(`buildLoopback() suits ${peer.name}`, () => {
    using hosts = TestHosts.create();
    const { name, cniVersion, plugins } = buildLoopback();
    const config = { ...plugins[0]?.document, name, cniVersion };
    for (const command of ["ADD", "CHECK", "DEL"]) {
      const { exitCode, json: result } = hosts.exec(
        `${peer.directory}/loopback`,
        command,
        {
          ...config,
          ...command === "ADD" ? {} : { prevResult: PREV_RESULT },
        },
        { ifName: "lo" },
      );
      assertEquals(exitCode, 0, command);
      if (command === "ADD") assertEquals(result.cniVersion, cniVersion);
    }
    const [lo] = ipJson(hosts.sandbox, "link", "show", "lo");
    assertEquals(lo.flags.includes("UP"), false);
  });
}

const PREV_RESULT = {
  cniVersion: "0.4.0",
  interfaces: [{ name: "lo" }],
  ips: [{ version: "4", interface: 0, address: "127.0.0.1/8" }],
};
