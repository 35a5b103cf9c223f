/** The host's access to its macvlan and ipvlan containers, with packets. */

import { assertEquals, assertMatch } from "@std/assert";
import { inNetns, type NetNs } from "../../../ffi/netns.ts";
import { writeSysctl } from "../../../ffi/sysctl.ts";
import { allOf, rootTest } from "../../../testing/capabilities.ts";
import {
  findReached,
  ipJson,
  linkNames,
  runIn,
} from "../../../testing/ip_json.ts";
import {
  type Change,
  checkAfterChanges,
} from "../../../tests/_harness/check_cases.ts";
import {
  MASTER,
  MasterScene,
  needsKind,
} from "../../../tests/_harness/on_master.ts";
import { callAs, listPeers, needsGo } from "../../../tests/_harness/parity.ts";
import type { Keys } from "../../../tests/_harness/plugin_scene.ts";
import { PluginDirectory } from "../../../tests/_harness/plugin_directory.ts";
import { ToolHost } from "../../../tests/_harness/tool_host.ts";
import { spawnIn } from "../../../tests/_harness/spawn_in.ts";

/** The host's addresses on the master. */
const HOST = ["10.1.2.200", "2001:db8:1::200"];
/** The first containers' addresses. */
const FIRST = ["10.1.2.2", "2001:db8:1::2"];
const SECOND = ["10.1.2.3", "2001:db8:1::3"];
/** A neighbour beyond the master. */
const NEIGHBOUR = ["10.1.2.1", "2001:db8:1::1"];

/** A host that has addresses on the master. */
class AccessScene extends MasterScene {
  constructor(type: "macvlan" | "ipvlan", keys: Keys = {}) {
    super(type, { hostAccess: true, ...keys });
    const script = `ip address add ${HOST[0]}/24 dev ${MASTER}
      ip address add ${HOST[1]}/64 dev ${MASTER} nodad`;
    runIn(this.hosts.host, "sh", "-ec", script);
  }

  /** Attaches one more container. */
  async addContainer(containerId: string, keys: Keys = {}): Promise<NetNs> {
    const sandbox = this.hosts.addNetns();
    await this.succeed("ADD", keys, { sandbox, containerId });
    return sandbox;
  }

  /** Lists the host's links to containers. */
  get accessLinks(): string[] {
    return linkNames(this.hosts.host).filter((name) => name.startsWith("cnih"));
  }

  /** Lists where the host's routes to containers lead. */
  get routed(): string[] {
    return ["-4", "-6"].flatMap((family) =>
      ipJson(this.hosts.host, family, "route")
    ).filter(({ dev }) => dev.startsWith("cnih"))
      .map(({ dst }) => dst).filter((dst) => !dst.startsWith("fe80")).sort();
  }
}

const SHIM = "$(ip -o link | grep -o 'cnih[0-9a-f]*' | head -n1)";

/** What other programs remove of the host's access to the first container. */
function changesOf(type: "macvlan" | "ipvlan"): Change[] {
  type Change = readonly [
    name: string,
    command: string,
    ...texts: readonly string[],
  ];
  const changes: readonly Change[] = [
    ["no link", `ip link del ${SHIM}`, "no longer exists"],
    [
      "link down",
      `ip link set ${SHIM} down`,
      "is down",
      `does not answer for ${HOST[1]}`,
      "lacks route 10.1.2.2",
    ],
    ["no route", `ip route del ${FIRST[0]}`, "lacks route 10.1.2.2"],
    [
      "no IPv6 route",
      `ip -6 route del ${FIRST[1]}`,
      "lacks route 2001:db8:1::2",
    ],
    [
      "no answer for the host",
      `ip neigh del proxy ${HOST[1]} dev ${SHIM}`,
      `does not answer for ${HOST[1]}`,
    ],
    ...[
      ["ipv4/conf", "arp_filter", 0],
      ["ipv6/conf", "proxy_ndp", 0],
      ["ipv6/conf", "forwarding", 0],
      ["ipv6/neigh", "proxy_delay", 80],
    ].map(([place, name, value]) =>
      [
        `another ${place}/…/${name}`,
        `echo ${value} > /proc/sys/net/${place}/${SHIM}/${name}`,
        `.${name} is not `,
      ] as const
    ),
    ...type === "ipvlan"
      ? [
        [
          "no neighbour",
          `ip neigh del ${FIRST[0]} dev ${SHIM}`,
          `does not have the neighbour ${FIRST[0]}`,
        ] as const,
      ]
      : [],
  ];
  return changes.map(([name, ...rest]) => [name, "host", ...rest]);
}

