/**
 * `cni daemon --host`: from a container with mounts of its own to the host.
 *
 * @module
 */

import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { canUseNetns, ignoreUnless } from "../testing/capabilities.ts";
import { eventually } from "./_harness/eventually.ts";
import { BIN, MultusHost, onHost } from "../plugins/multus/testing/host.ts";
import { type Spawned, spawnIn } from "./_harness/spawn_in.ts";

/** The test's own mount namespace stands for the host's. */
const HOST = `/proc/${Deno.pid}/ns/mnt`;

/** Whether the root directory differs from the root of the mounts. */
function isInChroot(): boolean {
  const args = ["-t", `${Deno.pid}`, "-m", "stat", "-c", "%d:%i", "/"];
  const { stdout } = new Deno.Command("nsenter", { args }).outputSync();
  const { dev, ino } = Deno.statSync("/");
  return new TextDecoder().decode(stdout).trim() !== `${dev}:${ino}`;
}

/** Where the host's directories are the test's. */
const needsRootOfMounts = ignoreUnless(
  canUseNetns && !isInChroot(),
  "needs a root directory that is no chroot",
);

/** A daemon that is started in a container. */
class ContainedDaemon implements AsyncDisposable {
  readonly socketDir: string;
  readonly #spawned: Spawned;

  constructor(host: MultusHost, hostNamespace = HOST) {
    const { directory, host: netns } = host.hosts;
    this.socketDir = `${directory}/ours`;
    // The container's root has neither the test's directory nor the executable's.
    const script = `set -e
      mount -t tmpfs none /run
      mkdir -p /run/box /run/secrets/kubernetes.io/serviceaccount
      cp ${BIN}/cni /run/box/cni
      printf %s '${host.api.token}' > /run/secrets/kubernetes.io/serviceaccount/token
      printf %s "$CA" > /run/secrets/kubernetes.io/serviceaccount/ca.crt
      printf %s '{"binDir":"/only/in/the/configuration"}' > /run/box/config.json
      mount -t tmpfs none ${directory}
      exec /run/box/cni daemon --host --host-namespace=${hostNamespace} \
        --socket-dir=${this.socketDir} --config=/run/box/config.json \
        --node-name=node1 --no-heal`;
    this.#spawned = spawnIn(netns, {
      path: "/usr/bin/unshare",
      args: ["--mount", "--propagation=private", "sh", "-c", script],
      env: {
        PATH: "/usr/sbin:/usr/bin:/sbin:/bin",
        CA: host.api.caPem,
        KUBERNETES_SERVICE_HOST: "127.0.0.1",
        KUBERNETES_SERVICE_PORT: String(host.api.port),
      },
      stdin: "",
    });
  }

  /** Returns the text of a path on the socket; undefined if it does not listen. */
  async read(path: string): Promise<string | undefined> {
    using client = Deno.createHttpClient({
      proxy: { transport: "unix", path: `${this.socketDir}/multus.sock` },
    });
    try {
      return await (await fetch(`http://daemon${path}`, { client })).text();
    } catch {
      return undefined;
    }
  }

  /** Waits until it ends by itself. */
  get ended(): Promise<{ code: number; stderr: string }> {
    return this.#spawned.output;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#spawned.kill();
    await this.#spawned.output;
  }
}

Deno.test({
  ...onHost(
    "cni daemon --host runs calls of the host from a container",
    needsRootOfMounts,
  ),
  async fn(): Promise<void> {
    await using host = await MultusHost.start({ transport: "https" });
    await using daemon = new ContainedDaemon(host);
    await eventually(
      "the daemon is ready",
      async () => await daemon.read("/readyz") === "",
    );
    // By the token of the container, at the address of the environment.
    await eventually("it watches", () => host.api.watchCount >= 2);
    const pod = host.addPod("web", { networks: "green" });
    const keys = { daemonSocketDir: daemon.socketDir };
    for (const command of ["ADD", "CHECK", "DEL"]) {
      await host.succeed(command, pod, { keys });
    }
    assertEquals(host.remains(), []);
    const metrics = await daemon.read("/metrics") ?? "";
    assertStringIncludes(metrics, 'command="ADD"');
    assertStringIncludes(metrics, 'command="DEL"');
    // Plugins in the caller's directory are this build, if the caller is.
    assertEquals(/not_?mine[^\n]* [1-9]/i.exec(metrics)?.[0], undefined);
  },
});

Deno.test({
  ...onHost(
    "cni daemon --host takes its configuration along",
    needsRootOfMounts,
  ),
  async fn(): Promise<void> {
    await using host = await MultusHost.start({ transport: "https" });
    await using daemon = new ContainedDaemon(host);
    await eventually(
      "the daemon is ready",
      async () => await daemon.read("/readyz") === "",
    );
    const pod = host.addPod("web");
    const { code, json } = await host.call("ADD", pod, {
      command: [`${BIN}/multus-shim`],
      keys: { daemonSocketDir: daemon.socketDir },
      env: { CNI_PATH: "/nowhere" },
    });
    assertEquals(code, 1);
    assertMatch(json.msg, /failed to find plugin/);
  },
});

Deno.test({
  ...onHost("cni daemon --host ends if it cannot enter the host"),
  async fn(): Promise<void> {
    await using host = await MultusHost.start({ transport: "https" });
    await using daemon = new ContainedDaemon(host, "/proc/none/ns/mnt");
    const { code, stderr } = await daemon.ended;
    assertEquals(code === 0, false);
    assertStringIncludes(stderr, "/proc/none/ns/mnt");
  },
});
