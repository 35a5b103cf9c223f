/** The plugin dhcp and its daemon, with DHCP servers on a temporary host. */

import {
  assert,
  assertEquals,
  assertMatch,
  assertNotEquals,
  assertStringIncludes,
} from "@std/assert";
import type { NetNs } from "../../ffi/netns.ts";
import { Rtnl } from "../../ffi/rtnl/mod.ts";
import { Events } from "../../base/service/events.ts";
import { DeclineLimit, DEFAULT_TIMING } from "./client.ts";
import { KeptLease } from "./kept_lease.ts";
import { rootTest } from "../../testing/capabilities.ts";
import { ipJson, runIn } from "../../testing/ip_json.ts";
import type { CallOutput } from "../../testing/test_hosts.ts";
import {
  assertFailure,
  assertSuccess,
} from "../../tests/_harness/call_outcome.ts";
import { DhcpScene, needsDnsmasq, needsUdhcpd } from "./testing.ts";
import { eventually } from "../../tests/_harness/eventually.ts";

/** A server that is not there is given up soon. */
const IMPATIENT = { timeoutMs: 200, resendTimeoutMs: 300 };

rootTest("dhcp leases an address until DEL", needsDnsmasq, async () => {
  await using scene = await DhcpScene.start();
  const server = await scene.startDnsmasq();
  const prevResult = await scene.succeed("ADD");
  const [{ address, gateway }] = prevResult.ips;
  assertEquals(scene.addresses(), [address]);
  assertEquals(gateway, "10.9.0.1");
  assertEquals(prevResult.routes, [{ dst: "0.0.0.0/0", gw: "10.9.0.1" }]);
  await scene.succeed("CHECK", { prevResult });
  await scene.succeed("STATUS");
  await scene.succeed("DEL");
  await server.says("DHCPRELEASE");
  assertEquals(scene.leases, []);
  await scene.succeed("DEL");
  assertFailure(
    await scene.run("CHECK", { prevResult }),
    999,
    "",
  );
});

for (const family of [4, "both"] as const) {
  rootTest(
    `dhcp declines and replaces an address that another machine uses, IPv${family}`,
    needsDnsmasq,
    async () => {
      await using scene = await DhcpScene.start();
      runIn(
        scene.hosts.host,
        ...["ip", "address", "add", "2001:db8:9::1/64", "dev", "br0", "nodad"],
      );
      const server = await scene.startDnsmasq(
        "--dhcp-range=10.9.0.10,10.9.0.99,255.255.255.0,1h",
        "--dhcp-range=2001:db8:9::10,2001:db8:9::99,64,1h",
        "--enable-ra",
      );
      const { ipam } = scene.config({ family });
      const keys = {
        ipam,
        conflictCheck: true,
        // The server prefers the same address for the same MAC.
        args: { cni: { mac: "02:00:00:00:00:07" } },
      };
      const leasedBy = ({ ips }: CallOutput["json"]): string => ips[0].address;
      const taken = leasedBy(await scene.succeed("ADD", keys));
      await scene.succeed("DEL", keys);
      await scene.succeed(
        "ADD",
        { ipam: { type: "static", addresses: [{ address: taken }] } },
        { sandbox: scene.hosts.addNetns(), containerId: "squatter" },
      );
      const { exitCode, stdout, stderr, json } = await scene.run("ADD", keys);
      assertEquals(exitCode, 0, stdout);
      const given = leasedBy(json);
      assertNotEquals(given, taken);
      const [ip] = taken.split("/");
      assertStringIncludes(stderr, `address=${ip} `);
      await server.says(`DHCPDECLINE(br0) ${ip}`);
      await scene.says("declined, because another host has the address");
      assertEquals(scene.addresses(), [given]);
      const leases = scene.leases.filter(({ family }) => family !== 6);
      assertEquals(
        leases.map(({ address }) => address),
        given.split("/").slice(0, 1),
      );
      await scene.succeed("CHECK", { ...keys, prevResult: json });
      await scene.succeed("DEL", keys);
      assertEquals(scene.leases, []);
    },
  );
}

