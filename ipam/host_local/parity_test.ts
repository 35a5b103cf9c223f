/**
 * Holds host-local to the Go plugin of the same name: the same answers, the
 * same bytes on disk, and both at once in one directory.
 *
 * @module
 */

import { assertEquals, assertStringIncludes } from "@std/assert";
import type { Environment } from "../../base/process/environment.ts";
import type { JsonObject } from "../../base/json/json.ts";
import { isAtLeast } from "../../cni/version.ts";
import {
  assertSuccess,
  DataDirectory,
  type Output,
  ownProgram,
  type Run,
  runAs,
  runInProcess as runOurs,
} from "./testing.ts";
import { listPeers } from "../../tests/_harness/parity.ts";
import { eachRow } from "../../tests/_harness/table.ts";

/** The versions that every peer has. */
const VERSIONS = ["0.2.0", "0.3.1", "0.4.0", "1.0.0"];

/** Leaves out the empty `dns` of older Go plugins at 1.0.0. */
function withoutEmptyDns({ json }: Output): Output["json"] {
  if (json === undefined) return undefined;
  const { dns, ...others } = json;
  return dns === undefined || Object.keys(dns).length === 0
    ? others
    : { ...others, dns };
}

/** A call: a command, a container, and the differences from other calls. */
type Step = [command: string, containerId: string, env?: Environment];

/** Runs calls in a new directory; returns their output and the files. */
async function play(
  run: Run,
  scenario: Scenario,
  cniVersion: string,
): Promise<unknown[]> {
  using directory = new DataDirectory();
  directory.plant(scenario.files ?? {});
  const others = { ...scenario.others, cniVersion };
  const config = directory.config(scenario.ipam, others);
  const seen: unknown[] = [];
  for (const [command, containerId, env] of scenario.steps ?? [["ADD", "a"]]) {
    const call = { CNI_CONTAINERID: containerId, ...env };
    const output = await run(command, config, call);
    const { exitCode } = output;
    seen.push({ exitCode, json: withoutEmptyDns(output) }, directory.read());
  }
  return seen;
}

/** A configuration, the files before, and the calls: an ADD by default. */
interface Scenario {
  readonly ipam: JsonObject;
  readonly others?: JsonObject;
  readonly files?: Record<string, string>;
  readonly steps?: Step[];
}

const SCENARIOS: Readonly<Record<string, Scenario>> = {
  "one range, several containers": {
    ipam: { subnet: "10.1.2.0/29" },
    steps: [
      ["ADD", "a"],
      ["ADD", "b"],
      ["ADD", "a", { CNI_IFNAME: "eth1" }],
      ["DEL", "a"],
      ["DEL", "a"],
      ["ADD", "c"],
      ["ADD", "d"],
      ["ADD", "e"],
      ["DEL", "b"],
      ["ADD", "f"],
    ],
  },
  "both families, routes and resolv.conf": {
    ipam: {
      ranges: [
        [{ subnet: "10.1.2.0/24" }, { subnet: "10.2.2.0/24" }],
        [{ subnet: "2001:db8:1::0/64" }],
      ],
      routes: [
        { dst: "0.0.0.0/0" },
        { dst: "::/0" },
        { dst: "192.168.0.9/16", gw: "1.1.1.1" },
      ],
      resolvConf: "/etc/resolv.conf",
    },
    steps: [["ADD", "a"], ["ADD", "b"], ["DEL", "a"], ["DEL", "b"]],
  },
  "explicit bounds, the subnet's own ends among them": {
    ipam: {
      subnet: "10.1.2.0/30",
      rangeStart: "10.1.2.0",
      rangeEnd: "10.1.2.3",
      gateway: "10.1.2.2",
    },
    steps: [["ADD", "a"], ["ADD", "b"], ["ADD", "c"]],
  },
  "the last addresses of an IPv6 subnet": {
    ipam: { ranges: [[{ subnet: "2001:db8::/126" }]] },
    steps: [["ADD", "a"], ["ADD", "b"]],
  },
  "an address by CNI_ARGS": {
    ipam: { subnet: "10.1.2.0/24" },
    steps: [["ADD", "a", { CNI_ARGS: "IgnoreUnknown=1;X=y;IP=10.1.2.9" }]],
  },
  "addresses by args and runtimeConfig": {
    ipam: {
      ranges: [[{ subnet: "10.1.2.0/24" }], [{ subnet: "2001:db8::/64" }]],
    },
    others: {
      args: { cni: { ips: ["2001:db8::9"] } },
      runtimeConfig: { ips: ["10.1.2.9/8"] },
    },
  },
  "one address by two ways": {
    ipam: { subnet: "10.1.2.0/24" },
    others: { args: { cni: { ips: ["10.1.2.9"] } } },
    steps: [["ADD", "a", { CNI_ARGS: "IP=10.1.2.9" }]],
  },
  "ranges of the runtime": {
    ipam: { ranges: [[{ subnet: "2001:db8::/64" }]] },
    others: { runtimeConfig: { ipRanges: [[{ subnet: "10.9.0.0/16" }]] } },
  },
  "keys in another case": {
    ipam: { Subnet: "10.1.2.0/24", RANGEEND: "10.1.2.9" },
  },
  "from the last reserved address on": {
    ipam: { ranges: [[{ subnet: "10.1.2.0/29" }, { subnet: "10.1.3.0/29" }]] },
    files: { "last_reserved_ip.0": "10.1.2.6", "10.1.3.2": "x\r\neth0" },
  },
  "leases of the container alone": {
    ipam: { subnet: "10.1.2.0/24" },
    files: { "10.1.2.2": "a\r\n", "10.1.2.3": "b" },
    steps: [["DEL", "a"], ["ADD", "a"]],
  },
};