/** Returns what a server in a namespace sends to a client in another. */
async function receive(
  from: NetNs,
  server: NetNs,
  address: string,
): Promise<string> {
  using listener = inNetns(
    server,
    () => Deno.listen({ hostname: "::", port: 7 }),
  );
  const client = spawnIn(from, {
    path: "/bin/bash",
    args: ["-c", `exec 3<>/dev/tcp/${address}/7; cat <&3`],
    env: {},
    stdin: "",
  });
  const serve = async (): Promise<void> => {
    const connection = await listener.accept().catch(() => undefined);
    await connection?.write(new TextEncoder().encode("hello"));
    connection?.close();
  };
  const served = serve();
  const { stdout } = await client.output;
  listener.close();
  await served;
  return stdout;
}

for (const type of ["macvlan", "ipvlan"] as const) {
  const needs = needsKind(type);
  const test = (name: string, body: () => Promise<void>): void =>
    rootTest(`${type} with hostAccess: ${name}`, needs, body);

  test("host and containers reach each other", async () => {
    using scene = new AccessScene(type);
    const { hosts: { host, sandbox }, neighbour, state } = scene;
    const { json } = await scene.succeed("ADD");
    const second = await scene.addContainer("second");
    const [accessLink] = scene.accessLinks;
    assertEquals(
      json.interfaces.map((one: Keys) => [one["name"], one["sandbox"]]),
      [["eth0", sandbox.path], [accessLink, undefined]],
    );
    assertEquals(scene.accessLinks.length, 1);
    assertEquals(scene.routed, [...FIRST, ...SECOND].sort());
    const all = [...FIRST, ...SECOND];
    assertEquals(findReached(host, all), all);
    for (const container of [sandbox, second]) {
      const others = [...HOST, ...NEIGHBOUR];
      assertEquals(findReached(container, others), others);
      assertEquals(findReached(container, all), all);
    }
    for (const [position, address] of FIRST.entries()) {
      assertEquals(await receive(host, sandbox, address), "hello");
      const own = HOST[position] ?? "";
      assertEquals(await receive(sandbox, host, own), "hello");
    }
    await scene.succeed("CHECK", { prevResult: json });
    // The rest of the network still uses the master.
    assertEquals(findReached(neighbour, HOST), HOST);
    const [{ address: mac }] = ipJson(host, "link", "show", MASTER);
    for (const address of HOST) {
      const [known] = ipJson(neighbour, "neighbor", "show", address);
      assertEquals(known.lladdr, mac);
    }
    const options = { sandbox: second, containerId: "second" };
    await scene.succeed("DEL", {}, options);
    assertEquals([scene.routed, scene.accessLinks], [FIRST, [accessLink]]);
    await scene.succeed("DEL");
    assertEquals(scene.state, state);
  });

  test("each network has its own host link", async () => {
    using scene = new AccessScene(type);
    const { hosts, state } = scene;
    await scene.succeed("ADD");
    const net2 = {
      name: "net2",
      ipam: hosts.hostLocal("10.0.0.0/24"),
      hostAddresses: ["10.0.0.200"],
    };
    const other = await scene.addContainer("other", net2);
    assertEquals(scene.accessLinks.length, 2);
    assertEquals(findReached(hosts.host, ["10.0.0.2", ...FIRST]), [
      "10.0.0.2",
      ...FIRST,
    ]);
    assertEquals(findReached(other, ["10.0.0.200"]), ["10.0.0.200"]);
    await scene.succeed("DEL");
    assertEquals(scene.routed, ["10.0.0.2"]);
    await scene.succeed("DEL", net2, { sandbox: other, containerId: "other" });
    assertEquals(scene.state, state);
  });

  test("DEL, GC and a killed ADD leave nothing", async () => {
    using scene = new AccessScene(type);
    const { host } = scene.hosts;
    const { state } = scene;
    const gone = { env: { CNI_NETNS: "" } };
    const ids = Array.from({ length: 6 }, (_, position) => `c${position}`);
    for (const id of ids) await scene.addContainer(id);
    // Neither namespace nor result, and all at the same time.
    await Promise.all(
      ids.map((containerId) =>
        scene.succeed("DEL", {}, { ...gone, containerId })
      ),
    );
    assertEquals([scene.accessLinks, scene.routed], [[], []]);
    for (const id of ["stays", "goes"]) await scene.addContainer(id);
    const valid = { containerID: "stays", ifname: "eth0" };
    const key = "cni.dev/valid-attachments";
    await scene.succeed("GC", { [key]: [valid] });
    assertEquals(scene.routed.length, 2);
    await scene.succeed("GC", { [key]: [] });
    assertEquals(scene.state, state);
    // Killed before the link had its alias, or a route.
    const script = `ip link add cnih0123456789a link ${MASTER} type ${type}`;
    for (const command of ["DEL", "GC"]) {
      runIn(host, "sh", "-ec", script);
      await scene.succeed(command, { [key]: [] }, gone);
      assertEquals(scene.state, state);
    }
  });

  test("DEL and GC remove the host link after the key was removed", async () => {
    using scene = new AccessScene(type);
    const { state } = scene;
    const key = "cni.dev/valid-attachments";
    const without: Keys = { hostAccess: false };
    const { json: prevResult } = await scene.succeed("ADD");
    await scene.succeed("DEL", { ...without, prevResult });
    assertEquals(scene.state, state);
    await scene.succeed("ADD");
    await scene.succeed("DEL", without, { env: { CNI_NETNS: "" } });
    assertEquals([scene.accessLinks, scene.routed], [[], []]);
    for (const id of ["stays", "goes"]) await scene.addContainer(id);
    const valid = { containerID: "stays", ifname: "eth0" };
    await scene.succeed("GC", { ...without, [key]: [valid] });
    assertEquals(scene.routed.length, 2);
    await scene.succeed("GC", { ...without, [key]: [] });
    assertEquals([scene.accessLinks, scene.routed], [[], []]);
  });

  rootTest(
    `${type} with hostAccess: check() reports each change`,
    needs,
    (t) => checkAfterChanges(t, () => new AccessScene(type), changesOf(type)),
  );

  test("repair() restores each removed part", async () => {
    using scene = new AccessScene(type);
    const { hosts: { host, sandbox } } = scene;
    // Attached before the network had the key.
    const { json: prevResult } = await scene.succeed("ADD", {
      hostAccess: false,
    });
    const [accessLink] = scene.accessLinks;
    assertEquals(accessLink, undefined);
    await scene.fail("CHECK", [999, "no longer exists"], { prevResult });
    for (const [, , command] of [["", "", "true"], ...changesOf(type)]) {
      runIn(host, "sh", "-ec", command ?? "");
      await scene.succeed("REPAIR", { prevResult });
      await scene.succeed("CHECK", { prevResult });
      assertEquals(findReached(host, FIRST), FIRST);
      assertEquals(findReached(sandbox, HOST), HOST);
    }
    await scene.succeed("DEL", { prevResult });
    assertEquals(scene.accessLinks, []);
  });

  test("check() reads only the sysctls of the container's address families", async () => {
    using scene = new AccessScene(type);
    const { host } = scene.hosts;
    const set = (place: string, name: string, value: number): void => {
      const path = `/proc/sys/net/${place}/${SHIM}/${name}`;
      runIn(host, "sh", "-ec", `echo ${value} > ${path}`);
    };
    const ipv4 = { ipam: scene.hosts.hostLocal("10.1.2.0/24") };
    const { json: prevResult } = await scene.succeed("ADD", ipv4);
    set("ipv6/conf", "proxy_ndp", 0);
    set("ipv6/conf", "forwarding", 0);
    set("ipv6/neigh", "proxy_delay", 80);
    const call = { ...ipv4, prevResult };
    await scene.succeed("CHECK", call);
    set("ipv4/conf", "arp_filter", 0);
    await scene.fail("CHECK", [999, ".arp_filter is not 1"], call);
    // As after an ADD that could not write to /proc/sys.
    set("ipv6/conf", "accept_dad", 1);
    await scene.succeed("CHECK", call);
    const sandbox = scene.hosts.addNetns();
    const options = { sandbox, containerId: "second" };
    const { json: dual } = await scene.succeed("ADD", {}, options);
    set("ipv6/conf", "accept_dad", 1);
    set("ipv6/neigh", "proxy_delay", 80);
    await scene.succeed("CHECK", { prevResult: dual }, options);
    set("ipv6/conf", "proxy_ndp", 0);
    const changed = { prevResult: dual };
    await scene.fail("CHECK", [999, ".proxy_ndp is not 1"], changed, options);
    await scene.succeed("CHECK", call);
  });

  test("ADD refuses unusable configurations, and leaves nothing", async () => {
    using scene = new AccessScene(type);
    const { host } = scene.hosts;
    const script = `ip link add other0 type veth peer name other1
      ip link set other0 up; ip link set other1 up
      ip address add 10.7.0.1/24 dev other0`;
    runIn(host, "sh", "-ec", script);
    const { state } = scene;
    const static4 = (address: string): Keys => ({
      ipam: { type: "static", addresses: [{ address }] },
    });
    const rows: readonly [Keys, string][] = [
      [{ linkInContainer: true }, "linkInContainer has no link on the host"],
      [{ hostAddresses: ["10.1.2.300"] }, "hostAddresses"],
      [{ hostAddresses: ["10.7.0.9"] }, 'a route to it over "other0"'],
      [{ hostAddresses: ["10.7.0.1"] }, 'it already has it on "other0"'],
      [static4(`${HOST[0]}/24`), "Cannot give the container 10.1.2.200"],
      [
        { ...static4("10.1.2.77/24"), hostAddresses: ["10.1.2.77"] },
        "Cannot give the container 10.1.2.77: hostAddresses has it",
      ],
    ];
    for (const [keys, text] of rows) {
      await scene.fail("ADD", [7, text], keys);
      assertEquals(scene.state, state);
    }
    runIn(host, "ip", "address", "flush", "dev", MASTER);
    await scene.fail("ADD", [
      7,
      'from the host: "master0" has no IPv4 address: add one to hostAddresses',
    ], { ipam: scene.hosts.hostLocal("10.1.2.0/24") });
    assertEquals([scene.accessLinks, scene.hosts.leases()], [[], []]);
  });

  for (const peer of listPeers(type)) {
    rootTest(
      `${type} with hostAccess does not affect containers of ${peer.name}`,
      allOf(needs, needsGo(type)),
      async () => {
        using scene = new AccessScene(type);
        const { hosts } = scene;
        const foreign = hosts.addNetns();
        const options = { sandbox: foreign, containerId: "foreign" };
        const { cniVersion } = peer;
        const config = { ...scene.config, cniVersion };
        const call = (command: string, keys: Keys): ReturnType<typeof callAs> =>
          callAs(
            peer,
            hosts,
            { type, command, config: { ...config, ...keys } },
            options,
          );
        const { json: prevResult } = assertSucceeded(await call("ADD", {}));
        await scene.succeed("ADD");
        assertEquals(findReached(foreign, SECOND), SECOND);
        assertEquals(scene.routed, SECOND);
        // Repair includes it.
        await scene.succeed("REPAIR", { cniVersion, prevResult }, options);
        assertEquals(findReached(hosts.host, FIRST), FIRST);
        assertSucceeded(await call("CHECK", { prevResult }));
        assertSucceeded(await call("DEL", { prevResult }));
        await scene.succeed("DEL", { cniVersion, prevResult }, options);
        assertEquals(scene.routed, SECOND);
      },
    );
  }
}

