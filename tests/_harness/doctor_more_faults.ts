/**
 * Further faults: those with which operators come to the issues of the Go
 * plugins, multus, containerd, flannel and kind.
 *
 * @module
 */

import { summarizeKernel } from "../../cli/doctor/kernel.ts";
import { buildIdentity } from "../../cni/process/build_identity.ts";
import { UnixListener } from "../../ffi/unix_socket.ts";
import type { DoctorScene } from "./doctor_scene.ts";
import {
  claimed,
  type Fault,
  inOther,
  inPod,
  ip,
  network,
  plugin,
  runtime,
  type Undo,
} from "./doctor_fault.ts";

/** Mounts a file system at a directory of the node, with what it had. */
function mounted(
  pathOf: (scene: DoctorScene) => string,
  options: string,
  fill = ":",
): (scene: DoctorScene) => Undo {
  return (scene) => {
    const path = pathOf(scene);
    scene.sh(
      `mkdir -p ${path} ${path}.kept; cp -a ${path}/. ${path}.kept; ` +
        `mount -t tmpfs -o ${options} doctor ${path}; ` +
        `cp -a ${path}.kept/. ${path}`,
    );
    scene.sh(`(${fill.replaceAll("$path", path)}) 2>/dev/null || true`);
    return () => void scene.sh(`umount ${path}; rm -r ${path}.kept`);
  };
}

const leases = ({ hosts }: DoctorScene): string => `${hosts.directory}/leases`;

/** Changes the mode of a file or directory. */
function mode(
  pathOf: (scene: DoctorScene) => string,
  bits: number,
): (scene: DoctorScene) => Undo {
  return (scene) => {
    const path = pathOf(scene);
    const before = (Deno.statSync(path).mode ?? 0) & 0o777;
    Deno.chmodSync(path, bits);
    return () => Deno.chmodSync(path, before);
  };
}

/** Starts a program that keeps the lock of a network's leases. */
function lockHolder(stop: boolean): (scene: DoctorScene) => Undo {
  return (scene) => {
    const path = `${leases(scene)}/lan/lock`;
    const child = new Deno.Command("flock", {
      args: ["--no-fork", path, "sleep", "1000"],
      stdin: "null",
    }).spawn();
    while (isFree(path));
    if (stop) child.kill("SIGSTOP");
    return () => {
      child.kill("SIGKILL");
      child.unref();
      // It keeps the lock until it has ended.
      while (!isFree(path));
    };
  };
}

function isFree(path: string): boolean {
  using file = Deno.openSync(path, { read: true });
  return file.tryLockSync(true);
}

/** Writes the cache of an attachment anew, with other capability arguments. */
function ports(...files: string[]): (scene: DoctorScene) => Undo {
  return ({ cacheDir }) => {
    const undo = files.map((file) => {
      const path = `${cacheDir}/results/${file}`;
      const text = Deno.readTextFileSync(path);
      const portMappings = [
        { hostPort: 8080, containerPort: 80, protocol: "tcp" },
      ];
      const capabilityArgs = { portMappings };
      Deno.writeTextFileSync(
        path,
        JSON.stringify({ ...JSON.parse(text), capabilityArgs }),
      );
      return (): void => Deno.writeTextFileSync(path, text);
    });
    return () => undo.forEach((one) => one());
  };
}

/** Makes an attachment's namespace a file where nothing is mounted. */
function unmounted({ cacheDir, hosts }: DoctorScene): Undo {
  const path = `${cacheDir}/results/lan-fedcba9876543210-eth0`;
  const text = Deno.readTextFileSync(path);
  const netns = `${hosts.directory}/netns-of-db`;
  Deno.writeTextFileSync(netns, "");
  const document = { ...JSON.parse(text), netns };
  Deno.writeTextFileSync(path, JSON.stringify(document));
  return () => {
    Deno.writeTextFileSync(path, text);
    Deno.removeSync(netns);
  };
}

