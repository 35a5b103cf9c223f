import { assertEquals, assertStringIncludes } from "@std/assert";
import {
  allOf,
  canUseNetns,
  ignoreUnless,
  needsUserNamespaces,
} from "../../testing/capabilities.ts";
import { UsedNode } from "./used_node.ts";

const { ignore, suffix } = ignoreUnless(canUseNetns, "needs root");

Deno.test(`UsedNode hides the machine, and lists what changes${suffix}`, {
  ignore,
}, async () => {
  const own = listOwn();
  await using node = await UsedNode.start();
  const run = (script: string): string => {
    const [program = "", ...args] = [...node.enter, "sh", "-c", script];
    const { stdout } = new Deno.Command(program, { args }).outputSync();
    return new TextDecoder().decode(stdout);
  };
  assertEquals(
    run("ls /etc/cni/net.d"),
    "00-broken.conflist\n87-podman-bridge.conflist\n",
  );
  assertEquals(run("ip -o -4 address show eth0").includes("192.0.2.2"), true);
  // In memory or on the disk.
  const writing = 'file=$(mktemp); echo text > "$file"; cat "$file"';
  assertEquals(run(`${writing}; rm "$file"`), "text\n");
  assertEquals(node.listChanges(), []);
  run("echo who > /run/left; rm /var/lib/cni/networks/net1/10.1.2.2");
  assertEquals(node.listChanges(), [
    'added /run/left: "who\\n"',
    "removed /var/lib/cni/networks/net1/10.1.2.2",
  ]);
  assertEquals(listOwn(), own);
});

const needsRootless = allOf(
  ignoreUnless(canUseNetns, "needs root"),
  needsUserNamespaces(),
);

Deno.test(
  `UsedNode is one of RootlessKit, with files from where others may not go${needsRootless.suffix}`,
  {
    ignore: needsRootless.ignore,
  },
  async () => {
    const closed = await Deno.makeTempDir({ prefix: "cni-test-" });
    const own = listOwn();
    try {
      for (const name of ["needed", "other"]) {
        await Deno.writeTextFile(`${closed}/${name}`, name);
      }
      await using node = await UsedNode.startRootless([`${closed}/needed`]);
      const [program = "", ...enter] = node.enter;
      const run = (script: string): string => {
        const args = [...enter, "sh", "-c", `${script} 2>&1`];
        const { stdout } = new Deno.Command(program, { args }).outputSync();
        return new TextDecoder().decode(stdout);
      };
      assertEquals(
        run(`id -u; cat ${closed}/needed; ls ${closed}`),
        "0\nneededneeded\n",
      );
      const tables = "/proc/thread-self/net/ip_tables_names";
      assertStringIncludes(run(`cat ${tables}`), "Permission denied");
      assertEquals(run("ip link add v0 type veth && echo added"), "added\n");
      assertStringIncludes(run("touch /proc/sys/kernel/hostname"), "denied");
      run("echo who > /run/left");
      assertEquals(node.listChanges(), ['added /run/left: "who\\n"']);
      assertEquals(await Deno.readTextFile(`${closed}/other`), "other");
    } finally {
      await Deno.remove(closed, { recursive: true });
    }
    assertEquals(listOwn(), own);
  },
);

/** Lists what this test sees of its own machine. */
function listOwn(): string[] {
  return ["/etc", "/opt", "/run", "/srv", "/var/lib"].flatMap((path) =>
    [...Deno.readDirSync(path)].map(({ name }) => `${path}/${name}`)
  );
}
