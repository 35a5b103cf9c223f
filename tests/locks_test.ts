/** The locks of the product: no other user of the node can hold one. */

import { assertEquals } from "@std/assert";
import { join } from "@std/path/posix";
import { FirewallScene } from "../plugins/firewall/testing.ts";
import { MappedPorts } from "../plugins/portmap/testing/mapped_ports.ts";
import { SbrScene } from "../plugins/sbr/testing.ts";
import { needsVrf, VrfScene } from "../plugins/vrf/testing.ts";
import { allOf, type Needs, rootTest } from "../testing/capabilities.ts";
import type { TestHosts } from "../testing/test_hosts.ts";
import { BIN, needsBin } from "./_harness/executables.ts";
import { needsOtherLocker, OtherUsersLock } from "./_harness/other_user.ts";
import type { Keys } from "./_harness/plugin_scene.ts";
import { needsIptables } from "./_harness/rules.ts";
import { ToolHost } from "./_harness/tool_host.ts";

const root = new URL("..", import.meta.url).pathname;
/** Directories with the product's code. */
const PARTS = [
  "base",
  "cli",
  "cni",
  "daemon",
  "ffi",
  "ipam",
  "kube",
  "libcni",
  "metadata",
  "node",
  "plugins",
];
/** What locks a file. */
const LOCKING =
  /\b(FileLock\.(acquire|tryAcquire)\w*|libc\.tryLock|lockPrivately|\w+\.lockSync)\(/;
/** Makes the locks of the others. */
const MAKER = "base/files/lock.ts";

/** The modules that lock something; docs/security.md describes the locks. */
const LOCKERS = [
  "base/command_line/installation_lock.ts",
  "base/files/replace.ts",
  "base/log/log_file.ts",
  "base/log/rotated_file.ts",
  "base/service/socket_file.ts",
  "cli/node/held_locks.ts",
  "cli/node/named_netns.ts",
  "cli/orphans/finders.ts",
  "ipam/dhcp/daemon.ts",
  "ipam/host_local/lease_files.ts",
  "libcni/lock.ts",
  "plugins/chain/running_add.ts",
  "plugins/multus/permit/in_use.ts",
  "plugins/noop/debug_file.ts",
  "plugins/parts/link/free_mac.ts",
  "plugins/parts/link/host_access.ts",
  "plugins/parts/sandbox/lock_netns.ts",
];

/** Lists the files of the product that lock something. */
function listLockers(directory: string): string[] {
  return [...Deno.readDirSync(join(root, directory))].flatMap((entry) => {
    const path = `${directory}/${entry.name}`;
    if (entry.isDirectory) return listLockers(path);
    const isCode = path.endsWith(".ts") && !path.endsWith("_test.ts");
    return isCode && path !== MAKER &&
        LOCKING.test(Deno.readTextFileSync(join(root, path)))
      ? [path]
      : [];
  });
}

Deno.test("each lock of the product is listed in docs/security.md and in this test", () => {
  assertEquals(PARTS.flatMap(listLockers).sort(), LOCKERS);
});

/** Calls of a plugin on a host. */
interface Scene extends Disposable {
  readonly hosts: TestHosts;
  readonly prevResult?: Keys;
  succeed(command: string, keys?: Keys): Promise<unknown>;
}

const IPTABLES = { backend: "iptables" };
/** The plugins that lock a namespace: the host's, or the container's. */
const LOCKING_PLUGINS: readonly [
  type: string,
  locked: "host" | "sandbox",
  makeScene: () => Scene,
  ...needs: Needs[],
][] = [
  ["portmap", "host", () => new MappedPorts(IPTABLES), needsIptables()],
  ["firewall", "host", () => new FirewallScene(IPTABLES), needsIptables()],
  ["sbr", "sandbox", () => new SbrScene()],
  ["vrf", "sandbox", () => new VrfScene({ vrfname: "blue" }), needsVrf],
];

for (const [type, locked, makeScene, ...needs] of LOCKING_PLUGINS) {
  rootTest(
    `${type} waits for no lock of another user`,
    allOf(needsOtherLocker, ...needs),
    async () => {
      using scene = makeScene();
      const { hosts, prevResult } = scene;
      const enter = ["nsenter", `--net=${hosts[locked].path}`, "--"];
      await using _other = await OtherUsersLock.take(
        "/proc/self/ns/net",
        enter,
      );
      // Without the chains that all attachments share, and with them.
      for (const command of ["DEL", "ADD", "DEL"]) {
        await scene.succeed(command, prevResult && { prevResult });
      }
    },
  );
}

rootTest(
  "cni netns add does not wait for another user's lock",
  needsOtherLocker,
  async () => {
    await using host = await ToolHost.create();
    await host.run(["mkdir", "-p", "/var/run/netns"]);
    await using _other = await OtherUsersLock.take(
      "/var/run/netns",
      host.enter,
    );
    const { code, stderr } = await host.cni("netns add blue");
    assertEquals([code, stderr], [0, ""]);
    const { stdout } = await host.run(["ls", "/var/run/netns"]);
    assertEquals(stdout, "blue\n");
  },
);

Deno.test("cni install does not wait for another user's lock", {
  ...needsBin,
  ignore: needsBin.ignore || needsOtherLocker.ignore,
}, async () => {
  const directory = await Deno.makeTempDir();
  try {
    const bin = join(directory, "bin");
    await Deno.mkdir(bin);
    for (const path of [directory, bin]) await Deno.chmod(path, 0o755);
    await using _other = await OtherUsersLock.take(bin);
    const { code } = await new Deno.Command(`${BIN}/cni`, {
      args: ["install", bin, "--only=ptp", "--cache-dir", directory],
      env: { NETCONFPATH: directory },
    }).output();
    assertEquals(code, 0);
    const entries = await Array.fromAsync(Deno.readDir(bin));
    assertEquals(entries.map(({ name }) => name).sort(), [
      ".cni-install",
      "cni",
      "ptp",
    ]);
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
});
