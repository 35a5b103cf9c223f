import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { lutimesSync } from "node:fs";
import { AttachmentCache } from "../../libcni/mod.ts";
import { Rtnl } from "../../ffi/rtnl/mod.ts";
import { rootTest } from "../../testing/capabilities.ts";
import { TestHosts } from "../../testing/test_hosts.ts";
import { PluginDirectory } from "../../tests/_harness/plugin_directory.ts";
import { callWith, runCniOn } from "../../tests/_harness/tool_call.ts";
import { chooseStyle } from "../../base/command_line/style.ts";
import { describeNetwork } from "../networks/details.ts";

const WEB = "a1b2c3d4e5f6".padEnd(64, "0");
const SINCE = new Date("2026-11-21T08:43:35Z");
/** A minute ago. */
const LATELY = new Date(Math.floor(Date.now() / 1000) * 1000 - 60_000);

/** A node with two networks, three attachments, three leases and a broken file. */
class FakeNode implements Disposable {
  readonly #directory = new PluginDirectory();
  readonly path: string = this.#directory.path;
  /** The flags for its directories. */
  readonly flags: string[] = [
    `--conf-dir=${this.path}/net.d`,
    `--cache-dir=${this.path}/cache`,
    `--cni-path=${this.path}/bin`,
  ];

  constructor() {
    for (const name of ["net.d", "cache", "bin", "leases/pods"]) {
      Deno.mkdirSync(`${this.path}/${name}`, { recursive: true });
    }
    for (const type of ["bridge", "host-local", "portmap", "macvlan"]) {
      this.#directory.addOwnExecutable(`bin/${type}`);
    }
    const daemonSocket = `${this.path}/daemon.sock`;
    const dataDir = `${this.path}/leases`;
    this.#write("10-pods.conflist", [{
      type: "bridge",
      bridge: "lst-none0",
      isGateway: true,
      daemonSocket,
      ipam: { type: "host-local", subnet: "10.22.0.0/24", dataDir },
    }, {
      type: "portmap",
      capabilities: { portMappings: true },
      daemonSocket,
    }]);
    this.#write("20-storage.conflist", [{
      type: "macvlan",
      master: "lst-none1",
      daemonSocket: "",
      ipam: { type: "static", addresses: [{ address: "192.168.7.9/24" }] },
    }]);
    this.#directory.addFile("net.d/30-broken.conflist", "{");
    for (const ip of ["10.22.0.2", "10.22.0.3", "10.22.0.9"]) {
      this.#directory.addFile(`leases/pods/${ip}`, "x\r\neth0");
    }
    this.attach("pods", WEB, "eth0", "10.22.0.2/24", "default/web-6f7c9d");
    this.attach(
      "storage",
      WEB,
      "net1",
      "192.168.7.9/24",
      "default/web-6f7c9d",
    );
    this.attach(
      "pods",
      "cnitool-296747069b8a02dc4e2a",
      "eth0",
      "10.22.0.3/24",
    );
  }

  #write(name: string, plugins: object[]): void {
    const network = name.replace(/^\d+-|\.conflist$/g, "");
    const list = { cniVersion: "1.0.0", name: network, plugins };
    const file = this.#directory.addFile(`net.d/${name}`, JSON.stringify(list));
    Deno.utimeSync(file, SINCE, SINCE);
  }

  /** Lets addresses of the network "pods" stay, and one for a pod, for ten minutes. */
  stay(): void {
    const ipam = { type: "host-local", subnet: "10.22.0.0/24" };
    this.#write("10-pods.conflist", [{
      type: "bridge",
      bridge: "lst-none0",
      ipam: {
        ...ipam,
        dataDir: `${this.path}/leases`,
        stay: "name",
        stayTime: "10m",
      },
    }]);
    for (const [ip, at] of [["10.22.0.4", LATELY], ["10.22.0.5", SINCE]]) {
      const link = this.#directory.addFile(`leases/pods/${ip}`, "");
      Deno.removeSync(link);
      Deno.symlinkSync("stay/shop/db-0/eth0", link);
      lutimesSync(link, at as Date, at as Date);
    }
  }

  /** Gives the network "pods" a range outside of its subnet. */
  breakRanges(): void {
    const range = { subnet: "10.22.0.0/24", rangeStart: "10.23.0.1" };
    this.#write("10-pods.conflist", [{
      type: "bridge",
      ipam: { type: "host-local", ...range },
    }]);
  }

  /** Writes an attachment as a runtime does. */
  attach(
    network: string,
    containerId: string,
    ifName: string,
    address: string,
    pod = "",
  ): void {
    const [namespace = "", name = ""] = pod.split("/");
    const cacheDir = `${this.path}/cache`;
    new AttachmentCache(cacheDir).writeAttachment({
      network,
      containerId,
      ifName,
      netns: `/var/run/netns/cni-${containerId.slice(-8)}`,
      config: new TextEncoder().encode(`{"name":"${network}","plugins":[]}`),
      cniArgs: pod === ""
        ? []
        : [["K8S_POD_NAMESPACE", namespace], ["K8S_POD_NAME", name]],
      capabilityArgs: {},
    }, {
      cniVersion: "1.0.0",
      ips: [{ address, gateway: address.replace(/\d+\/24$/, "1") }],
    });
    const file = `${cacheDir}/results/${network}-${containerId}-${ifName}`;
    Deno.utimeSync(file, SINCE, SINCE);
  }

  /** Runs the tool on a terminal of a width, or in a pipe. */
  async show(width: number | undefined, ...argv: string[]): Promise<string[]> {
    const context = width === undefined ? {} : { width };
    const flags = argv[0] === "netns"
      ? []
      // It looks for no plugins.
      : this.flags.slice(0, argv[0] === "show" ? 2 : 3);
    const line = [...argv, ...flags];
    const { stdout } = await runCniOn(context, ...line);
    return stdout.trimEnd().replaceAll(this.path, "").split("\n");
  }

  [Symbol.dispose](): void {
    this.#directory[Symbol.dispose]();
  }
}

