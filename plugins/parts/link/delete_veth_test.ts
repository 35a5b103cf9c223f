import { assertEquals, assertStringIncludes } from "@std/assert";
import {
  type LinkDeletion,
  unbatched,
} from "../../../cni/call/link_deletion.ts";
import type { NetNs } from "../../../ffi/netns.ts";
import { rootTest } from "../../../testing/capabilities.ts";
import { ipJson, runIn } from "../../../testing/ip_json.ts";
import { type CallOptions, TestHosts } from "../../../testing/test_hosts.ts";
import { assertSuccess } from "../../../tests/_harness/call_outcome.ts";
import { interruptLinkDumps } from "../../../tests/_harness/interrupted_dumps.ts";
import type { Keys } from "../../../tests/_harness/plugin_scene.ts";
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
  "GC of ptp and bridge keeps only the addresses of a veth pair that it keeps",
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

/** A host with the attachments of two containers to two networks. */
class Neighbours implements Disposable {
  readonly hosts = TestHosts.create();
  readonly victim = {
    containerId: "victim",
    sandbox: this.hosts.addNetns(),
  };
  readonly #type: string;

  /** @param type The plugin's */
  constructor(type: string) {
    this.#type = type;
    // So that both ends of a veth pair have different indexes.
    runIn(this.hosts.host, "ip", "link", "add", "wire0", "type", "veth");
  }

  /** The links of the host with their masters and addresses, and its routes. */
  get state(): unknown {
    const { host } = this.hosts;
    const addresses = ipJson(host, "-4", "address")
      .map(({ addr_info }: Keys) => addr_info);
    const masters = ipJson(host, "link")
      .map(({ ifname, master }: Keys) => [ifname, master]);
    const routes = ipJson(host, "route")
      .map(({ dst, dev }: Keys) => [dst, dev]);
    return { addresses, masters, routes };
  }

  configOf(network: string, cniVersion: string): Keys {
    const number = network.slice("net".length);
    return {
      cniVersion,
      name: network,
      type: this.#type,
      bridge: `br${number}`,
      ipam: this.hosts.hostLocal(`10.1.${number}.0/24`),
    };
  }

  /** Attaches a container; returns its configuration with the result. */
  async add(
    network: string,
    options: CallOptions = {},
    cniVersion = "1.1.0",
  ): Promise<Keys> {
    const config = this.configOf(network, cniVersion);
    const added = await this.hosts.run(this.#type, "ADD", config, options);
    assertSuccess(added);
    return { ...config, prevResult: added.json };
  }

  /** The host's end of the victim's veth pair. */
  get end(): Keys {
    const index = this.#read(this.victim.sandbox, "eth0").link_index;
    const [end] = ipJson(this.hosts.host, "link")
      .filter(({ ifindex }: Keys) => ifindex === index);
    return end;
  }

  /** Gives the attacker a veth pair of its own with the indexes of the victim's. */
  copyIndexes(): void {
    const { ifindex, link_index } = this.#read(this.victim.sandbox, "eth0");
    const { address } = this.#read(this.hosts.sandbox, "eth0");
    this.inside(
      `ip link del eth0
       ip link add eth0 index ${ifindex} address ${address} type veth peer name x0 index ${link_index}`,
    );
  }

  /** Runs a script in the attacker. */
  inside(script: string): void {
    runIn(this.hosts.sandbox, "sh", "-ec", script);
  }

  // deno-lint-ignore no-explicit-any -- as iproute2 prints it
  #read(netns: NetNs, name: string): any {
    return ipJson(netns, "link", "show", name)[0];
  }

  [Symbol.dispose](): void {
    this.hosts[Symbol.dispose]();
  }
}

rootTest(
  "REPAIR of ptp and bridge does not change host ends of other attachments",
  async (t) => {
    const attacks: [name: string, attack: (scene: Neighbours) => unknown][] = [
      [
        "a veth pair with the indexes of another container's",
        (scene) => scene.copyIndexes(),
      ],
      ["the name of another network's interface", async (scene) => {
        await scene.add("net2", { ifName: "eth1" });
        scene.inside(
          `ip link set eth0 down; ip link set eth0 name wan
           ip link set eth1 down; ip link set eth1 name eth0`,
        );
      }],
    ];
    for (const type of ["ptp", "bridge"]) {
      await eachRow(t, attacks, async ([, attack]) => {
        using scene = new Neighbours(type);
        const { hosts, victim } = scene;
        await scene.add("net2", victim);
        const config = await scene.add("net1");
        await attack(scene);
        const before = scene.state;
        const { exitCode, json } = await hosts.run(type, "REPAIR", config);
        assertEquals([exitCode, json.repaired], [0, []]);
        assertEquals(json.remaining.length > 0, true);
        assertEquals(scene.state, before);
      }, ([name]) => `${type}: ${name}`);
    }
  },
);

rootTest(
  "DEL of ptp and bridge keeps the Go plugin's veth pair of another container",
  async (t) => {
    await eachRow(t, ["ptp", "bridge"], async (type) => {
      using scene = new Neighbours(type);
      const { hosts, victim } = scene;
      await scene.add("net1", victim);
      // As the Go plugin names them.
      const { ifname } = scene.end;
      const set = `ip link set ${ifname} down; ip link set ${ifname} alias ""
        ip link set ${ifname} name veth12345678; ip link set veth12345678 up`;
      runIn(hosts.host, "sh", "-ec", set);
      // Before 0.4.0, no result tells what is the attachment's.
      const config = await scene.add("net1", {}, "0.3.1");
      scene.copyIndexes();
      const before = scene.state;
      assertSuccess(await hosts.run(type, "DEL", config));
      assertEquals(scene.state, before);
      assertEquals(hosts.leases(), ["10.1.1.2"]);
    });
  },
);
