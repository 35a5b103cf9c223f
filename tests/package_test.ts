/**
 * A release on a machine that a real systemd runs, by the Debian package and by the
 * archive: installed, upgraded while containers run, taken back to the version
 * before, and removed.
 */

import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { allOf, hasCommand, ignoreUnless } from "../testing/capabilities.ts";
import { eventually } from "./_harness/eventually.ts";
import { needsBin } from "./_harness/executables.ts";
import {
  putPackage,
  unlessRelease,
  unpackRelease,
} from "./_harness/release_files.ts";
import { needsSystemd, SystemdNode } from "./_harness/systemd_node.ts";

const { ignore, suffix } = unlessRelease(allOf(
  needsBin,
  needsSystemd,
  ignoreUnless(hasCommand("dpkg-deb"), "needs dpkg-deb"),
));

/** Where the node sees both releases. */
const SHOWN = "/srv";
const INSTALL = "install /opt/cni/bin --only ptp,bandwidth,sbr,host-local";
const CONFIG_FILE = "/etc/cni/net.d/10-pods.conflist";

const NETWORK = { cniVersion: "1.0.0", name: "pods" };
const RATES = { ingressRate: 8_000_000, ingressBurst: 80_000 };
const PLUGINS = [
  {
    type: "ptp",
    ipMasq: true,
    ipam: {
      type: "host-local",
      subnet: "10.22.0.0/24",
      routes: [{ dst: "0.0.0.0/0" }],
    },
  },
  { type: "bandwidth", ...RATES },
  { type: "sbr" },
];

/** Attaches and detaches a container until /root/stop exists. */
const LOOP = `#!/bin/sh
export CNI_NETNS=/run/netns/other CNI_IFNAME=eth0 CNI_PATH=/opt/cni/bin
export CNI_CONTAINERID=other
: >/root/failed
n=0
until [ -e /root/stop ]; do
  n=$((n + 1))
  for command in ADD DEL; do
    CNI_COMMAND=$command /opt/cni/bin/ptp </root/config >/root/answer ||
      cat /root/answer >>/root/failed
  done
  echo $n >/root/count
  sleep 0.1  # leaves the processor to the change
done
`;

/** Who runs the calls of a pod: its own processes, or the node daemon. */
type By = "daemon" | "process";

/** A pod, as a runtime attaches it: a process for each plugin. */
class Pod {
  readonly #node: SystemdNode;
  readonly id: string;
  #result: unknown;

  private constructor(node: SystemdNode, id: string) {
    [this.#node, this.id] = [node, id];
  }

  static async add(node: SystemdNode, id: string, by: By): Promise<Pod> {
    await node.get(`ip netns add ${id}`);
    const pod = new Pod(node, id);
    for (const plugin of PLUGINS) {
      pod.#result = JSON.parse(await pod.#call("ADD", plugin, by));
    }
    return pod;
  }

  async check(by: By = "daemon"): Promise<void> {
    for (const plugin of PLUGINS) await this.#call("CHECK", plugin, by);
  }

  async del(by: By = "daemon"): Promise<void> {
    for (const plugin of PLUGINS.toReversed()) {
      await this.#call("DEL", plugin, by);
    }
    await this.#node.get(`ip netns del ${this.id}`);
  }

  #call(
    command: string,
    plugin: (typeof PLUGINS)[number],
    by: By,
  ): Promise<string> {
    const prevResult = this.#result;
    const config = {
      ...NETWORK,
      ...plugin,
      ...prevResult !== undefined && { prevResult },
    };
    const env = [
      `CNI_COMMAND=${command} CNI_CONTAINERID=${this.id} CNI_IFNAME=eth0`,
      `CNI_NETNS=/run/netns/${this.id} CNI_PATH=/opt/cni/bin`,
      ...by === "process" ? ["CNI_NO_DAEMON=1"] : [],
    ];
    return this.#node.get(
      `echo '${JSON.stringify(config)}' |
      ${env.join(" ")} /opt/cni/bin/${plugin.type}`,
    );
  }
}

/** Lists what the kernel and the leases have of pods. */
async function readState(
  node: SystemdNode,
  ...pods: readonly Pod[]
): Promise<string> {
  const commands = [
    "ip -o -d link",
    "ip -o -4 addr",
    "ip -4 route show table all",
    "ip rule",
    "tc qdisc",
  ];
  const all = [
    ...commands,
    "nft --stateless list ruleset",
    // At first it has none.
    "tail -n +1 /var/lib/cni/networks/pods/10.* || true",
    ...pods.flatMap(({ id }) =>
      commands.map((command) => `ip netns exec ${id} ${command}`)
    ),
  ];
  return await node.get(
    all.map((command) => `{ ${command}; } 2>&1`).join("\n"),
  );
}

