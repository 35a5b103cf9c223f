// deno-lint-ignore-file no-sync-fn-in-async-fn -- nothing else waits during these calls

/**
 * The node daemon as a process, with executables that hand their calls over to
 * it: callers and daemons that go away, stop, or have different namespaces.
 *
 * @module
 */

import {
  assert,
  assertEquals,
  assertMatch,
  assertNotEquals,
} from "@std/assert";
import { offFile, timeoutsFile } from "../daemon/wire/daemon_socket.ts";
import { pause } from "../base/deadline.ts";
import { findFileId } from "../base/files/same_file.ts";
import { inNetns } from "../ffi/netns.ts";
import {
  allOf,
  hasCommand,
  ignoreUnless,
  type Needs,
  needsUserNamespaces,
  rootTest,
} from "../testing/capabilities.ts";
import type { ExecOutput } from "../testing/exec_in.ts";
import { snapshot } from "../testing/ip_json.ts";
import { TestHosts } from "../testing/test_hosts.ts";
import {
  HEADER_BYTES,
  lengthAt,
  MAGIC,
  WORD_BYTES,
} from "../daemon/wire/call_format.ts";
import { concat } from "../net/bytes.ts";
import type { Message } from "../daemon/wire/request.ts";
import type { StateDocument } from "../daemon/server/state_handler.ts";
import { decodeMessages, encodeRequest } from "./_harness/call_format.ts";
import { eventually } from "./_harness/eventually.ts";
import { BIN, needsBin } from "./_harness/executables.ts";
import {
  NodeDaemon,
  type NodeDaemonOptions,
  type ReceivedCall,
} from "./_harness/node_daemon.ts";
import { needsOtherCaller } from "./_harness/other_user.ts";
import { PluginDirectory } from "./_harness/plugin_directory.ts";
import { needsIptables, rulesOf } from "./_harness/rules.ts";
import { eachRow } from "./_harness/table.ts";

const RESULT = JSON.stringify({
  cniVersion: "1.0.0",
  ips: [{ address: "10.1.2.3/24", gateway: "10.1.2.1" }],
});

/**
 * A host with a daemon, and an IPAM plugin `slow` whose ADD ends when it is told
 * to. The containers `c1` to `c9` get an address each.
 */
class Scene implements AsyncDisposable {
  readonly hosts = TestHosts.create();
  readonly plugins = new PluginDirectory();
  readonly #before = this.state;
  readonly #daemons: NodeDaemon[] = [];

  constructor() {
    const { path } = this.plugins;
    this.plugins.add(
      "slow",
      `cat > /dev/null
      echo "$CNI_COMMAND $CNI_CONTAINERID" >> ${path}/calls
      test "$CNI_COMMAND" = ADD || exec rm -f ${path}/lease
      while test ! -e ${path}/go; do sleep 0.02; done
      : > ${path}/lease
      echo "$CNI_COMMAND" >> ${path}/ended
      case $CNI_CONTAINERID in c[0-9]) last=1\${CNI_CONTAINERID#c};; *) last=3;; esac
      echo '${RESULT}' | sed "s/10\\.1\\.2\\.3/10.1.2.$last/"`,
    );
  }

  static async start(
    work: (scene: Scene, daemon: NodeDaemon) => Promise<void>,
    options: NodeDaemonOptions = {},
  ): Promise<void> {
    await using scene = new Scene();
    await work(scene, await scene.addDaemon(options));
  }

  async addDaemon(options: NodeDaemonOptions = {}): Promise<NodeDaemon> {
    const daemon = await NodeDaemon.start(this.hosts, options);
    this.#daemons.push(daemon);
    return daemon;
  }

  /** Links, routes and rules of both sides. */
  get state(): unknown {
    return [snapshot(this.hosts.host), snapshot(this.hosts.sandbox)];
  }

  /** A call of ptp whose addresses come from `slow`. */
  get slow(): ReceivedCall {
    return {
      plugins: this.plugins.path,
      config: {
        cniVersion: "1.0.0",
        name: "net1",
        type: "ptp",
        ipam: { type: "slow" },
      },
    };
  }

  /** A call of ptp whose addresses come from host-local. */
  get quick(): ReceivedCall {
    const ipam = this.hosts.hostLocal("10.1.2.0/24");
    const config = { cniVersion: "1.0.0", name: "net1", type: "ptp", ipam };
    return { config };
  }

  /** Waits until `slow` was called so often. */
  async slowCalls(...calls: string[]): Promise<void> {
    await eventually(
      `the calls are ${calls}`,
      () =>
        this.plugins.read("calls") === calls.map((it) => `${it}\n`).join(""),
    );
  }

  /** Waits until every ADD of `slow` has ended. */
  async slowEnds(): Promise<void> {
    const count = (file: string): number =>
      this.plugins.read(file).split("ADD").length;
    await eventually("slow ends", () => count("ended") === count("calls"));
  }

  /** Whether `slow` has a lease. */
  get isLeased(): boolean {
    return findFileId(`${this.plugins.path}/lease`) !== undefined;
  }

  /** Lets every ADD of `slow` end. */
  go(): void {
    this.plugins.addFile("go", "");
  }

