/** Addresses of sandboxes that change, and what is written of them. */

import { assertEquals } from "@std/assert";
import type { JsonObject } from "../../base/json/json.ts";
import { OWN_NETNS } from "../../cni/call/own_netns.ts";
import { observeNetlink } from "../../ffi/netlink/observer.ts";
import type { NetNs } from "../../ffi/netns.ts";
import type { CachedObject } from "../../kube/resident/informer.ts";
import { rootTest } from "../../testing/capabilities.ts";
import { runIn } from "../../testing/ip_json.ts";
import { TestHosts } from "../../testing/test_hosts.ts";
import { eventually } from "../../tests/_harness/eventually.ts";
import { type AddressedAttachment, AddressWatch } from "./address_watch.ts";
import { cachedDefinition, cachedPod } from "./pod/cached_objects.ts";
import { NETWORK_STATUS } from "./report/network_status.ts";

const MAC = "02:00:00:00:00:01";
const MASTER = {
  name: "pods",
  interface: "eth0",
  ips: ["10.1.0.2"],
  default: true,
  dns: {},
};
const IPAMS: Readonly<Record<string, JsonObject>> = {
  lan: { type: "slaac" },
  leased: { type: "dhcp" },
  own: { type: "host-local" },
};

/** Pods, what is recorded of them, and the writes. */
class Scene implements AsyncDisposable {
  readonly hosts = TestHosts.create();
  readonly statuses = new Map<string, JsonObject[]>();
  readonly attachments: AddressedAttachment[] = [];
  /** What the next write answers. */
  answer: () => Promise<boolean> = () => Promise.resolve(true);
  writes: string[] = [];
  isCurrent = true;
  /** What the definitions say now. */
  readonly ipams: Record<string, JsonObject> = { ...IPAMS };
  looks = 0;
  reads = 0;
  readonly warnings: unknown[] = [];
  readonly #end = new AbortController();
  readonly watch = new AddressWatch({
    pods: this,
    definitions: {
      find: (namespace, name): CachedObject | undefined => {
        const ipam = this.ipams[name];
        const config = JSON.stringify({ name, type: "macvlan", ipam });
        const metadata = { namespace, name, uid: name };
        return ipam && cachedDefinition({ metadata, spec: { config } });
      },
    },
    attachments: () => {
      this.reads++;
      return Promise.resolve(this.attachments);
    },
    replace: async ({ name }, { key, value, next }) => {
      assertEquals([key, value], [
        NETWORK_STATUS,
        JSON.stringify(this.statuses.get(name)),
      ]);
      const isReplaced = await this.answer();
      if (isReplaced) {
        const entries = JSON.parse(next);
        this.statuses.set(name, entries);
        this.writes.push(`${name} ${(entries[1].ips ?? []).join(",")}`);
      }
      return isReplaced;
    },
    log: {
      info(): void {},
      warn: (_text, fields) => this.warnings.push(fields),
    },
    hostNetns: this.hosts.host.path,
    lookMs: 1,
  });
  #running: Promise<void> | undefined;

  list(): CachedObject[] {
    this.looks++;
    return [...this.statuses].flatMap(([name, entries]) =>
      cachedPod({
        metadata: {
          namespace: "test",
          name,
          uid: name,
          annotations: { [NETWORK_STATUS]: JSON.stringify(entries) },
        },
      }) ?? []
    );
  }

  /** Adds a pod with net1, as ADD left it. */
  add(name: string, network: string, ips: readonly JsonObject[]): NetNs {
    const sandbox = this.hosts.addNetns();
    runIn(
      sandbox,
      "sh",
      "-ec",
      `ip link add net1 address ${MAC} type veth peer name other
      echo 0 > /proc/sys/net/ipv6/conf/net1/accept_dad
      ip link set net1 up; ip link set other up`,
    );
    this.statuses.set(name, [MASTER, {
      name: `test/${network}`,
      interface: "net1",
      ips: ips.map(({ address }) => String(address).split("/")[0] ?? ""),
      mac: MAC,
      dns: {},
    }]);
    this.attachments.push({
      pod: `test/${name}`,
      network,
      containerId: name,
      ifName: "net1",
      netns: sandbox.path,
      isLive: true,
      via: "multus",
      since: new Date(),
      config: new TextEncoder().encode(JSON.stringify({
        name: network,
        plugins: [{ type: "macvlan", ipam: IPAMS[network] ?? {} }],
      })),
      result: {
        cniVersion: "1.1.0",
        interfaces: [{ name: "net1", mac: MAC, sandbox: sandbox.path }],
        ips: ips.map((ip) => ({ ...ip, interface: 0 })),
      },
    });
    return sandbox;
  }

