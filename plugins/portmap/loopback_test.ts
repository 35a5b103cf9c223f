/** 127.0.0.0/8 of a host whose ports are forwarded from 127.0.0.1, too. */

import {
  assert,
  assertEquals,
  assertMatch,
  assertStringIncludes,
} from "@std/assert";
import { SyscallError } from "../../ffi/errno.ts";
import { inNetns, type NetNs } from "../../ffi/netns.ts";
import { Nftables } from "../../ffi/nftables/mod.ts";
import { readSysctl, writeSysctl } from "../../ffi/sysctl.ts";
import { allOf, rootTest } from "../../testing/capabilities.ts";
import { intercept } from "../../testing/fault_injector.ts";
import { runIn } from "../../testing/ip_json.ts";
import {
  assertFailure,
  assertSuccess,
} from "../../tests/_harness/call_outcome.ts";
import { legacyPath } from "../../tests/_harness/legacy_path.ts";
import { listPeers } from "../../tests/_harness/parity.ts";
import type { Keys } from "../../tests/_harness/plugin_scene.ts";
import {
  type Attached,
  type Attaching,
  connectTcp,
  isClosed,
  PortScene,
  TcpServer,
} from "./testing/port_scene.ts";
import {
  needsInetRules,
  needsLegacyIptables,
  needsRuleTools,
} from "../../tests/_harness/rules.ts";
import { eachRow } from "../../tests/_harness/table.ts";
import { NodeChanges } from "../../tests/fault_table/node_changes.ts";

const BRIDGE = { type: "bridge", bridge: "br0", isGateway: true };
const PORT = { hostPort: 8080, containerPort: 80, protocol: "tcp" };
const BACKENDS = ["nftables", "iptables-nft", "iptables-legacy"] as const;
const SECRET = 7777;

function test(
  name: string,
  body: (t: Deno.TestContext) => Promise<void>,
): void {
  const needs = allOf(needsRuleTools, needsInetRules, needsLegacyIptables());
  rootTest(`portmap's 127.0.0.0/8: ${name}`, needs, body);
}

/** A host with a backend, and a server on its 127.0.0.1. */
class Scene extends PortScene {
  readonly #secret = new TcpServer(this.host, SECRET, "127.0.0.1");
  readonly #more: Attaching;

  constructor(backend: (typeof BACKENDS)[number], network: Keys = BRIDGE) {
    super({ backend: backend.split("-")[0] });
    const isLegacy = backend === "iptables-legacy";
    this.#more = { network, ...isLegacy && { env: legacyPath(this.hosts) } };
  }

  /** Attaches a container with a port. */
  forward(
    hostPort = PORT.hostPort,
    more: Attaching = {},
  ): Promise<Attached> {
    const attaching = { ...this.#more, ...more };
    return this.attach([{ ...PORT, hostPort }], attaching);
  }

  /** Attaches a further container, with a port or without. */
  async addContainer(hostPort?: number, more: Attaching = {}): Promise<NetNs> {
    const sandbox = this.hosts.addNetns();
    const containerId = `other${hostPort ?? ""}`;
    const attaching = { ...this.#more, sandbox, containerId, ...more };
    if (hostPort === undefined) await this.connect(attaching);
    else await this.forward(hostPort, attaching);
    return sandbox;
  }

  /** Reports whether a packet to 127.0.0.1, sent to the gateway, gets an answer. */
  isReachedFrom(sandbox: NetNs): boolean {
    return !isClosed(sandbox, "127.0.0.1", SECRET);
  }

  localnetOf(link: string): string {
    const key = `net/ipv4/conf/${link}/route_localnet`;
    return inNetns(this.host, () => readSysctl(key));
  }

  /** The links from which packets of 127.0.0.0/8 are dropped. */
  get links(): string[] {
    const [, elements = ""] =
      /set loopback_links \{[^}]*elements = \{([^}]*)\}/.exec(this.table) ?? [];
    return [...elements.matchAll(/"([^"]+)"(?: comment "[^"]*")?/g)]
      .map(([, link = ""]) => link);
  }

  override [Symbol.dispose](): void {
    this.#secret[Symbol.dispose]();
    super[Symbol.dispose]();
  }
}

/** Sends a container's packets to 127.0.0.1 to the gateway, as root there can. */
function sendLoopbackOut(sandbox: NetNs): void {
  const script = `ip route add 127.0.0.1 via 10.1.2.1 table 100
    ip rule add pref 0 to 127.0.0.1 lookup 100
    ip rule del pref 0 lookup local
    ip rule add pref 1 lookup local
    echo 1 > /proc/sys/net/ipv4/conf/eth0/route_localnet`;
  runIn(sandbox, "sh", "-ec", script);
}