/** How many addresses of a network a daemon declines in a day. */
const MOST_DECLINED = 8;

/** Lists the addresses of the messages of a type that a dnsmasq has logged. */
function listLogged({ log }: { readonly log: string }, type: string): string[] {
  return [...log.matchAll(new RegExp(`${type}\\(br0\\) (\\S+)`, "g"))]
    .map(([, address = ""]) => address);
}

rootTest(
  "dhcp stops declining if a machine answers ARP probes for every address",
  needsDnsmasq,
  async () => {
    await using scene = await DhcpScene.start();
    const server = await scene.startDnsmasq();
    const squatter = scene.hosts.addNetns();
    const own = {
      ipam: { type: "static", addresses: [{ address: "10.9.0.250/24" }] },
    };
    await scene.succeed("ADD", own, { sandbox: squatter, containerId: "own" });
    runIn(squatter, "ip", "route", "add", "local", "10.9.0.0/24", "dev", "lo");
    const fail = async (): Promise<void> => {
      const options = {
        sandbox: scene.hosts.addNetns(),
        containerId: crypto.randomUUID(),
      };
      const output = await scene.run("ADD", { conflictCheck: true }, options);
      assertFailure(output, 11, "");
    };
    await fail();
    const listDeclined = (): string[] => listLogged(server, "DHCPDECLINE");
    await eventually("both are declined", () => listDeclined().length === 2);
    // The address of the last attempt is declined as well.
    assertEquals(listLogged(server, "DHCPRELEASE"), []);
    for (const _ of Array(MOST_DECLINED / 2)) await fail();
    await server.says("DHCPRELEASE");
    assertEquals(listDeclined().length, MOST_DECLINED);
    assertEquals(scene.leases, []);
  },
);

rootTest(
  "dhcp stops declining if a machine has every address of a DHCPv6 server",
  needsDnsmasq,
  async () => {
    await using scene = await DhcpScene.start();
    const { host } = scene.hosts;
    const prefix = "2001:db8:9::";
    runIn(
      host,
      ...["ip", "address", "add", `${prefix}1/64`, "dev", "br0", "nodad"],
    );
    const server = await scene.startDnsmasq(
      `--dhcp-range=${prefix}10,${prefix}2f,64,1h`,
      "--enable-ra",
    );
    // The host has them all.
    const all = Array.from(
      { length: 0x20 },
      (_, at) => `address add ${prefix}${(0x10 + at).toString(16)}/128 dev br0`,
    );
    runIn(host, "sh", "-ec", all.map((one) => `ip ${one} nodad`).join("\n"));
    const adding = Array.from(
      { length: MOST_DECLINED + 1 },
      (_, at) =>
        scene.run("ADD", scene.config({ family: 6 }), {
          sandbox: scene.hosts.addNetns(),
          containerId: `c${at}`,
        }),
    );
    await server.says("DHCPRELEASE");
    await scene.stopDaemon();
    for (const output of await Promise.all(adding)) {
      assertFailure(output, 11, "");
    }
    assertEquals(listLogged(server, "DHCPDECLINE").length, MOST_DECLINED);
  },
);

Deno.test("DeclineLimit allows more addresses of a network and family after a day", () => {
  const limit = new DeclineLimit();
  const take = (network: string, family: 4 | 6, now: number): number =>
    Array.from({ length: 20 }, () => limit.take({ network, family }, now))
      .filter((isAllowed) => isAllowed).length;
  assertEquals(
    [
      take("net1", 4, 0),
      take("net1", 6, 1),
      take("net2", 4, 1),
      take("net1", 4, 86_399),
      take("net1", 4, 86_400),
      take("net1", 6, 86_400),
    ],
    [MOST_DECLINED, MOST_DECLINED, MOST_DECLINED, 0, MOST_DECLINED, 0],
  );
});