/** Calls that fail, each of them the last of its scenario. */
const FAILURES: Readonly<Record<string, Scenario>> = {
  "no ipam ranges": { ipam: {} },
  "an empty set": { ipam: { ranges: [[]] } },
  "host bits": { ipam: { subnet: "10.1.2.3/24" } },
  "start outside": { ipam: { subnet: "10.1.2.0/24", rangeStart: "10.1.3.1" } },
  "end outside": { ipam: { subnet: "10.1.2.0/24", rangeEnd: "10.1.3.1" } },
  "end before the start": {
    ipam: { subnet: "10.1.2.0/24", rangeEnd: "10.1.2.0" },
  },
  "families mixed": {
    ipam: { ranges: [[{ subnet: "10.1.2.0/24" }, { subnet: "::/64" }]] },
  },
  "an overlap in a set": {
    ipam: { ranges: [[{ subnet: "10.1.0.0/16" }, { subnet: "10.1.2.0/24" }]] },
  },
  "an overlap of sets": {
    ipam: { subnet: "10.1.0.0/16", ranges: [[{ subnet: "10.1.2.0/24" }]] },
  },
  "two sets of a family": {
    ipam: { subnet: "10.1.1.0/24", ranges: [[{ subnet: "10.1.2.0/24" }]] },
    others: { cniVersion: "0.2.0" },
  },
  "an address of no set": {
    ipam: { subnet: "10.1.2.0/24" },
    steps: [["ADD", "a", { CNI_ARGS: "IP=10.9.9.9" }]],
  },
  "the gateway's address": {
    ipam: { subnet: "10.1.2.0/24" },
    steps: [["ADD", "a", { CNI_ARGS: "IP=10.1.2.1" }]],
  },
  "an address that is taken": {
    ipam: { subnet: "10.1.2.0/24" },
    steps: [["ADD", "b"], ["ADD", "a", { CNI_ARGS: "IP=10.1.2.2" }]],
  },
  "no address left": {
    ipam: { ranges: [[{ subnet: "10.1.2.0/30" }, { subnet: "10.1.3.0/30" }]] },
    steps: [["ADD", "b"], ["ADD", "c"], ["ADD", "a"]],
  },
  "a second lease": {
    ipam: { subnet: "10.1.2.0/24" },
    steps: [["ADD", "a"], ["ADD", "a"]],
  },
  "CHECK without a lease": {
    ipam: { subnet: "10.1.2.0/24" },
    steps: [["CHECK", "a"]],
  },
};

/** What Go refuses since 1.10. */
const NEWER_FAILURES: typeof FAILURES = {
  "start after the end that is not configured": {
    ipam: { subnet: "10.1.2.0/24", rangeStart: "10.1.2.255" },
  },
};

