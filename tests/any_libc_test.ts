/**
 * The executables of an archive for any libc, on hosts without glibc: in a root that
 * has nothing but a static busybox, and in one with musl.
 */

import { assertEquals, assertStringIncludes } from "@std/assert";
import { dirname } from "@std/path/posix";
import { ensureUnpacked } from "../scripts/setup/debian_packages.ts";
import { run } from "../scripts/project.ts";
import {
  allOf,
  hasCommand,
  ignoreUnless,
  rootTest,
} from "../testing/capabilities.ts";
import { execIn, type ExecOutput } from "../testing/exec_in.ts";
import { stockOf } from "../testing/ip_json.ts";
import { TestHosts } from "../testing/test_hosts.ts";
import { actingRules } from "./_harness/acting_rules.ts";
import { needsBin } from "./_harness/executables.ts";
import { withMounts } from "./_harness/host_programs.ts";
import { readStory } from "./_harness/node_daemon.ts";
import {
  unlessRelease,
  unpackRelease,
  type Which,
} from "./_harness/release_files.ts";

/** Debian packages, which are only unpacked. */
const PACKAGES = ["busybox-static", "musl"];

const UNPACKED = new URL("../build/small-root", import.meta.url).pathname;

/** What a root has besides the executables: a shell, and perhaps musl as its libc. */
type RootKind = "busybox" | "musl";

/** Reports whether roots can be made on this machine. */
async function hasSmallRoot(): Promise<boolean> {
  return await ensureUnpacked(PACKAGES, UNPACKED);
}

/** Both archives, unpacked once; roots have links to the same files. */
let archives: Promise<string> | undefined;

async function unpack(): Promise<string> {
  const directory = await Deno.makeTempDir({ prefix: "cni-test-" });
  addEventListener(
    "unload",
    () => Deno.removeSync(directory, { recursive: true }),
  );
  for (const which of ["before", "now"] as const) {
    await unpackRelease(which, "-any", `${directory}/${which}`);
  }
  return directory;
}

/** A root directory in which programs run, in a mount namespace of their own. It has a
 * /run of its own, and so none of the machine's daemons. */
class SmallRoot {
  readonly #directory: string;
  /** The root. */
  readonly path: string;

  private constructor(directory: string) {
    this.#directory = directory;
    this.path = `${directory}/root`;
  }

  /**
   * Makes a root.
   *
   * @param directory Where; the caller removes it. Programs in the root see it, too
   */
  static async create(directory: string, kind: RootKind): Promise<SmallRoot> {
    const root = new SmallRoot(directory);
    const { path } = root;
    for (const name of ["bin", "proc", "sys", "run", "tmp", "etc", "dev"]) {
      await Deno.mkdir(`${path}/${name}`, { recursive: true });
    }
    await Deno.copyFile(`${UNPACKED}/bin/busybox`, `${path}/bin/busybox`);
    await Deno.symlink("busybox", `${path}/bin/sh`);
    if (kind === "musl") {
      await run("cp", ["-r", `${UNPACKED}/lib`, `${path}/lib`]);
    }
    await run("cp", ["-al", `${await (archives ??= unpack())}/.`, directory]);
    return root;
  }

  /** Returns the directory of the executables of a release's archive for any libc. */
  archive(which: Which): string {
    return `${this.#directory}/${which}/bin`;
  }

  /**
   * Returns the path of a script that runs a program in the root.
   *
   * @param program Its path in the root
   */
  script(program: string): string {
    const seen = `${this.path}${this.#directory}`;
    const mounts = [
      `mkdir -p "${seen}"`,
      `for name in proc sys dev; do mount --rbind /$name "${this.path}/$name"; done`,
      `mount --bind "${this.#directory}" "${seen}"`,
    ];
    return withMounts(this.#directory, program, mounts, this.path);
  }
}

const DIRECTORY = "/opt/cni/bin";
const PLUGINS = "ptp,bandwidth,sbr,host-local,loopback,multus";
const RATES = { ingressRate: 8_000_000, ingressBurst: 80_000 };

const needs = unlessRelease(allOf(
  needsBin,
  ignoreUnless(
    ["unshare", "chroot", "dpkg-query"].every(hasCommand) &&
      Deno.uid() === 0 && await hasSmallRoot(),
    "needs unshare, chroot, and Debian's busybox-static and musl",
  ),
));

/** Programs of a root, called on a temporary host. */
class Scene implements Disposable {
  readonly hosts: TestHosts;
  readonly root: SmallRoot;