type Outcome = Awaited<ReturnType<typeof callAs>>;

/** Go's plugins may log. */
function assertSucceeded(outcome: Outcome): Outcome {
  assertEquals(outcome.exitCode, 0, outcome.stdout + outcome.stderr);
  return outcome;
}

rootTest(
  "macvlan with hostAccess creates no link for a container without addresses",
  needsKind("macvlan"),
  async () => {
    using scene = new AccessScene("macvlan", { ipam: undefined });
    const { state } = scene;
    const { json: prevResult } = await scene.succeed("ADD");
    assertEquals([prevResult.interfaces.length, scene.accessLinks], [1, []]);
    for (const command of ["CHECK", "REPAIR"]) {
      await scene.succeed(command, { prevResult });
      assertEquals(scene.accessLinks, []);
    }
    await scene.succeed("DEL", { prevResult });
    assertEquals(scene.state, state);
  },
);

rootTest(
  "macvlan with hostAccess: the tool shows the link, and removes lost routes",
  needsKind("macvlan"),
  async () => {
    using plugins = new PluginDirectory();
    for (const name of ["macvlan", "host-local"]) {
      plugins.addOwnExecutable(name);
    }
    await using host = await ToolHost.create();
    const succeed = async (line: string): Promise<string> => {
      const { code, stdout, stderr } = await host.cni(line);
      assertEquals(code, 0, line + stdout + stderr);
      return stdout;
    };
    const shell = (script: string): Promise<unknown> =>
      host.run(["sh", "-ec", script]);
    await shell(`ip link add ${MASTER} type veth peer name wire
      ip link set wire up; ip link set ${MASTER} up
      ip address add 10.7.2.200/24 dev ${MASTER}`);
    host.env["CNI_PATH"] = plugins.path;
    const ipam = host.hostLocal("10.7.2.0/24");
    const keys = { type: "macvlan", master: MASTER, hostAccess: true, ipam };
    host.addNetwork("lan", [keys]);
    // Other processes of the machine must not name them.
    for (const name of ["live", "gone"]) {
      await succeed(`netns add ${name}`);
      await succeed(`add lan ${name} --container-id ${name}-${Deno.pid}`);
    }
    assertMatch(
      await succeed("show"),
      /10\.7\.2\.3[^]*host access over cnih[0-9a-f]{11}$/m,
    );
    assertMatch(await succeed("list"), / HOST ACCESS [^]* cnih[0-9a-f]{11} /);
    const listOrphans = async (flags = ""): Promise<string[]> => {
      const text = await succeed(`gc --orphans --json --grace 0${flags}`);
      const { orphans } = JSON.parse(text);
      return orphans.map(({ kind }: Keys) => kind);
    };
    assertEquals(await listOrphans(), []);
    await shell(`umount /run/netns/gone; rm /run/netns/gone
      rm /var/lib/cni/results/lan-gone-${Deno.pid}-eth0
      find /run/leases -exec touch -d '1 hour ago' {} +`);
    assertEquals(await listOrphans(" --yes"), ["route", "lease"]);
    const { stdout } = await host.run(["ip", "route"]);
    assertMatch(stdout, /10\.7\.2\.2 dev cnih/);
    assertEquals(stdout.includes("10.7.2.3"), false);
    await shell("ip route del 10.7.2.2");
    assertEquals(await listOrphans(" --yes"), ["link"]);
    assertMatch(await succeed("repair --all"), /lacks route|no longer exists/);
    await succeed(`check lan live --container-id live-${Deno.pid}`);
  },
);

