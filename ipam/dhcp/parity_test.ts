/**
 * Holds dhcp and its daemon to the Go plugin's: the same lease for the same
 * attachment, the same results, and clear words where one meets the other.
 */

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { PacketSocket } from "../../ffi/socket/packet_socket.ts";
import { Rtnl } from "../../ffi/rtnl/mod.ts";
import { rootTest } from "../../testing/capabilities.ts";
import { assertFailure } from "../../tests/_harness/call_outcome.ts";
import { DhcpScene, needsDnsmasq } from "./testing.ts";
import { eventually } from "../../tests/_harness/eventually.ts";
import {
  callAs,
  listPeers,
  normaliseResult,
  observeNetns,
  succeedAs,
  type Who,
} from "../../tests/_harness/parity.ts";
import { NEWEST_RELEASE, type Peer } from "../../tests/_harness/peers.ts";
import { spawnIn } from "../../tests/_harness/spawn_in.ts";

/** The client identifier of the attachment in hexadecimal, with its type. */
const CLIENT_ID = "00" +
  new TextEncoder().encode("test-container/net1/eth0").toHex();

/** Networks with an address that only this client identifier gets. */
const SERVER = [
  `--dhcp-host=id:${CLIENT_ID.replaceAll(/..(?=.)/g, "$&:")},10.9.0.50`,
  "--dhcp-option=33,172.20.0.0,10.9.0.2",
  "--dhcp-option=121,10.30.0.0/16,10.9.0.3,0.0.0.0/0,10.9.0.1,10.40.0.0/24,0.0.0.0",
];

const CONFIGURATIONS: Readonly<Record<string, object>> = { "by default": {} };

/** Rows for the newest release only: older releases wait 3 s each time. */
const NEWER: typeof CONFIGURATIONS = {
  "with classful routes": { request: [{ option: "33" }] },
  "without a gateway": {
    request: [{ skipDefault: true, option: "subnet-mask" }],
  },
  "with classless routes": { request: [{ option: "121" }], priority: 50 },
};

for (const peer of listPeers("dhcp")) {
  const isNewest = peer.name.endsWith(NEWEST_RELEASE.slice(1));
  const configurations = { ...CONFIGURATIONS, ...isNewest && NEWER };
  for (const [name, ipam] of Object.entries(configurations)) {
    rootTest(
      `dhcp returns the Go plugin's result ${name} (${peer.name})`,
      needsDnsmasq,
      async () =>
        assertEquals(await outcome("ours", ipam), await outcome(peer, ipam)),
    );
  }

  if (isNewest) {
    rootTest(
      `dhcp releases from the leased address, as ${peer.name} does`,
      needsDnsmasq,
      async () => {
        assertEquals(await releaseOf("ours"), "10.9.0.50");
        assertEquals(await releaseOf(peer), "10.9.0.50");
      },
    );
  }

  rootTest(
    `dhcp refuses the options that the Go plugin refuses (${peer.name})`,
    async () => {
      const ipams = [
        { provide: [{ option: "frob", value: "x" }] },
        { request: [{ option: "256" }] },
        { provide: [{ option: "12", value: "x".repeat(256) }] },
      ];
      for (const ipam of ipams) {
        const ours = await refusal("ours", ipam);
        const theirs = await refusal(peer, ipam);
        assertStringIncludes(theirs, ours);
      }
    },
  );

  rootTest(`dhcp refuses the daemon of ${peer.name}`, async () => {
    await using scene = new DhcpScene();
    await startGoDaemon(scene, peer);
    const call = (command: string): ReturnType<typeof scene.run> =>
      scene.hosts.run("dhcp", command, scene.config());
    const text = "belongs to the Go plugin, and uses a different protocol";
    assertFailure(await call("ADD"), 11, text);
    assertFailure(await call("STATUS"), 50, text);
    const { exitCode, stderr } = await call("DEL");
    assertEquals(exitCode, 0);
    assertStringIncludes(stderr, text);
    const started = scene.startDaemon().then(() => "", String);
    assertStringIncludes(
      await started,
      "another program already listens there",
    );
  });

  rootTest(`the dhcp daemon refuses the plugin of ${peer.name}`, async () => {
    await using scene = await DhcpScene.start();
    const { output } = spawnIn(scene.hosts.host, {
      path: `${peer.directory}/dhcp`,
      env: { ...scene.hosts.environment("ADD") },
      stdin: JSON.stringify({ ...scene.config(), cniVersion: "1.0.0" }),
    });
    const { code, stdout } = await output;
    assertEquals(code, 1);
    assertStringIncludes(stdout, "does not serve the Go plugin dhcp");
  });
}

