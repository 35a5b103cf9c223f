import { assertEquals, assertStringIncludes } from "@std/assert";
import { SPEC_VERSIONS } from "../../cni/version.ts";
import { rootTest } from "../../testing/capabilities.ts";
import { canPing, ipJson, runIn } from "../../testing/ip_json.ts";
import { createHosts, isUp } from "./testing.ts";
import type { TestHosts } from "../../testing/test_hosts.ts";
import { eachRow } from "../../tests/_harness/table.ts";

const CONFIG = { cniVersion: "1.0.0", name: "lo", type: "loopback" };

for (const cniVersion of SPEC_VERSIONS) {
  rootTest(
    `loopback sets lo up and down with cniVersion ${cniVersion}`,
    async () => {
      using hosts = createHosts();
      const config = { ...CONFIG, cniVersion };
      const added = await hosts.run("loopback", "ADD", config);
      assertEquals(added.exitCode, 0, added.stdout);
      assertEquals(canPing(hosts.sandbox, "127.0.0.1"), true);
      assertEquals(canPing(hosts.sandbox, "::1"), true);
      const withResult = { ...config, prevResult: added.json };
      const checked = await hosts.run("loopback", "CHECK", withResult);
      assertEquals(checked.exitCode, cniVersion < "0.4.0" ? 1 : 0);
      for (let i = 0; i < 2; i++) {
        const deleted = await hosts.run("loopback", "DEL", withResult);
        assertEquals([deleted.exitCode, deleted.stdout], [0, ""]);
        assertEquals(isUp(hosts), false);
      }
    },
  );
}

rootTest("loopback.add() returns lo for any CNI_IFNAME", async () => {
  using hosts = createHosts();
  const { json } = await hosts.run("loopback", "ADD", CONFIG);
  assertEquals(json, {
    cniVersion: "1.0.0",
    interfaces: [{
      name: "lo",
      mac: "00:00:00:00:00:00",
      sandbox: hosts.sandbox.path,
    }],
    ips: [
      { address: "127.0.0.1/8", interface: 0 },
      { address: "::1/128", interface: 0 },
    ],
  });
  const again = await hosts.run("loopback", "ADD", CONFIG);
  assertEquals(again.json, json);
});

rootTest("loopback.add() returns prevResult unchanged", async () => {
  using hosts = createHosts();
  const prevResult = {
    cniVersion: "1.0.0",
    ips: [{ address: "10.1.2.3/24" }],
    extra: { of: "another plugin" },
  };
  const { json } = await hosts.run("loopback", "ADD", {
    ...CONFIG,
    prevResult,
  });
  assertEquals(json, prevResult);
  assertEquals(isUp(hosts), true);
});

rootTest("loopback.add() refuses a non-loopback address", async () => {
  using hosts = createHosts();
  runIn(hosts.sandbox, "ip", "addr", "add", "10.0.0.1/32", "dev", "lo");
  const { json } = await hosts.run("loopback", "ADD", CONFIG);
  assertEquals(json.code, 999);
  assertStringIncludes(json.msg, "10.0.0.1/32");
});

rootTest("loopback.check() reports that lo is down", async () => {
  using hosts = createHosts();
  const { json } = await hosts.run("loopback", "CHECK", CONFIG);
  assertEquals(json.msg, 'Interface "lo" is down');
});

rootTest("loopback.check() reports a missing address", async () => {
  using hosts = createHosts();
  const { json: prevResult } = await hosts.run("loopback", "ADD", CONFIG);
  const config = { ...CONFIG, prevResult };
  assertEquals((await hosts.run("loopback", "CHECK", config)).exitCode, 0);
  runIn(hosts.sandbox, "ip", "address", "del", "127.0.0.1/8", "dev", "lo");
  const { json } = await hosts.run("loopback", "CHECK", config);
  assertStringIncludes(json.msg, "127.0.0.1/8");
  runIn(hosts.sandbox, "ip", "link", "set", "lo", "down");
  const { json: both } = await hosts.run("loopback", "CHECK", config);
  assertEquals(both.msg, 'Interface "lo" is down');
  assertStringIncludes(both.details, "127.0.0.1/8");
});