rootTest(
  "dhcp sends nothing in a namespace that replaced the sandbox",
  needsDnsmasq,
  async () => {
    await using scene = await DhcpScene.start();
    const server = await scene.startDnsmasq();
    const { directory, sandbox } = scene.hosts;
    const netns = `${directory}/netns`, path = `${directory}/between.sock`;
    await Deno.symlink(sandbox.path, netns);
    // The path leads elsewhere before the daemon has the request.
    const other = scene.hosts.addNetns();
    runIn(other, "ip", "link", "add", "eth0", "type", "veth");
    using listener = Deno.listen({ transport: "unix", path });
    const passing = listener.accept().then(async (plugin) => {
      await Deno.remove(netns);
      await Deno.symlink(other.path, netns);
      const daemon = await Deno.connect({
        transport: "unix",
        path: scene.socket,
      });
      await Promise.allSettled([
        plugin.readable.pipeTo(daemon.writable),
        daemon.readable.pipeTo(plugin.writable),
      ]);
    });
    const config = scene.config({ daemonSocketPath: path });
    const env = { CNI_NETNS: netns };
    assertFailure(await scene.run("ADD", config, { env }), 8, "");
    await passing;
    assertEquals(server.log.includes("DHCPDISCOVER"), false);
    assertEquals(scene.leases, []);
    await scene.succeed("ADD");
    await scene.succeed("DEL");
  },
);

rootTest(
  "dhcp requests options, and returns routes and DNS from them",
  needsDnsmasq,
  async () => {
    await using scene = await DhcpScene.start({ broadcast: true });
    const server = await scene.startDnsmasq(
      "--dhcp-option=6,10.9.0.53,10.9.0.54",
      "--dhcp-option=15,example.test",
      "--dhcp-option=119,a.example.test,b.example.test",
      "--dhcp-option=121,10.20.0.0/16,10.9.0.2,10.30.0.0/24,0.0.0.0",
    );
    const result = await scene.succeed(
      "ADD",
      scene.config({
        priority: 100,
        provide: [
          { option: "host-name", fromArg: "K8S_POD_NAME" },
          { option: "60", value: "cni" },
        ],
        request: [
          { option: "121" },
          { option: "domain-name-servers" },
          { option: "15" },
          { option: "domain-search" },
        ],
      }),
      { env: { CNI_ARGS: "IgnoreUnknown=1;K8S_POD_NAME=web-0" } },
    );
    assertEquals(result.routes, [
      { dst: "10.20.0.0/16", gw: "10.9.0.2", priority: 100 },
      { dst: "10.30.0.0/24", gw: "0.0.0.0", priority: 100, scope: 253 },
    ]);
    assertEquals(result.dns, {
      nameservers: ["10.9.0.53", "10.9.0.54"],
      domain: "example.test",
      search: ["a.example.test", "b.example.test"],
    });
    const routes = ipJson(scene.hosts.sandbox, "route").map((
      { dst, gateway, metric }: Record<string, unknown>,
    ) => [dst, gateway, metric]);
    assertEquals(routes.slice(-2), [
      ["10.20.0.0/16", "10.9.0.2", 100],
      ["10.30.0.0/24", undefined, 100],
    ]);
    assertStringIncludes(server.log, "vendor class: cni");
    assertStringIncludes(server.log, "client provides name: web-0");
  },
);

/**
 * Counts how often clients looked for a dnsmasq. They ask again with the same
 * transaction if a busy machine does not answer soon.
 */
function countDiscoveries({ log }: { readonly log: string }): number {
  const found = log.matchAll(/(\d+) DHCPDISCOVER/g);
  return new Set([...found].map(([, transaction]) => transaction)).size;
}

rootTest("dhcp renews a lease with its server", needsDnsmasq, async () => {
  await using scene = await DhcpScene.start();
  // T1 is then a second less.
  const server = await scene.startDnsmasq("--dhcp-option=option:T2,3");
  const prevResult = await scene.succeed("ADD");
  await scene.says("msg=renewed", 2);
  await scene.succeed("CHECK", { prevResult });
  assertEquals(scene.addresses(), [prevResult.ips[0].address]);
  assertEquals(countDiscoveries(server), 1);
});

