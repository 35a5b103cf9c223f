/**
 * Holds host-local to the Go plugin of the same name: the same answers, the
 * same bytes on disk, and both at once in one folder.
 *
 * @module
 */

import { assertEquals } from "@std/assert";
import { join } from "@std/path/posix";
import type { Environment } from "../cni/args.ts";
import type { JsonObject } from "../cni/json.ts";
import { dispatch } from "../cni/skel.ts";
import { hostLocal } from "../ipam/host_local/plugin.ts";
import { importFlags } from "../scripts/net.ts";
import { goPlugin, ignoreUnless } from "./_harness/capabilities.ts";

const go = goPlugin("host-local") ?? "";
const needsGo = ignoreUnless(go !== "", "needs the Go host-local");

/** The versions that even a Go plugin of some years ago has. */
const VERSIONS = ["0.2.0", "0.3.1", "0.4.0", "1.0.0"];

/** How a call ended, and what it printed, decoded. */
interface Answer {
  readonly exitCode: number;
  // deno-lint-ignore no-explicit-any -- tests look into it as they please
  readonly json: any;
}

/** Runs a plugin once. */
type Run = (
  command: string,
  config: JsonObject,
  env?: Environment,
) => Promise<Answer>;

function environment(command: string, env: Environment): Environment {
  return {
    CNI_COMMAND: command,
    CNI_CONTAINERID: "dummy",
    CNI_NETNS: "/some/netns",
    CNI_IFNAME: "eth0",
    CNI_PATH: "/some/bin",
    ...env,
  };
}

/** Runs our plugin in this process. */
const runOurs: Run = async (command, config, env = {}) => {
  const { exitCode, stdout } = await dispatch(hostLocal, {
    env: environment(command, env),
    stdin: () => encode(config),
    invoker: {
      invoke: () => Promise.reject(new Error("host-local runs no plugin")),
    },
    hostNetns: "/proc/thread-self/ns/net",
  });
  return { exitCode, json: decode(stdout) };
};

const runGo: Run = (...call) => execute([go], ...call);

/** Runs a plugin as a process. */
async function execute(
  [program = "", ...args]: string[],
  command: string,
  config: JsonObject,
  env: Environment = {},
): Promise<Answer> {
  const child = new Deno.Command(program, {
    args,
    env: environment(command, env),
    cwd: new URL("..", import.meta.url),
    stdin: "piped",
    stdout: "piped",
    stderr: "inherit",
  }).spawn();
  const writer = child.stdin.getWriter();
  await writer.write(encode(config));
  await writer.close();
  const { code, stdout } = await child.output();
  return { exitCode: code, json: decode(new TextDecoder().decode(stdout)) };
}

function encode(config: JsonObject): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode(JSON.stringify(config));
}

/** Decodes what was printed, without the empty `dns` of older Go plugins at 1.0.0. */
function decode(stdout: string): Answer["json"] {
  if (stdout === "") return undefined;
  const { dns, ...others } = JSON.parse(stdout);
  return dns === undefined || Object.keys(dns).length === 0
    ? others
    : { ...others, dns };
}

/** A data folder. */
class Folder implements Disposable {
  readonly path = Deno.makeTempDirSync({ prefix: "host-local-" });

  config(ipam: JsonObject, others: JsonObject = {}): JsonObject {
    return {
      cniVersion: "1.0.0",
      name: "mynet",
      type: "ptp",
      ipam: { type: "host-local", dataDir: this.path, ...ipam },
      ...others,
    };
  }

  /** Reads the network's files. */
  read(): Record<string, string> {
    const folder = join(this.path, "mynet");
    return Object.fromEntries(
      [...Deno.readDirSync(folder)].map(({ name }) => [
        name,
        Deno.readTextFileSync(join(folder, name)),
      ]),
    );
  }

  /** Lists the leases. */
  leases(): string[] {
    return Object.keys(this.read()).filter((name) => /^[\d:]/.test(name));
  }

  plant(files: Record<string, string>): void {
    Deno.mkdirSync(join(this.path, "mynet"), { recursive: true });
    for (const [name, content] of Object.entries(files)) {
      Deno.writeTextFileSync(join(this.path, "mynet", name), content);
    }
  }

  [Symbol.dispose](): void {
    Deno.removeSync(this.path, { recursive: true });
  }
}

/** One call: a command, a container, and what else is special. */
type Step = [command: string, containerId: string, env?: Environment];

