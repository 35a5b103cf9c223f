import { assertEquals } from "@std/assert";
import { openPluginCgroup } from "./plugin_cgroup.ts";

/** A directory that looks like cgroup v2. */
class Place implements Disposable {
  readonly root: string = Deno.makeTempDirSync({ prefix: "cni-test-" });
  readonly membership: string = `${this.root}/membership`;

  constructor(membership: string) {
    Deno.writeTextFileSync(this.membership, membership);
    Deno.mkdirSync(`${this.root}/a/b.service`, { recursive: true });
    Deno.writeTextFileSync(`${this.root}/a/b.service/cgroup.procs`, "");
    Deno.writeTextFileSync(`${this.root}/cgroup.procs`, "");
  }

  [Symbol.dispose](): void {
    Deno.removeSync(this.root, { recursive: true });
  }
}

Deno.test("openPluginCgroup() creates a cgroup next to the daemon's", () => {
  using place = new Place("4:memory:/x\n0::/a/b.service\n");
  openPluginCgroup(place)?.(42);
  // A later daemon uses it.
  openPluginCgroup(place)?.(43);
  const procs = `${place.root}/a/b.service.plugins/cgroup.procs`;
  assertEquals(Deno.readTextFileSync(procs), "43");
});

for (
  const [why, membership] of [
    ["at the root", "0::/\n"],
    ["with cgroup v1", "4:memory:/a/b.service\n"],
    ["with a cgroup that is not visible", "0::/elsewhere\n"],
  ]
) {
  Deno.test(`openPluginCgroup() creates none ${why}`, () => {
    using place = new Place(membership ?? "");
    assertEquals(openPluginCgroup(place), undefined);
  });
}

Deno.test("openPluginCgroup() creates none without /proc/self/cgroup", () => {
  using place = new Place("");
  const membership = `${place.root}/none`;
  assertEquals(openPluginCgroup({ ...place, membership }), undefined);
});