/** Joins lines that are wrapped where the length of the test's path says. */
function unwrap(lines: readonly string[], indent: number): string[] {
  const blanks = " ".repeat(indent);
  const joined: string[] = [];
  for (const line of lines) {
    const isMore = line.startsWith(blanks) && line[indent] !== " " &&
      joined.at(-1)?.startsWith(indent === 2 ? blanks : "");
    if (isMore) joined.push(`${joined.pop()} ${line.trim()}`);
    else joined.push(line);
  }
  return joined;
}

Deno.test("cni list shows the identity of an attachment at every width", async (t) => {
  using node = new FakeNode();
  await t.step("80 columns", async () => {
    assertEquals(await node.show(80, "list"), [
      "NETWORK  POD                 CONTAINER         INTERFACE  ADDRESSES       EXISTS",
      "pods     default/web-6f7c9d  a1b2c3d4e5f60     eth0       10.22.0.2/24    no",
      "pods     -                   cnitool…02dc4e2a  eth0       10.22.0.3/24    no",
      "storage  default/web-6f7c9d  a1b2c3d4e5f60     net1       192.168.7.9/24  no",
      "Not shown at this width: NETNS, SINCE. Shortened: CONTAINER (--wide shows all)",
    ]);
  });
  await t.step("40 columns", async () => {
    assertEquals(await node.show(40, "list"), [
      "NETWORK    pods",
      "POD        default/web-6f7c9d",
      "CONTAINER  a1b2c3d4e5f60",
      "INTERFACE  eth0",
      "ADDRESSES  10.22.0.2/24",
      "NETNS      /var/run/netns/cni-00000000",
      "EXISTS     no",
      "SINCE      2026-11-21T08:43Z",
      "",
      "NETWORK    pods",
      "CONTAINER  cnitool-296747069b8a02dc4e2a",
      "INTERFACE  eth0",
      "ADDRESSES  10.22.0.3/24",
      "NETNS      /var/run/netns/cni-02dc4e2a",
      "EXISTS     no",
      "SINCE      2026-11-21T08:43Z",
      "",
      "NETWORK    storage",
      "POD        default/web-6f7c9d",
      "CONTAINER  a1b2c3d4e5f60",
      "INTERFACE  net1",
      "ADDRESSES  192.168.7.9/24",
      "NETNS      /var/run/netns/cni-00000000",
      "EXISTS     no",
      "SINCE      2026-11-21T08:43Z",
    ]);
  });
  await t.step("in a pipe", async () => {
    assertEquals(await node.show(undefined, "list"), [
      "NETWORK  POD                 CONTAINER                     INTERFACE  ADDRESSES       NETNS                        EXISTS  SINCE",
      "pods     default/web-6f7c9d  a1b2c3d4e5f60                 eth0       10.22.0.2/24    /var/run/netns/cni-00000000  no      2026-11-21T08:43Z",
      "pods     -                   cnitool-296747069b8a02dc4e2a  eth0       10.22.0.3/24    /var/run/netns/cni-02dc4e2a  no      2026-11-21T08:43Z",
      "storage  default/web-6f7c9d  a1b2c3d4e5f60                 net1       192.168.7.9/24  /var/run/netns/cni-00000000  no      2026-11-21T08:43Z",
    ]);
  });
  await t.step("-o name", async () => {
    assertEquals(await node.show(40, "list", "-o", "name"), [
      "pods/a1b2c3d4e5f60000000000000000000000000000000000000000000000000000/eth0",
      "pods/cnitool-296747069b8a02dc4e2a/eth0",
      "storage/a1b2c3d4e5f60000000000000000000000000000000000000000000000000000/net1",
    ]);
  });
});