  /** Records an attachment at another path. */
  place(at: number, netns: string): void {
    const before = this.attachments[at];
    if (before === undefined) throw new Error("no attachment");
    const { interfaces: [own] = [], ...result } = before.result as {
      readonly interfaces?: JsonObject[];
    };
    const interfaces = [{ ...own, sandbox: netns }];
    this.attachments[at] = {
      ...before,
      netns,
      result: { ...result, interfaces },
    };
  }

  start(): void {
    this.#running = this.watch.run(this.#end.signal);
  }

  /** Waits for a number of whole looks from now on. */
  async rest(looks = 5): Promise<void> {
    const from = this.looks;
    await eventually("it looks", () => this.looks > from + looks);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#end.abort();
    await this.#running;
    this.hosts[Symbol.dispose]();
  }
}

const LEARNED = { "cni.dev/learned": true };
const FIRST = { address: "2001:db8:1::5/64", ...LEARNED };
const address = (netns: NetNs, line: string): string =>
  runIn(netns, "ip", ...`address ${line} dev net1`.split(" "));
const FOR_30 = "valid_lft 30 preferred_lft 20";

rootTest(
  "AddressWatch writes each change of a network that renumbers once",
  async () => {
    await using scene = new Scene();
    const sandbox = scene.add("web", "lan", [FIRST]);
    address(sandbox, `add ${FIRST.address} ${FOR_30}`);
    scene.start();
    await scene.rest();
    assertEquals(scene.writes, []);
    address(sandbox, `add 2001:db8:2::5/64 ${FOR_30}`);
    await eventually("it has both", () => scene.writes.length === 1);
    address(sandbox, "del 2001:db8:1::5/64");
    await eventually("it has the new one", () => scene.writes.length === 2);
    address(sandbox, "del 2001:db8:2::5/64");
    await eventually("it has none", () => scene.writes.length === 3);
    // Addresses that somebody has added are not of the network.
    address(sandbox, "add 2001:db8:9::1/64");
    address(sandbox, "add 10.9.9.9/24");
    await scene.rest();
    address(sandbox, `add 2001:db8:3::5/64 ${FOR_30}`);
    await eventually("it has one again", () => scene.writes.length === 4);
    assertEquals(scene.writes, [
      "web 2001:db8:1::5,2001:db8:2::5",
      "web 2001:db8:2::5",
      "web ",
      "web 2001:db8:3::5",
    ]);
    assertEquals(scene.statuses.get("web")?.[0], MASTER);
    assertEquals(scene.watch.updates, 4);
  },
);

rootTest(
  "AddressWatch writes the change when an IPv4 lease expires and is granted again",
  async () => {
    await using scene = new Scene();
    const given = "10.9.0.7/24";
    const sandbox = scene.add("web", "leased", [{ address: given }]);
    address(sandbox, `add ${given}`);
    scene.start();
    await scene.rest();
    address(sandbox, `del ${given}`);
    await eventually("it is written", () => scene.writes.length === 1);
    address(sandbox, `add ${given}`);
    await eventually("it is written", () => scene.writes.length === 2);
    assertEquals(scene.writes, ["web ", "web 10.9.0.7"]);
  },
);

rootTest(
  "AddressWatch does not read or change other networks",
  async () => {
    await using scene = new Scene();
    const given = { address: "10.9.0.7/24" };
    scene.start();
    await scene.rest();
    scene.add("web", "own", [given]);
    await scene.rest();
    assertEquals([scene.writes, scene.reads], [[], 0]);
    // A network without a definition is known by its record alone, read once.
    scene.add("other", "file", [given]);
    await scene.rest();
    assertEquals([scene.writes, scene.reads], [[], 1]);
  },
);