rootTest(
  "macvlan with hostAccess works with strict reverse path filters",
  needsKind("macvlan"),
  async () => {
    using scene = new AccessScene("macvlan");
    const { host, sandbox } = scene.hosts;
    inNetns(host, () => writeSysctl("net/ipv4/conf/all/rp_filter", "1"));
    await scene.succeed("ADD");
    assertEquals(findReached(host, FIRST), FIRST);
    assertEquals(findReached(sandbox, HOST), HOST);
  },
);

rootTest(
  "macvlan with hostAccess needs mode bridge",
  needsKind("macvlan"),
  async () => {
    using scene = new AccessScene("macvlan");
    for (const mode of ["private", "vepa", "passthru"]) {
      const text = `hostAccess: needs mode "bridge", got "${mode}"`;
      await scene.fail("ADD", [7, text], { mode });
      await scene.fail("STATUS", [7, text], { mode });
    }
  },
);

rootTest(
  "ipvlan with hostAccess requires a loose reverse path filter",
  needsKind("ipvlan"),
  async () => {
    using scene = new AccessScene("ipvlan");
    const { host, sandbox } = scene.hosts;
    inNetns(host, () => writeSysctl(`net/ipv4/conf/${MASTER}/rp_filter`, "1"));
    const text = `net.ipv4.conf.${MASTER}.rp_filter is 1: set it to 2`;
    await scene.fail("ADD", [7, text]);
    inNetns(host, () => writeSysctl(`net/ipv4/conf/${MASTER}/rp_filter`, "2"));
    const { json: prevResult } = await scene.succeed("ADD");
    inNetns(host, () => writeSysctl(`net/ipv4/conf/${MASTER}/rp_filter`, "1"));
    await scene.fail("CHECK", [7, text], { prevResult });
    await scene.succeed("DEL");
    // The next address would be another one.
    await Deno.remove(`${scene.hosts.directory}/leases`, { recursive: true });
    const own = { hostAddresses: ["10.1.2.201", "2001:db8:1::201"] };
    await scene.succeed("ADD", own);
    assertEquals(findReached(host, FIRST), FIRST);
    assertEquals(findReached(sandbox, own.hostAddresses), own.hostAddresses);
  },
);

