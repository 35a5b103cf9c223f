/** Which namespace `cni doctor` mounts again, although others look like it. */

import { assertEquals, assertMatch } from "@std/assert";
import { NetNs } from "../../ffi/netns.ts";
import { ipJson } from "../../testing/ip_json.ts";
import { rootTest } from "../../testing/capabilities.ts";
import { Background } from "../../tests/_harness/background.ts";
import type { Finding } from "./finding.ts";
import { NAMESPACE_CHECKS } from "./namespaces.ts";
import { DoctorScene } from "./testing/scene.ts";

/** An ID that no process names, even of a concurrent run. */
const randomId = (): string => crypto.randomUUID().replaceAll("-", "");

/** Makes the namespace of all attachments of a container a file where nothing is mounted. */
function unmount({ cacheDir, hosts }: DoctorScene, id: string): string {
  const netns = `${hosts.directory}/netns-of-${id}`;
  Deno.writeTextFileSync(netns, "");
  for (const { name } of Deno.readDirSync(`${cacheDir}/results`)) {
    if (!name.includes(id)) continue;
    const path = `${cacheDir}/results/${name}`;
    const document = { ...JSON.parse(Deno.readTextFileSync(path)), netns };
    Deno.writeTextFileSync(path, JSON.stringify(document));
  }
  return netns;
}

/** Finds what is no longer mounted. */
async function find(scene: DoctorScene): Promise<readonly Finding[]> {
  using node = scene.node();
  const [check] = NAMESPACE_CHECKS.filter(({ name }) =>
    name === "netns-unmounted"
  );
  return await check?.run(node) ?? [];
}

/** Asserts that there is one finding, of `eth0`, which names no namespace. */
async function assertAdvice(scene: DoctorScene): Promise<void> {
  const found = await find(scene);
  assertEquals(found.map(({ effect }) => effect), [
    "CHECK and DEL cannot enter it",
  ]);
  const [{ message = "", command, advice = "" } = {}] = found;
  assertMatch(message, /default\/web eth0 is no longer/);
  assertEquals(command, undefined);
  assertMatch(advice, /^check with "cat \/proc\/PID\/cgroup" that process PID/);
}

rootTest(
  "cni doctor mounts only the namespace to which the host's veth leads",
  async (t) => {
    using scene = DoctorScene.bare();
    const { hosts } = scene;
    const id = randomId();
    const imitation = hosts.addNetns(), container = NetNs.create();
    await using stack = new AsyncDisposableStack();
    const start = (netns: NetNs): Background => {
      const program = new Background(netns, "sleep", ["1000"]);
      stack.defer(() => program.stop());
      return program;
    };
    let netns = "";
    {
      using _container = container;
      scene.writeNetwork("10-pods", [{
        type: "ptp",
        ipam: hosts.hostLocal("10.1.0.0/28"),
      }]);
      scene.writeNetwork("99-cni-loopback", [{ type: "loopback" }]);
      await scene.attach("10-pods", container, id, "web");
      const lo = { ifName: "lo" };
      await scene.attach("99-cni-loopback", container, id, "web", lo);
      const [{ address, ifindex }] = ipJson(container, "link", "show", "eth0");
      const [{ addr_info: [{ local, prefixlen }] }] = ipJson(
        container,
        ...["address", "show", "eth0"],
      );
      scene.ip(
        `link add eth0 index ${ifindex} address ${address} type veth ` +
          "peer name eth1 index 99",
        imitation,
      );
      scene.ip(`address add ${local}/${prefixlen} dev eth0`, imitation);
      netns = unmount(scene, id);
      start(imitation);

      await t.step("a namespace that only a descriptor holds", async () => {
        await assertAdvice(scene);
      });
      await t.step("a namespace with processes", async () => {
        const program = start(container);
        const found = await find(scene);
        assertEquals(found.map(({ command }) => command), [
          `mount --bind /proc/${program.pid}/ns/net ${netns}`,
        ]);
        await program.stop();
      });
    }
    await t.step("a deleted namespace", async () => {
      await assertAdvice(scene);
    });
  },
);

rootTest(
  "cni doctor does not mount the host's namespace for a container",
  async () => {
    using scene = DoctorScene.bare();
    const { host, sandbox } = scene.hosts;
    const id = randomId();
    scene.ip("link add eth0 type veth peer eth1");
    scene.writeNetwork("10-device", [{ type: "host-device", device: "eth0" }]);
    await scene.attach("10-device", sandbox, id, "web");
    scene.sh(
      `exec 9<${host.path}; ip link set eth0 netns /proc/self/fd/9`,
      sandbox,
    );
    unmount(scene, id);
    const program = new Background(host, "sleep", ["1000"]);
    try {
      await assertAdvice(scene);
    } finally {
      await program.stop();
      await scene.detach("10-device", sandbox, id);
    }
  },
);