rootTest("loopback.del() succeeds without a sandbox", async (t) => {
  await eachRow(t, ["", "/nonexistent", "/proc/0/ns/net"], async (netns) => {
    using hosts = createHosts();
    const env = { CNI_NETNS: netns };
    const deleted = await hosts.run("loopback", "DEL", CONFIG, { env });
    assertEquals([deleted.exitCode, deleted.stdout], [0, ""]);
  }, (netns) => `"${netns}"`);
});

rootTest("loopback does not change the host's lo", async () => {
  using hosts = createHosts();
  for (const command of ["ADD", "DEL"]) {
    const env = { CNI_NETNS: hosts.host.path };
    const { json } = await hosts.run("loopback", command, CONFIG, { env });
    assertEquals(json.code, 8);
  }
  const [lo] = ipJson(hosts.host, "link", "show", "lo");
  assertEquals(lo.flags.includes("UP"), true);
});

rootTest("loopback.add() fails without a network namespace", async () => {
  using hosts = createHosts();
  const env = { CNI_NETNS: "/nonexistent" };
  const { json } = await hosts.run("loopback", "ADD", CONFIG, { env });
  assertEquals(json.code, 8);
});

rootTest("loopback.del() keeps lo up in another pod's sandbox", async (t) => {
  // The process whose ID is in CNI_NETNS has ended; another pod's process has
  // that ID now.
  const rows: [
    name: string,
    prepare: (hosts: TestHosts) => void,
    prevResultOf: (hosts: TestHosts, added: unknown) => unknown,
    staysUp: boolean,
  ][] = [
    ["the same pod", () => {}, (_hosts, added) => added, false],
    ["no prevResult", () => {}, () => undefined, false],
    [
      "an interface that is up",
      ({ sandbox }) => {
        runIn(sandbox, "ip", "link", "add", "eth0", "type", "bridge");
        runIn(sandbox, "ip", "link", "set", "eth0", "up");
      },
      (_hosts, added) => added,
      true,
    ],
    [
      "an interface that is down",
      ({ sandbox }) => {
        runIn(sandbox, "ip", "link", "add", "eth0", "type", "bridge");
      },
      (_hosts, added) => added,
      false,
    ],
    ["an interface with another MAC", ({ sandbox }) => {
      const mac = "02:00:00:00:00:02";
      const type = ["address", mac, "type", "bridge"];
      runIn(sandbox, "ip", "link", "add", "eth0", ...type);
    }, ({ sandbox: { path: sandbox } }) => ({
      interfaces: [{ name: "eth0", mac: "02:00:00:00:00:01", sandbox }],
    }), true],
    ["a prevResult of another sandbox", () => {}, (hosts) => ({
      interfaces: [{ name: "lo", sandbox: hosts.addNetns().path }],
    }), true],
  ];
  await eachRow(t, rows, async ([, prepare, prevResultOf, staysUp]) => {
    using hosts = createHosts();
    const { json: added } = await hosts.run("loopback", "ADD", CONFIG);
    prepare(hosts);
    const prevResult = prevResultOf(hosts, added);
    const keys = prevResult === undefined ? {} : { prevResult };
    const config = { ...CONFIG, ...keys };
    const deleted = await hosts.run("loopback", "DEL", config);
    assertEquals([deleted.exitCode, deleted.stdout], [0, ""]);
    assertEquals(isUp(hosts), staysUp);
  });
});

rootTest("loopback.del() finds lo under another name", async () => {
  using hosts = createHosts();
  const { json: prevResult } = await hosts.run("loopback", "ADD", CONFIG);
  const script = "ip link set lo down; ip link set lo name wan up";
  runIn(hosts.sandbox, "sh", "-ec", script);
  const config = { ...CONFIG, prevResult };
  const deleted = await hosts.run("loopback", "DEL", config);
  assertEquals([deleted.exitCode, deleted.stdout], [0, ""]);
  const [lo] = ipJson(hosts.sandbox, "link", "show", "wan");
  assertEquals(lo.flags, ["LOOPBACK"]);
});
