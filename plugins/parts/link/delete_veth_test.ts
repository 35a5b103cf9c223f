import { assertEquals, assertStringIncludes } from "@std/assert";
import {
  type LinkDeletion,
  unbatched,
} from "../../../cni/call/link_deletion.ts";
import { rootTest } from "../../../testing/capabilities.ts";
import { ipJson } from "../../../testing/ip_json.ts";
import { TestHosts } from "../../../testing/test_hosts.ts";
import { assertSuccess } from "../../../tests/_harness/call_outcome.ts";
import { interruptLinkDumps } from "../../../tests/_harness/interrupted_dumps.ts";
import { eachRow } from "../../../tests/_harness/table.ts";
import { hostIfNameOf } from "./veth.ts";

/** A kernel that does not delete the link of this name. */
function refusing(name: string): LinkDeletion {
  const now: LinkDeletion["now"] = async (links) => {
    await unbatched.now(links.filter((link) => link.name !== name));
    throw new Error(`Cannot delete "${name}"`);
  };
  return { now, later: now };
}

/** A host with three attachments to a network, of which the runtime knows one. */
class Scene implements Disposable {
  readonly hosts = TestHosts.create();
  readonly #ipam = this.hosts.hostLocal("10.1.2.0/24");
  /** The configuration of GC. */
  readonly gc: Readonly<Record<string, unknown>>;

  private constructor(type: string) {
    this.gc = {
      cniVersion: "1.1.0",
      name: "net1",
      type,
      ipam: this.#ipam,
      "cni.dev/valid-attachments": [{ containerID: "valid", ifname: "eth0" }],
    };
  }

  /** @param type The plugin's */
  static async create(type: string): Promise<Scene> {
    const scene = new Scene(type);
    for (const containerId of ["stuck", "valid", "stale"]) {
      const call = { containerId, sandbox: scene.hosts.addNetns() };
      assertSuccess(await scene.hosts.run(type, "ADD", scene.gc, call));
    }
    return scene;
  }

  /** Lists the containers that have an address. */
  get owners(): string[] {
    return this.hosts.leases().map((ip) => {
      const path = `${this.#ipam.dataDir}/net1/${ip}`;
      return Deno.readTextFileSync(path).split("\r")[0] ?? "";
    }).sort();
  }

  [Symbol.dispose](): void {
    this.hosts[Symbol.dispose]();
  }
}

/** The veth pair that GC does not get at. */
const STUCK = hostIfNameOf({
  network: "net1",
  containerId: "stuck",
  ifName: "eth0",
});

rootTest(
  "GC of ptp and bridge keeps the addresses of a veth pair that stays, and no others",
  async (t) => {
    await eachRow(t, ["ptp", "bridge"], async (type) => {
      using scene = await Scene.create(type);
      const { hosts, gc } = scene;
      const failed = await hosts.run(type, "GC", gc, {
        linkDeletion: refusing(STUCK),
      });
      assertEquals(failed.exitCode, 1);
      assertStringIncludes(failed.stdout, `Cannot delete \\"${STUCK}\\"`);
      assertEquals(scene.owners, ["stuck", "valid"]);
      assertEquals(ipJson(hosts.host, "link", "show", STUCK).length, 1);
      assertSuccess(await hosts.run(type, "GC", gc));
      assertEquals(scene.owners, ["valid"]);
    });
  },
);

rootTest(
  "GC of ptp and bridge keeps the addresses of a veth pair that it did not see",
  async (t) => {
    await eachRow(t, ["ptp", "bridge"], async (type) => {
      using scene = await Scene.create(type);
      const { hosts, gc } = scene;
      {
        using _interrupted = interruptLinkDumps(STUCK, 3);
        assertSuccess(await hosts.run(type, "GC", gc));
      }
      assertEquals(scene.owners, ["stuck", "valid"]);
      assertEquals(ipJson(hosts.host, "link", "show", STUCK).length, 1);
      {
        using _interrupted = interruptLinkDumps(STUCK);
        const { exitCode, stdout } = await hosts.run(type, "GC", gc);
        assertEquals(exitCode, 1);
        assertStringIncludes(stdout, "the list changed during each of");
      }
      assertEquals(scene.owners, ["stuck", "valid"]);
      assertSuccess(await hosts.run(type, "GC", gc));
      assertEquals(scene.owners, ["valid"]);
    });
  },
);
