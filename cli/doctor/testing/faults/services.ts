/**
 * Faults of services: runtimes, daemons, and the API server of multus.
 *
 * @module
 */

import { buildIdentity } from "../../../../base/process/build_identity.ts";
import { UnixListener } from "../../../../ffi/socket/unix_socket.ts";
import { type Fault, network, type Seed, type Undo } from "../fault.ts";
import type { DoctorScene } from "../scene.ts";

const DHCP = { type: "dhcp", daemonSocketPath: "/nonexistent/dhcp.sock" };

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
): Seed {
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

/** Starts a runtime, as far as /proc shows it. */
function runtime(
  limits: string,
  cgroup?: number,
): Seed {
  return ({ proc, hosts }) => {
    const directory = `${proc}/4711`;
    Deno.mkdirSync(`${directory}/ns`, { recursive: true });
    Deno.symlinkSync(hosts.host.path, `${directory}/ns/net`);
    Deno.writeTextFileSync(`${directory}/comm`, "containerd\n");
    Deno.writeTextFileSync(`${directory}/status`, "Uid:\t0\t0\t0\t0\n");
    Deno.writeTextFileSync(`${directory}/limits`, limits);
    if (cgroup !== undefined) {
      const path = `${directory}/root/sys/fs/cgroup/system.slice/c.service`;
      Deno.writeTextFileSync(
        `${directory}/cgroup`,
        "0::/system.slice/c.service\n",
      );
      Deno.mkdirSync(path, { recursive: true });
      Deno.writeTextFileSync(`${path}/memory.max`, `${cgroup}\n`);
    }
    return () => Deno.removeSync(directory, { recursive: true });
  };
}

/** Configures multus with a kubeconfig, whose token has an expiry. */
function multus(
  expiresInSeconds: number,
  server = "https://127.0.0.1:1",
): Seed {
  return (scene) => {
    const exp = Math.floor(Date.now() / 1000) + expiresInSeconds;
    const payload = new TextEncoder().encode(JSON.stringify({ exp }))
      .toBase64({ alphabet: "base64url", omitPadding: true });
    const kubeconfig = `${scene.hosts.directory}/kube config`;
    Deno.writeTextFileSync(
      kubeconfig,
      JSON.stringify({
        "current-context": "c",
        contexts: [{ name: "c", context: { cluster: "k", user: "u" } }],
        clusters: [{ name: "k", cluster: { server } }],
        users: [{ name: "u", user: { token: `e30.${payload}.c2ln` } }],
      }),
    );
    return network({ type: "multus", clusterNetwork: "pods", kubeconfig })(
      scene,
    );
  };
}

/** Faults of services: runtimes, daemons, and the API server of multus. */
export const SERVICES_FAULTS: readonly Fault[] = [
  {
    name: "no DHCP daemon",
    checks: ["not-ready"],
    message: /"more" is not ready: .*dhcp.sock/,
    seed: network({ type: "macvlan", master: "out0", ipam: DHCP }),
  },
  {
    name: "no kubeconfig for whereabouts",
    checks: ["not-ready"],
    message: /"more" is not ready: Cannot use kubeconfig "\/nonexistent"/,
    seed: network({
      type: "macvlan",
      master: "out0",
      ipam: {
        type: "whereabouts",
        range: "192.168.9.0/24",
        kubernetes: { kubeconfig: "/nonexistent" },
      },
    }),
  },
  {
    name: "a node daemon that does not answer",
    checks: ["daemon-unused"],
    message: /the node daemon at ".*\/daemon.sock" does not answer/,
    command: /^cni daemon restart$/,
    seed: ({ hosts: { directory } }) => {
      const path = `${directory}/daemon.sock`;
      const listener = new UnixListener(path);
      return (): void => {
        listener[Symbol.dispose]();
        Deno.removeSync(path);
      };
    },
  },
  {
    name: "a node daemon that was killed",
    checks: ["daemon-unused"],
    message: /the node daemon at ".*\/daemon.sock" has died/,
    command: /^cni daemon restart$/,
    seed: ({ hosts: { directory } }) => {
      const path = `${directory}/daemon.sock`;
      new UnixListener(path)[Symbol.dispose]();
      return () => Deno.removeSync(path);
    },
  },
  {
    name: "no node daemon",
    checks: ["daemon"],
    message: /no daemon answers at "\/nonexistent\/daemon.sock" of "more"/,
    seed: network({
      type: "bridge",
      daemonSocket: "/nonexistent/daemon.sock",
    }),
  },
  {
    name: "no kubeconfig",
    checks: ["multus-kubeconfig"],
    message: /multus of "more" cannot use its kubeconfig: .*cannot be read/,
    seed: network({
      type: "multus",
      clusterNetwork: "pods",
      kubeconfig: "/nonexistent/kubeconfig",
    }),
  },
  {
    name: "a token that has expired, and no API server",
    checks: ["multus-token", "api-server"],
    message: /token in ".*kube config" of "more" expired at 20/,
    seed: multus(-60),
  },
  {
    name: "a token that was not renewed",
    checks: ["api-server", "multus-token"],
    message:
      /the API server https:\/\/127.0.0.1:1 of "more" does not serve multus: /,
    command: /^kubectl --kubeconfig '\S+\/kube config' version$/m,
    seed: multus(60),
  },
  {
    name: "too little address space",
    checks: ["service-limit"],
    message: /LimitAS of containerd is 1073741824 bytes, but plugins need/,
    seed: runtime(
      "Limit                     Soft Limit           Hard Limit           Units\n" +
        "Max address space         1073741824           unlimited            bytes\n" +
        "Max open files            1024                 524288               files\n",
    ),
  },
  {
    name: "too little memory",
    checks: ["service-limit"],
    message: /MemoryMax of containerd is 8388608 bytes/,
    command: /^systemctl set-property c.service MemoryMax=infinity$/m,
    seed: runtime("", 8 * 1024 * 1024),
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
    message: /containerd \(4711\) runs plugins from "\/usr\/lib\/cni"/,
    seed: runtimeWith({
      "root/etc/containerd/config.toml": '  bin_dirs = ["/usr/lib/cni"]\n',
    }),
  },
  {
    name: "a drop-in of CRI-O that names other networks",
    checks: ["runtime-directories"],
    message: /crio \(4711\) reads networks from "\/etc\/cni\/other.d"/,
    command:
      /^grep -nE 'conf_dir\|network_dir' \/etc\/crio\/crio.conf.d\/20-cni.conf$/m,
    seed: runtimeWith({
      comm: "crio\n",
      "root/etc/crio/crio.conf": "[crio.network]\n",
      "root/etc/crio/crio.conf.d/10-a.conf": 'network_dir = "/etc/cni/a.d"\n',
      "root/etc/crio/crio.conf.d/20-cni.conf":
        'network_dir = "/etc/cni/other.d"\n',
    }),
  },
  {
    name: "a file that containerd imports names other plugins",
    checks: ["runtime-directories"],
    message: /containerd \(4711\) runs plugins from "\/usr\/lib\/cni"/,
    command:
      /^grep -nE 'bin_dir\|plugin_dirs' \/etc\/containerd\/conf.d\/cni.toml$/m,
    seed: runtimeWith({
      "root/etc/containerd/config.toml": 'imports = ["conf.d/*.toml"]\n',
      "root/etc/containerd/conf.d/cni.toml": 'bin_dir = "/usr/lib/cni"\n',
      "root/etc/containerd/conf.d/cni.toml.bak": 'bin_dir = "/none"\n',
    }),
  },
  {
    name: "a daemon that no network uses",
    checks: ["daemon-idle"],
    message:
      /a node daemon runs at ".*daemon.sock", but no network in ".*" uses/,
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
      /"\/nonexistent\/ready" does not exist, and multus of "more" waits/,
    seed: network({
      type: "multus",
      delegates: [{ name: "x", type: "bridge" }],
      readinessindicatorfile: "/nonexistent/ready",
    }),
  },
];
