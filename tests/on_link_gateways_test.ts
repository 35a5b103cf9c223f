/**
 * Gateways outside the subnets of their interface: every plugin that adds routes
 * reaches them on the link, with chained plugins behind it.
 */

import { assertEquals } from "@std/assert";
import type { NetNs } from "../ffi/netns.ts";
import { rootTest } from "../testing/capabilities.ts";
import { canPing, runIn } from "../testing/ip_json.ts";
import type { TestHosts } from "../testing/test_hosts.ts";
import { assertFailure, assertSuccess } from "./_harness/call_outcome.ts";
import { addDevice } from "../plugins/host_device/testing.ts";
import { hostIfNameOf } from "../plugins/parts/link/veth.ts";
import { interruptLinkDumps } from "./_harness/interrupted_dumps.ts";
import { needsLinks } from "./_harness/link_kinds.ts";
import { addMaster, MASTER, VLAN } from "./_harness/on_master.ts";
import { type Keys, PluginScene } from "./_harness/plugin_scene.ts";

const GATEWAYS = ["192.0.2.1", "2001:db8:99::1"] as const;
/** The container's. */
const ADDRESSES = ["10.1.2.5", "2001:db8:1::5"] as const;
/** Beyond the gateways. */
const FAR = ["198.51.100.9", "2001:db8:77::9"] as const;

/** Addresses of host-local with gateways elsewhere. */
function ipamOf(hosts: TestHosts, extras: Keys = {}): Keys {
  const [gateway, gateway6] = GATEWAYS;
  return {
    ...hosts.hostLocal(),
    ranges: [
      [{ subnet: "10.1.2.0/24", rangeStart: "10.1.2.5", gateway }],
      [{
        subnet: "2001:db8:1::/64",
        rangeStart: "2001:db8:1::5",
        gateway: gateway6,
      }],
    ],
    routes: [{ dst: "0.0.0.0/0" }, { dst: "::/0" }],
    ...extras,
  };
}

/** Makes a namespace the gateway, over a link. */
function beGateway(netns: NetNs, dev: string): void {
  const [gateway, gateway6] = GATEWAYS, [far, far6] = FAR;
  const script = `
    ip address add ${gateway}/32 dev ${dev}
    ip address add ${gateway6}/128 dev ${dev} nodad
    ip address add ${far}/32 dev lo
    ip address add ${far6}/128 dev lo nodad
    ip route replace 10.1.2.0/24 dev ${dev}
    ip -6 route replace 2001:db8:1::/64 dev ${dev}`;
  runIn(netns, "sh", "-ec", script);
}

interface Row {
  readonly keys: Keys;
  /** Makes the gateway beforehand. */
  readonly before?: (hosts: TestHosts) => void;
  /** Makes the gateway afterwards. */
  readonly after?: (hosts: TestHosts) => void;
  /** Whether nobody is on the link. */
  readonly isAlone?: boolean;
}

function onMaster(type: "macvlan" | "ipvlan" | "vlan"): Row {
  return {
    keys: {
      master: MASTER,
      enabledad: false,
      ...type === "vlan" ? { vlanId: VLAN } : {},
    },
    before: (hosts) => {
      const dev = type === "vlan" ? "tagged" : "wire";
      beGateway(addMaster(hosts, type), dev);
    },
  };
}

const ROWS: Readonly<Record<string, Row>> = {
  macvlan: onMaster("macvlan"),
  ipvlan: onMaster("ipvlan"),
  vlan: onMaster("vlan"),
  bridge: {
    keys: { bridge: "br0" },
    after: ({ host }) => beGateway(host, "br0"),
  },
  ptp: {
    keys: {},
    after: ({ host }) =>
      runIn(
        host,
        "sh",
        "-ec",
        `ip address add ${FAR[0]}/32 dev lo
         ip address add ${FAR[1]}/128 dev lo nodad`,
      ),
  },
  "host-device": {
    keys: { device: "ens5" },
    before: ({ host }) => addDevice(host, "ens5", "c2:11:22:33:44:55"),
    after: ({ host }) => beGateway(host, "wireens5"),
  },
  dummy: { keys: {}, isAlone: true },
  tap: { keys: {}, isAlone: true },
};

class OnLinkScene extends PluginScene {
  constructor(type: string, keys: Keys = {}) {
    const { keys: own = {}, before } = ROWS[type] ?? {};
    super(type, (hosts) => ({
      cniVersion: "1.1.0",
      name: "net1",
      type,
      ipam: ipamOf(hosts),
      ...own,
      ...keys,
    }));
    before?.(this.hosts);
  }
}

function assertReached(sandbox: NetNs): void {
  for (const address of [...GATEWAYS, ...FAR]) {
    assertEquals([address, canPing(sandbox, address)], [address, true]);
  }
}

for (const [type, { after, isAlone }] of Object.entries(ROWS)) {
  rootTest(
    `${type} reaches gateways outside its subnets`,
    needsLinks(type),
    async () => {
      using scene = new OnLinkScene(type);
      const { sandbox } = scene.hosts;
      const { json: prevResult } = await scene.succeed("ADD");
      after?.(scene.hosts);
      await scene.succeed("CHECK", { prevResult });
      if (!isAlone) assertReached(sandbox);
      runIn(sandbox, "ip", "route", "del", "default");
      const checked = await scene.run("CHECK", { prevResult });
      assertFailure(checked, 999, `lacks route 0.0.0.0/0 via ${GATEWAYS[0]}`);
      await scene.succeed("DEL", { prevResult });
      assertEquals(scene.hosts.leases(), []);
    },
  );
}