/** The calls of each plugin for the container `a`, in a directory with many leases. */
const MIXED: Readonly<Record<string, [ours: boolean, command: string][]>> = {
  "Go's ADD, our DEL": [[false, "ADD"], [true, "DEL"]],
  "our ADD, Go's DEL": [[true, "ADD"], [false, "DEL"]],
  "our ADD, Go's DEL, our ADD and DEL": [
    [true, "ADD"],
    [false, "DEL"],
    [true, "ADD"],
    [true, "DEL"],
  ],
  "our ADD, Go's DEL and ADD, our DEL": [
    [true, "ADD"],
    [false, "DEL"],
    [false, "ADD"],
    [true, "DEL"],
  ],
  "our ADD, our GC": [[true, "ADD"], [true, "GC"]],
  "Go's ADD, our GC": [[false, "ADD"], [true, "GC"]],
};

/** Rows for peers that have GC. */
const MIXED_GC: typeof MIXED = {
  "our ADD, Go's GC": [[true, "ADD"], [false, "GC"]],
  "our ADD, both GCs": [[true, "ADD"], [false, "GC"], [true, "GC"]],
};

/** What Go does since 1.10: addresses at the ends of a family have a neighbour. */
const NEWER: typeof SCENARIOS = {
  "the first IPv6 addresses": {
    ipam: { ranges: [[{ subnet: "::/125" }]] },
    steps: "abcdef".split("").map((id) => ["ADD", id]),
  },
  "the last IPv4 addresses": {
    ipam: { subnet: "255.255.255.248/29", rangeEnd: "255.255.255.255" },
    steps: "abcdef".split("").map((id) => ["ADD", id]),
  },
  "the last IPv6 addresses": {
    ipam: {
      ranges: [[{ subnet: "ffff:ffff:ffff:ffff:ffff:ffff:ffff:fff8/125" }]],
    },
    steps: "abcdef".split("").map((id) => ["ADD", id]),
  },
};