  assertNothingIsLeft(): void {
    assertEquals(this.state, this.#before);
    assertEquals(this.hosts.leases(), []);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const daemon of this.#daemons) await daemon[Symbol.asyncDispose]();
    this.plugins[Symbol.dispose]();
    this.hosts[Symbol.dispose]();
  }
}

/** Defines a test of a scene with one daemon. */
function test(
  name: string,
  work: (scene: Scene, daemon: NodeDaemon) => Promise<void>,
  options: NodeDaemonOptions = {},
  needs: Needs = needsBin,
): void {
  rootTest(`daemon: ${name}`, needs, () => Scene.start(work, options));
}

function assertDone({ code, stderr, stdout }: ExecOutput): void {
  assertEquals({ code, stderr }, { code: 0, stderr: "" }, stdout);
}

function codeIn({ stdout }: ExecOutput): number {
  return JSON.parse(stdout).code;
}

test("runs calls, counts them, and leaves nothing", async (scene, daemon) => {
  const { quick } = scene;
  const added = await daemon.call("ptp", "ADD", quick).output;
  assertDone(added);
  assertEquals(scene.hosts.leases(), ["10.1.2.2"]);
  const prevResult = JSON.parse(added.stdout);
  const known = { config: { ...quick.config, prevResult } };
  assertDone(await daemon.call("ptp", "CHECK", known).output);
  assertDone(await daemon.call("ptp", "DEL", known).output);
  scene.assertNothingIsLeft();
  assertEquals(await daemon.story(), ["ptp ADD 0", "ptp CHECK 0", "ptp DEL 0"]);
  const sample = "cni_daemon_calls_total" +
    '{plugin="ptp",command="ADD",network="net1",code="0"}';
  assertEquals(await daemon.metric(sample), 1);
  assertEquals((await daemon.ask("/readyz")).status, 200);
  assertEquals((await daemon.ask("/healthz")).status, 200);
  // Nobody else may connect.
  for (const name of ["daemon.sock", "multus.sock"]) {
    const { mode } = Deno.lstatSync(`${daemon.directory}/${name}`);
    assertEquals((mode ?? 0) & 0o777, 0o600);
  }
  assertEquals((Deno.statSync(daemon.directory).mode ?? 0) & 0o777, 0o700);
});

test(
  "runs plugins without its own descriptors and variables",
  async (scene, daemon) => {
    await daemon.says("Cannot serve the metrics");
    await daemon.says("Cannot report the process ID");
    await daemon.says("Cannot serve the plugin dhcp");
    assertDone(await daemon.call("ptp", "ADD", scene.quick).output);
    assertDone(await daemon.call("ptp", "DEL", scene.quick).output);
    assertEquals(await daemon.story(), ["ptp ADD 0", "ptp DEL 0"]);
    const { body } = await daemon.ask("/state");
    const { metrics }: StateDocument = JSON.parse(body);
    assertEquals(metrics?.address, "192.0.2.1:9468");
    assertMatch(metrics?.problem ?? "", /Cannot assign requested address/);
    scene.assertNothingIsLeft();
  },
  {
    args: [
      "--metrics-address=192.0.2.1:9468",
      "--pid-file=/proc/none/daemon.pid",
      "--dhcp-socket=/proc/none/dhcp.sock",
    ],
  },
);

test("undoes the ADD of a disconnected caller", async (scene, daemon) => {
  const call = daemon.call("ptp", "ADD", scene.slow);
  await scene.slowCalls("ADD test-container");
  call.kill();
  await call.output;
  await eventually(
    "the ADD has ended",
    async () => (await daemon.story()).length === 1,
  );
  assertEquals(await daemon.story(), ["ptp ADD 11"]);
  scene.assertNothingIsLeft();
});

test(
  "undoes the ADD of a caller that disconnects when it is done",
  async (scene, daemon) => {
    // The plugins notice nothing: they only have to finish.
    const call = daemon.call("ptp", "ADD", scene.slow);
    await scene.slowCalls("ADD test-container");
    daemon.signal("SIGSTOP");
    scene.go();
    call.kill();
    await call.output;
    daemon.signal("SIGCONT");
    await eventually(
      "the ADD has ended",
      async () => (await daemon.story()).length === 1,
    );
    assertEquals(await daemon.story(), ["ptp ADD 11"]);
    scene.assertNothingIsLeft();
    const calls = scene.plugins.read("calls");
    assertMatch(calls, /^ADD test-container\nDEL test-container\n/);
  },
);

test(
  "cancels an ADD when its DEL arrives, then runs the DEL",
  async (scene, daemon) => {
    const add = daemon.call("ptp", "ADD", scene.slow);
    await scene.slowCalls("ADD test-container");
    // Waits behind the first, and is never begun.
    const second = daemon.call("ptp", "ADD", scene.slow);
    const waiting = "cni_daemon_calls_waiting";
    await eventually(
      "it waits",
      async () => await daemon.metric(waiting) === 1,
    );
    assertDone(await daemon.call("ptp", "DEL", scene.slow).output);
    assertEquals([codeIn(await add.output), codeIn(await second.output)], [
      11,
      11,
    ]);
    await eventually(
      "all have ended",
      async () => (await daemon.story()).length === 3,
    );
    assertEquals((await daemon.story()).toSorted(), [
      "ptp ADD 11",
      "ptp ADD 11",
      "ptp DEL 0",
    ]);
    assertEquals((await daemon.story()).at(-1), "ptp DEL 0");
    scene.assertNothingIsLeft();
  },
);

test("runs other calls during a slow call", async (scene, daemon) => {
  const add = daemon.call("ptp", "ADD", scene.slow);
  await scene.slowCalls("ADD test-container");
  const sandbox = scene.hosts.addNetns();
  const other = { ...scene.quick, sandbox, containerId: "c2" };
  assertDone(await daemon.call("ptp", "ADD", other).output);
  assertDone(await daemon.call("ptp", "DEL", other).output);
  scene.go();
  assertDone(await add.output);
  assertDone(await daemon.call("ptp", "DEL", scene.slow).output);
  scene.assertNothingIsLeft();
});

test(
  "limits concurrent calls, and runs the others in order",
  async (scene, daemon) => {
    const containers = ["c1", "c2", "c3"].map((containerId) => ({
      ...scene.slow,
      containerId,
      sandbox: scene.hosts.addNetns(),
    }));
    const running: Promise<ExecOutput>[] = [];
    for (const [index, container] of containers.entries()) {
      running.push(daemon.call("ptp", "ADD", container).output);
      const connected = "cni_daemon_connections";
      await eventually(
        "it is connected",
        async () => await daemon.metric(connected) === index + 1,
      );
    }
    await scene.slowCalls("ADD c1");
    scene.go();
    for (const output of await Promise.all(running)) assertDone(output);
    await scene.slowCalls("ADD c1", "ADD c2", "ADD c3");
  },
  { args: ["--max-calls=1"] },
);

test(
  "declines calls from other namespaces",
  async (scene, daemon) => {
    const wrappers: Record<string, readonly string[]> = {
      "another mount namespace": ["unshare", "--mount"],
      "another network namespace": ["unshare", "--net"],
      "another umask": ["sh", "-c", 'umask 027; exec "$0"'],
    };
    for (const [reason, wrapper] of Object.entries(wrappers)) {
      const added = daemon.call("ptp", "ADD", { ...scene.quick, wrapper });
      const output = await added.output;
      assertEquals(output.code, 0, `${reason}: ${output.stdout}`);
      const sample = `cni_daemon_not_mine_total{reason="${reason}"}`;
      assertEquals(await daemon.metric(sample), 1, sample);
      const { body } = await daemon.ask("/state");
      const { calls }: StateDocument = JSON.parse(body);
      const [last] = calls.reasons;
      assertEquals([last?.reason, last?.lastCall], [reason, "ptp ADD"]);
      const deleted = daemon.call("ptp", "DEL", { ...scene.quick, wrapper });
      assertDone(await deleted.output);
      scene.assertNothingIsLeft();
    }
    assertEquals(await daemon.story(), []);
    const { body } = await daemon.ask("/state");
    const { calls, ready, pid }: StateDocument = JSON.parse(body);
    assertEquals([calls.left, calls.done, ready, pid], [
      6,
      0,
      true,
      daemon.pid,
    ]);
  },
);

test(
  "declines a DEL of another namespace after the ADD",
  async (scene, daemon) => {
    const add = daemon.call("ptp", "ADD", scene.slow);
    await scene.slowCalls("ADD test-container");
    const wrapper = ["unshare", "--mount"];
    const del = daemon.call("ptp", "DEL", { ...scene.slow, wrapper }).output;
    const isWaiting = eventually(
      "both are connected",
      async () => await daemon.metric("cni_daemon_connections") === 2,
    );
    await Promise.race([del, isWaiting]);
    scene.go();
    assertDone(await add.output);
    assertDone(await del);
    await isWaiting;
    assertEquals(await daemon.story(), ["ptp ADD 0"]);
    const reason = "another mount namespace";
    const sample = `cni_daemon_not_mine_total{reason="${reason}"}`;
    assertEquals(await daemon.metric(sample), 1);
    scene.assertNothingIsLeft();
  },
);

test(
  "declines calls of callers with fewer privileges",
  async (scene, daemon) => {
    const bounded = "--bounding-set=-sys_admin";
    const wrappers: Record<string, readonly string[]> = {
      "missing capabilities": ["setpriv", bounded, "--inh-caps=-all", "--"],
      "another user namespace": ["unshare", "--user", "--map-root-user"],
      // Before all else: it shares nothing with the daemon.
      "another network namespace": [
        ...["unshare", "--mount", "--net"],
        ...["setpriv", "--bounding-set=-all", "--inh-caps=-all", "--"],
      ],
    };
    for (const [reason, wrapper] of Object.entries(wrappers)) {
      const call = daemon.call("ptp", "ADD", { ...scene.quick, wrapper });
      // What it does itself, it may not do.
      assertEquals((await call.output).code, 1);
      const sample = `cni_daemon_not_mine_total{reason="${reason}"}`;
      assertEquals(await daemon.metric(sample), 1, sample);
    }
    assertEquals(await daemon.story(), []);
    const clean = { ...scene.quick, env: { CNI_NO_DAEMON: "1" } };
    assertDone(await daemon.call("ptp", "DEL", clean).output);
    scene.assertNothingIsLeft();
  },
  {},
  allOf(needsBin, needsUserNamespaces()),
);

rootTest(
  "daemon: serves its own user without any capability",
  allOf(needsBin, needsOtherCaller),
  async () => {
    await using scene = new Scene();
    const wrapper = ["setpriv", "--reuid=65534", "--clear-groups", "--"];
    const directory = Deno.makeTempDirSync({ prefix: "cni-test-" });
    Deno.chownSync(directory, 65534, null);
    const socketDir = `${directory}/run`;
    const daemon = await scene.addDaemon({ wrapper, socketDir });
    const config = {
      cniVersion: "1.0.0",
      name: "net1",
      type: "host-local",
      ipam: {
        type: "host-local",
        subnet: "10.1.2.0/24",
        dataDir: `${directory}/leases`,
      },
    };
    for (const command of ["ADD", "DEL"]) {
      const call = daemon.call("host-local", command, { config, wrapper });
      assertDone(await call.output);
    }
    assertEquals(await daemon.story(), [
      "host-local ADD 0",
      "host-local DEL 0",
    ]);
    await daemon[Symbol.asyncDispose]();
    Deno.removeSync(directory, { recursive: true });
  },
);

test("works in any working directory", async (scene, daemon) => {
  const wrapper = ["sh", "-c", 'cd /usr; exec "$0"'];
  assertDone(
    await daemon.call("ptp", "ADD", { ...scene.quick, wrapper }).output,
  );
  assertDone(
    await daemon.call("ptp", "DEL", { ...scene.quick, wrapper }).output,
  );
  assertEquals(await daemon.story(), ["ptp ADD 0", "ptp DEL 0"]);
  const [ipam, dataDir] = [{ ...scene.quick.config["ipam"] as object }, "x/y"];
  const config = { ...scene.quick.config, ipam: { ...ipam, dataDir } };
  const relative = {
    config,
    wrapper: ["sh", "-c", `cd ${scene.hosts.directory}; exec "$0"`],
  };
  assertDone(await daemon.call("ptp", "ADD", relative).output);
  assertDone(await daemon.call("ptp", "DEL", relative).output);
  assert(Deno.statSync(`${scene.hosts.directory}/x/y/net1`).isDirectory);
  assertEquals(await daemon.story(), ["ptp ADD 0", "ptp DEL 0"]);
});

test("is used again after it recovers", async (scene, daemon) => {
  const left = [offFile(daemon.socket), timeoutsFile(daemon.socket)];
  for (const path of left) Deno.writeTextFileSync(path, "");
  await eventually(
    "they are gone",
    () => left.every((path) => findFileId(path) === undefined),
  );
  assertDone(await daemon.call("ptp", "DEL", scene.quick).output);
  assertEquals(await daemon.story(), ["ptp DEL 0"]);
});

test("does not block callers while it is stopped", async (scene, daemon) => {
  daemon.signal("SIGSTOP");
  for (const command of ["ADD", "DEL"]) {
    assertDone(await daemon.call("ptp", command, scene.quick).output);
  }
  daemon.signal("SIGCONT");
  const withdrawn = 'cni_daemon_not_mine_total{reason="caller gone"}';
  await eventually(
    "it has looked at them",
    async () => await daemon.metric(withdrawn) === 2,
  );
  assertEquals(await daemon.story(), []);
  scene.assertNothingIsLeft();
});

test(
  "delays a network list once while it is stopped, and less later",
  async (scene, daemon) => {
    const ipam = scene.hosts.hostLocal("10.1.2.0/24");
    const list: Record<string, unknown>[] = [
      { type: "ptp", ipMasq: false, ipam },
      { type: "bandwidth", ingressRate: 1_000_000, ingressBurst: 1_000_000 },
      { type: "sbr" },
    ];
    const keys = { cniVersion: "1.0.0", name: "net1" };
    let prevResult: object = {};
    const run = async (command: string): Promise<void> => {
      const plugins = command === "DEL" ? list.toReversed() : list;
      for (const [index, plugin] of plugins.entries()) {
        const known = command === "DEL" || index > 0 ? { prevResult } : {};
        const config = { ...keys, ...plugin, ...known };
        const type = String(plugin["type"]);
        const output = await daemon.call(type, command, { config }).output;
        assertDone(output);
        if (command === "ADD") prevResult = JSON.parse(output.stdout);
      }
    };
    daemon.signal("SIGSTOP");
    await run("ADD");
    await run("DEL");
    scene.assertNothingIsLeft();
    await run("ADD");
    const attached = [scene.state, scene.hosts.leases()];
    // Each line has what a call has waited for.
    const waited = Deno.readTextFileSync(timeoutsFile(daemon.socket)).trim()
      .split("\n").map((line) => Number(line.split(" ")[1]));
    assertEquals(waited, [1000, ...Array(8).fill(250)]);
    assertEquals(findFileId(offFile(daemon.socket)), undefined);
    daemon.signal("SIGCONT");
    const withdrawn = 'cni_daemon_not_mine_total{reason="caller gone"}';
    await eventually(
      "it has looked at them",
      async () => await daemon.metric(withdrawn) === 9,
    );
    assertEquals([scene.state, scene.hosts.leases()], attached);
    await eventually(
      "the timeouts are deleted",
      () => findFileId(timeoutsFile(daemon.socket)) === undefined,
    );
    await run("DEL");
    assertEquals(await daemon.story(), [
      "sbr DEL 0",
      "bandwidth DEL 0",
      "ptp DEL 0",
    ]);
    scene.assertNothingIsLeft();
  },
);

/** How the caller of an ADD ends, and what other calls come while the daemon is stopped. */
const givenUp: [caller: "waits" | "killed", others: string[], isOff?: "off"][] =
  [
    ["waits", ["ADD"]],
    ["killed", ["DEL", "ADD"]],
    ["killed", ["DEL"]],
    ["killed", ["DEL", "ADD", "DEL"]],
    ["killed", ["DEL", "ADD"], "off"],
    ["killed", ["DEL"], "off"],
    ["killed", ["DEL", "ADD", "DEL"], "off"],
  ];

rootTest(
  "daemon: a daemon that was stopped in an ADD does not undo later calls",
  needsBin,
  async (t) => {
    await eachRow(t, givenUp, async ([caller, others, isOff]) => {
      await Scene.start(async (scene, daemon) => {
        const { slow } = scene;
        const add = daemon.call("ptp", "ADD", slow);
        await scene.slowCalls("ADD test-container");
        daemon.signal("SIGSTOP");
        if (caller === "killed") add.kill();
        const ended = await add.output;
        if (caller === "waits") assertEquals(codeIn(ended), 11);
        if (isOff) Deno.writeTextFileSync(offFile(daemon.socket), "");
        for (const command of others) {
          if (command === "ADD") scene.go();
          assertDone(await daemon.call("ptp", command, slow).output);
        }
        scene.go();
        // The first ADD of `slow` may end after the last DEL.
        await scene.slowEnds();
        const [left, calls] = [scene.state, scene.plugins.read("calls")];
        daemon.signal("SIGCONT");
        await eventually(
          "the ADD has ended",
          async () => (await daemon.story()).length === 1,
        );
        assertEquals(await daemon.story(), ["ptp ADD 11"]);
        assertEquals(scene.state, left);
        assertEquals(scene.isLeased, others.at(-1) === "ADD");
        if (others.at(-1) === "ADD") {
          assertEquals(scene.plugins.read("calls"), calls);
        }
        assertDone(await daemon.call("ptp", "DEL", slow).output);
        scene.assertNothingIsLeft();
      });
    }, (row) => row.join(" "));
  },
);

/** The names of iptables by which a plugin may list rules, or change them. */
const IPTABLES = ["iptables", "ip6tables"]
  .flatMap((name) => [name, `${name}-nft`, `${name}-legacy`])
  .flatMap((name) => [name, `${name}-restore`]);

/** An iptables that waits, if it is told to at its start. */
const SLOW_IPTABLES = (directory: string, name: string): string =>
  `if test -e ${directory}/held; then
    : > ${directory}/waits
    while ! test -e ${directory}/go; do sleep 0.02; done
  fi
  PATH=/usr/sbin:/usr/bin:/sbin:/bin exec ${name} "$@"`;

const CHAINED = {
  cniVersion: "1.0.0",
  name: "net1",
  backend: "iptables",
  prevResult: JSON.parse(RESULT),
};

/** Plugins whose DEL waits for another program before it removes something. */
const stoppedInDel: [type: string, config: Record<string, unknown>][] = [
  ["portmap", {
    ...CHAINED,
    type: "portmap",
    runtimeConfig: {
      portMappings: [{ hostPort: 8080, containerPort: 80, protocol: "tcp" }],
    },
  }],
  // Only the program removes the rules of an ingress policy.
  ["firewall", {
    ...CHAINED,
    type: "firewall",
    ingressPolicy: "same-bridge",
    prevResult: {
      cniVersion: "1.0.0",
      interfaces: [
        { name: "veth0" },
        { name: "eth0", sandbox: "/run/netns/none" },
      ],
      ips: [{ address: "10.1.2.3/24", interface: 1 }],
    },
  }],
];

rootTest(
  "daemon: a daemon that was stopped in a DEL keeps the rules of a later ADD",
  allOf(needsBin, needsIptables()),
  async (t) => {
    await eachRow(t, stoppedInDel, async ([type, config]) => {
      await Scene.start(async (scene, daemon) => {
        const { hosts: { host }, plugins: { path } } = scene;
        for (const name of IPTABLES) {
          scene.plugins.add(name, SLOW_IPTABLES(path, name));
        }
        const env = { PATH: `${path}:/usr/sbin:/usr/bin:/sbin:/bin` };
        const call = { config, env };
        assertDone(await daemon.call(type, "ADD", call).output);
        scene.plugins.addFile("held", "");
        const del = daemon.call(type, "DEL", call);
        await eventually(
          "it waits",
          () => findFileId(`${path}/waits`) !== undefined,
        );
        daemon.signal("SIGSTOP");
        Deno.removeSync(`${path}/held`);
        assertDone(await del.output);
        const without = rulesOf(host);
        assertDone(await daemon.call(type, "ADD", call).output);
        const attached = rulesOf(host);
        assertNotEquals(attached, without);
        scene.go();
        daemon.signal("SIGCONT");
        await eventually(
          "the DEL has ended",
          async () => (await daemon.story()).length === 2,
        );
        assertEquals(rulesOf(host), attached);
        assertDone(await daemon.call(type, "DEL", call).output);
        assertEquals(rulesOf(host), without);
      });
    }, ([type]) => type);
  },
);

/** Plugins whose ADD waits for another program, and what a second ADD adds. */
const stoppedInAdd: [
  type: string,
  first: Record<string, unknown>,
  second: Record<string, unknown>,
][] = [
  ["portmap", portmapOf(8080), portmapOf(8081)],
  ["firewall", firewallOf("10.1.2.3"), firewallOf("10.1.2.4")],
];

function portmapOf(hostPort: number): Record<string, unknown> {
  const portMappings = [{ hostPort, containerPort: 80, protocol: "tcp" }];
  return { ...CHAINED, type: "portmap", runtimeConfig: { portMappings } };
}

function firewallOf(ip: string): Record<string, unknown> {
  const prevResult = { cniVersion: "1.0.0", ips: [{ address: `${ip}/24` }] };
  return { ...CHAINED, type: "firewall", prevResult };
}

rootTest(
  "daemon: a daemon that was stopped in an ADD changes no rules of a later ADD",
  allOf(needsBin, needsIptables()),
  async (t) => {
    await eachRow(t, stoppedInAdd, async ([type, first, second]) => {
      await Scene.start(async (scene, daemon) => {
        const { hosts: { host }, plugins: { path } } = scene;
        for (const name of IPTABLES) {
          scene.plugins.add(name, SLOW_IPTABLES(path, name));
        }
        const env = { PATH: `${path}:/usr/sbin:/usr/bin:/sbin:/bin` };
        const run = async (command: string): Promise<void> =>
          assertDone(
            await daemon.call(type, command, { config: second, env }).output,
          );
        // The chains that all attachments share.
        await run("ADD");
        await run("DEL");
        const without = rulesOf(host);
        scene.plugins.addFile("held", "");
        const add = daemon.call(type, "ADD", { config: first, env });
        await eventually(
          "it waits",
          () => findFileId(`${path}/waits`) !== undefined,
        );
        daemon.signal("SIGSTOP");
        Deno.removeSync(`${path}/held`);
        add.kill();
        await add.output;
        await run("DEL");
        await run("ADD");
        const attached = rulesOf(host);
        assertNotEquals(attached, without);
        scene.go();
        daemon.signal("SIGCONT");
        await eventually(
          "the ADD has ended",
          async () => (await daemon.story()).length === 3,
        );
        assertEquals(rulesOf(host), attached);
        await run("DEL");
        assertEquals(rulesOf(host), without);
      });
    }, ([type]) => type);
  },
);

test(
  "makes ADD fail when it is killed, and DEL runs locally",
  async (scene, daemon) => {
    const add = daemon.call("ptp", "ADD", scene.slow);
    await scene.slowCalls("ADD test-container");
    daemon.signal("SIGKILL");
    const output = await add.output;
    assertEquals([output.code, codeIn(output)], [1, 11], output.stdout);
    scene.go();
    assertDone(await daemon.call("ptp", "DEL", scene.slow).output);
    scene.assertNothingIsLeft();
  },
);

test(
  "finishes its calls at SIGTERM, and accepts no others",
  async (scene, daemon) => {
    const add = daemon.call("ptp", "ADD", scene.slow);
    await scene.slowCalls("ADD test-container");
    daemon.signal("SIGTERM");
    await daemon.says("msg=ending");
    // Whoever still finds it is told that it is not ready.
    const sandbox = scene.hosts.addNetns();
    const other = { ...scene.quick, sandbox, containerId: "c2" };
    assertDone(await daemon.call("ptp", "ADD", other).output);
    assertDone(await daemon.call("ptp", "DEL", other).output);
    scene.go();
    assertDone(await add.output);
    assertEquals(await daemon.ended(), 0);
    // It may decline calls before its socket's file is removed.
    const taken = (await daemon.story()).filter((one) =>
      !one.endsWith("declined")
    );
    assertEquals(taken, ["ptp ADD 0"]);
    const left = [...Deno.readDirSync(daemon.directory)].map(({ name }) =>
      name
    );
    assertEquals(left, [".lock"]);
  },
);

test("hands its sockets to its successor, and exits", async (scene, old) => {
  const add = old.call("ptp", "ADD", scene.slow);
  await scene.slowCalls("ADD test-container");
  const daemon = await scene.addDaemon();
  await old.says("another daemon has taken");
  assertDone(
    await daemon.call("ptp", "STATUS", withVersion(scene.quick)).output,
  );
  scene.go();
  assertDone(await add.output);
  assertEquals(await old.ended(), 0);
  assertEquals(await old.story(), ["ptp ADD 0"]);
  assertDone(await daemon.call("ptp", "DEL", scene.slow).output);
  assertEquals(await daemon.story(), ["ptp STATUS 0", "ptp DEL 0"]);
  scene.assertNothingIsLeft();
});

test(
  "leaves the record of local calls to its successor",
  async (scene, old) => {
    const add = old.call("ptp", "ADD", scene.slow);
    await scene.slowCalls("ADD test-container");
    const daemon = await scene.addDaemon();
    await old.says("another daemon has taken");
    daemon.signal("SIGSTOP");
    Deno.writeTextFileSync(offFile(daemon.socket), "");
    add.kill();
    await add.output;
    assertEquals(await old.ended(), 0);
    assert(findFileId(offFile(daemon.socket)) !== undefined);
    daemon.signal("SIGCONT");
    assertEquals(await old.story(), ["ptp ADD 11"]);
    assertDone(await daemon.call("ptp", "DEL", scene.slow).output);
    scene.assertNothingIsLeft();
  },
);

function withVersion({ config, ...call }: ReceivedCall): ReceivedCall {
  return { ...call, config: { ...config, cniVersion: "1.1.0" } };
}

test(
  "restores removed sockets, and replaces sockets of a dead daemon",
  async (scene, daemon) => {
    const add = daemon.call("ptp", "ADD", scene.slow);
    await scene.slowCalls("ADD test-container");
    for (const name of ["daemon.sock", "multus.sock"]) {
      Deno.removeSync(`${daemon.directory}/${name}`);
    }
    await eventually("they are there again", async () => {
      try {
        return (await daemon.ask("/healthz")).status === 200 &&
          Deno.lstatSync(daemon.socket).isSocket === true;
      } catch {
        return false;
      }
    });
    // The call on the socket that was there before goes on.
    scene.go();
    assertDone(await add.output);
    daemon.signal("SIGKILL");
    await daemon.ended();
    const next = await scene.addDaemon();
    assertDone(await next.call("ptp", "DEL", scene.slow).output);
    assertEquals(await next.story(), ["ptp DEL 0"]);
    scene.assertNothingIsLeft();
  },
);

/** Talks to a daemon as any program could. */
async function talk(
  { socket }: NodeDaemon,
  what: string | Uint8Array<ArrayBuffer>,
): Promise<Message[]> {
  using connection = await Deno.connect({ transport: "unix", path: socket });
  const answer = readAll(connection);
  try {
    let bytes = typeof what === "string"
      ? new TextEncoder().encode(what)
      : what;
    while (bytes.length > 0) {
      bytes = bytes.subarray(await connection.write(bytes));
    }
  } catch {
    // It has heard enough.
  }
  return await answer;
}

async function readAll(connection: Deno.Conn): Promise<Message[]> {
  const buffer = new Uint8Array(1000);
  let bytes = new Uint8Array();
  try {
    for (;;) {
      const length = await connection.read(buffer);
      if (length === null) break;
      bytes = concat([bytes, buffer.subarray(0, length)]);
    }
  } catch {
    // ECONNRESET
  }
  return decodeMessages(bytes).messages;
}

test("declines malformed requests, and continues", async (scene, daemon) => {
  const malformed = [{ declined: "malformed request" }];
  for (const text of ["hello\n", '{"v":1}\n', "cnicall1", "x".repeat(200)]) {
    assertEquals(await talk(daemon, text), malformed, text);
  }
  const request = encodeRequest({
    build: "another",
    name: "ptp",
    env: {},
    stdin: new Uint8Array(),
  });
  assertEquals(await talk(daemon, request), [{ declined: "another build" }]);
  const longer = concat([request, request]);
  assertEquals(await talk(daemon, longer), malformed);
  const noEnd = request.with(-1, 0);
  assertEquals(await talk(daemon, noEnd), malformed);
  const endless = concat([request.slice(0, -1), new Uint8Array(17 * 2 ** 20)]);
  new BigUint64Array(endless.buffer, 0, 5)[4] = 2n ** 62n;
  // It may be gone before this end has said all.
  for (const message of await talk(daemon, endless)) {
    assertEquals(message, { declined: "request too long" });
  }
  assertDone(await daemon.call("ptp", "DEL", scene.quick).output);
});

test("serves other callers while slow callers send", async (scene, daemon) => {
  await using dawdlers = new AsyncDisposableStack();
  const started = Array.from({ length: 200 }, async () => {
    const connection = await Deno.connect({
      transport: "unix",
      path: daemon.socket,
    });
    dawdlers.defer(() => ignoreClosed(() => connection.close()));
    try {
      await connection.write(new TextEncoder().encode(MAGIC.slice(0, -1)));
    } catch {
      // A process may not have so many of them.
    }
  });
  await Promise.all(started);
  assertDone(await daemon.call("ptp", "DEL", scene.quick).output);
});

test("keeps no more than 64 MiB of requests", async (scene, daemon) => {
  const header = new BigUint64Array(HEADER_BYTES / WORD_BYTES).fill(0n);
  header[lengthAt("stdin") / WORD_BYTES] = 15n * 2n ** 20n;
  const begin = new Uint8Array(header.buffer);
  begin.set(new TextEncoder().encode(MAGIC));
  // All but the end of a request.
  const endless = concat([begin, new Uint8Array(15 * 2 ** 20 - 1)]);
  const before = memoryOf(daemon);
  let most = 0;
  await using senders = new AsyncDisposableStack();
  const sending = Array.from({ length: 100 }, async () => {
    const connection = await Deno.connect({
      transport: "unix",
      path: daemon.socket,
    });
    senders.defer(() => ignoreClosed(() => connection.close()));
    try {
      for (let rest = endless; rest.length > 0;) {
        rest = rest.subarray(await connection.write(rest));
        most = Math.max(most, memoryOf(daemon));
      }
    } catch {
      // It was declined.
    }
  });
  await Promise.all(sending);
  // Callers are served during that time.
  assertDone(await daemon.call("ptp", "ADD", scene.quick).output);
  assertDone(await daemon.call("ptp", "DEL", scene.quick).output);
  assertEquals(await daemon.story(), ["ptp ADD 0", "ptp DEL 0"]);
  const { body } = await daemon.ask("/state");
  const { calls }: StateDocument = JSON.parse(body);
  const reasons = calls.reasons.map(({ reason }) => reason).toSorted();
  // All are of one process.
  const expected = ["too many bytes of requests", "too many connections"];
  assertEquals([reasons, calls.left], [expected, 96]);
  assert(most - before < 128, `${before} MiB, then ${most} MiB`);
  await senders.disposeAsync();
  await eventually(
    "memory is given back",
    () => memoryOf(daemon) < before + 20,
  );
});

function ignoreClosed(close: () => void): void {
  try {
    close();
  } catch {
    // The other end has closed it.
  }
}

/** Returns the memory that a daemon uses, in MiB. */
function memoryOf({ pid }: NodeDaemon): number {
  const status = Deno.readTextFileSync(`/proc/${pid}/status`);
  return Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1]) / 1024;
}