  private constructor(hosts: TestHosts, root: SmallRoot) {
    this.hosts = hosts;
    this.root = root;
  }

  static async create(kind: RootKind): Promise<Scene> {
    const hosts = TestHosts.create();
    return new Scene(hosts, await SmallRoot.create(hosts.directory, kind));
  }

  run(
    program: string,
    args: readonly string[] = [],
    env: Record<string, string> = {},
    stdin = "",
  ): ExecOutput {
    const path = this.root.script(program);
    const PATH = "/usr/bin:/bin:/usr/sbin:/sbin";
    return execIn(this.hosts.host, {
      path,
      args,
      env: { PATH, ...env },
      stdin,
    });
  }

  /** Installs the executables of a release, or updates to it. */
  install(which: Which): void {
    const { code, stdout, stderr } = this.run(
      `${this.root.archive(which)}/cni`,
      [
        "install",
        DIRECTORY,
        `--only=${PLUGINS}`,
      ],
    );
    assertEquals(code, 0, stdout + stderr);
    assertStringIncludes(stdout, ".cni-lib");
  }

  /** Calls a plugin, which has to succeed. */
  // deno-lint-ignore no-explicit-any -- a result
  call(command: string, keys: Record<string, unknown> = {}, type = "ptp"): any {
    const { hosts } = this;
    const config = { cniVersion: "1.1.0", name: "net1", type, ...keys };
    const env = {
      ...hosts.environment(command, { env: { CNI_PATH: DIRECTORY } }),
    };
    const stdin = JSON.stringify(config);
    const { code, stdout, stderr } = this.run(
      `${DIRECTORY}/${type}`,
      [],
      env,
      stdin,
    );
    assertEquals({ code, stderr }, { code: 0, stderr: "" }, stdout);
    return stdout === "" ? undefined : JSON.parse(stdout);
  }

  /** Lists the plugins of a pod, with their keys. */
  plugins(): { readonly type: string; readonly [key: string]: unknown }[] {
    return [
      { type: "ptp", ...this.ptp() },
      { type: "bandwidth", ...RATES },
      { type: "sbr" },
    ];
  }

  ptp(): Record<string, unknown> {
    const routes = [{ dst: "0.0.0.0/0" }, { dst: "::/0" }];
    const leases = this.hosts.hostLocal("10.1.2.0/24", "2001:db8:1::/64");
    return { ipMasq: true, ipam: { ...leases, routes } };
  }

  /**
   * Starts the node daemon as nodes without systemd do, runs commands of `cni` beside
   * it, and ends it.
   *
   * @returns What the daemon ran
   */
  callByDaemon(commands: readonly string[]): string[] {
    const { hosts, root } = this;
    const conf = { cniVersion: "1.1.0", name: "net1" };
    const plugins = this.plugins();
    const confFile = `${root.path}/etc/cni/net.d/net1.conflist`;
    Deno.mkdirSync(dirname(confFile), { recursive: true });
    Deno.writeTextFileSync(confFile, JSON.stringify({ ...conf, plugins }));
    // In one mount namespace, as on a node.
    const script = `
log=/tmp/daemon.log
${DIRECTORY}/cni daemon --detach --no-warm-up --pid-file /tmp/pid 2> $log >&2 || {
  /bin/busybox cat $log >&2
  exit 1
}
pid=$(/bin/busybox cat /tmp/pid)
# A process that nobody waits for stays in /proc, without its executable.
end() {
  kill $pid
  for each in $(/bin/busybox seq 300); do
    [ -e /proc/$pid/exe ] || return 0
    /bin/busybox sleep 0.1
  done
  echo "the daemon does not end" >&2
  exit 1
}
trap end EXIT
for command in ${commands.join(" ")}; do
  ${DIRECTORY}/cni $command net1 ${hosts.sandbox.path} >&2
done
trap - EXIT
end
/bin/busybox cat $log`;
    const { code, stdout, stderr } = this.run("/bin/sh", ["-ec", script]);
    assertEquals(code, 0, stderr);
    Deno.removeSync(confFile);
    return readStory(stdout);
  }