test("containers cannot reach it, before and after DEL", async (t) => {
  const rows = BACKENDS.flatMap((backend) =>
    [BRIDGE, { ...BRIDGE, type: "ptp" }].map((network) => ({
      backend,
      network,
    }))
  );
  await eachRow(t, rows, async ({ backend, network }) => {
    using scene = new Scene(backend, network);
    const attached = await scene.forward();
    const [link = ""] = scene.links;
    assertMatch(link, network.type === "ptp" ? /^veth/ : /^br0$/);
    assertEquals(scene.localnetOf(link), "1");
    const { sandbox } = attached;
    const neighbor = await scene.addContainer();
    const containers = network.type === "ptp" ? [sandbox] : [sandbox, neighbor];
    for (const one of containers) {
      sendLoopbackOut(one);
      assertEquals(scene.isReachedFrom(one), false);
    }
    using server = new TcpServer(sandbox, 80);
    assertEquals(
      await server.clientOf(scene.host, "127.0.0.1", 8080),
      "10.1.2.1",
    );
    // The rules keep them out, and nothing else.
    runIn(scene.host, "nft", "flush chain inet cni_portmap loopback");
    for (const one of containers) {
      connectTcp(one, "127.0.0.1", SECRET)[Symbol.dispose]();
    }
    const { json } = await attached.run("CHECK");
    assertMatch(json.msg, /missing hostport rules in "loopback" chain/);
    assertSuccess(await attached.run("DEL"));
    assertEquals([scene.localnetOf(link), scene.table], ["0", ""]);
    for (const one of containers) assert(!scene.isReachedFrom(one));
  }, ({ backend, network }) => `${network.type}, ${backend}`);
});

test("ADD closes a link that had route_localnet set", async (t) => {
  await eachRow(t, BACKENDS, async (backend) => {
    using scene = new Scene(backend);
    const { host } = scene;
    const neighbor = await scene.addContainer();
    sendLoopbackOut(neighbor);
    inNetns(
      host,
      () => writeSysctl("net/ipv4/conf/br0/route_localnet", "1"),
    );
    assert(scene.isReachedFrom(neighbor));
    const attached = await scene.forward();
    assert(!scene.isReachedFrom(neighbor));
    assertSuccess(await attached.run("DEL"));
    // An administrator may have set it.
    assertEquals(scene.localnetOf("br0"), "1");
  }, (backend) => backend);
});

test("CHECK reports each missing part", async (t) => {
  await eachRow(t, BACKENDS, async (backend) => {
    using scene = new Scene(backend);
    const attached = await scene.forward();
    const rows: [string[], RegExp][] = [
      [
        ["nft", "flush set inet cni_portmap loopback_links"],
        /missing elements in "loopback_links" set/,
      ],
      [
        ["sh", "-c", "echo 0 > /proc/sys/net/ipv4/conf/br0/route_localnet"],
        /route_localnet of "br0" is off/,
      ],
    ];
    for (const [command, expected] of rows) {
      runIn(scene.host, ...command as [string]);
      assertMatch((await attached.run("CHECK")).json.msg, expected);
      assertSuccess(await attached.run("ADD"));
      assertSuccess(await attached.run("CHECK"));
    }
  }, (backend) => backend);
});

test("DEL of a link's last port resets route_localnet", async (t) => {
  const rows = [
    ["iptables-nft", "iptables"],
    ["iptables-legacy", "iptables"],
    ["nftables", "nftables"],
    ["nftables", "iptables"],
    ["iptables-nft", "nftables"],
  ] as const;
  await eachRow(t, rows, async ([backend, second]) => {
    using scene = new Scene(backend);
    const keys = { backend: second };
    const first = await scene.forward();
    const other = {
      containerId: "other",
      sandbox: scene.hosts.addNetns(),
      keys,
    };
    const last = await scene.forward(8081, other);
    // Its ports are behind another link.
    await scene.addContainer(8082, {
      network: {
        type: "bridge",
        bridge: "br1",
        isGateway: true,
        name: "net2",
        ipam: scene.hosts.hostLocal("10.9.2.0/24"),
      },
    });
    assertEquals(scene.links.sort(), ["br0", "br1"]);
    assertSuccess(await first.run("DEL"));
    assertEquals(scene.localnetOf("br0"), "1");
    {
      using server = new TcpServer(last.sandbox, 80);
      assertEquals(
        await server.clientOf(scene.host, "127.0.0.1", 8081),
        "10.1.2.1",
      );
    }
    assertSuccess(await last.run("CHECK"));
    assertSuccess(await last.run("DEL"));
    assertEquals([scene.localnetOf("br0"), scene.localnetOf("br1")], [
      "0",
      "1",
    ]);
    assertEquals(scene.links, ["br1"]);
  }, (row) => row.join(", then "));
});