test(
  "accepts calls with few open files and many idle connections",
  async (scene, daemon) => {
    await using idle = new AsyncDisposableStack();
    for (let count = 0; count < 60; count++) {
      const connection = await Deno.connect({
        transport: "unix",
        path: daemon.socket,
      });
      idle.defer(() => ignoreClosed(() => connection.close()));
    }
    const overTcp = inNetns(scene.hosts.host, () => connectIdly());
    idle.defer(() => stopIdling(overTcp));
    const scraped = await new Response(overTcp.stdout).text();
    assertMatch(scraped, /^HTTP\/1.1 200 OK\r\n[^]*\ncni_daemon_/);
    for (let call = 0; call < 3; call++) {
      assertDone(await daemon.call("ptp", "ADD", scene.quick).output);
      assertDone(await daemon.call("ptp", "DEL", scene.quick).output);
    }
    assertEquals((await daemon.story()).length, 6);
    const calls = Array.from({ length: 6 }, (_, index) => ({
      ...scene.quick,
      containerId: `c${index}`,
      sandbox: scene.hosts.addNetns(),
    }));
    for (const command of ["ADD", "DEL"]) {
      const outputs = calls
        .map((call) => daemon.call("ptp", command, call).output);
      for (const output of await Promise.all(outputs)) assertDone(output);
    }
    scene.assertNothingIsLeft();
  },
  {
    args: ["--metrics-address=127.0.0.1:9468"],
    wrapper: ["prlimit", "--nofile=40:40"],
  },
);