rootTest(
  "ipvlan with hostAccess works in each mode",
  needsKind("ipvlan"),
  async (t) => {
    for (const mode of ["l3", "l3s"]) {
      await t.step(mode, async () => {
        using scene = new AccessScene("ipvlan", { mode });
        const { hosts: { host, sandbox }, state } = scene;
        await scene.succeed("ADD");
        assertEquals(findReached(host, FIRST), FIRST);
        assertEquals(findReached(sandbox, HOST), HOST);
        await scene.succeed("DEL");
        assertEquals(scene.state, state);
      });
    }
  },
);

for (const [type, mode] of [["macvlan", "vepa"], ["ipvlan", "l3"]] as const) {
  rootTest(
    `REPAIR of ${type} with hostAccess creates no link on a master that the container chose`,
    needsKind(type),
    async (t) => {
      for (const chosen of ["other0", MASTER]) {
        await t.step(`with the index of ${chosen}`, async () => {
          using scene = new AccessScene(type);
          const { host, sandbox } = scene.hosts;
          const other = `ip link add other0 type veth
            ip address add 10.1.2.201/24 dev other0
            ip address add 2001:db8:1::201/64 dev other0 nodad`;
          runIn(host, "sh", "-ec", other);
          const { json: prevResult } = await scene.succeed("ADD");
          const [{ ifindex }] = ipJson(host, "link", "show", chosen);
          const script = `ip link del eth0
            ip link add low0 index ${ifindex} type veth
            ip link add eth0 link low0 type ${type} mode ${mode}`;
          runIn(sandbox, "sh", "-ec", script);
          const { accessLinks } = scene;
          await scene.succeed("REPAIR", { prevResult });
          assertEquals(scene.accessLinks, accessLinks);
        });
      }
    },
  );
}

