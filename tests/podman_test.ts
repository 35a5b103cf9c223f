/**
 * Containers of a real podman 4, whose network backend is CNI: it runs our
 * executables for `podman network create`, `-p`, `network reload` and `rm`.
 */

import { assertEquals, assertMatch } from "@std/assert";
import { inNetns, type NetNs } from "../ffi/netns.ts";
import {
  allOf,
  hasCommand,
  ignoreUnless,
  type Needs,
  rootTest,
} from "../testing/capabilities.ts";
import { linkNames, runIn } from "../testing/ip_json.ts";
import { TestHosts } from "../testing/test_hosts.ts";
import { actingRules } from "./_harness/acting_rules.ts";
import { eventually } from "./_harness/eventually.ts";
import { BIN, needsBin } from "./_harness/executables.ts";
import { killIfAlive } from "./_harness/process_group.ts";
import { needsInetRules } from "./_harness/rules.ts";

/** podman 5 does not use CNI. */
function hasPodmanOfCni(): boolean {
  if (!hasCommand("podman")) return false;
  const { stdout } = new Deno.Command("podman", { args: ["--version"] })
    .outputSync();
  return /version [34]\./.test(new TextDecoder().decode(stdout));
}

const needsPodman: Needs = ignoreUnless(
  hasPodmanOfCni() && ["busybox", "conmon", "runc"].every(hasCommand),
  "needs podman 4, conmon, runc and a static busybox",
);

/** Podman in mounts and processes of its own, on a host with an uplink. */
class Podman implements AsyncDisposable {
  readonly #host: NetNs;
  readonly #directory: string;
  readonly #group = `cni-test-${crypto.randomUUID().slice(0, 8)}`;
  readonly #outer: Deno.ChildProcess;
  #init = 0;

  private constructor(host: NetNs, directory: string) {
    [this.#host, this.#directory] = [host, directory];
    const script = `mount -t tmpfs none /run
      mount -t tmpfs none /var/lib/cni || mount -t tmpfs none /var/lib
      mkdir -p /run/lock; touch /run/booted
      exec sleep infinity`;
    this.#outer = inNetns(host, () =>
      new Deno.Command("setpriv", {
        args: [
          ...["--pdeathsig=KILL", "unshare", "--mount", "--pid", "--fork"],
          ...["--kill-child", "--mount-proc", "--propagation=private"],
          ...["sh", "-c", script],
        ],
        stdin: "null",
        stdout: "null",
        stderr: "null",
      }).spawn());
  }

  /** Prepares it, with the program of the containers. */
  static async start({ host, directory: root }: TestHosts): Promise<Podman> {
    const directory = `${root}/podman`;
    await Deno.mkdir(`${directory}/rootfs/bin`, { recursive: true });
    for (const name of ["proc", "sys", "dev", "etc", "tmp"]) {
      await Deno.mkdir(`${directory}/rootfs/${name}`);
    }
    const busybox = runIn(host, "sh", "-c", "command -v busybox").trim();
    await Deno.copyFile(busybox, `${directory}/rootfs/bin/busybox`);
    await Deno.writeTextFile(
      `${directory}/containers.conf`,
      `[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
runtime = "runc"
[network]
network_backend = "cni"
cni_plugin_dirs = ["${BIN}"]
network_config_dir = "${directory}/net.d"
`,
    );
    const podman = new Podman(host, directory);
    const { pid } = podman.#outer;
    await eventually("its namespaces exist", () => {
      const path = `/proc/${pid}/task/${pid}/children`;
      podman.#init = Number.parseInt(Deno.readTextFileSync(path));
      return podman.#init > 0 &&
        runIn(host, "sh", "-c", `ls ${podman.#proc}/root/run`)
          .includes("booted");
    });
    return podman;
  }