/** Lists the files that packages and plugins may change, with mode and digest. */
async function listFiles(node: SystemdNode): Promise<string> {
  const places = "/opt /etc /usr /run/cni /var/lib/cni";
  return await node.get(`cd / && {
    find ${places} -printf '%y %m %p %l\\n'
    find ${places} -type f -exec md5sum {} +
  } 2>/dev/null | grep -v /etc/ld.so.cache | sort`);
}

/** Runs apt on the directories of both releases. */
async function apt(node: SystemdNode, args: string): Promise<string> {
  return await node.get(
    `apt-get -q -y -o Dir::Etc::SourceList=/root/sources.list ` +
      `-o Dir::Etc::SourceParts=- -o APT::Sandbox::User=root ${args}`,
  );
}

/** Asserts which release's executable is installed, and run by the daemon. */
async function assertRuns(
  node: SystemdNode,
  executable: string,
): Promise<void> {
  await node.get(`cmp ${executable} /opt/cni/bin/cni`);
  const status = await node.get("/opt/cni/bin/cni daemon status --json");
  assertEquals(JSON.parse(status).running, true);
  assertEquals(await node.get("systemctl is-active cni-daemon"), "active");
  // It runs calls of this build only.
  const pid = await node.get("systemctl show cni-daemon -P MainPID");
  await node.get(`cmp /proc/${pid}/exe /opt/cni/bin/cni`);
}

/** Asserts the version of the package, and that its executable runs. */
async function assertPackage(
  node: SystemdNode,
  version: string,
): Promise<void> {
  const query = "dpkg-query --show --showformat='${Version}' cni-plugins";
  assertEquals(await node.get(query), version);
  await assertRuns(node, "/usr/lib/cni-plugins/cni");
}

/** Counts the calls that daemons have run. */
async function countCalls(node: SystemdNode): Promise<number> {
  const text = await node.get(
    "journalctl --quiet --unit=cni-daemon --output=cat | grep -c msg=call || true",
  );
  return Number(text);
}

/** Changes the node while a container is attached and detached all the time. */
async function whileCallsRun(
  node: SystemdNode,
  change: () => Promise<unknown>,
): Promise<void> {
  await node.get("rm -f /root/stop /root/count && ip netns add other");
  const looping = node.get("/root/loop");
  const count = async (): Promise<number> =>
    Number(await node.get("cat /root/count 2>/dev/null || echo 0"));
  const runOn = async (): Promise<void> => {
    const soFar = await count();
    await eventually("calls run", async () => await count() > soFar + 2);
  };
  try {
    await runOn();
    await change();
    await runOn();
  } finally {
    await node.get("touch /root/stop");
    await looping;
  }
  assertEquals(await node.get("cat /root/failed; ip netns del other"), "");
}

/** The first steps of tests of both forms. */
class Scene implements AsyncDisposable {
  readonly node: SystemdNode;
  readonly #directory: string;
  readonly versions: Readonly<Record<"before" | "now", string>>;

