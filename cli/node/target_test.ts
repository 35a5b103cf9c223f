import { assertEquals, assertMatch, assertThrows } from "@std/assert";
import { AttachmentCache } from "../../libcni/mod.ts";
import { eachRow } from "../../tests/_harness/table.ts";
import { runCni, runCniOn } from "../../tests/_harness/tool_call.ts";
import { isCovered, listNodeAttachments } from "./node_attachments.ts";
import { findTarget, getTarget, resolveNetns, shortenId } from "./target.ts";

const OWN = "/proc/self/ns/net";
const WEB = "a1b2c3d4e5f6".padEnd(64, "0");
const DNS = "a1b2ffffffff".padEnd(64, "1");
const OLD = "0123456789ab".padEnd(64, "2");

/** A node with the caches of a runtime and of multus. */
class Node implements Disposable {
  readonly cacheDir: string = Deno.makeTempDirSync({ prefix: "cni-targets-" });
  readonly multusDir: string = `${this.cacheDir}/m`;

  constructor() {
    const multus = { type: "multus", cnidir: this.multusDir };
    this.add(WEB, "eth0", OWN, { network: "all", plugins: [multus] });
    this.add(DNS, "eth0", "/gone/dns", { pod: "kube-system/dns-7d9" });
    this.add(OLD, "eth0", "/gone/old", {});
    this.add("c1", "eth0", "", { pod: "default/lost" });
    const { multusDir } = this;
    this.add(WEB, "eth0", OWN, { cacheDir: multusDir, network: "pods" });
    this.add(WEB, "net1", OWN, { cacheDir: multusDir, network: "storage" });
    Deno.writeTextFileSync(
      `${multusDir}/${WEB}`,
      JSON.stringify([{ Name: "pods" }, { Name: "default/fast" }]),
    );
  }

  add(containerId: string, ifName: string, netns: string, {
    cacheDir = this.cacheDir,
    network = "pods",
    pod = "default/web",
    plugins = [{ type: "ptp" }],
  }: {
    readonly cacheDir?: string;
    readonly network?: string;
    readonly pod?: string;
    readonly plugins?: readonly object[];
  }): void {
    const [namespace = "", name = ""] = pod.split("/");
    const config = JSON.stringify({ name: network, plugins });
    new AttachmentCache(cacheDir).writeAttachment({
      network,
      containerId,
      ifName,
      netns,
      config: new TextEncoder().encode(config),
      cniArgs: cacheDir === this.cacheDir
        ? [["K8S_POD_NAMESPACE", namespace], ["K8S_POD_NAME", name]]
        : [],
      capabilityArgs: {},
    }, {
      cniVersion: "1.0.0",
      ips: [{ address: "10.1.0.2/24" }, { address: "fd00:1::2/64" }],
    });
  }

  [Symbol.dispose](): void {
    Deno.removeSync(this.cacheDir, { recursive: true });
  }
}

Deno.test("listNodeAttachments() lists attachments of runtimes and of multus", () => {
  using node = new Node();
  const all = listNodeAttachments(node);
  assertEquals(
    all.map((one) => [
      one.network,
      one.ifName,
      one.pod,
      one.isLive,
      one.via,
      one.definition,
      isCovered(one, all),
    ]),
    [
      ["all", "eth0", "default/web", true, undefined, undefined, false],
      ["pods", "eth0", "default/web", false, undefined, undefined, false],
      [
        "pods",
        "eth0",
        "kube-system/dns-7d9",
        false,
        undefined,
        undefined,
        false,
      ],
      ["pods", "eth0", "default/lost", undefined, undefined, undefined, false],
      ["pods", "eth0", "default/web", true, "all", undefined, true],
      ["storage", "net1", "default/web", true, "all", "default/fast", false],
    ],
  );
});

