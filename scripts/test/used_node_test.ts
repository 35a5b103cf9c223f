import { assertEquals } from "@std/assert";
import { canUseNetns, ignoreUnless } from "../../testing/capabilities.ts";
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

/** Lists what this test sees of its own machine. */
function listOwn(): string[] {
  return ["/etc", "/opt", "/run", "/srv", "/var/lib"].flatMap((path) =>
    [...Deno.readDirSync(path)].map(({ name }) => `${path}/${name}`)
  );
}