  private constructor(
    node: SystemdNode,
    directory: string,
    versions: Scene["versions"],
  ) {
    [this.node, this.#directory] = [node, directory];
    this.versions = versions;
  }

  static async create(): Promise<Scene> {
    const directory = await Deno.makeTempDir({ prefix: "cni-test-" });
    try {
      const versions = { before: "", now: "" };
      for (const which of ["before", "now"] as const) {
        const content = `${directory}/${which}`;
        await unpackRelease(which, "", content);
        await Deno.mkdir(`${content}-apt`);
        versions[which] = await putPackage(which, content, `${content}-apt`);
      }
      await Deno.chmod(directory, 0o755);
      const node = await SystemdNode.boot({ [SHOWN]: directory });
      const scene = new Scene(node, directory, versions);
      await scene.#prepare();
      return scene;
    } catch (error) {
      await Deno.remove(directory, { recursive: true });
      throw error;
    }
  }

  async #prepare(): Promise<void> {
    const { node } = this;
    const write = (path: string, text: string, mode = 0o644): void =>
      Deno.writeTextFileSync(node.pathOf(path), text, { mode });
    write(
      "/root/sources.list",
      ["before", "now"].map((which) =>
        `deb [trusted=yes] file:${SHOWN}/${which}-apt ./\n`
      ).join(""),
    );
    write("/root/loop", LOOP, 0o755);
    write("/root/config", JSON.stringify({ ...NETWORK, ...PLUGINS[0] }));
    // Other projects' plugins, and what their containers had.
    await node.get(
      `mkdir -p /opt/cni/bin /var/lib/cni /etc/cni/net.d &&
      echo another >/opt/cni/bin/ptp && echo third >/opt/cni/bin/cilium-cni &&
      chmod 755 /opt/cni/bin/ptp && ln -s ptp /opt/cni/bin/bandwidth`,
    );
    await apt(node, "update");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.node[Symbol.asyncDispose]();
    await Deno.remove(this.#directory, { recursive: true });
  }
}

Deno.test({
  name:
    "package: a release is installed, upgraded while containers run, taken " +
    "back and removed, by apt and from its archive" + suffix,
  ignore,
  async fn(t): Promise<void> {
    await using scene = await Scene.create();
    const { node, versions } = scene;
    const before = await listFiles(node);
    const pods: Pod[] = [];
    const checkAll = async (): Promise<void> => {
      for (const pod of pods) await pod.check();
    };
    /** Changes the version: what containers have stays, and no call fails. */
    const changeVersion = async (
      change: () => Promise<unknown>,
    ): Promise<void> => {
      const state = await readState(node, ...pods);
      await whileCallsRun(node, change);
      assertEquals(await readState(node, ...pods), state);
      await checkAll();
    };

    await t.step("the package replaces no plugin", async () => {
      const plugins = await node.get("ls -lA /opt/cni/bin");
      await apt(node, `install cni-plugins=${versions.before}`);
      assertEquals(await node.get("ls -lA /opt/cni/bin"), plugins);
      await apt(node, "remove cni-plugins");
      assertEquals(await listFiles(node), before);
    });

    await t.step("cni install does, and starts the daemon", async () => {
      await apt(node, `install cni-plugins=${versions.before}`);
      assertMatch(await node.get(`cni ${INSTALL}`), /^daemon {6}started$/m);
      await assertPackage(node, versions.before);
    });

    await t.step("calls run in processes and in the daemon", async () => {
      const state = await readState(node);
      for (const by of ["process", "daemon"] as const) {
        const pod = await Pod.add(node, "once", by);
        await pod.check(by);
        await pod.del(by);
        assertEquals(await readState(node), state);
      }
      const calls = 3 * PLUGINS.length;
      await eventually(
        `the daemon has run ${calls} calls`,
        async () => await countCalls(node) === calls,
      );
      pods.push(await Pod.add(node, "one", "process"));
      pods.push(await Pod.add(node, "two", "daemon"));
    });

    await t.step("an upgrade updates plugins and daemon", async () => {
      const names = await node.get("ls -A /opt/cni/bin");
      await changeVersion(() => apt(node, "upgrade"));
      await assertPackage(node, versions.now);
      assertEquals(await node.get("ls -A /opt/cni/bin"), names);
      await pods.pop()?.del();
      pods.push(await Pod.add(node, "three", "daemon"));
    });

    await t.step("the previous version is restored", async () => {
      await changeVersion(() =>
        apt(node, `install --allow-downgrades cni-plugins=${versions.before}`)
      );
      await assertPackage(node, versions.before);
    });

    await t.step("plugins that a network needs are kept", async () => {
      const list = { ...NETWORK, plugins: PLUGINS };
      const text = JSON.stringify(list);
      await Deno.writeTextFile(node.pathOf(CONFIG_FILE), text);
      const said = await apt(node, "remove cni-plugins");
      assertStringIncludes(said, `${CONFIG_FILE} needs`);
      assertStringIncludes(said, "The plugins stay in /opt/cni/bin");
      await checkAll();
      await node.get(`rm ${CONFIG_FILE}`);
      await apt(node, `install cni-plugins=${versions.before}`);
      await assertPackage(node, versions.before);
    });

    await t.step("removing the package restores the files", async () => {
      while (pods.length > 0) await pods.pop()?.del();
      assertEquals(await node.get("ip -o link | grep -c veth || true"), "0");
      await apt(node, "remove cni-plugins");
      await node.get("rm -rf /var/lib/cni/*");
      assertEquals(await listFiles(node), before);
    });

    await t.step("the archive is installed in the same way", async () => {
      const bin = (which: string): string => `${SHOWN}/${which}/bin/cni`;
      const install = (which: string): Promise<string> =>
        node.get(`${bin(which)} ${INSTALL}`);
      assertMatch(await install("before"), /^daemon {6}started$/m);
      pods.push(await Pod.add(node, "one", "process"));
      pods.push(await Pod.add(node, "two", "daemon"));
      await changeVersion(() => install("now"));
      await assertRuns(node, bin("now"));
      await pods.pop()?.del();
      await changeVersion(() => install("before"));
      await assertRuns(node, bin("before"));
      await pods.pop()?.del();
      await node.get("/opt/cni/bin/cni uninstall /opt/cni/bin");
      await node.get("rm -rf /var/lib/cni/*");
      assertEquals(await listFiles(node), before);
    });
  },
});