  /** Has multus ask an API server that does not answer; returns the error. */
  askApiServer(server: string): string {
    const { hosts, root } = this;
    const kubeconfig = {
      ...{ apiVersion: "v1", kind: "Config", "current-context": "c" },
      contexts: [{ name: "c", context: { cluster: "c", user: "u" } }],
      clusters: [{ name: "c", cluster: { server } }],
      users: [{ name: "u", user: { token: "t" } }],
    };
    Deno.writeTextFileSync(
      `${root.path}/etc/kubeconfig`,
      JSON.stringify(kubeconfig),
    );
    const network = { cniVersion: "1.1.0", name: "net1" };
    const config = {
      ...network,
      type: "multus",
      kubeconfig: "/etc/kubeconfig",
      apiTimeoutSeconds: 1,
      delegates: [{ ...network, type: "ptp", ...this.ptp() }],
    };
    const { code, stdout } = this.run(
      `${DIRECTORY}/multus`,
      [],
      hosts.environment("ADD", {
        env: {
          CNI_PATH: DIRECTORY,
          CNI_ARGS: "K8S_POD_NAMESPACE=default;K8S_POD_NAME=a;K8S_POD_UID=u",
        },
      }),
      JSON.stringify(config),
    );
    assertEquals(code, 1, stdout);
    return JSON.parse(stdout).msg;
  }

  state(): unknown {
    const { hosts } = this;
    return [stockOf(hosts), actingRules(hosts.host), hosts.leases()];
  }