/** Opens 200 connections, and then prints the metrics; keeps all open. */
function connectIdly(): Deno.ChildProcess {
  const script = `for i in {1..200}; do exec {fd}<>/dev/tcp/127.0.0.1/9468; done
    exec {fd}<>/dev/tcp/127.0.0.1/9468
    printf 'GET /metrics HTTP/1.1\\r\\nHost: a\\r\\nConnection: close\\r\\n\\r\\n' >&$fd
    timeout 60 cat <&$fd
    exec >&-
    read`;
  return new Deno.Command("bash", {
    args: ["-c", script],
    stdin: "piped",
    stdout: "piped",
  }).spawn();
}

async function stopIdling(child: Deno.ChildProcess): Promise<void> {
  await child.stdin.close();
  await child.status;
}

test(
  "closes connections of other users",
  async (scene, daemon) => {
    // As if an administrator had opened the way to it.
    for (const path of [daemon.socket, daemon.directory]) {
      Deno.chmodSync(path, 0o777);
    }
    for (
      let directory = daemon.directory;
      directory.includes("/cni-test-");
      directory = directory.slice(0, directory.lastIndexOf("/"))
    ) Deno.chmodSync(directory, 0o777);
    const wrapper = ["setpriv", "--reuid=65534", "--clear-groups", "--"];
    await daemon.call("ptp", "DEL", { ...scene.quick, wrapper }).output;
    await daemon.says("Refused a caller that belongs to a different user");
    assertEquals(await daemon.story(), []);
  },
  {},
  allOf(needsBin, needsOtherCaller),
);