rootTest(
  "REPAIR with hostAccess finds the master by an alternative name, or below another macvlan",
  needsKind("macvlan"),
  async (t) => {
    const masters = {
      "alternative name": `ip link property add dev ${MASTER} altname lower0`,
      "another macvlan": `ip link add lower0 link ${MASTER} type macvlan
        ip link set lower0 up`,
    };
    for (const [name, script] of Object.entries(masters)) {
      await t.step(name, async () => {
        using scene = new AccessScene("macvlan", { master: "lower0" });
        const { host } = scene.hosts;
        runIn(host, "sh", "-ec", script);
        const { json: prevResult } = await scene.succeed("ADD");
        const [link = ""] = scene.accessLinks;
        runIn(host, "ip", "link", "del", link);
        await scene.succeed("REPAIR", { prevResult });
        assertEquals(scene.accessLinks, [link]);
        await scene.succeed("CHECK", { prevResult });
      });
    }
  },
);

rootTest(
  "REPAIR of ipvlan with hostAccess keeps the mode that ADD gave the master",
  needsKind("ipvlan"),
  async () => {
    using scene = new AccessScene("ipvlan");
    const { host, sandbox } = scene.hosts;
    const { json: prevResult } = await scene.succeed("ADD");
    const { accessLinks } = scene;
    runIn(sandbox, "ip", "link", "set", "eth0", "type", "ipvlan", "mode", "l3");
    runIn(host, "ip", "link", "del", accessLinks[0] ?? "");
    await scene.succeed("REPAIR", { prevResult });
    assertEquals(scene.accessLinks, accessLinks);
    const shown = runIn(host, "ip", "-d", "link", "show", accessLinks[0] ?? "");
    assertMatch(shown, /ipvlan +mode l2 /);
  },
);