/** A directory with an iptables that cannot be run, which comes first in PATH. */
function brokenIptables(
  content: string,
  bits: number,
): Pick<Fault, "seed" | "options"> {
  return {
    seed: (scene) => {
      const path = `${scene.hosts.directory}/sbin`;
      Deno.mkdirSync(path);
      Deno.writeTextFileSync(`${path}/iptables`, content, { mode: bits });
      const { plugins } = scene.readNetwork("10-pods");
      const [first, ...rest] = plugins;
      const changed = { ...first, ipMasqBackend: undefined };
      const before = Deno.readTextFileSync(
        `${scene.confDir}/10-pods.conflist`,
      );
      scene.writeNetwork("10-pods", [changed, ...rest]);
      return () => {
        scene.writeConf("10-pods.conflist", before);
        Deno.removeSync(path, { recursive: true });
      };
    },
    options: ({ hosts }) => ({
      env: { PATH: `${hosts.directory}/sbin:/usr/sbin:/usr/bin:/sbin:/bin` },
    }),
  };
}

/** Starts a node daemon that no network uses. */
function idleDaemon(scene: DoctorScene): Undo {
  const { directory } = scene.hosts;
  const undo = ["10-pods", "20-lan"].map((file) => {
    const before = Deno.readTextFileSync(`${scene.confDir}/${file}.conflist`);
    const plugins = scene.readNetwork(file).plugins
      .map((one) => ({ ...one, daemonSocket: "" }));
    scene.writeNetwork(file, plugins);
    return () => void scene.writeConf(`${file}.conflist`, before);
  });
  const listener = new UnixListener(`${directory}/daemon.sock`);
  const calls = { done: 0, left: 0, recent: { calls: 0 }, reasons: [] };
  const state = { version: "0", startedAt: "", build: buildIdentity, calls };
  const stop = new AbortController();
  Deno.serve({
    path: `${directory}/multus.sock`,
    signal: stop.signal,
    onListen: () => {},
  }, () => Response.json(state));
  return () => {
    stop.abort();
    listener[Symbol.dispose]();
    for (const one of undo) one();
    for (const name of ["daemon.sock", "multus.sock"]) {
      Deno.removeSync(`${directory}/${name}`);
    }
  };
}

/** Starts a runtime with a configuration, as far as /proc shows it. */
function runtimeWith(
  files: Readonly<Record<string, string>>,
): (scene: DoctorScene) => Undo {
  return (scene) => {
    const undo = runtime("")(scene);
    for (const [file, text] of Object.entries(files)) {
      const path = `${scene.proc}/4711/${file}`;
      Deno.mkdirSync(path.slice(0, path.lastIndexOf("/")), { recursive: true });
      Deno.writeTextFileSync(path, text);
    }
    return undo;
  };
}

const STATIC = {
  type: "static",
  addresses: [{ address: "10.9.9.9/24" }],
} as const;