rootTest(
  "dhcp ignores a renewal time of 0 seconds",
  needsUdhcpd,
  async () => {
    for (const [time, kept] of [["0x3a", "58"], ["0x3b", "59"]] as const) {
      await using scene = await DhcpScene.start();
      const server = await scene.startUdhcpd(3, `opt ${time} 00000000`);
      await scene.succeed("ADD");
      assertEquals(
        scene.leases.map((lease) =>
          lease.family === 6 ? undefined : lease.ack[kept]
        ),
        ["00000000"],
      );
      await scene.says("msg=renewed");
      const countAcks = (): number =>
        server.log.split("sending ACK").length - 1;
      await eventually("the server's line arrives", () => countAcks() > 1);
      assertEquals(countAcks(), 2);
    }
  },
);

rootTest(
  "dhcp rebinds with any server if its own does not answer",
  needsDnsmasq,
  async () => {
    await using scene = await DhcpScene.start({ timeoutMs: 500 });
    const times = ["--dhcp-option=option:T1,1", "--dhcp-option=option:T2,3"];
    await scene.startDnsmasq(...times);
    await scene.succeed("ADD");
    // Frames to the server no longer arrive, but broadcasts do.
    const mac = "02:00:5e:00:53:01";
    runIn(scene.hosts.host, "ip", "link", "set", "br0", "address", mac);
    await scene.says("Cannot extend the lease");
    await scene.says("msg=confirmed");
  },
);

rootTest(
  "dhcp keeps a lease while its daemon is restarted",
  needsDnsmasq,
  async () => {
    await using scene = await DhcpScene.start();
    const server = await scene.startDnsmasq();
    const prevResult = await scene.succeed("ADD");
    await scene.stopDaemon();
    await scene.startDaemon();
    await scene.says("msg=confirmed");
    await scene.succeed("CHECK", { prevResult });
    await scene.succeed("DEL");
    await server.says("DHCPRELEASE");
  },
);

rootTest(
  "dhcp sets the link down when its lease expires, and leases again",
  needsUdhcpd,
  async () => {
    await using scene = await DhcpScene.start({ timeoutMs: 1000 });
    const server = await scene.startUdhcpd(2);
    const prevResult = await scene.succeed("ADD");
    const before = ipJson(scene.hosts.sandbox, "route");
    await server.stop();
    await scene.says("The lease expired");
    await eventually("the link is down", () => {
      const [{ flags }] = ipJson(scene.hosts.sandbox, "link", "show", "eth0");
      return !flags.includes("UP");
    });
    assertEquals(scene.addresses(), []);
    assertFailure(
      await scene.hosts.run("dhcp", "CHECK", { ...scene.config(), prevResult }),
      999,
      "is no longer valid",
    );
    await scene.startUdhcpd(3600);
    await scene.says("leased again");
    assertEquals(scene.addresses(), [prevResult.ips[0].address]);
    assertEquals(ipJson(scene.hosts.sandbox, "route"), before);
    await scene.succeed("CHECK", { prevResult });
  },
);

rootTest(
  "dhcp removes an address whose lease expired while no daemon ran",
  needsUdhcpd,
  async () => {
    await using scene = await DhcpScene.start({ timeoutMs: 300 });
    const server = await scene.startUdhcpd(2);
    await scene.succeed("ADD");
    await scene.stopDaemon();
    await server.stop();
    const [lease] = scene.leases;
    await eventually(
      "the lease runs out",
      () => Date.now() > Date.parse(lease?.expires ?? "") + 100,
    );
    await scene.startDaemon({ timeoutMs: 300 });
    await scene.says("it has expired");
    await eventually(
      "the address is gone",
      () => scene.addresses().length === 0,
    );
  },
);