  get #proc(): string {
    return `/proc/${this.#init}`;
  }

  /** Runs podman; it must succeed. */
  podman(...args: string[]): string {
    const place = (name: string): string => `${this.#directory}/${name}`;
    return this.#run(
      ...["env", `CONTAINERS_CONF=${place("containers.conf")}`, "podman"],
      ...["--root", place("root"), "--runroot", place("run")],
      ...["--tmpdir", place("tmp"), "--storage-driver=vfs", ...args],
    );
  }

  /** Starts a container that runs a program of busybox. */
  runContainer(flags: readonly string[], ...command: string[]): void {
    this.podman(
      ...["run", "--detach", "--cgroups=no-conmon"],
      ...[`--cgroup-parent=/${this.#group}`, ...flags],
      ...["--rootfs", `${this.#directory}/rootfs`, "busybox", ...command],
    );
  }

  /** Runs `cni` where it finds podman's networks. */
  cni(...args: string[]): string {
    const conf = ["--conf-dir", `${this.#directory}/net.d`];
    return this.#run(`${BIN}/cni`, ...args, ...conf, "--cni-path", BIN);
  }

  /** Lists the leases of a network. */
  leases(network: string): string[] {
    const path = `${this.#proc}/root/var/lib/cni/networks/${network}`;
    return [...Deno.readDirSync(path)].map(({ name }) => name)
      .filter((name) => /^[\d.]+$/.test(name));
  }

  #run(...command: string[]): string {
    const enter = ["--target", `${this.#init}`, "--mount", "--pid"];
    return runIn(this.#host, "nsenter", ...enter, ...command);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    try {
      this.podman("rm", "--force", "--all", "--time=0");
    } finally {
      killIfAlive(this.#init);
      await this.#outer.status;
      const remove =
        `find /sys/fs/cgroup -depth -type d -path '*/${this.#group}*' -exec rmdir {} +`;
      await new Deno.Command("sh", { args: ["-c", remove] }).output();
    }
  }
}

rootTest(
  "podman's containers reach each other, forward a port, and leave nothing",
  allOf(needsBin, needsPodman, needsInetRules),
  async () => {
    using hosts = TestHosts.create();
    const { host, sandbox: client } = hosts;
    const uplink = "link add up0 up type veth peer name eth0 netns";
    runIn(host, "ip", ...uplink.split(" "), client.path);
    runIn(host, "ip", "address", "add", "192.0.2.10/24", "dev", "up0");
    runIn(client, "ip", "address", "add", "192.0.2.1/24", "dev", "eth0");
    runIn(client, "ip", "link", "set", "eth0", "up");
    await using scene = await Podman.start(hosts);
    const answers = (): boolean => {
      // podman itself listens on the port, to reserve it, and accepts nothing.
      const script = `exec 3<> /dev/tcp/192.0.2.10/8080
        printf 'GET / HTTP/1.0\\r\\n\\r\\n' >&3; grep -q HTTP <&3`;
      try {
        runIn(client, "timeout", "3", "bash", "-c", script);
        return true;
      } catch {
        return false;
      }
    };

    scene.podman("network", "create", "--subnet=10.89.0.0/24", "web");
    const web = ["--name=web", "--network=web", "--publish=8080:80"];
    scene.runContainer(web, "httpd", "-f", "-p", "80", "-h", "/");
    scene.runContainer(["--name=other", "--network=web"], "sleep", "1000");
    assertEquals(scene.leases("web").toSorted(), ["10.89.0.2", "10.89.0.3"]);
    scene.podman("exec", "other", "busybox", "ping", "-c1", "10.89.0.2");
    await eventually("the port answers", answers);
    assertMatch(scene.cni("list"), /^web .* 10\.89\.0\.2\/24 /m);

    for (
      const restore of [
        () => scene.podman("network", "reload", "--all"),
        () => scene.cni("repair", "--all"),
      ]
    ) {
      runIn(host, "nft", "flush", "ruleset");
      assertEquals(answers(), false);
      restore();
      assertEquals(answers(), true);
      scene.cni("check", "web", "web");
    }

    scene.podman("rm", "--force", "--all", "--time=0");
    assertEquals(scene.leases("web"), []);
    assertEquals(
      linkNames(host).filter((name) => name.startsWith("veth")),
      [],
    );
    assertEquals(
      actingRules(host).filter((rule) => /10\.89|8080/.test(rule)),
      [],
    );
  },
);