rootTest(
  "AddressWatch follows addresses of a definition that was edited after ADD",
  async (t) => {
    for (const isBefore of [true, false]) {
      const when = isBefore ? "before" : "after";
      await t.step(`${when} the watch has started`, async () => {
        await using scene = new Scene();
        const edit = (): void => {
          scene.ipams["lan"] = { type: "host-local" };
        };
        const sandbox = scene.add("web", "lan", [FIRST]);
        address(sandbox, `add ${FIRST.address} ${FOR_30}`);
        if (isBefore) edit();
        scene.start();
        await scene.rest();
        edit();
        address(sandbox, `add 2001:db8:2::5/64 ${FOR_30}`);
        await eventually("it has both", () => scene.writes.length === 1);
        // What was written looks like a change by somebody else.
        address(sandbox, "del 2001:db8:1::5/64");
        await eventually("it has one", () => scene.writes.length === 2);
      });
    }
  },
);

rootTest(
  "AddressWatch sends the kernel no request while no address changes",
  async () => {
    await using scene = new Scene();
    const sandbox = scene.add("web", "lan", [FIRST]);
    address(sandbox, `add ${FIRST.address} ${FOR_30}`);
    scene.start();
    await scene.rest();
    let requests = 0;
    observeNetlink((_exchange, work) => {
      requests++;
      return work();
    });
    try {
      await scene.rest();
      assertEquals(requests, 0);
      address(sandbox, "add 10.9.9.9/24");
      await eventually("it looks", () => requests > 0);
      await scene.rest();
      assertEquals(scene.writes, []);
    } finally {
      observeNetlink(undefined);
    }
  },
);

rootTest(
  "AddressWatch reads an unreadable change again",
  async () => {
    await using scene = new Scene();
    const given = "10.9.0.7/24";
    const sandbox = scene.add("web", "leased", [{ address: given }]);
    address(sandbox, `add ${given}`);
    scene.start();
    await scene.rest();
    let requests = 0;
    observeNetlink((_exchange, work) => {
      if (requests++ === 0) throw new Error("on purpose");
      return work();
    });
    try {
      address(sandbox, `del ${given}`);
      await eventually("it is written", () => scene.writes.length === 1);
    } finally {
      observeNetlink(undefined);
    }
    assertEquals(scene.writes, ["web "]);
    assertEquals(scene.warnings, [{ error: "on purpose" }]);
  },
);

rootTest(
  "AddressWatch retries after a conflict or an error of the API server",
  async () => {
    await using scene = new Scene();
    scene.add("web", "lan", [FIRST]);
    let refused = 0;
    scene.answer = () => Promise.resolve(++refused > 3);
    scene.start();
    await eventually("it is written", () => scene.writes.length === 1);
    scene.answer = () => Promise.reject(new Error("no API server"));
    scene.add("broken", "lan", [FIRST]);
    await eventually("it warns", () => scene.warnings.length > 0);
    await scene.rest();
    assertEquals(scene.warnings, [{ error: "no API server" }]);
    // Others are written although one failed a moment ago.
    scene.answer = () => Promise.resolve(true);
    scene.add("later", "lan", [FIRST]);
    await eventually("another is", () => scene.writes.length === 2);
    assertEquals(scene.writes, ["web ", "later "]);
  },
);

rootTest(
  "AddressWatch writes at most ten changes of a pod per minute",
  async () => {
    await using scene = new Scene();
    const sandbox = scene.add("web", "lan", [FIRST]);
    scene.start();
    await eventually("it is written", () => scene.writes.length === 1);
    for (let count = 2; count <= 10; count++) {
      address(sandbox, `add 2001:db8:${count}::5/64 ${FOR_30}`);
      await eventually("it is written", () => scene.writes.length === count);
    }
    address(sandbox, `add 2001:db8:11::5/64 ${FOR_30}`);
    await scene.rest();
    assertEquals(scene.writes.length, 10);
    // Another pod is written.
    scene.add("other", "lan", [FIRST]);
    await eventually("it is written", () => scene.writes.length === 11);
    assertEquals([scene.writes.at(-1), scene.warnings], ["other ", []]);
  },
);

rootTest("AddressWatch writes nothing for a deleted sandbox", async () => {
  await using scene = new Scene();
  const sandbox = scene.add("web", "lan", [FIRST]);
  runIn(sandbox, "ip", "link", "del", "net1");
  scene.start();
  await scene.rest();
  // Its path is another's now, or nobody's.
  for (const netns of [OWN_NETNS, "/run/netns/none"]) {
    scene.place(0, netns);
    scene.statuses.set("web", [...scene.statuses.get("web") ?? []].reverse());
    await scene.rest();
    const { reads } = scene;
    await scene.rest();
    assertEquals([scene.writes, scene.reads], [[], reads]);
  }
});