rootTest(
  "dhcp removes an address that the server refuses",
  needsDnsmasq,
  async () => {
    await using scene = await DhcpScene.start();
    const server = await scene.startDnsmasq();
    await scene.succeed("ADD");
    await scene.stopDaemon();
    await server.stop();
    await scene.startDnsmasq(
      "--dhcp-range=10.9.0.200,10.9.0.210,255.255.255.0,1h",
    );
    await scene.startDaemon();
    await scene.says("refused the lease");
    await scene.says("the server offers 10.9.0.2");
    assertEquals(scene.addresses(), []);
    await scene.succeed("DEL");
  },
);

rootTest(
  "dhcp drops the lease of a deleted link",
  needsDnsmasq,
  async () => {
    await using scene = await DhcpScene.start();
    await scene.startDnsmasq();
    await scene.succeed("ADD");
    await scene.stopDaemon();
    runIn(scene.hosts.sandbox, "ip", "link", "del", "eth0");
    await scene.startDaemon();
    await scene.says("its link was deleted");
    await eventually("the lease is gone", () => scene.leases.length === 0);
  },
);

rootTest("dhcp.add() leaves nothing if no server answers", async () => {
  await using scene = await DhcpScene.start(IMPATIENT);
  const before = ipJson(scene.hosts.host, "link");
  assertFailure(await scene.run("ADD"), 11, "No DHCP server made an offer");
  assertEquals(ipJson(scene.hosts.host, "link").length, before.length);
  assertEquals(scene.leases, []);
});

rootTest("dhcp.add() twice returns the same lease", needsDnsmasq, async () => {
  await using scene = await DhcpScene.start();
  const server = await scene.startDnsmasq();
  await scene.succeed("ADD");
  const again = async (): Promise<string> => {
    const { json } = await scene.hosts.run("dhcp", "ADD", scene.config());
    return json.ips[0].address;
  };
  const first = await again();
  assertEquals([await again(), scene.addresses()], [first, [first]]);
  assertEquals(countDiscoveries(server), 1);
  // Another link of the same name, after a crash before DEL.
  runIn(scene.hosts.sandbox, "ip", "link", "del", "eth0");
  const { ips: [{ address }] } = await scene.succeed("ADD");
  assertEquals(address, first);
  assertEquals(countDiscoveries(server), 2);
});

rootTest(
  "dhcp.del() releases the lease after an ADD for another link has failed",
  needsDnsmasq,
  async () => {
    await using scene = await DhcpScene.start({
      timeoutMs: 5000,
      resendTimeoutMs: 5000,
    });
    const server = await scene.startDnsmasq();
    await scene.succeed("ADD");
    const { hosts } = scene;
    const other = hosts.addNetns();
    runIn(other, "ip", "link", "add", "eth0", "type", "veth");
    const env = { CNI_NETNS: other.path };
    const config = scene.config();
    assertFailure(
      await hosts.run("dhcp", "ADD", config, { env }),
      11,
      "No DHCP server made an offer",
    );
    assertSuccess(await hosts.run("dhcp", "DEL", config, { env }));
    await server.says("DHCPRELEASE");
    assertEquals(scene.leases, []);
  },
);

rootTest(
  "dhcp fails without a daemon, but DEL marks the lease as released",
  needsDnsmasq,
  async () => {
    await using scene = await DhcpScene.start();
    const server = await scene.startDnsmasq();
    await scene.succeed("ADD");
    await scene.stopDaemon();
    const call = (command: string): ReturnType<typeof scene.run> =>
      scene.hosts.run("dhcp", command, scene.config());
    assertFailure(await call("STATUS"), 50, "No DHCP daemon listens");
    assertFailure(
      await call("ADD"),
      11,
      `start one: dhcp daemon -socketpath ${scene.socket}`,
    );
    for (const _ of [1, 2]) {
      const { exitCode, stderr } = await call("DEL");
      assertEquals(exitCode, 0);
      assertStringIncludes(stderr, "No DHCP daemon");
    }
    assertEquals(scene.leases.map(({ isReleased }) => isReleased), [true]);
    await scene.startDaemon();
    await server.says("DHCPRELEASE");
    await eventually("the lease is gone", () => scene.leases.length === 0);
  },
);