async function startDaemon(scene: DhcpScene, who: Who): Promise<void> {
  if (typeof who === "string") await scene.startDaemon();
  else await startGoDaemon(scene, who);
}

async function startGoDaemon(scene: DhcpScene, peer: Peer): Promise<void> {
  const { socket } = scene;
  // It would wait 10 s after a message that a new bridge port loses.
  const args = ["daemon", "-socketpath", socket, "-timeout", "300ms"];
  scene.spawn(`${peer.directory}/dhcp`, ...args);
  await eventually("the Go daemon listens", async () => {
    try {
      (await Deno.connect({ transport: "unix", path: socket })).close();
      return true;
    } catch {
      return false;
    }
  });
}

/** Returns the result of ADD, and the addresses and routes of the container. */
async function outcome(who: Who, ipam: object): Promise<unknown> {
  await using scene = new DhcpScene();
  await scene.startDnsmasq(...SERVER);
  await startDaemon(scene, who);
  const config = {
    ...scene.config(),
    cniVersion: "1.0.0",
    ipam: { ...scene.config().ipam as object, ...ipam },
  };
  const call = { type: "bridge", config };
  const { stdout, stderr } = await callAs(who, scene.hosts, {
    ...call,
    command: "ADD",
  });
  const result = normaliseResult(stdout, scene.hosts);
  assert("ips" in result, stdout + stderr);
  const { routes } = await observeNetns(scene.hosts.sandbox) as {
    routes: unknown;
  };
  return { ips: result["ips"], routes: result["routes"], kernel: routes };
}

/** Returns the address from which DEL releases the lease. */
async function releaseOf(who: Who): Promise<string> {
  await using scene = new DhcpScene();
  const { hosts } = scene;
  await scene.startDnsmasq(...SERVER);
  await startDaemon(scene, who);
  const config = { ...scene.config(), cniVersion: "1.0.0" };
  const call = { type: "bridge", config };
  const { json } = await succeedAs(who, hosts, { ...call, command: "ADD" });
  using rtnl = Rtnl.open(hosts.host.path);
  const { index: ifindex } = rtnl.link.get("br0");
  using server = PacketSocket.open(hosts.host, { ifindex, port: 67 });
  const after = { ...config, prevResult: json };
  // The Go bridge deletes the link first, and then nothing can be sent over it.
  await succeedAs(who, hosts, { type: "dhcp", config: after, command: "DEL" });
  let source = "";
  await eventually("the lease is released", () => {
    const datagram = server.receive()
      .find(({ payload }) => isRelease(payload));
    if (datagram === undefined) return false;
    source = `${datagram.source.ip}`;
    return true;
  });
  return source;
}

/** Source: RFC 2132, section 9.6. */
function isRelease(message: Uint8Array): boolean {
  return message.toHex().includes("350107");
}

async function refusal(who: Who, ipam: object): Promise<string> {
  await using scene = new DhcpScene();
  await startDaemon(scene, who);
  const { json, stdout } = await callAs(who, scene.hosts, {
    type: "dhcp",
    command: "ADD",
    config: {
      ...scene.config(),
      cniVersion: "1.0.0",
      ipam: { ...scene.config().ipam as object, ...ipam },
    },
  });
  assert(json.msg, stdout);
  return json.msg;
}