for (const peer of listPeers("host-local")) {
  const runGo = runAs([`${peer.directory}/host-local`]);
  Deno.test(`host-local prints and writes the same as the Go plugin (${peer.name})`, async (t) => {
    const scenarios = { ...SCENARIOS, ...hasGc(peer) && NEWER };
    for (const [name, scenario] of Object.entries(scenarios)) {
      for (const cniVersion of new Set([...VERSIONS, peer.cniVersion])) {
        await t.step(`${name}, ${cniVersion}`, async () => {
          const ours = await play(runOurs, scenario, cniVersion);
          assertEquals(ours, await play(runGo, scenario, cniVersion));
        });
      }
    }
  });

  Deno.test(`host-local fails with the Go plugin's messages (${peer.name})`, async (t) => {
    const messageOf = async (
      run: Run,
      scenario: Scenario,
    ): Promise<string> => {
      const version = scenario.others?.["cniVersion"] ?? "1.0.0";
      const seen = await play(run, { ...scenario, files: {} }, `${version}`);
      const { json, exitCode } = seen.at(-2) as Output;
      assertEquals(exitCode, 1);
      return json.msg;
    };
    const failures = { ...FAILURES, ...hasGc(peer) && NEWER_FAILURES };
    await eachRow(t, Object.entries(failures), async ([, scenario]) => {
      const ours = await messageOf(runOurs, scenario);
      assertEquals(ours, await messageOf(runGo, scenario));
    });
  });

  Deno.test(`host-local and the Go plugin release each other's leases (${peer.name})`, async (t) => {
    const rows: [name: string, first: Run, second: Run][] = [
      ["ours, then Go's", runOurs, runGo],
      ["Go's, then ours", runGo, runOurs],
    ];
    await eachRow(t, rows, async ([, first, second]) => {
      using directory = new DataDirectory();
      const subnets = ["10.1.2.0/24", "2001:db8::/64"];
      const ranges = subnets.map((subnet) => [{ subnet }]);
      const config = directory.config({ ranges }, { cniVersion: "1.0.0" });
      const { json: prevResult } = await first("ADD", config);
      assertEquals(Object.keys(directory.leases()).sort(), [
        "10.1.2.2",
        "2001:db8::2",
      ]);
      const checked = await second("CHECK", { ...config, prevResult });
      assertEquals(checked.exitCode, 0);
      assertEquals((await second("ADD", config)).exitCode, 1);
      assertEquals((await second("DEL", config)).exitCode, 0);
      assertEquals(directory.leases(), {});
      const { json } = await second("ADD", config);
      const { address } = json.ips[0];
      assertEquals(address, "10.1.2.3/24");
    });
  });

  Deno.test(`host-local and the Go plugin run concurrently in a directory (${peer.name})`, async (t) => {
    using directory = new DataDirectory();
    const runOwn = runAs(await ownProgram());
    // As many addresses as processes, so that none may be lost either.
    const config = directory.config({
      subnet: "10.1.2.0/28",
      rangeStart: "10.1.2.2",
      rangeEnd: "10.1.2.9",
    }, { cniVersion: "1.0.0" });
    const together = (command: string): Promise<Output[]> =>
      Promise.all(
        Array.from({ length: 8 }, (_, i) =>
          (i % 2 === 0 ? runOwn : runGo)(command, config, {
            CNI_CONTAINERID: `container${i}`,
          })),
      );

    await t.step("each ADD gets an address of its own", async () => {
      const added = await together("ADD");
      const addresses = added.map(({ json }) => json.ips?.[0].address);
      const want = Object.keys(directory.leases()).map((name) => `${name}/28`);
      assertEquals(addresses.sort(), want.sort());
      assertEquals(want.length, 8);
    });
    await t.step("each DEL releases one lease", async () => {
      const deleted = await together("DEL");
      assertEquals(deleted.map(({ exitCode }) => exitCode), Array(8).fill(0));
      assertEquals(directory.leases(), {});
    });
  });

  Deno.test(`host-local and the Go plugin run in turn in a large directory (${peer.name})`, async (t) => {
    const leases = Array.from({ length: 900 }, (_, i) => [
      `10.8.${i >> 8}.${i & 255}`,
      "b\r\neth0",
    ]);
    const planted = Object.fromEntries(leases);
    using directory = new DataDirectory();
    const config = directory.config({ subnet: "10.1.2.0/24" }, {
      cniVersion: "1.0.0",
    });
    const valid = [{ containerID: "b", ifname: "eth0" }];
    const gc = {
      ...config,
      cniVersion: "1.1.0",
      "cni.dev/valid-attachments": valid,
    };
    directory.plant(planted);
    const rows = { ...MIXED, ...hasGc(peer) && MIXED_GC };
    await eachRow(t, Object.entries(rows), async ([, steps]) => {
      for (const [ours, command] of steps) {
        const run = ours ? runOurs : runGo;
        const env = { CNI_CONTAINERID: "a" };
        const input = command === "GC" ? gc : config;
        const { exitCode, stdout } = await run(command, input, env);
        assertEquals(exitCode, 0, stdout);
        const own = Object.entries(directory.leases())
          .filter(([, content]) => content === "a\r\neth0");
        assertEquals(own.length, command === "ADD" ? 1 : 0, command);
      }
      assertEquals(directory.leases(), planted);
    });
    await t.step("our ADD refuses what Go's ADD leased", async () => {
      const envOf = (id: string) => ({ CNI_CONTAINERID: id });
      assertSuccess(await runOurs("ADD", config, envOf("c")));
      assertEquals((await runGo("ADD", config, envOf("a"))).exitCode, 0);
      const { exitCode, stdout } = await runOurs("ADD", config, envOf("a"));
      assertEquals(exitCode, 1);
      assertStringIncludes(stdout, "duplicate allocation is not allowed");
      for (const id of ["a", "c"]) {
        assertSuccess(await runOurs("DEL", config, envOf(id)));
      }
      assertEquals(directory.leases(), planted);
    });
  });

  Deno.test(`host-local's persistent addresses survive calls of the Go plugin (${peer.name})`, async (t) => {
    using directory = new DataDirectory();
    // Three addresses.
    const range = { subnet: "10.1.2.0/29", rangeStart: "10.1.2.4" };
    const plain = directory.config(range, { cniVersion: peer.cniVersion });
    const stay = { ...range, stay: "name", stayTime: "10m" };
    const ours = directory.config(stay);
    const call = async (
      run: Run,
      command: string,
      name: string,
      valid: readonly string[] = [],
    ): Promise<string> => {
      const attachments = valid.map((containerID) => ({
        containerID,
        ifname: "eth0",
      }));
      const config = run === runOurs ? ours : plain;
      const output = await run(command, {
        ...config,
        ...command === "GC" && { "cni.dev/valid-attachments": attachments },
      }, {
        CNI_CONTAINERID: name,
        CNI_ARGS: `IgnoreUnknown=1;K8S_POD_NAMESPACE=test;K8S_POD_NAME=pod-${
          name[0]
        }`,
      });
      assertEquals(output.exitCode, 0, output.stdout);
      return output.json?.ips?.[0].address;
    };
    const gc = async (...valid: string[]): Promise<void> => {
      if (hasGc(peer)) await call(runGo, "GC", "any", valid);
    };
    const held = { "10.1.2.4": "-> stay/test/pod-a/eth0" };

    await t.step("the Go plugin's GC keeps the address", async () => {
      assertEquals(await call(runOurs, "ADD", "a1"), "10.1.2.4/29");
      assertEquals(await call(runOurs, "ADD", "b1"), "10.1.2.5/29");
      await call(runOurs, "DEL", "a1");
      await gc("b1");
      assertEquals(directory.leases(), { ...held, "10.1.2.5": "b1\r\neth0" });
    });
    await t.step("the Go plugin leases no persistent address", async () => {
      assertEquals(await call(runGo, "ADD", "c1"), "10.1.2.6/29");
      await call(runGo, "CHECK", "b1");
      // The range is full: a1's DEL comes again, and b1 leaves.
      await call(runGo, "DEL", "a1");
      await call(runGo, "DEL", "b1");
      assertEquals(await call(runGo, "ADD", "d1"), "10.1.2.5/29");
      await gc("c1", "d1");
      await call(runGo, "DEL", "c1");
      await call(runGo, "DEL", "d1");
      await gc();
      assertEquals(directory.leases(), held);
    });
    await t.step("host-local returns the address to its pod", async () => {
      await call(runOurs, "GC", "any");
      assertEquals(directory.leases(), held);
      assertEquals(await call(runOurs, "ADD", "a2"), "10.1.2.4/29");
    });
    await t.step("GC of both plugins keeps the address", async () => {
      await call(runOurs, "DEL", "a2");
      const other = await call(runGo, "ADD", "c2");
      await call(runOurs, "GC", "any", ["c2"]);
      await gc("c2");
      await call(runOurs, "GC", "any", ["c2"]);
      assertEquals(await call(runOurs, "ADD", "a3"), "10.1.2.4/29");
      await gc("a3", "c2");
      await call(runOurs, "GC", "any", ["a3", "c2"]);
      const name = other.replace("/29", "");
      assertEquals(directory.leases(), {
        "10.1.2.4": "a3\r\neth0",
        [name]: "c2\r\neth0",
      });
    });
  });

  Deno.test(`host-local's set-aside addresses survive calls of the Go plugin (${peer.name})`, async () => {
    using directory = new DataDirectory();
    const range = { subnet: "10.1.2.0/29", rangeStart: "10.1.2.4" };
    const { cniVersion } = peer;
    const config = directory.config(range, { cniVersion });
    const conflicts = [{ ip: "10.1.2.4", mac: "02:00:00:00:00:09" }];
    assertSuccess(await runOurs("ADD", config));
    const again = { ...config, "cni.dev/conflicts": conflicts };
    assertSuccess(await runOurs("ADD", again));
    const aside = { "10.1.2.4": "-> conflict/02:00:00:00:00:09" };
    const env = { CNI_CONTAINERID: "other" };
    for (const command of ["ADD", "CHECK", "DEL"]) {
      const prevResult = {
        cniVersion,
        ips: [{ address: "10.1.2.6/29" }],
      };
      const input = command === "CHECK" ? { ...config, prevResult } : config;
      const { exitCode, stdout } = await runGo(command, input, env);
      assertEquals(exitCode, 0, stdout);
    }
    const none = { ...config, "cni.dev/valid-attachments": [] };
    if (hasGc(peer)) await runGo("GC", none);
    assertEquals((await runGo("DEL", config)).exitCode, 0);
    assertEquals(directory.leases(), aside);
  });
}

/** Reports whether a peer's host-local has GC. */
function hasGc({ cniVersion }: { readonly cniVersion: string }): boolean {
  return isAtLeast(cniVersion, "1.1.0");
}