rootTest(
  "dhcp keeps a lease marked as released if ADD requests it again",
  needsDnsmasq,
  async () => {
    await using scene = await DhcpScene.start();
    const server = await scene.startDnsmasq();
    await scene.succeed("ADD");
    await scene.stopDaemon();
    await scene.hosts.run("dhcp", "DEL", scene.config());
    const [lease] = scene.leases;
    assert(lease?.isReleased);
    using events = new Events();
    const log = {
      debug(): void {},
      info(): void {},
      warn(): void {},
      error(): void {},
    };
    const keeping = {
      ...DEFAULT_TIMING,
      broadcast: false,
      declines: new DeclineLimit(),
      directory: scene.directory,
      events,
      hostPrefix: "",
      log,
      onGone: (): void => {},
    };
    // A daemon that has just started has not looked at it yet.
    const kept = KeptLease.resume(lease, keeping, 2 ** 31 - 1);
    assert(kept.isFor(lease));
    const { netns, options, priority, network, containerId, ifName } = lease;
    const key = { network, containerId, ifName };
    await kept.update({ ...key, netns, options, priority });
    await kept.stop();
    await scene.startDaemon();
    await scene.says("msg=confirmed");
    assertEquals(scene.leases.map(({ address }) => address), [lease.address]);
    assert(!server.log.includes("DHCPRELEASE"));
  },
);

rootTest(
  "dhcp.gc() releases the leases of stale attachments",
  needsDnsmasq,
  async () => {
    await using scene = await DhcpScene.start();
    await scene.startDnsmasq();
    await scene.succeed("ADD");
    await scene.succeed("ADD", {}, { ifName: "eth1" });
    await scene.succeed("ADD", { name: "net2" }, { ifName: "eth2" });
    const valid = [{ containerID: "test-container", ifname: "eth1" }];
    const gc = (more: object): Promise<unknown> =>
      scene.hosts.run("dhcp", "GC", { ...scene.config(), ...more });
    const names = (): string[] =>
      scene.leases.map(({ ifName }) => ifName).sort();
    await gc({});
    assertEquals(names(), ["eth0", "eth1", "eth2"]);
    await gc({ "cni.dev/valid-attachments": valid });
    assertEquals(names(), ["eth1", "eth2"]);
    await scene.stopDaemon();
    await gc({ "cni.dev/valid-attachments": [] });
    const marked = scene.leases.filter(({ isReleased }) => isReleased);
    assertEquals(marked.map(({ ifName }) => ifName), ["eth1"]);
  },
);

rootTest("dhcp serves 50 containers at a time", needsDnsmasq, async () => {
  await using scene = await DhcpScene.start();
  await scene.startDnsmasq();
  using host = Rtnl.open(scene.hosts.host.path);
  const { index: masterIndex } = host.link.get("br0");
  const all = Array.from({ length: 50 }, (_, index) => {
    const sandbox = scene.hosts.addNetns();
    const peer = { netns: sandbox, name: "eth0" };
    host.link.addVeth({ name: `port${index}`, masterIndex, peer });
    return { containerId: `c${index}`, sandbox };
  });
  const each = (command: string): Promise<CallOutput[]> =>
    Promise.all(
      all.map((options) =>
        scene.hosts.run("dhcp", command, scene.config(), options)
      ),
    );
  const added = await each("ADD");
  added.forEach(assertSuccess);
  const addresses = added.map(({ json }) => json.ips[0].address);
  assertEquals(new Set(addresses).size, all.length);
  (await each("DEL")).forEach(assertSuccess);
  assertEquals(scene.leases, []);
});

rootTest("dhcp ends an ADD on DEL, and when the daemon stops", async () => {
  await using scene = await DhcpScene.start();
  const config = scene.config();
  const adding = scene.run("ADD");
  // A DEL that the daemon has first ends nothing.
  await eventually("it asks", () => isAsking(scene.hosts.sandbox));
  assertSuccess(await scene.hosts.run("dhcp", "DEL", config));
  assertFailure(await adding, 11, "a DEL of the attachment arrived");
  const again = scene.run("ADD");
  await eventually("there is a link", () => hasLink(scene.hosts.sandbox));
  await scene.stopDaemon();
  const { exitCode, json } = await again;
  assertEquals([exitCode, json.code], [1, 11]);
  // The daemon may end before it has the request, or after.
  assertMatch(json.msg, /went away before it answered|gave up: it ends/);
});