  [Symbol.dispose](): void {
    this.hosts[Symbol.dispose]();
  }
}

for (const kind of ["busybox", "musl"] as const) {
  rootTest(`plugins run in a root with ${kind}`, needs, async (t) => {
    using scene = await Scene.create(kind);
    // Of another project.
    const foreign = `${scene.root.path}${DIRECTORY}/ptp`;
    await Deno.mkdir(dirname(foreign), { recursive: true });
    await Deno.writeTextFile(foreign, "another");
    scene.install("now");
    await t.step("VERSION", () => {
      const { cniVersion } = scene.call("VERSION");
      assertEquals(cniVersion, "1.1.0");
    });
    await t.step("ADD, CHECK and DEL of ptp with masquerade", () => {
      const before = scene.state();
      const keys = scene.ptp();
      const prevResult = scene.call("ADD", keys);
      assertEquals(
        prevResult.ips.map(({ address }: { address: string }) => address),
        ["10.1.2.2/24", "2001:db8:1::2/64"],
      );
      scene.call("CHECK", { ...keys, prevResult });
      scene.call("STATUS", keys);
      scene.call("DEL", { ...keys, prevResult });
      assertEquals(scene.state(), before);
    });
    await t.step("a program that a plugin starts gets no variable", () => {
      const file = `${scene.hosts.directory}/environment`;
      Deno.writeTextFileSync(
        `${scene.root.path}${DIRECTORY}/foreign`,
        `#!/bin/sh
/bin/busybox env > ${file}
echo "parent: $(/bin/busybox tr "\\\\0" " " < /proc/$PPID/cmdline)" | /bin/busybox sed "s:/[^ ]*/::" >> ${file}
echo '{ "cniVersion": "1.1.0", "ips": [{ "address": "10.1.2.9/24" }] }'
`,
        { mode: 0o755 },
      );
      const keys = { ipam: { type: "foreign" } };
      const prevResult = scene.call("ADD", keys);
      const found = Deno.readTextFileSync(file);
      assertStringIncludes(found, "CNI_COMMAND=ADD");
      assertEquals(/^LD_|cni-lib/m.exec(found), null);
      scene.call("DEL", { ...keys, prevResult });
    });
    await t.step("the node daemon runs calls", () => {
      const file = `${scene.hosts.directory}/environment`;
      const sockets = `${scene.hosts.directory}/sockets`;
      const keys = {
        ipam: { type: "foreign" },
        daemonSocket: `${sockets}/daemon.sock`,
      };
      const config = {
        cniVersion: "1.1.0",
        name: "net1",
        type: "ptp",
        ...keys,
      };
      // In one mount namespace, as on a node.
      const script = `
env -i PATH=/bin ${DIRECTORY}/cni daemon --socket-dir=${sockets} --no-warm-up &
daemon=$!
tries=0
until [ -S ${sockets}/daemon.sock ] || [ $tries = 600 ]; do
  /bin/busybox sleep 0.1; tries=$((tries + 1))
done
${DIRECTORY}/ptp
code=$?
kill $daemon
wait
exit $code`;
      const { code, stdout, stderr } = scene.run(
        "/bin/sh",
        ["-c", script],
        scene.hosts.environment("ADD", { env: { CNI_PATH: DIRECTORY } }),
        JSON.stringify(config),
      );
      assertEquals(code, 0, stdout + stderr);
      assertStringIncludes(Deno.readTextFileSync(file), "parent: cni daemon");
      scene.call("DEL", { ...keys, prevResult: JSON.parse(stdout) });
    });
    await t.step("cni attaches, checks and detaches through the daemon", () => {
      const before = scene.state();
      assertEquals(scene.callByDaemon(["add", "check", "del"]), [
        ...["ptp ADD 0", "bandwidth ADD 0", "sbr ADD 0"],
        ...["ptp CHECK 0", "bandwidth CHECK 0", "sbr CHECK 0"],
        ...["sbr DEL 0", "bandwidth DEL 0", "ptp DEL 0"],
      ]);
      assertEquals(scene.state(), before);
    });
    await t.step("a container survives a rollback and an upgrade", () => {
      const before = scene.state();
      const plugins = scene.plugins();
      let prevResult: unknown;
      for (const { type, ...keys } of plugins) {
        const given = prevResult === undefined ? {} : { prevResult };
        prevResult = scene.call("ADD", { ...keys, ...given }, type);
      }
      const attached = scene.state();
      for (const which of ["before", "now"] as const) {
        scene.install(which);
        assertEquals(scene.state(), attached);
        for (const { type, ...keys } of plugins) {
          scene.call("CHECK", { ...keys, prevResult }, type);
        }
      }
      for (const { type, ...keys } of plugins.toReversed()) {
        scene.call("DEL", { ...keys, prevResult }, type);
      }
      assertEquals(scene.state(), before);
    });
    await t.step("the name of an API server in /etc/hosts is resolved", () => {
      const { root } = scene;
      Deno.writeTextFileSync(`${root.path}/etc/hosts`, "127.0.0.1 kube.test\n");
      const reached = scene.askApiServer("http://kube.test:1");
      assertStringIncludes(reached, "connection refused");
      const missed = scene.askApiServer("http://other.test:1");
      assertStringIncludes(missed, "lookup other.test");
    });
    await t.step("cni uninstall restores the files", () => {
      Deno.removeSync(`${scene.root.path}${DIRECTORY}/foreign`);
      const { code, stdout, stderr } = scene.run(`${DIRECTORY}/cni`, [
        "uninstall",
        DIRECTORY,
      ]);
      assertEquals(code, 0, stdout + stderr);
      const names = [...Deno.readDirSync(dirname(foreign))];
      assertEquals(names.map(({ name }) => name), ["ptp"]);
      assertEquals(Deno.readTextFileSync(foreign), "another");
    });
  });
}

rootTest(
  "a plugin without its libraries names the missing library",
  needs,
  async () => {
    using scene = await Scene.create("busybox");
    const path = `${scene.root.path}/ptp`;
    await Deno.copyFile(`${scene.root.archive("now")}/cni`, path);
    const { code, stdout, stderr } = scene.run("/ptp", [], {
      CNI_COMMAND: "VERSION",
    });
    assertEquals([code, stderr], [1, ""]);
    const { code: cniCode, msg } = JSON.parse(stdout);
    assertEquals(cniCode, 5);
    assertStringIncludes(msg, 'no ".cni-lib/ld-linux-');
  },
);