rootTest(
  "daemon: does not leave its namespace if it cannot return",
  allOf(needsBin, needsUserNamespaces()),
  async () => {
    await using scene = new Scene();
    const { directory } = scene.hosts;
    const config = JSON.stringify({
      cniVersion: "1.0.0",
      name: "net1",
      type: "ptp",
      daemonSocket: `${directory}/run/daemon.sock`,
      ipam: scene.quick.config["ipam"],
    });
    // Root of a user namespace may leave the host's network namespace, but not
    // enter it again.
    const script = `
    ${BIN}/cni daemon --socket-dir=${directory}/run --no-warm-up --no-heal & daemon=$!
    while test ! -e ${directory}/run/multus.sock; do sleep 0.02; done
    unshare --net sleep 100 & sandbox=$!
    while test "$(readlink /proc/$sandbox/ns/net)" = "$(readlink /proc/self/ns/net)"; do sleep 0.02; done
    export CNI_COMMAND=ADD CNI_CONTAINERID=c1 CNI_IFNAME=eth0 CNI_PATH=${BIN}
    echo '${config}' | CNI_NETNS=/proc/$sandbox/ns/net ${BIN}/ptp
    echo "caller: $?"
    kill $daemon
    wait $daemon
    echo "daemon: $?"
    kill $sandbox`;
    const command = new Deno.Command("unshare", {
      args: ["--user", "--map-root-user", "sh", "-c", script],
      stdout: "piped",
      stderr: "piped",
    });
    const child = inNetns(scene.hosts.host, () => command.spawn());
    const { stdout, stderr } = await child.output();
    const decoder = new TextDecoder();
    const text = decoder.decode(stdout);
    assertMatch(text, /"code": 999,[^}]*"details": "setns: EPERM"/);
    assertMatch(text, /caller: 1\ndaemon: 0\n$/);
    assertMatch(decoder.decode(stderr), /command=ADD .* code=999/);
  },
);