/** Chained plugins, and how the container sends packets then. */
const CHAINED: Readonly<Record<string, readonly [Keys, ...string[]]>> = {
  sbr: [{}],
  vrf: [{ vrfname: "blue" }, "ip", "vrf", "exec", "blue"],
  tuning: [{ mac: "c2:11:22:33:44:77", mtu: 1400 }],
};

for (const [type, [keys, ...via]] of Object.entries(CHAINED)) {
  rootTest(
    `${type} keeps gateways outside the subnets`,
    needsLinks(type),
    async () => {
      using scene = new OnLinkScene("bridge");
      const { hosts } = scene;
      const call = async (
        command: string,
        prevResult: unknown,
      ): Promise<unknown> => {
        const config = {
          cniVersion: "1.1.0",
          name: "net1",
          type,
          dataDir: `${hosts.directory}/tuning`,
          prevResult,
          ...keys,
        };
        const output = await hosts.run(type, command, config);
        assertSuccess(output);
        return output.json;
      };
      const { json: first } = await scene.succeed("ADD");
      beGateway(hosts.host, "br0");
      const before = listRoutes(hosts.sandbox);
      const prevResult = await call("ADD", first);
      await scene.succeed("CHECK", { prevResult });
      await call("CHECK", prevResult);
      for (const [position, far] of FAR.entries()) {
        const source = ADDRESSES[position] as string;
        const ping = ["ping", "-c1", "-i0.2", "-w2", "-I", source, far];
        runIn(hosts.sandbox, ...[...via, ...ping] as [string]);
      }
      await call("DEL", prevResult);
      assertEquals(listRoutes(hosts.sandbox), before);
      await scene.succeed("DEL", { prevResult });
    },
  );
}

function listRoutes(netns: NetNs): string[] {
  return ["-4", "-6"].flatMap((family) =>
    runIn(netns, "ip", family, "route", "show", "dev", "eth0").split("\n")
      .map((line) => line.trim()).filter((line) => !line.startsWith("fe80:"))
      .sort()
  );
}

rootTest("sbr routes through a gateway to which no route leads", async () => {
  using scene = new OnLinkScene("bridge");
  const { hosts } = scene;
  const ipam = ipamOf(hosts, { routes: [] });
  const { json: prevResult } = await scene.succeed("ADD", { ipam });
  beGateway(hosts.host, "br0");
  const config = { cniVersion: "1.1.0", name: "net1", type: "sbr", prevResult };
  assertSuccess(await hosts.run("sbr", "ADD", config));
  assertSuccess(await hosts.run("sbr", "CHECK", config));
  for (const [position, far] of FAR.entries()) {
    const source = ADDRESSES[position] as string;
    runIn(hosts.sandbox, "ping", "-c1", "-i0.2", "-w2", "-I", source, far);
  }
});

rootTest("bridge is the gateway of several subnets", async () => {
  using scene = new OnLinkScene("bridge", { isDefaultGateway: true });
  const { host, sandbox } = scene.hosts;
  const { json: prevResult } = await scene.succeed("ADD");
  await scene.succeed("CHECK", { prevResult });
  for (const address of GATEWAYS) assertEquals(canPing(sandbox, address), true);
  for (const address of ADDRESSES) assertEquals(canPing(host, address), true);
  const { json: other } = await scene.succeed("ADD", {}, { ifName: "net1" });
  assertEquals(other.ips.length, 2);
  runIn(host, "ip", "route", "del", "10.1.2.0/24");
  const checked = await scene.run("CHECK", { prevResult });
  assertFailure(checked, 999, '"br0" lacks route 10.1.2.0/24');
});

rootTest(
  "bridge routes single addresses until they are removed",
  async () => {
    const addresses = [
      { address: "10.7.7.7/32", gateway: GATEWAYS[0] },
      { address: "2001:db8:7::7/128", gateway: GATEWAYS[1] },
    ];
    using scene = new OnLinkScene("bridge", {
      isDefaultGateway: true,
      ipam: { type: "static", addresses },
    });
    const { host, sandbox } = scene.hosts;
    const { json: prevResult } = await scene.succeed("ADD");
    await scene.succeed("CHECK", { prevResult });
    for (const address of GATEWAYS) {
      assertEquals(
        canPing(sandbox, address),
        true,
      );
    }
    const routed = (): string =>
      runIn(host, "ip", "route", "show", "10.7.7.7") +
      runIn(host, "ip", "-6", "route", "show", "2001:db8:7::7");
    const both = routed();
    assertEquals(both.match(/dev br0/g)?.length, 2);
    // A runtime repeats the DEL of a container whose addresses are given away.
    const next = { sandbox: scene.hosts.addNetns(), containerId: "next" };
    const { json: nextResult } = await scene.succeed("ADD", {}, next);
    await scene.succeed("DEL", { prevResult });
    assertEquals(routed(), both);
    await scene.succeed("DEL", { prevResult }, { env: { CNI_NETNS: "" } });
    assertEquals(routed(), both);
    const end = { network: "net1", containerId: "next", ifName: "eth0" };
    for (const count of [3, Infinity]) {
      using _interrupted = interruptLinkDumps(hostIfNameOf(end), count);
      const { exitCode } = await scene.run("DEL", { prevResult });
      assertEquals([exitCode, routed()], [count === 3 ? 0 : 1, both]);
    }
    await scene.succeed("DEL", { prevResult: nextResult }, next);
    assertEquals(routed(), "");
  },
);