rootTest(
  "AddressWatch writes nothing for another container at the same path",
  async () => {
    await using scene = new Scene();
    const sandbox = scene.add("web", "lan", [FIRST]);
    address(sandbox, `add ${FIRST.address} ${FOR_30}`);
    // A path like that of a process, whose ID is used again.
    const path = `${scene.hosts.directory}/netns`;
    await Deno.symlink(sandbox.path, path);
    scene.place(0, path);
    scene.start();
    await scene.rest();
    const other = scene.add("other", "lan", [FIRST]);
    address(other, `add 2001:db8:2::5/64 ${FOR_30}`);
    await Deno.symlink(other.path, `${path}.new`);
    await Deno.rename(`${path}.new`, path);
    await eventually("the other is written", () => scene.writes.length > 0);
    await scene.rest();
    assertEquals(scene.writes, ["other 2001:db8:2::5"]);
  },
);

rootTest(
  "AddressWatch writes nothing for another container that has the path first",
  async () => {
    await using scene = new Scene();
    const sandbox = scene.add("web", "lan", [FIRST]);
    // An entry with a MAC would say so itself.
    scene.statuses.get("web")?.forEach((entry) => delete entry["mac"]);
    runIn(sandbox, "ip", "link", "set", "net1", "address", "02:00:00:00:00:02");
    address(sandbox, `add 2001:db8:2::5/64 ${FOR_30}`);
    scene.start();
    await scene.rest();
    assertEquals(scene.writes, []);
  },
);

rootTest(
  "AddressWatch writes nothing for a path that was missing at first",
  async () => {
    await using scene = new Scene();
    const sandbox = scene.add("web", "lan", [FIRST]);
    address(sandbox, `add 2001:db8:2::5/64 ${FOR_30}`);
    const path = `${scene.hosts.directory}/netns`;
    scene.place(0, path);
    scene.start();
    await scene.rest();
    await Deno.symlink(sandbox.path, path);
    // The attachments are looked up again.
    scene.statuses.set("web", [...scene.statuses.get("web") ?? []].reverse());
    await eventually("it does", () => scene.reads === 2);
    await scene.rest();
    assertEquals(scene.writes, []);
  },
);

rootTest(
  "AddressWatch finds the new sandbox of the same pod",
  async () => {
    await using scene = new Scene();
    const sandbox = scene.add("web", "lan", [FIRST]);
    address(sandbox, `add ${FIRST.address} ${FOR_30}`);
    // A path that is removed, as that of a namespace.
    const path = `${scene.hosts.directory}/first`;
    await Deno.symlink(sandbox.path, path);
    scene.place(0, path);
    scene.start();
    await scene.rest();
    const next = scene.add("web", "lan", [FIRST]);
    address(next, `add 2001:db8:2::5/64 ${FOR_30}`);
    await scene.rest();
    assertEquals(scene.writes, []);
    await Deno.remove(path);
    await eventually("it is written", () => scene.writes.length === 1);
    assertEquals(scene.writes, ["web 2001:db8:2::5"]);
  },
);

rootTest(
  "AddressWatch follows other pods despite a malformed status",
  async () => {
    await using scene = new Scene();
    const entry = { name: { toString: 1 }, interface: "net1", ips: [] };
    scene.statuses.set("strange", [MASTER, entry]);
    scene.add("web", "lan", [FIRST]);
    scene.start();
    await eventually("it is written", () => scene.writes.length === 1);
    assertEquals([scene.writes, scene.warnings], [["web "], []]);
  },
);

rootTest(
  "AddressWatch stops when its list of pods is no longer current",
  async () => {
    await using scene = new Scene();
    for (const name of ["one", "two"]) scene.add(name, "lan", [FIRST]);
    let asked = 0;
    scene.answer = () => {
      asked++;
      scene.isCurrent = false;
      return Promise.reject(new Error("no API server"));
    };
    scene.start();
    await eventually("it warns", () => scene.warnings.length > 0);
    await new Promise((resolve) => setTimeout(resolve, 100));
    assertEquals(asked, 1);
    scene.answer = () => Promise.resolve(true);
    scene.isCurrent = true;
    await eventually("the other is written", () => scene.writes.length === 1);
    assertEquals(scene.writes, ["two "]);
  },
);
