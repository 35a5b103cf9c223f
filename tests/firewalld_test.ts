/**
 * firewall and portmap with a real firewalld: what it lets through, what CHECK
 * notices, what a reload or a restart of firewalld takes away, and the Go plugins
 * beside it.
 */

import { assertEquals, assertMatch } from "@std/assert";
import { probe } from "../cli/probe/command.ts";
import type { ShownCause } from "../cli/probe/show.ts";
import {
  type Attached,
  PortScene,
  TcpServer,
} from "../plugins/portmap/testing/port_scene.ts";
import { allOf, rootTest } from "../testing/capabilities.ts";
import type { Json } from "../testing/conform/scene.ts";
import { findReached, runIn } from "../testing/ip_json.ts";
import { type CallOutput, TestHosts } from "../testing/test_hosts.ts";
import { assertFailure, assertSuccess } from "./_harness/call_outcome.ts";
import {
  listRequirements,
  type RequirementsOn,
} from "./_harness/requirements.ts";
import {
  Firewalld,
  type FirewalldPlace,
  needsFirewalld,
} from "./_harness/firewalld.ts";
import { callAs, listPeers, nameOf, type Who } from "./_harness/parity.ts";
import type { Keys } from "./_harness/plugin_scene.ts";
import { callWith } from "./_harness/tool_call.ts";
import { needsInetRules, needsRuleTools } from "./_harness/rules.ts";

const needs = allOf(needsFirewalld, needsInetRules, needsRuleTools);

function placeOf({ host, directory }: TestHosts): FirewalldPlace {
  return { enter: ["nsenter", `--net=${host.path}`], directory };
}

/** The sources of the first container, and the addresses of the second one. */
const SOURCES = ["10.1.2.2/32", "fd00:12::2/128"];
const NEIGHBOR = ["10.1.2.3", "fd00:12::3"];

const NOT_FOUND = "failed to find the address 10.1.2.2/32 in trusted zone";

/** A container on a host with firewalld, and the same container's neighbor. */
class Container {
  readonly #hosts: TestHosts;
  readonly #firewalld: Firewalld;
  readonly #config: Keys;