/** Reports whether the daemon has its socket in the container. */
function isAsking(sandbox: NetNs): boolean {
  const sockets = runIn(sandbox, "cat", "/proc/net/packet");
  return sockets.trimEnd().split("\n").length > 1;
}

function hasLink(sandbox: NetNs): boolean {
  return ipJson(sandbox, "link").length > 1;
}

rootTest("a second dhcp daemon waits until the first has exited", async () => {
  await using scene = await DhcpScene.start();
  const first = scene.stopDaemon.bind(scene);
  let isReady = false;
  const end = new AbortController();
  const log = {
    debug(): void {},
    info(): void {},
    warn(): void {},
    error(): void {},
  };
  const { runDhcp } = await import("./daemon.ts");
  const second = runDhcp({
    socket: scene.socket,
    hostPrefix: "",
    broadcast: false,
    timeoutMs: 1,
    resendMaxMs: 1,
    resendTimeoutMs: 1,
    log,
    signal: end.signal,
    onReady: () => isReady = true,
  });
  assertSuccess(await scene.hosts.run("dhcp", "STATUS", scene.config()));
  assert(!isReady);
  await first();
  await eventually("the second daemon listens", () => isReady);
  assertSuccess(await scene.hosts.run("dhcp", "STATUS", scene.config()));
  end.abort();
  await second;
});

rootTest("dhcp starts, and reports files that are not leases", async () => {
  await using scene = await DhcpScene.start();
  await scene.stopDaemon();
  const { path } = scene.directory;
  await Deno.mkdir(`${path}/directory.json`);
  await Deno.writeTextFile(`${path}/half.json`, "{");
  await Deno.writeTextFile(`${path}/large.json`, "");
  await Deno.truncate(`${path}/large.json`, 2 ** 25);
  await scene.startDaemon();
  assertSuccess(await scene.hosts.run("dhcp", "STATUS", scene.config()));
  for (const name of ["directory", "half", "large"]) {
    assertStringIncludes(scene.log, `${path}/${name}.json`);
  }
});

rootTest("dhcp: DEL succeeds if the lease file cannot be read", async () => {
  await using scene = await DhcpScene.start();
  const { path } = scene.directory;
  const { name } = scene.config();
  const { CNI_CONTAINERID: id, CNI_IFNAME: ifName } = scene.hosts.environment(
    "DEL",
  );
  const lease = `${path}/${name}:${id}:${ifName}.json`;
  await Deno.mkdir(lease);
  assertSuccess(await scene.hosts.run("dhcp", "DEL", scene.config()));
  assertStringIncludes(scene.log, lease);
});

rootTest("dhcp leases an address for macvlan", needsDnsmasq, async () => {
  await using scene = await DhcpScene.start();
  const server = await scene.startDnsmasq();
  using host = Rtnl.open(scene.hosts.host.path);
  const { index: masterIndex } = host.link.get("br0");
  // A link that is connected to the server's bridge.
  const peer = { netns: host.netns, name: "lan0" };
  host.link.addVeth({ name: "port0", masterIndex, peer });
  host.link.set(host.link.get("lan0").index, { isUp: true });
  const { bridge: _, ...config } = scene.config();
  const run = (command: string, more = {}): Promise<CallOutput> =>
    scene.hosts.run("macvlan", command, { ...config, master: "lan0", ...more });
  const added = await run("ADD");
  assertSuccess(added);
  const prevResult = added.json;
  assertEquals(scene.addresses(), [prevResult.ips[0].address]);
  assertSuccess(await run("CHECK", { prevResult }));
  assertSuccess(await run("DEL", { prevResult }));
  await server.says("DHCPRELEASE");
  assertEquals(scene.leases, []);
});