/** Runs calls in a new folder; answers what was printed and what is on disk. */
async function play(
  run: Run,
  scenario: Scenario,
  cniVersion: string,
): Promise<unknown[]> {
  using folder = new Folder();
  folder.plant(scenario.files ?? {});
  const others = { ...scenario.others, cniVersion };
  const config = folder.config(scenario.ipam, others);
  const seen: unknown[] = [];
  for (const [command, containerId, env] of scenario.steps ?? [["ADD", "a"]]) {
    const call = { CNI_CONTAINERID: containerId, ...env };
    seen.push(await run(command, config, call), folder.read());
  }
  return seen;
}

/** A configuration, what is on disk before, and the calls: one ADD unless said. */
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

Deno.test({
  name: `host-local answers and writes what Go's does${needsGo.suffix}`,
  ignore: needsGo.ignore,
  fn: async (t) => {
    for (const [name, scenario] of Object.entries(SCENARIOS)) {
      for (const cniVersion of VERSIONS) {
        await t.step(`${name}, ${cniVersion}`, async () => {
          const ours = await play(runOurs, scenario, cniVersion);
          assertEquals(ours, await play(runGo, scenario, cniVersion));
        });
      }
    }
  },
});

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

Deno.test({
  name: `host-local fails with the words of Go's${needsGo.suffix}`,
  ignore: needsGo.ignore,
  fn: async (t) => {
    const messageOf = async (run: Run, scenario: Scenario): Promise<string> => {
      const version = scenario.others?.["cniVersion"] ?? "1.0.0";
      const seen = await play(run, { ...scenario, files: {} }, `${version}`);
      const { json, exitCode } = seen.at(-2) as Answer;
      assertEquals(exitCode, 1);
      return json.msg;
    };
    for (const [name, scenario] of Object.entries(FAILURES)) {
      await t.step(name, async () => {
        const ours = await messageOf(runOurs, scenario);
        assertEquals(ours, await messageOf(runGo, scenario));
      });
    }
  },
});

Deno.test({
  name: `host-local and Go's end each other's leases${needsGo.suffix}`,
  ignore: needsGo.ignore,
  fn: async (t) => {
    const rows: [name: string, first: Run, second: Run][] = [
      ["ours, then Go's", runOurs, runGo],
      ["Go's, then ours", runGo, runOurs],
    ];
    for (const [name, first, second] of rows) {
      await t.step(name, async () => {
        using folder = new Folder();
        const subnets = ["10.1.2.0/24", "2001:db8::/64"];
        const ranges = subnets.map((subnet) => [{ subnet }]);
        const config = folder.config({ ranges });
        const { json: prevResult } = await first("ADD", config);
        assertEquals(folder.leases().sort(), ["10.1.2.2", "2001:db8::2"]);
        const checked = await second("CHECK", { ...config, prevResult });
        assertEquals(checked.exitCode, 0);
        assertEquals((await second("ADD", config)).exitCode, 1);
        assertEquals((await second("DEL", config)).exitCode, 0);
        assertEquals(folder.leases(), []);
        const { json } = await second("ADD", config);
        const { address } = json.ips[0];
        assertEquals(address, "10.1.2.3/24");
      });
    }
  },
});

/** Returns how our plugin is run as a process. */
async function ownProgram(): Promise<string[]> {
  const folder = Deno.env.get("CNI_BIN");
  return folder ? [join(folder, "host-local")] : [
    Deno.execPath(),
    "run",
    "--allow-all",
    ...await importFlags(),
    "ipam/host_local/main.ts",
  ];
}

Deno.test({
  name: `host-local and Go's share a folder at one time${needsGo.suffix}`,
  ignore: needsGo.ignore,
  fn: async (t) => {
    using folder = new Folder();
    const programs = [await ownProgram(), [go]];
    // As many addresses as processes, so that none may be lost either.
    const config = folder.config({
      subnet: "10.1.2.0/28",
      rangeStart: "10.1.2.2",
      rangeEnd: "10.1.2.9",
    });
    const together = (command: string): Promise<Answer[]> =>
      Promise.all(
        Array.from({ length: 8 }, (_, i) =>
          execute(programs[i % 2] ?? [], command, config, {
            CNI_CONTAINERID: `container${i}`,
          })),
      );

    await t.step("each ADD gets an address of its own", async () => {
      const added = await together("ADD");
      const addresses = added.map(({ json }) => json.ips?.[0].address);
      const want = folder.leases().map((name) => `${name}/28`);
      assertEquals(addresses.sort(), want.sort());
      assertEquals(want.length, 8);
    });
    await t.step("each DEL ends one lease", async () => {
      const deleted = await together("DEL");
      assertEquals(deleted.map(({ exitCode }) => exitCode), Array(8).fill(0));
      assertEquals(folder.leases(), []);
    });
  },
});