Deno.test("cni list prints a table with long pod names that remain distinct", async () => {
  using node = new FakeNode();
  const pod = "team-payments/checkout-frontend-canary-7d9f8b6c5d";
  for (const [at, end] of ["x2k4p", "q8w7z"].entries()) {
    const container = `${at}f`.repeat(32);
    node.attach(
      "pods",
      container,
      "eth0",
      `10.22.0.2${at}/24`,
      `${pod}-${end}`,
    );
  }
  assertEquals(await node.show(80, "list"), [
    "NETWORK  POD                       CONTAINER           INTERFACE  ADDRESSES",
    "pods     team-paymen…8b6c5d-x2k4p  0f0f0f0f0f0f0       eth0       10.22.0.20/24",
    "pods     team-paymen…8b6c5d-q8w7z  1f1f1f1f1f1f1       eth0       10.22.0.21/24",
    "pods     default/web-6f7c9d        a1b2c3d4e5f60       eth0       10.22.0.2/24",
    "pods     -                         cnitool-…a02dc4e2a  eth0       10.22.0.3/24",
    "storage  default/web-6f7c9d        a1b2c3d4e5f60       net1       192.168.7.9/24",
    "Not shown at this width: NETNS, EXISTS, SINCE. Shortened: POD, CONTAINER (--wide",
    "shows all)",
  ]);
});