/** Prints what arrives as datagrams: `perl -e SCRIPT PATH`, or `@` and a name. */
const RECEIVER = `use Socket; $| = 1;
  ($path = $ARGV[0]) =~ s/^@/\\0/;
  socket(S, AF_UNIX, SOCK_DGRAM, 0) && bind(S, sockaddr_un($path)) or die $!;
  print "listening\\n";
  while (defined recv(S, $text, 100, 0)) { print "$text\\n"; }`;

rootTest(
  "daemon: notifies the service manager that it is ready, alive, and stopping",
  allOf(needsBin, ignoreUnless(hasCommand("perl"), "needs perl")),
  async () => {
    for (const abstract of [true, false]) {
      await using scene = new Scene();
      const { directory } = scene.hosts;
      const path = `${abstract ? "@" : ""}${directory}/notify`;
      const receiver = inNetns(
        scene.hosts.host,
        () =>
          new Deno.Command("perl", {
            args: ["-e", RECEIVER, path],
            stdout: "piped",
          }).spawn(),
      );
      let told = "";
      const reading = receiver.stdout.pipeThrough(new TextDecoderStream())
        .pipeTo(
          new WritableStream({ write: (text) => void (told += text) }),
        );
      await eventually("it listens", () => told === "listening\n");
      const env = { NOTIFY_SOCKET: path, WATCHDOG_USEC: "100000" };
      const daemon = await scene.addDaemon({ env });
      await eventually("it is ready", () => told.includes("READY=1\n"));
      await eventually(
        "it lives",
        () => told.endsWith("WATCHDOG=1\n".repeat(3)),
      );
      daemon.signal("SIGSTOP");
      await pause(100);
      const [before] = [told];
      await pause(300);
      assertEquals(told, before);
      daemon.signal("SIGCONT");
      await eventually("it lives again", () => told !== before);
      daemon.signal("SIGTERM");
      await eventually("it stops", () => told.includes("STOPPING=1\n"));
      assertEquals(await daemon.ended(), 0);
      receiver.kill();
      await receiver.status;
      await reading;
    }
  },
);

Deno.test({
  name:
    `daemon: refuses a directory in which others can write${needsBin.suffix}`,
  ignore: needsBin.ignore,
  fn(): void {
    const directory = Deno.makeTempDirSync({ prefix: "cni-test-" });
    Deno.chmodSync(directory, 0o777);
    const { code, stderr } = new Deno.Command(`${BIN}/cni`, {
      args: [
        "daemon",
        `--socket-dir=${directory}`,
        "--no-warm-up",
        "--no-heal",
      ],
    }).outputSync();
    Deno.removeSync(directory, { recursive: true });
    assertEquals(code, 1);
    assertMatch(new TextDecoder().decode(stderr), /can write to it/);
  },
});