  private constructor(hosts: TestHosts, firewalld: Firewalld, config: Keys) {
    [this.#hosts, this.#firewalld] = [hosts, firewalld];
    this.#config = config;
  }

  /** Connects both by ptp. */
  static async connect(
    hosts: TestHosts,
    firewalld: Firewalld,
    cniVersion = "1.1.0",
  ): Promise<Container> {
    const network = { cniVersion, name: "net1" };
    const ipam = hosts.hostLocal("10.1.2.0/24", "fd00:12::/64");
    const ptp = { ...network, type: "ptp", ipam };
    const first = await hosts.run("ptp", "ADD", ptp);
    assertSuccess(first);
    const neighbor = { containerId: "neighbor", sandbox: hosts.addNetns() };
    assertSuccess(await hosts.run("ptp", "ADD", ptp, neighbor));
    const prevResult = first.json;
    const config = { ...network, type: "firewall", prevResult };
    return new Container(hosts, firewalld, config);
  }

  /** Runs a command of firewall. */
  run(
    command: string,
    keys: Keys = {},
    who: Who = "ours",
  ): Promise<CallOutput> {
    const config = { ...this.#config, ...keys };
    const { env } = this.#firewalld;
    const call = { type: "firewall", command, config };
    return callAs(who, this.#hosts, call, { env });
  }

  /** Runs commands that must succeed. */
  async succeed(...commands: readonly string[]): Promise<void> {
    for (const command of commands) assertSuccess(await this.run(command));
  }

  /** Runs a command that must fail. */
  async fail(
    command: string,
    [code, text]: readonly [code: number, text: string],
    keys?: Keys,
  ): Promise<void> {
    assertFailure(await this.run(command, keys), code, text);
  }

  /** Lists the addresses of the neighbor that reply. */
  get reached(): readonly string[] {
    return findReached(this.#hosts.sandbox, NEIGHBOR, 1);
  }
}

rootTest(
  "firewalld accepts packets of addresses that firewall adds",
  needs,
  async () => {
    using hosts = TestHosts.create();
    await using firewalld = await Firewalld.start(placeOf(hosts));
    const container = await Container.connect(hosts, firewalld);
    assertEquals(container.reached, []);

    await container.succeed("STATUS", "ADD", "ADD", "CHECK");
    assertEquals(firewalld.sources(), SOURCES);
    assertEquals(container.reached, NEIGHBOR);

    // A source that somebody removes is noticed, and ADD restores it.
    firewalld.command("--zone=trusted", `--remove-source=${SOURCES[0]}`);
    await container.fail("CHECK", [999, NOT_FOUND]);
    await container.succeed("ADD", "CHECK");

    // One that somebody gives to another zone is theirs.
    firewalld.command("--zone=drop", `--change-source=${SOURCES[0]}`);
    await container.fail("CHECK", [999, NOT_FOUND]);
    await container.fail("ADD", [999, "ZONE_CONFLICT"]);
    assertEquals([firewalld.sources(), firewalld.sources("drop")], [[], [
      SOURCES[0],
    ]]);
    await container.succeed("DEL", "DEL");
    assertEquals(firewalld.sources("drop"), [SOURCES[0]]);
    firewalld.command("--zone=drop", `--remove-source=${SOURCES[0]}`);

    await container.succeed("ADD", "DEL");
    assertEquals([firewalld.sources(), container.reached], [[], []]);

    await container.succeed("ADD");
    const keys = { "cni.dev/valid-attachments": [], prevResult: undefined };
    assertSuccess(await container.run("GC", keys));
    assertEquals(firewalld.sources(), []);
  },
);

rootTest("firewalld loses its runtime sources on a reload", needs, async () => {
  using hosts = TestHosts.create();
  await using firewalld = await Firewalld.start(placeOf(hosts));
  const container = await Container.connect(hosts, firewalld);
  const missing = [999, NOT_FOUND] as const;
  const hostNetns = hosts.host.path;

  await container.succeed("ADD");
  firewalld.command("--reload");
  assertEquals(firewalld.sources(), []);
  await container.fail("CHECK", missing);
  await container.succeed("DEL", "ADD", "CHECK");

  // A restart does the same; meanwhile the host has no firewalld.
  await firewalld.stop();
  const named = { backend: "firewalld" };
  await container.fail("STATUS", [50, "firewalld is not running"], named);
  await container.succeed("STATUS");
  await firewalld.start();
  assertEquals(firewalld.sources(), []);
  await container.fail("CHECK", missing);

  // The command of `cni doctor` makes the subnet a source, which stays. Another
  // network's source does not look like one.
  firewalld.command("--zone=trusted", "--add-source=10.9.0.0/24");
  for (const neighbor of NEIGHBOR) {
    const flags = { "cache-dir": hosts.directory };
    const call = callWith({ args: [hosts.sandbox.path, neighbor], flags });
    const send = async (): Promise<readonly ShownCause[]> =>
      ((await probe(call, { hostNetns })).json as {
        readonly causes: readonly ShownCause[];
      }).causes;
    const [cause] = await send();
    assertEquals(cause?.check, "forward-policy");
    for (const command of cause?.fix?.split(" && ") ?? []) {
      firewalld.command(...command.split(" ").slice(1));
    }
    assertEquals(await send(), []);
  }
  assertEquals(container.reached, NEIGHBOR);
  await container.succeed("ADD", "CHECK");
  firewalld.command("--reload");
  assertEquals(container.reached, NEIGHBOR);

  // DEL finds nothing to remove while firewalld is stopped.
  await firewalld.stop();
  await container.succeed("DEL");
});

rootTest(
  "a reload of firewalld keeps nftables tables, and flushes iptables rules",
  needs,
  async () => {
    using scene = new PortScene({});
    await using firewalld = await Firewalld.start(placeOf(scene.hosts));
    const attach = (backend: string, hostPort: number): Promise<Attached> =>
      scene.attach([{ hostPort, containerPort: 80, protocol: "tcp" }], {
        containerId: backend,
        sandbox: scene.hosts.addNetns(),
        keys: { backend },
        network: { ipMasq: true, ipMasqBackend: "nftables" },
      });
    const tables = (): string[] =>
      runIn(scene.host, "nft", "list", "tables").split("\n")
        .filter((line) => line.startsWith("table inet cni_")).toSorted();
    const kept = await attach("nftables", 8080);
    const lost = await attach("iptables", 8081);
    const clients = async (): Promise<string[]> => {
      using server = new TcpServer(kept.sandbox, 80);
      return [
        await server.clientOf(scene.outside, "192.0.2.1", 8080),
        await server.clientOf(scene.host, "127.0.0.1", 8080),
      ];
    };
    const before = await clients();
    assertEquals(before, ["192.0.2.2", "10.1.2.1"]);
    const own = ["cni_plugins_masquerade", "cni_portmap"];
    assertEquals(tables(), own.map((name) => `table inet ${name}`));

    firewalld.command("--reload");
    assertEquals(await clients(), before);
    assertEquals(tables(), own.map((name) => `table inet ${name}`));
    assertSuccess(await kept.run("CHECK"));
    // firewalld flushes the tables of iptables.
    const missing = /could not check ipv4 dnat: chain \S+ not found/;
    assertMatch((await lost.run("CHECK")).json.msg, missing);
    assertSuccess(await lost.run("DEL"));
  },
);

const BY_FAULTS = { "cut-short": "fault_test.ts fails each step, in two ways" };

/** Runs a test whose hosts are all one with firewalld, and whose plugins reach its bus. */
async function withFirewalld(
  hosts: TestHosts,
  firewalld: Firewalld,
  test: () => void | Promise<void>,
): Promise<void> {
  const before = [TestHosts.createHost, TestHosts.dispatch] as const;
  const [, dispatchBefore] = before;
  TestHosts.createHost = () => hosts.host;
  TestHosts.dispatch = (plugin, input) =>
    dispatchBefore(plugin, {
      ...input,
      env: { ...input.env, ...firewalld.env },
      // As a process of its own.
      startedAt: input.startedAt ?? new Date(),
    });
  try {
    await test();
  } finally {
    [TestHosts.createHost, TestHosts.dispatch] = before;
    runIn(hosts.host, "sh", "-ec", EMPTY);
    for (const source of firewalld.sources()) firewalld.removeSource(source);
  }
}

/** Removes what a host of its own would take with it. */
const EMPTY = `
for link in $(ip -o link | sed -n 's/^[0-9]*: \\([^:@]*\\).*/\\1/p' | grep -vx lo); do
  ip link del "$link" 2>/dev/null || true
done
nft list tables | sed -n 's/^table \\(.* cni_.*\\)/delete table \\1/p' | nft -f -`;

rootTest(
  "the requirements of the specification pass on a host with firewalld",
  needs,
  async (t) => {
    using hosts = TestHosts.create();
    await using firewalld = await Firewalld.start(placeOf(hosts));
    const ipam = (own: TestHosts): Json => ({
      ...own.hostLocal("10.88.0.0/16", "fd00:88::/64"),
      routes: [{ dst: "0.0.0.0/0" }, { dst: "::/0" }],
    });
    const keys = (own: TestHosts): Json => ({ ipam: ipam(own) });
    const requirements: RequirementsOn[] = [
      {
        type: "firewall",
        withoutProtocol: true,
        keys: () => ({ backend: "firewalld" }),
        except: {
          ...BY_FAULTS,
          "check-too-early": "its first version has CHECK",
        },
      },
      {
        type: "portmap",
        withoutProtocol: true,
        keys: () => ({ backend: "nftables" }),
        optional: /^NFT_MSG_GET/,
      },
      // At night, as all requirements on bridge: these two only masquerade.
      ...Deno.env.get("CNI_CONFORM") === "1"
        ? ["ptp", "bridge"].map((type) => ({ type, keys, except: BY_FAULTS }))
        : [],
    ];
    for (const [name, row] of requirements.flatMap(listRequirements)) {
      await t.step(name, (t) => withFirewalld(hosts, firewalld, () => row(t)));
    }
    assertEquals(firewalld.sources(), []);
  },
);

for (const peer of listPeers("firewall with firewalld")) {
  rootTest(
    `firewall shares firewalld with the Go plugin (${peer.name})`,
    needs,
    async (t) => {
      using hosts = TestHosts.create();
      await using firewalld = await Firewalld.start(placeOf(hosts));
      const { cniVersion } = peer;
      const container = await Container.connect(hosts, firewalld, cniVersion);
      const succeed = async (who: Who, command: string): Promise<void> => {
        const { exitCode, stdout } = await container.run(command, {}, who);
        assertEquals(exitCode, 0, `${nameOf(who)} ${command}: ${stdout}`);
      };
      const turns = [["ours", peer], [peer, "ours"]] as const;
      for (const [adder, other] of turns) {
        await t.step(`${nameOf(adder)} adds`, async () => {
          await succeed(adder, "ADD");
          assertEquals(firewalld.sources(), SOURCES);
          for (const command of ["CHECK", "ADD", "CHECK"]) {
            await succeed(other, command);
          }
          assertEquals(firewalld.sources(), SOURCES);
          await succeed(other, "DEL");
          assertEquals(firewalld.sources(), []);
          await succeed(adder, "DEL");
        });
      }
    },
  );
}