Deno.test("cni networks shows the identity of a network at every width", async (t) => {
  using node = new FakeNode();
  await t.step("80 columns", async () => {
    assertEquals(unwrap(await node.show(80, "networks"), 2), [
      "NAME     SUBNETS         USED   ATTACHED  PLUGINS    DAEMON  FILE",
      "pods     10.22.0.0/24    3/253  2         bridge,    absent  10-pods.conflist",
      "                                          portmap",
      "storage  192.168.7.0/24  -      1         macvlan    off     20-storage.conflist",
      '  failed to find plugin "static" in path [/bin]',
      "-        -               -      0         -          -       30-broken.conflist",
      '  error parsing configuration list: Cannot parse it: unexpected end at line 1, column 2; in "/net.d/30-broken.conflist"',
      "Not shown at this width: VERSION (--wide shows all)",
    ]);
  });
  await t.step("40 columns", async () => {
    assertEquals(unwrap(await node.show(40, "networks"), 10), [
      "NAME      pods",
      "SUBNETS   10.22.0.0/24",
      "USED      3/253",
      "ATTACHED  2",
      "VERSION   1.0.0",
      "PLUGINS   bridge,portmap",
      "DAEMON    absent",
      "FILE      10-pods.conflist",
      "",
      "NAME      storage",
      "SUBNETS   192.168.7.0/24",
      "ATTACHED  1",
      "VERSION   1.0.0",
      "PLUGINS   macvlan",
      "DAEMON    off",
      "FILE      20-storage.conflist",
      'PROBLEMS  failed to find plugin "static" in path [/bin]',
      "",
      "ATTACHED  0",
      "FILE      30-broken.conflist",
      'PROBLEMS  error parsing configuration list: Cannot parse it: unexpected end at line 1, column 2; in "/net.d/30-broken.conflist"',
    ]);
  });
  await t.step("in a pipe", async () => {
    assertEquals(await node.show(undefined, "networks"), [
      "NAME     SUBNETS         USED   ATTACHED  VERSION  PLUGINS         DAEMON  FILE                 PROBLEMS",
      "pods     10.22.0.0/24    3/253  2         1.0.0    bridge,portmap  absent  10-pods.conflist     -",
      'storage  192.168.7.0/24  -      1         1.0.0    macvlan         off     20-storage.conflist  failed to find plugin "static" in path [/bin]',
      '-        -               -      0         -        -               -       30-broken.conflist   error parsing configuration list: Cannot parse it: unexpected end at line 1, column 2; in "/net.d/30-broken.conflist"',
    ]);
  });
  await t.step("-o name", async () => {
    assertEquals(await node.show(40, "networks", "-o", "name"), [
      "pods",
      "storage",
      "/net.d/30-broken.conflist",
    ]);
  });
});

Deno.test("cni networks reports invalid ranges", async () => {
  using node = new FakeNode();
  node.breakRanges();
  const [, pods = ""] = await node.show(undefined, "networks", "--exit-code");
  const cells = pods.split(/ {2,}/);
  assertEquals(cells.slice(0, 3), ["pods", "10.22.0.0/24", "invalid"]);
  const details = (await node.show(undefined, "networks", "pods"))
    .map((line) => line.replace(/ +/g, " "));
  const why = "invalid range set 0: RangeStart 10.23.0.1 not in network " +
    "10.22.0.0/24";
  assert(details.includes(`Addresses invalid: ${why}`), details.join("\n"));
  const [row] = JSON.parse(
    (await node.show(undefined, "networks", "--json")).join("\n"),
  );
  assertEquals([row.used, row.poolProblem], [null, why]);
  assertEquals([row.problems, cells.at(-1)], [
    [`ipam: ${why}`],
    `ipam: ${why}`,
  ]);
});

Deno.test("cni networks and cni show list persistent addresses", async () => {
  using node = new FakeNode();
  // The time of the second one is over, so it is free.
  node.stay();
  const until = new Date(LATELY.getTime() + 600_000).toISOString()
    .replace(/\.\d+Z$/, "Z");
  const [, pods = ""] = await node.show(undefined, "networks");
  assertEquals(pods.split(/ {2,}/).slice(0, 3), [
    "pods",
    "10.22.0.0/24",
    "3/253, 1 persistent",
  ]);
  const details = (await node.show(undefined, "networks", "pods"))
    .map((line) => line.replace(/ +/g, " "));
  assert(
    details.includes(
      "Addresses 10.22.0.0/24: 3 used, 1 persistent, 249 free; leases in /leases/pods",
    ),
    details.join("\n"),
  );
  assert(
    details.includes(`Persistent 10.22.0.4 for shop/db-0 eth0, until ${until}`),
  );
  const { staying } = JSON.parse(
    (await node.show(undefined, "show", "--json")).join("\n"),
  );
  assertEquals(staying, [{
    address: "10.22.0.4",
    network: "pods",
    pod: "shop/db-0",
    interface: "eth0",
    until,
  }]);
  assertEquals((await node.show(undefined, "show")).slice(-2), [
    "└─ persistent addresses",
    `   └─ 10.22.0.4  pods  for shop/db-0 eth0  until ${until}`,
  ]);
});