test("DEL resets route_localnet before it removes the guard, at any kill", async (t) => {
  await eachRow(t, BACKENDS, async (backend) => {
    using scene = new Scene(backend);
    const attached = await scene.forward();
    for (let step = 1, isKilled = true; isKilled; step++) {
      {
        using changes = new NodeChanges(step, "death");
        await attached.run("DEL");
        isKilled = changes.steps.length >= step;
      }
      const isGuarded = scene.links.includes("br0");
      assert(isGuarded || scene.localnetOf("br0") === "0", `step ${step}`);
      assertSuccess(await attached.run("DEL"));
      assertEquals([scene.localnetOf("br0"), scene.table], ["0", ""]);
      assertSuccess(await attached.run("ADD"));
      assertEquals(scene.localnetOf("br0"), "1");
    }
  }, (backend) => backend);
});

/** Runs DEL, and something before each of its commits; returns what that returns. */
async function watchCommits<T>(
  attached: Attached,
  before: (attempt: number) => T,
): Promise<T[]> {
  const seen: T[] = [];
  using stack = new DisposableStack();
  stack.defer(intercept(Nftables.prototype, "commit", (_, work) => {
    seen.push(before(seen.length + 1));
    return work();
  }));
  assertSuccess(await attached.run("DEL"));
  return seen;
}

test("it stays reachable if a port is added during DEL or DEL fails", async () => {
  using scene = new Scene("nftables");
  const attached = await scene.forward();
  const fail = (): never => {
    throw new SyscallError("refused", 5);
  };
  {
    using stack = new DisposableStack();
    stack.defer(intercept(Nftables.prototype, "commit", fail));
    assertFailure(await attached.run("DEL"), 999, "refused");
  }
  assertEquals([scene.localnetOf("br0"), scene.links], ["1", ["br0"]]);
  const user = "inet cni_portmap loopback_users { br0 . 10.1.2.99 }";
  const seen = await watchCommits(attached, (attempt) => {
    if (attempt === 1) runIn(scene.host, "nft", `add element ${user}`);
    return scene.localnetOf("br0");
  });
  assertEquals(seen, ["0", "1"]);
  assertEquals([scene.localnetOf("br0"), scene.links], ["1", ["br0"]]);
});

/** How the kernel answers that a sysctl may not be written. */
const REFUSALS = {
  // Where /proc/sys is read-only.
  EROFS: Object.assign(new Error("Read-only file system"), { code: "EROFS" }),
  // As AppArmor or SELinux decides.
  EACCES: new Deno.errors.PermissionDenied("Permission denied"),
};

test("DEL keeps the guard of a link whose route_localnet cannot be reset", async (t) => {
  await eachRow(t, Object.entries(REFUSALS), async ([, refusal]) => {
    using scene = new Scene("nftables");
    const attached = await scene.forward();
    {
      using stack = new DisposableStack();
      stack.defer(intercept(Deno, "writeTextFileSync", ([path], work) => {
        if (!String(path).endsWith("/route_localnet")) return work();
        throw refusal;
      }));
      const { exitCode, stderr } = await attached.run("DEL");
      assertEquals(exitCode, 0);
      assertStringIncludes(stderr, "Keeping the rule that guards");
    }
    assertEquals([scene.localnetOf("br0"), scene.links], ["1", ["br0"]]);
    assertSuccess(await attached.run("DEL"));
    assertEquals([scene.localnetOf("br0"), scene.table], ["0", ""]);
  });
});

test("DEL resets route_localnet although another process removed the guard", async () => {
  using scene = new Scene("nftables");
  const attached = await scene.forward();
  await watchCommits(attached, (attempt) => {
    if (attempt === 1) {
      runIn(scene.host, "nft", "delete table inet cni_portmap");
    }
  });
  assertEquals([scene.localnetOf("br0"), scene.table], ["0", ""]);
});

const peers = listPeers("portmap's 127.0.0.0/8");

test("DEL keeps route_localnet for ports of the Go plugin", async (t) => {
  const rows = [...peers].flatMap((who) =>
    (["iptables", "nftables"] as const).map((backend) => ({ who, backend }))
  );
  await eachRow(t, rows, async ({ who, backend }) => {
    using scene = new Scene(backend === "iptables" ? "iptables-nft" : backend);
    const ours = await scene.forward();
    const sandbox = scene.hosts.addNetns();
    const by = await scene.forward(8081, {
      containerId: "other",
      sandbox,
      who,
    });
    sendLoopbackOut(sandbox);
    assertSuccess(await ours.run("DEL"));
    using server = new TcpServer(sandbox, 80);
    assertEquals(
      await server.clientOf(scene.host, "127.0.0.1", 8081),
      "10.1.2.1",
    );
    assert(!scene.isReachedFrom(sandbox));
    assertSuccess(await by.run("DEL"));
    assertEquals([scene.localnetOf("br0"), scene.table], ["0", ""]);
  }, ({ who, backend }) => `${who.name}, ${backend}`);
});