Deno.test("findTarget() finds pods, containers, processes and namespaces", async (t) => {
  using node = new Node();
  const pid = `/proc/${Deno.pid}/ns/net`;
  const rows: [text: string, kind: string, netns: string][] = [
    // The pod's previous namespace is gone.
    ["default/web", "pod", OWN],
    ["kube-system/dns-7d9", "pod", "/gone/dns"],
    [`pid:${Deno.pid}`, "process", pid],
    [WEB, "container", OWN],
    ["a1b2c", "container", OWN],
    ["c1", "container", ""],
    ["/a/../b//c/", "netns", "/b/c"],
    ["./x", "netns", `${Deno.cwd()}/x`],
    ["not-there", "netns", "/var/run/netns/not-there"],
    ["a1b", "netns", "/var/run/netns/a1b"],
  ];
  await eachRow(t, rows, ([text, kind, netns]) => {
    const target = findTarget(text, node);
    assertEquals([target.kind, target.netns], [kind, netns]);
  });
  const failing: [text: string, error: string][] = [
    ["a1b2", "is ambiguous: it can be a1b2c3d4e5f60 (default/web) or a1b2ffff"],
    [
      "default/wbe",
      'There is no pod "default/wbe"; did you mean "default/web"?',
    ],
    ["pid:4194305", "There is no process with PID 4194305"],
    ["..", "Cannot name"],
  ];
  await eachRow(t, failing, ([text, error]) => {
    assertThrows(() => findTarget(text, node), Error, error);
  });
  await t.step("a container of podman by its name", () => {
    node.add("f00d".padEnd(64, "0"), "eth0", OWN, { pod: "/db" });
    assertEquals(resolveNetns("db", node), OWN);
    assertThrows(() => getTarget("dbb", node), Error, 'did you mean "db"?');
  });
  await t.step("a pod with an unknown namespace", () => {
    assertThrows(() => resolveNetns("c1", node), Error, "has no network names");
    node.add("c2", "eth0", OWN, { pod: "default/lost" });
    assertEquals(resolveNetns("default/lost", node), OWN);
  });
});

Deno.test("getTarget() adds the attachments, and suggests names", async (t) => {
  using node = new Node();
  const namesOf = (text: string): string[] =>
    getTarget(text, node).attachments.map(({ network, ifName }) =>
      `${network}/${ifName}`
    );
  assertEquals(namesOf("default/web"), [
    "all/eth0",
    "pods/eth0",
    "storage/net1",
  ]);
  assertEquals(namesOf("/proc/thread-self/ns/net").length, 3);
  assertEquals(namesOf("c1"), ["pods/eth0"]);
  const rows: [text: string, error: string][] = [
    ["web", '"web"; did you mean "default/web"?'],
    ["dns-7d8", 'did you mean "kube-system/dns-7d9"?'],
    ["qqqqqq", '"qqqqqq"; see cni list'],
  ];
  await eachRow(t, rows, ([text, error]) => {
    assertThrows(() => getTarget(text, node), Error, error);
  });
});

Deno.test("cni list shows pods and multus' networks", async (t) => {
  using node = new Node();
  const confDir = `${node.cacheDir}/net.d`;
  const flags = ["--cache-dir", node.cacheDir, "--conf-dir", confDir];
  await t.step("--json", async () => {
    const { stdout } = await runCni("list", "--json", ...flags);
    const rows = JSON.parse(stdout) as Record<string, unknown>[];
    assertEquals(
      rows.map(({ pod, network, ifname, via }) => [pod, network, ifname, via]),
      [
        ["default/web", "all", "eth0", null],
        ["default/web", "pods", "eth0", null],
        ["kube-system/dns-7d9", "pods", "eth0", null],
        ["default/lost", "pods", "eth0", null],
        ["default/web", "storage", "net1", "all"],
      ],
    );
  });
  await t.step("on a terminal", async () => {
    for (const width of [40, 60, 80, 100, 200]) {
      const { stdout } = await runCniOn({ width }, "list", ...flags);
      const widest = Math.max(
        ...stdout.split("\n").map(({ length }) => length),
      );
      assertEquals(widest <= Math.max(width, 60), true, `${width}:\n${stdout}`);
    }
    const { stdout } = await runCniOn(
      { width: 80 },
      "list",
      "-o",
      "wide",
      ...flags,
    );
    assertMatch(stdout, new RegExp(WEB));
  });
  await t.step("cni del names the network of multus", async () => {
    const line = ["del", "storage", "default/web", "-i", "net1"];
    const { stderr, exitCode } = await runCni(...line, ...flags);
    assertMatch(stderr, /multus attached it; run cni del all /);
    assertEquals(exitCode, 1);
  });
  await t.step("--pod", async () => {
    const web = await runCni("list", "--pod", "default/web", ...flags);
    assertEquals(web.stdout.trim().split("\n").length, 4);
    const typo = await runCni("list", "--pod", "default/wob", ...flags);
    assertMatch(typo.stderr, /did you mean "default\/web"/);
    assertEquals(typo.exitCode, 1);
  });
});

Deno.test("shortenId() keeps nerdctl's namespace, and IDs in other formats", () => {
  const ids = [WEB, `default-${WEB}`, "cnitool-1", `${WEB}0`];
  assertEquals(ids.map(shortenId), [
    "a1b2c3d4e5f60",
    "default-a1b2c3d4e5f60",
    "cnitool-1",
    `${WEB}0`,
  ]);
});