Deno.test("cni networks NAME shows the details of a network", async (t) => {
  using node = new FakeNode();
  await t.step("80 columns", async () => {
    assertEquals(unwrap(await node.show(80, "networks", "pods"), 14), [
      "Name          pods",
      "File          /net.d/10-pods.conflist",
      "Since         2026-11-21T08:43:35Z",
      "Version       1.0.0",
      "Plugins       bridge (host-local), portmap",
      "Capabilities  portMappings",
      "Bridge        lst-none0, does not exist; the first ADD creates it",
      "Subnets       10.22.0.0/24",
      "Gateways      10.22.0.1",
      "Addresses     10.22.0.0/24: 3 used, 250 free; leases in /leases/pods",
      "Daemon        not found: nothing listens on /daemon.sock, so each call runs locally; see cni daemon enable",
      "Attached      2",
      "",
      "POD                 CONTAINER         INTERFACE  ADDRESSES     SINCE",
      "default/web-6f7c9d  a1b2c3d4e5f60     eth0       10.22.0.2/24  2026-11-21T08:43Z",
      "-                   cnitool…02dc4e2a  eth0       10.22.0.3/24  2026-11-21T08:43Z",
      "Not shown at this width: NETNS, EXISTS. Shortened: CONTAINER (--wide shows all)",
    ]);
  });
  await t.step("a missing master", async () => {
    assertEquals(unwrap(await node.show(80, "networks", "storage"), 14), [
      "Name          storage",
      "File          /net.d/20-storage.conflist",
      "Since         2026-11-21T08:43:35Z",
      "Version       1.0.0",
      "Plugins       macvlan (static)",
      "Capabilities  none",
      "Master        lst-none1, does not exist",
      "Subnets       192.168.7.0/24",
      "Gateways      192.168.7.1",
      'Daemon        not used: "daemonSocket" is empty in the configuration',
      "Attached      1",
      'Problem       failed to find plugin "static" in path [/bin]',
      'Problem       the master "lst-none1" does not exist',
      "",
      "POD                 CONTAINER      INTERFACE  ADDRESSES       SINCE",
      "default/web-6f7c9d  a1b2c3d4e5f60  net1       192.168.7.9/24  2026-11-21T08:43Z",
      "Not shown at this width: NETNS, EXISTS (--wide shows all)",
    ]);
  });
  await t.step("--json", async () => {
    const text = await node.show(undefined, "networks", "pods", "--json");
    const { pools, gateways, links, daemon, attachments } = JSON.parse(
      text.join("\n"),
    );
    assertEquals([gateways, daemon, attachments.length], [
      ["10.22.0.1"],
      "absent",
      2,
    ]);
    assertEquals(pools, [{
      subnets: ["10.22.0.0/24"],
      gateways: ["10.22.0.1"],
      used: 3,
      staying: [],
      setAside: [],
      free: 250,
      leases: "/leases/pods",
    }]);
    assertEquals(links[0].exists, false);
  });
});

Deno.test("cni plugins shows names and paths at every width", async () => {
  using node = new FakeNode();
  for (const width of [40, 80, undefined]) {
    const lines = await node.show(width, "plugins");
    for (const name of ["bridge", "host-local", "portmap", "macvlan"]) {
      assertEquals(lines.some((line) => line.includes(`/bin/${name}`)), true);
    }
  }
  assertEquals(await node.show(80, "plugins", "-o", "name"), [
    "bridge",
    "host-local",
    "macvlan",
    "portmap",
  ]);
});

rootTest("cni networks NAME shows the state of the bridge", async () => {
  using node = new FakeNode();
  using hosts = TestHosts.create();
  using host = Rtnl.open(hosts.host.path);
  const { index } = host.link.addBridge({ name: "lst-none0" });
  host.link.set(index, { isUp: true });
  const [confDir = "", cacheDir = "", cniPath = ""] = node.flags
    .map((flag) => flag.split("=")[1] ?? "");
  const call = callWith({
    args: ["pods"],
    flags: { "conf-dir": confDir, "cache-dir": cacheDir, "cni-path": cniPath },
  });
  const { text } = await describeNetwork("pods", call, {
    hostNetns: hosts.host.path,
  });
  const shown = typeof text === "string" ? text : text(chooseStyle(false));
  assertStringIncludes(shown, "lst-none0, up, mtu 1500");
});