/** All of them. */
export const MORE_FAULTS: readonly Fault[] = [
  // Configurations.
  {
    name: "a configuration in YAML, and another network becomes the default",
    checks: ["conf-ignored"],
    message: /00-first.conflist.yaml" is not read: /,
    seed: (scene) => {
      const path = scene.writeConf(
        "00-first.conflist.yaml",
        "name: first\nplugins:\n- type: ptp\n",
      );
      return () => Deno.removeSync(path);
    },
  },
  {
    name: "a configuration whose name ends in .txt",
    checks: ["conf-ignored"],
    message: /30-more.conflist.txt" is not read: /,
    seed: (scene) => {
      const path = scene.writeConf("30-more.conflist.txt", '{ "type": "ptp" }');
      return () => Deno.removeSync(path);
    },
  },
  {
    name: "a dangling link in the configuration directory",
    checks: ["conf-unusable"],
    message: /05-x.conflist" cannot be read: /,
    seed: ({ confDir }) => {
      Deno.symlinkSync("/nonexistent", `${confDir}/05-x.conflist`);
      return () => Deno.removeSync(`${confDir}/05-x.conflist`);
    },
  },
  {
    name: "a list without plugins",
    checks: ["conf-unusable"],
    message: /05-x.conflist" cannot be used: /,
    seed: (scene) => {
      const path = scene.writeNetwork("05-x", []);
      return () => Deno.removeSync(path);
    },
  },
  {
    name: "debug that the node does not ask for",
    checks: ["not-ready"],
    message: /"x" is not ready: Refused "cniOutput": no file in /,
    seed: (scene) => {
      // The plugin looks below /etc/cni or NETCONFPATH, which is elsewhere.
      const path = scene.writeNetwork("05-x", [
        { type: "debug", cniOutput: "/nonexistent/of-doctor-test" },
      ]);
      return () => Deno.removeSync(path);
    },
  },
  {
    name: "a name that runtimes refuse",
    checks: ["conf-unusable"],
    message: /05-x.conflist" cannot be used: /,
    seed: (scene) => {
      const text =
        '{"cniVersion":"1.0.0","name":"a/b","plugins":[{"type":"ptp"}]}';
      const path = scene.writeConf("05-x.conflist", text);
      return () => Deno.removeSync(path);
    },
  },
  {
    name: "a version that no plugin supports",
    checks: ["conf-invalid", "not-ready", "conf-doubtful"],
    message: /30-more.conflist": .*9\.9\.9/,
    seed: network({ type: "bridge" }, { cniVersion: "9.9.9" }),
  },
  {
    name: "a plugin that does not support the network's version",
    checks: ["conf-invalid"],
    message: /30-more.conflist": .*1\.1\.0/,
    seed: plugin(
      "old",
      '#!/bin/sh\necho \'{"cniVersion":"0.3.1","supportedVersions":["0.3.1"]}\'',
    ),
  },
  {
    name: "a world-writable configuration",
    checks: ["conf-writable"],
    message: /20-lan.conflist" can be written by anybody/,
    seed: mode(({ confDir }) => `${confDir}/20-lan.conflist`, 0o666),
    follow: true,
  },
  {
    name: "a world-writable configuration directory",
    checks: ["conf-writable"],
    message: /net.d" can be written by anybody/,
    seed: mode(({ confDir }) => confDir, 0o777),
    follow: true,
  },
  {
    name: "a world-writable plugin directory",
    checks: ["plugin-writable"],
    message: /bin" can be written by anybody/,
    seed: mode(({ hosts }) => hosts.path, 0o777),
    follow: true,
  },
  {
    name: "a world-writable plugin",
    checks: ["conf-invalid", "plugin-writable"],
    message: /bin\/custom" can be written by anybody/,
    seed: (scene) => {
      const undo = plugin(
        "custom",
        '#!/bin/sh\necho \'{"cniVersion":"0.3.1","supportedVersions":["0.3.1"]}\'',
      )(scene);
      Deno.chmodSync(`${scene.hosts.path}/custom`, 0o777);
      return undo;
    },
  },
  // Plugins and programs.
  {
    name: "plugins on a file system with noexec",
    checks: ["plugin-noexec"],
    message: /noexec" is mounted with noexec, and plugins are in ".*noexec"/,
    seed: mounted(
      ({ hosts }) => `${hosts.directory}/noexec`,
      "noexec,size=1m",
      "for name in a b c d e; do printf '#!/bin/sh\\n' > $path/$name; " +
        "chmod 755 $path/$name; done",
    ),
    options: ({ hosts, confDir, cacheDir }) => ({
      directories: {
        pluginDirs: [hosts.path, `${hosts.directory}/noexec`],
        confDir,
        cacheDir,
      },
    }),
  },
  {
    name: "a plugin that is a dangling link",
    checks: ["plugin-broken"],
    message: /bin\/custom" does not work: dangling link/,
    seed: ({ hosts }) => {
      Deno.symlinkSync("/nonexistent", `${hosts.path}/custom`);
      return () => Deno.removeSync(`${hosts.path}/custom`);
    },
  },
  {
    name: "a script whose interpreter is missing",
    checks: ["plugin-broken"],
    message: /bin\/custom" does not work: /,
    seed: plugin("custom", "#!/nonexistent/sh\n"),
  },
  {
    name: "a plugin that prints something else than its versions",
    checks: ["plugin-broken"],
    message: /bin\/custom" does not work: /,
    seed: plugin("custom", "#!/bin/sh\necho hello\n"),
  },
  {
    name: "iptables that is not executable",
    checks: ["iptables-broken"],
    message: /sbin\/iptables" cannot be run: it is not executable/,
    ...brokenIptables("#!/bin/sh\n", 0o644),
    follow: true,
  },
  {
    name: "iptables without its libraries",
    checks: ["iptables-broken"],
    message: /sbin\/iptables" cannot be run: .*libxtables/,
    ...brokenIptables(
      "#!/bin/sh\necho 'error while loading shared libraries: libxtables.so.12' >&2\nexit 127\n",
      0o755,
    ),
  },
  // The node.
  {
    name: "a full disk",
    checks: ["disk-full"],
    message: /leases" \(tmpfs\) is full: it has the leases of "pods", /,
    seed: mounted(
      leases,
      "size=1m",
      "dd if=/dev/zero of=$path/fill bs=64k",
    ),
  },
  {
    name: "no inodes",
    checks: ["disk-full"],
    message: /leases" \(tmpfs\) has no inode left/,
    seed: mounted(
      leases,
      "size=1m,nr_inodes=40",
      "i=0; while : > $path/fill$i; do i=$((i+1)); done",
    ),
  },
  {
    name: "a disk that is nearly full",
    checks: ["disk-full"],
    message: /leases" \(tmpfs\) is nearly full/,
    seed: mounted(
      leases,
      "size=64m",
      "fallocate -l 64800k $path/fill",
    ),
  },
  {
    name: "a read-only file system",
    checks: ["state-unwritable", "not-ready", "conf-doubtful"],
    message:
      /leases" is mounted read-only: it has the leases of "pods", the leases of/,
    seed: mounted(leases, "size=1m", "mount -o remount,ro $path"),
    follow: true,
  },
  {
    name: "a file in the place of the lease directory",
    checks: ["state-unwritable", "not-ready", "conf-doubtful"],
    message: /leases\/more", for the leases of "more", is not a directory/,
    seed: (scene) => {
      const path = `${leases(scene)}/more`;
      Deno.writeTextFileSync(path, "");
      const undo = network({
        type: "bridge",
        bridge: "br9",
        ipam: scene.hosts.hostLocal("10.9.0.0/24"),
      })(scene);
      return () => {
        undo();
        for (const one of [path, `${path}.unused`]) {
          scene.sh(`rm -rf ${one}`);
        }
      };
    },
    follow: true,
  },
  {
    name: "host-local's lock that another process holds",
    checks: ["lock-held"],
    message: /process \d+ \(.*\) holds the lock ".*leases\/lan\/lock"/,
    seed: lockHolder(false),
  },
  {
    name: "host-local's lock that a stopped process holds",
    checks: ["lock-held"],
    message: /process \d+ \(.*\), which is stopped, holds the lock/,
    command: /^kill -CONT \d+$/,
    seed: lockHolder(true),
  },
  {
    name: "IPv6 disabled with an IPv6 range",
    checks: ["ipv6-disabled"],
    message: /net.ipv6.conf.default.disable_ipv6 is 1/,
    seed: ip(
      "echo 1 > /proc/sys/net/ipv6/conf/default/disable_ipv6",
      "echo 0 > /proc/sys/net/ipv6/conf/default/disable_ipv6",
    ),
    follow: true,
  },
  {
    name: "IPv6 disabled on a bridge with an IPv6 range",
    checks: ["ipv6-disabled"],
    message: /net\/ipv6\/conf\/br9|net.ipv6.conf.br9.disable_ipv6 is 1/,
    seed: (scene) => {
      const undo = network({
        type: "bridge",
        bridge: "br9",
        isGateway: true,
        ipam: scene.hosts.hostLocal("fd00:9::/64"),
      })(scene);
      scene.sh(
        "ip link add br9 up type bridge; echo 1 > /proc/sys/net/ipv6/conf/br9/disable_ipv6",
      );
      return () => {
        scene.sh("ip link del br9");
        undo();
      };
    },
    follow: true,
  },
  {
    name: "too few open files",
    checks: ["service-limit"],
    message: /LimitNOFILE of containerd is 10 files/,
    seed: runtime(
      "Limit                     Soft Limit           Hard Limit           Units\n" +
        "Max open files            10                   524288               files\n",
    ),
  },
  {
    name: "a runtime that reads other networks",
    checks: ["runtime-directories"],
    message: /containerd \(4711\) reads networks from "\/etc\/cni\/other.d"/,
    seed: runtimeWith({
      "root/etc/containerd/config.toml": 'conf_dir = "/etc/cni/other.d"\n',
    }),
  },
  {
    name: "a runtime that runs other plugins",
    checks: ["runtime-directories"],
    message: /containerd \(4711\) runs plugins of "\/usr\/lib\/cni"/,
    seed: runtimeWith({
      "root/etc/containerd/config.toml": '  bin_dirs = ["/usr/lib/cni"]\n',
    }),
  },
  // Services.
  {
    name: "a daemon that no network uses",
    checks: ["daemon-idle"],
    message:
      /a node daemon runs at ".*daemon.sock", and no network of ".*" uses/,
    seed: idleDaemon,
  },
  {
    name: "flannel without its subnet",
    checks: ["not-ready"],
    message: /"more" is not ready: .*subnet.env/,
    seed: network({ type: "flannel", subnetFile: "/nonexistent/subnet.env" }),
  },
  {
    name: "multus without the network of its clusterNetwork",
    checks: ["multus-files"],
    message:
      /"nowhere", the clusterNetwork of "more", does not exist in "\/non/,
    seed: network({
      type: "multus",
      clusterNetwork: "nowhere",
      confDir: "/nonexistent",
    }),
  },
  {
    name: "multus that waits for the cluster's network",
    checks: ["multus-files"],
    message:
      /"\/nonexistent\/ready" does not exist, for which multus of "more"/,
    seed: network({
      type: "multus",
      delegates: [{ name: "x", type: "bridge" }],
      readinessindicatorfile: "/nonexistent/ready",
    }),
  },
  {
    name: "a sysctl that containers do not have",
    checks: ["sysctl-missing"],
    message:
      /has no net.core.nosuch in containers, which tuning of "more" sets/,
    seed: (scene) => {
      const ipam = scene.hosts.hostLocal("10.9.0.0/24");
      const path = scene.writeNetwork("30-more", [
        { type: "ptp", ipam },
        {
          type: "tuning",
          sysctl: {
            "net.core.nosuch": "1",
            "net.core.somaxconn": "500",
            "net.ipv4.conf.eth0.arp_filter": "1",
          },
        },
      ]);
      return () => Deno.removeSync(path);
    },
  },
  // Links.
  {
    name: "a master that is the loopback",
    checks: ["link-unusable"],
    message: /"lo", the master of "more", is the loopback/,
    seed: network({ type: "macvlan", master: "lo", ipam: STATIC }),
  },
  {
    name: "a master that does not exist",
    checks: ["link-missing"],
    message:
      /"out1", the master of "more", does not exist; did you mean "out0"/,
    seed: network({ type: "macvlan", master: "out1", ipam: STATIC }),
  },
  {
    name: "a device that does not exist",
    checks: ["link-missing"],
    message: /"ens5", the device of "more", does not exist/,
    seed: network({ type: "host-device", device: "ens5" }),
  },
  {
    name: "a device that is the uplink",
    checks: ["link-unusable"],
    message: /"out0", the device of "more", is the uplink of this node/,
    seed: network({ type: "host-device", device: "out0" }),
  },
  {
    name: "a master that is down",
    checks: ["link-unusable"],
    message: /"low0", the master of "more", is down/,
    seed: (scene) => {
      scene.sh(
        "ip link add low0 type veth peer name low1; ip link set low1 up",
      );
      const undo = network({ type: "macvlan", master: "low0", ipam: STATIC })(
        scene,
      );
      return () => {
        undo();
        scene.sh("ip link del low0");
      };
    },
    follow: true,
  },
  {
    name: "a master that is a port of a bridge",
    checks: ["link-unusable"],
    message: /"low0", the master of "more", is a port of the bridge "br9"/,
    seed: (scene) => {
      scene.sh(
        "ip link add low0 up type veth peer name low1; ip link set low1 up; " +
          "ip link add br9 up type bridge; ip link set low0 master br9",
      );
      const undo = network({ type: "macvlan", master: "low0", ipam: STATIC })(
        scene,
      );
      return () => {
        undo();
        scene.sh("ip link del low0; ip link del br9");
      };
    },
  },
  {
    name: "macvlan and ipvlan on one master",
    checks: summarizeKernel().lacks.includes("ipvlan")
      ? ["kernel-feature", "link-unusable"]
      : ["link-unusable"],
    message: /"out0" is the master of "more" \(macvlan\) and of "other" \(ipvl/,
    seed: (scene) => {
      const ipam = { type: "static", addresses: [{ address: "10.9.0.1/24" }] };
      const undo = network({ type: "macvlan", master: "out0", ipam })(scene);
      const other = { ...ipam, addresses: [{ address: "10.8.0.1/24" }] };
      const path = scene.writeNetwork("40-other", [
        { type: "ipvlan", master: "out0", ipam: other },
      ]);
      return () => {
        undo();
        Deno.removeSync(path);
      };
    },
  },
  {
    name: "an MTU that the master does not have",
    checks: ["link-unusable"],
    message: /"more" sets MTU 9000, and its master "out0" has 1500/,
    seed: network({ type: "macvlan", master: "out0", mtu: 9000, ipam: STATIC }),
    follow: true,
  },
  {
    name: "another link has the bridge's name",
    checks: ["bridge-name"],
    message: /"br9", the bridge of "more", is not a bridge: its kind is veth/,
    seed: (scene) => {
      scene.sh("ip link add br9 type veth peer name br9p");
      const undo = network({
        type: "bridge",
        bridge: "br9",
        ipam: scene.hosts.hostLocal("10.9.0.0/24"),
      })(scene);
      return () => {
        undo();
        scene.sh("ip link del br9");
      };
    },
  },
  {
    name: "a static neighbour with another MAC",
    checks: ["neighbor-wrong"],
    message:
      /a static neighbour of the node has 02:00:00:00:00:99 for 10.2.0.2/,
    seed: ip(
      "ip neigh replace 10.2.0.2 lladdr 02:00:00:00:00:99 dev lan0 nud permanent",
      "ip neigh del 10.2.0.2 dev lan0 || true",
    ),
    follow: true,
  },
  {
    name: "a static neighbour for the gateway in the container",
    checks: ["neighbor-wrong"],
    message:
      /a static neighbour in default\/db eth0 has 02:00:00:00:00:99 for its/,
    seed: ip(
      "ip neigh replace 10.2.0.1 lladdr 02:00:00:00:00:99 dev eth0 nud permanent",
      "ip neigh del 10.2.0.1 dev eth0 || true",
      inOther,
    ),
    follow: true,
  },
  {
    name: "a neighbour on the bridge with a container's address",
    checks: ["address-twice"],
    message:
      /02:00:00:00:00:77 on "lan0" has 10.2.0.2, too, .* of default\/db eth0/,
    seed: (scene) => {
      const other = scene.hosts.addNetns();
      scene.sh(
        `ip link add odd0 up master lan0 type veth peer name odd1 address 02:00:00:00:00:77`,
      );
      scene.sh(
        `exec 9<${other.path}; ip link set odd1 netns /proc/self/fd/9`,
      );
      scene.sh("ip addr add 10.2.0.2/24 dev odd1; ip link set odd1 up", other);
      return () => {
        scene.sh("ip link del odd0; ip neigh flush all");
        scene.sh("ip neigh flush all", scene.other);
      };
    },
  },
  {
    name: "a port of the host that is mapped twice",
    checks: ["port-twice"],
    message:
      /port 8080 \(tcp\) of the host is mapped twice: to default\/.* and to default/,
    seed: ports("lan-fedcba9876543210-eth0", "pods-0123456789abcdef-eth0"),
  },
  // Packets.
  {
    name: "a rule of prerouting that drops a subnet",
    checks: ["rule-drops"],
    message: /chain "inet raw pre" \(prerouting\) drops packets of "lan"/,
    command: /^nft delete rule inet raw pre handle \d+$/,
    seed: ip(
      "nft 'table inet raw { chain pre { type filter hook prerouting priority -300; ip saddr 10.2.0.0/24 counter drop; }; }'",
      "nft delete table inet raw",
    ),
    follow: true,
  },
  {
    name: "a rule that drops what a bridge sends",
    checks: ["rule-drops"],
    message: /chain "ip fw g" \(forward\) drops packets of "lan"/,
    seed: ip(
      "nft 'table ip fw { chain f { type filter hook forward priority 0; jump g; }; chain g { iifname \"lan0\" drop; }; }' 2>/dev/null || nft 'table ip fw { chain g { iifname \"lan0\" drop; }; chain f { type filter hook forward priority 0; jump g; }; }'",
      "nft delete table ip fw",
    ),
    follow: true,
  },
  {
    name: "a rule of iptables' raw table that drops a container",
    checks: ["rule-drops"],
    message: /chain "ip raw PREROUTING" \(prerouting\) drops packets of "pods"/,
    seed: ip(
      "iptables-nft -t raw -A PREROUTING -s 10.1.0.2 -j DROP",
      "nft delete table ip raw",
    ),
    follow: true,
  },
  {
    name: "a prerouting chain with policy drop",
    checks: ["forward-policy"],
    message: /"ip fw pre" has policy drop, and has no rule that names/,
    seed: ip(
      "nft 'table ip fw { chain pre { type filter hook prerouting priority -300; policy drop; ct state established accept; icmp type echo-reply accept; iifname \"out0\" accept; }; }'",
      "nft delete table ip fw",
    ),
  },
  {
    name: "no default route on the node",
    checks: ["uplink"],
    message: /the node has no IPv4 default route/,
    seed: ip(
      "ip route del default via 192.0.2.2",
      "ip route add default via 192.0.2.2",
    ),
  },
  {
    name: "no link to the outside, although a network masquerades",
    checks: ["uplink"],
    message: /^the node has no IPv4 default route$/,
    seed: ip(
      "ip addr flush dev out0 scope global",
      "ip addr add 192.0.2.1/24 dev out0; ip addr add 2001:db8:ff::1/64 dev out0 nodad; ip route replace default via 192.0.2.2; ip route replace default via 2001:db8:ff::2",
    ),
  },
  {
    name: "an uplink that is down",
    checks: ["uplink"],
    message: /the node has no IPv4 default route, and "out0" is down/,
    seed: ip(
      "ip link set out0 down",
      "ip link set out0 up; ip addr replace 2001:db8:ff::1/64 dev out0 nodad; ip route add default via 192.0.2.2; ip route add default via 2001:db8:ff::2; " +
        "until ip link show out0 | grep -q 'state UP'; do :; done",
    ),
  },
  {
    name: "two default routes of one metric",
    checks: ["uplink"],
    message: /the node has 2 default routes of metric 0, by "/,
    seed: ip(
      "ip link add up1 up type veth peer name up2; ip link set up2 up; ip addr add 198.51.100.1/24 dev up1; ip route append default via 198.51.100.2 dev up1",
      "ip link del up1",
    ),
  },
  {
    name: "a rule of routing that stops a container's packets",
    checks: ["rule-stops"],
    message: /the routing rule 100 of the host stops packets from 10.2.0.0\/24/,
    command: /^ip rule del pref 100$/,
    seed: ip(
      "ip rule add from 10.2.0.0/24 pref 100 blackhole",
      "ip rule del pref 100 || true",
    ),
    follow: true,
  },
  {
    name: "an uplink without carrier",
    checks: ["uplink", "packet-ends"],
    message: /the uplink "out0" is without carrier/,
    seed: ip(
      // The kernel tells the other end a little later.
      "nsenter --net=$outside ip link set eth0 down; while ip link show out0 | grep -q 'state UP'; do :; done",
      "nsenter --net=$outside sh -c 'ip link set eth0 up; ip addr replace 2001:db8:ff::2/64 dev eth0 nodad'; until ip link show out0 | grep -q 'state UP'; do :; done",
    ),
  },
  {
    name: "forwarding is off for one interface",
    checks: ["packet-ends"],
    message:
      /default\/db eth0 end at forwarding: net.ipv4.conf.lan0.forwarding is 0/,
    seed: ip(
      "echo 0 > /proc/sys/net/ipv4/conf/lan0/forwarding",
      "echo 1 > /proc/sys/net/ipv4/conf/lan0/forwarding",
    ),
    follow: true,
  },
  {
    name: "two default routes in a container",
    checks: ["packet-ends"],
    message:
      /default\/db eth0: default route .* by "two0": .* take another interface/,
    seed: ip(
      "ip link add two0 type veth peer name two1; ip link set two0 up; ip link set two1 up; ip addr add 10.77.0.2/24 dev two0; ip route prepend default via 10.77.0.1 dev two0",
      "ip link del two0",
      inOther,
    ),
  },
  {
    name: "a blackhole route to a container",
    checks: ["packet-ends"],
    message: /default\/web eth0 end at return-route/,
    seed: ip(
      "ip route add blackhole 10.1.0.2/32 metric 0 2>/dev/null || ip route prepend blackhole 10.1.0.2",
      "ip route del blackhole 10.1.0.2",
    ),
  },
  {
    name: "a bridge that is down",
    checks: ["attachment-changed"],
    message: /default\/db eth0 on "lan": bridge: Interface "lan0" is down/,
    seed: ip("ip link set lan0 down", "ip link set lan0 up"),
    follow: true,
  },
  {
    name: "a bridge without its address",
    checks: ["attachment-changed"],
    message:
      /default\/db eth0 on "lan": bridge: Interface "lan0" lacks address/,
    seed: ip(
      "ip addr del 10.2.0.1/24 dev lan0",
      "ip addr replace 10.2.0.1/24 dev lan0",
    ),
    follow: true,
  },
  {
    name: "a bridge that does not answer ARP",
    checks: ["packet-ends"],
    message: /default\/db eth0 end at arp: ARP is off on "lan0"/,
    seed: ip("ip link set lan0 arp off", "ip link set lan0 arp on"),
    follow: true,
  },
  // Containers.
  {
    name: "a namespace that is not mounted any more",
    checks: ["netns-unmounted"],
    message:
      /netns-of-db" of default\/db eth0 is not a network namespace any more/,
    seed: unmounted,
  },
  {
    name: "the loopback of a pod is down",
    checks: ["loopback-down"],
    message: /"lo" of default\/web is down/,
    seed: ip("ip link set lo down", "ip link set lo up", inPod),
    follow: true,
  },
  {
    name: "an IPAMClaim that was deleted before its pod",
    checks: ["claim-gone"],
    message: /the IPAMClaim test\/vm of test\/vm-1 net1 is gone/,
    seed: claimed(({ api }) => api.remove("ipamclaims", "test", "vm")),
  },
  {
    name: "an IPAMClaim without its record",
    checks: ["claim-unrecorded"],
    message: /no IPPool has 10.0.0.1 for the IPAMClaim test\/vm of test\/vm-1/,
    seed: claimed((cluster) =>
      cluster.putPool("10.0.0.0-24", "10.0.0.0/24", {})
    ),
  },
];
