import {
  assert,
  assertEquals,
  assertRejects,
  assertStringIncludes,
  assertThrows,
} from "@std/assert";
import { CniError, describeError } from "../../base/error.ts";
import { Nftables } from "../../ffi/nftables/mod.ts";
import { Rtnl } from "../../ffi/rtnl/mod.ts";
import { Mac } from "../../net/mac.ts";
import {
  hasCommand,
  ignoreUnless,
  rootTest,
} from "../../testing/capabilities.ts";
import { runIn } from "../../testing/ip_json.ts";
import { TestHosts } from "../../testing/test_hosts.ts";
import { hostIfNameOf } from "../parts/link/veth.ts";
import {
  checkCanCheckSpoofing,
  checkSpoofCheck,
  endStaleSpoofChecks,
  setUpSpoofCheck,
  tearDownSpoofCheck,
} from "./mac_spoofing.ts";
import { PluginScene } from "../../tests/_harness/plugin_scene.ts";
import { eachRow } from "../../tests/_harness/table.ts";
import { bridgeConfig } from "./testing/bridge_network.ts";

const needsNft = ignoreUnless(hasCommand("nft"), "needs nft");

function test(
  name: string,
  fn: (t: Deno.TestContext) => void | Promise<void>,
): void {
  rootTest(name, needsNft, fn);
}

const MAC = Mac.parse("c2:11:22:33:44:55");
const SKELETON = `table bridge nat {
	chain PREROUTING {
		type filter hook prerouting priority dstnat; policy accept;
	}
}
`;

/** A temporary host with attachments. */
class Fixture implements Disposable {
  readonly #hosts = TestHosts.create();
  readonly #rtnl = Rtnl.open(this.#hosts.host.path);
  readonly path = this.#hosts.host.path;

  setUp(containerId: string, network = "net1", ifName = "eth0"): Promise<void> {
    const owner = { containerId, ifName };
    const hostIfName = hostIfNameOf({ ...owner, network });
    return setUpSpoofCheck(this.path, owner, { hostIfName, mac: MAC });
  }

  tearDown(containerId: string, network = "net1"): Promise<void> {
    const attachment = { containerId, ifName: "eth0", network };
    return tearDownSpoofCheck(this.#rtnl, attachment);
  }

  endStale(network: string, ...valid: string[]): Promise<void> {
    const attachments = valid
      .map((containerId) => ({ containerId, ifName: "eth0" }));
    return endStaleSpoofChecks(this.#rtnl, network, attachments);
  }

  /** Adds a link, as the port of an attachment's rules. */
  addLink(name: string): void {
    this.#rtnl.link.addBridge({ name });
  }

  deleteLink(name: string): void {
    this.#rtnl.link.ensureGone(name);
  }

  check(containerId: string): void {
    const owner = { containerId, ifName: "eth0" };
    const hostIfName = hostIfNameOf({ ...owner, network: "net1" });
    checkSpoofCheck(this.path, owner, { hostIfName, mac: MAC });
  }

  /** Counts the commits. */
  generation(): number {
    using nftables = Nftables.open(this.path);
    return nftables.generation();
  }

  nft(...args: string[]): string {
    return runIn(this.#hosts.host, "nft", ...args);
  }

  list(): string {
    return this.nft("list", "ruleset");
  }

  /** Lists the attachments' chains. */
  chains(): string[] {
    return [...this.list().matchAll(/chain (cni-\S+)/g)].map(([, name = ""]) =>
      name
    );
  }

  [Symbol.dispose](): void {
    this.#rtnl[Symbol.dispose]();
    this.#hosts[Symbol.dispose]();
  }
}

test("setUpSpoofCheck() adds the same rules as the Go plugin", async () => {
  using fixture = new Fixture();
  await fixture.setUp("c1");
  const veth = hostIfNameOf({
    network: "net1",
    containerId: "c1",
    ifName: "eth0",
  });
  const comment = 'comment "macspoofchk-c1-eth0"';
  assertEquals(
    fixture.list(),
    `table bridge nat {
	chain PREROUTING {
		type filter hook prerouting priority dstnat; policy accept;
		iifname "${veth}" jump cni-br-iface-c1-eth0 ${comment}
	}

	chain cni-br-iface-c1-eth0 {
		jump cni-br-iface-c1-eth0-mac ${comment}
	}

	chain cni-br-iface-c1-eth0-mac {
		ether saddr ${MAC} return ${comment}
		drop ${comment}
	}
}
`,
  );
});

test("setUpSpoofCheck() replaces the attachment's old rules", async () => {
  using fixture = new Fixture();
  await fixture.setUp("c1");
  await fixture.setUp("c2");
  const before = fixture.list().split("\n").sort();
  await fixture.setUp("c1");
  assertEquals(fixture.list().split("\n").sort(), before);
});

test("setUpSpoofCheck() keeps third-party rules", async () => {
  using fixture = new Fixture();
  fixture.nft("add", "table", "bridge", "nat");
  const spec = "{ type filter hook prerouting priority -300; policy accept; }";
  fixture.nft(`add chain bridge nat PREROUTING ${spec}`);
  fixture.nft("add rule bridge nat PREROUTING iifname eno1 accept");
  await fixture.setUp("c1");
  await fixture.tearDown("c1");
  assert(fixture.list().includes('iifname "eno1" accept'), fixture.list());
  assertEquals(fixture.chains(), []);
});

test("tearDownSpoofCheck() keeps the shared chains, and is idempotent", async () => {
  using fixture = new Fixture();
  await fixture.tearDown("c1");
  assertEquals(fixture.list(), "");
  await fixture.setUp("c1");
  await fixture.setUp("c2");
  await fixture.tearDown("c1");
  assertEquals(fixture.chains(), [
    "cni-br-iface-c2-eth0",
    "cni-br-iface-c2-eth0-mac",
  ]);
  await fixture.tearDown("c2");
  await fixture.tearDown("c2");
  assertEquals(fixture.list(), SKELETON);
});

test("setUpSpoofCheck() accepts container IDs of any length", async (t) => {
  await eachRow(t, [64, 94, 110, 111, 115, 200, 300], async (length) => {
    using fixture = new Fixture();
    const [left, right] = ["a", "b"].map((last) =>
      "c".repeat(length - 1) + last
    );
    await fixture.setUp(left ?? "");
    await fixture.setUp(right ?? "");
    assertEquals(fixture.chains().length, 4);
    fixture.check(left ?? "");
    await fixture.tearDown(left ?? "");
    fixture.check(right ?? "");
    await fixture.tearDown(right ?? "");
    assertEquals(fixture.list(), SKELETON);
  }, (length) => `${length} characters`);
});

test("checkSpoofCheck() reports each change", async (t) => {
  const chain = "bridge nat cni-br-iface-c1-eth0";
  const rows: [name: string, tamper: (fixture: Fixture) => void][] = [
    ["no table", (f) => void f.nft("delete table bridge nat")],
    [
      "no rule that leads to it",
      (f) => void f.nft("flush chain bridge nat PREROUTING"),
    ],
    ["no rule of the interface", (f) => void f.nft(`flush chain ${chain}`)],
    ["no rule of the MAC", (f) => void f.nft(`flush chain ${chain}-mac`)],
    ["one rule more", (f) => void f.nft(`insert rule ${chain}-mac accept`)],
    ["another MAC", (f) => {
      f.nft(`flush chain ${chain}-mac`);
      f.nft(`add rule ${chain}-mac ether saddr 02:00:00:00:00:01 return`);
      f.nft(`add rule ${chain}-mac drop`);
    }],
    ["another interface", (f) => {
      f.nft("flush chain bridge nat PREROUTING");
      f.nft(
        "add rule bridge nat PREROUTING iifname vethX jump " +
          'cni-br-iface-c1-eth0 comment "macspoofchk-c1-eth0"',
      );
    }],
  ];
  await eachRow(t, rows, async ([, tamper]) => {
    using fixture = new Fixture();
    await fixture.setUp("c1");
    fixture.check("c1");
    tamper(fixture);
    const error = assertThrows(() => fixture.check("c1"), CniError);
    assertEquals(error.code, 999);
  });
});

test("endStaleSpoofChecks() removes no rules of other networks, despite hyphens in names", async () => {
  using fixture = new Fixture();
  await fixture.setUp("a-b", "net1", "c-d");
  await fixture.setUp("a", "net1", "b-x");
  await fixture.setUp("kept", "net1");
  await fixture.setUp("other", "net2");
  await fixture.endStale("net1", "kept");
  const left = fixture.chains().filter((name) => !name.endsWith("-mac"));
  assertEquals(left, ["cni-br-iface-kept-eth0", "cni-br-iface-other-eth0"]);
  await fixture.endStale("net1");
  await fixture.endStale("net2");
  assertEquals(fixture.list(), SKELETON);
});

test("endStaleSpoofChecks() keeps the rules of a link that exists", async () => {
  using fixture = new Fixture();
  const owner = { containerId: "c1", ifName: "eth0", network: "net1" };
  for (const containerId of ["c1", "c2"]) await fixture.setUp(containerId);
  fixture.addLink(hostIfNameOf(owner));
  await fixture.endStale("net1");
  fixture.check("c1");
  assertEquals(fixture.chains().length, 2);
  fixture.deleteLink(hostIfNameOf(owner));
  await fixture.endStale("net1");
  assertEquals(fixture.list(), SKELETON);
});

test("endStaleSpoofChecks() removes many rules with few commits", async () => {
  using fixture = new Fixture();
  for (let number = 0; number < 5; number++) await fixture.setUp(`c${number}`);
  // The same rule a second time.
  const owner = { containerId: "c1", ifName: "eth0" };
  const name = hostIfNameOf({ ...owner, network: "net1" });
  fixture.nft(
    ...["add", "rule", "bridge", "nat", "PREROUTING", "iifname", name],
    ...["jump", "cni-br-iface-c1-eth0", "comment", '"macspoofchk-c1-eth0"'],
  );
  const before = fixture.generation();
  await fixture.endStale("net1");
  assertEquals(fixture.list(), SKELETON);
  assertEquals(fixture.generation() - before, 1);
});

test("endStaleSpoofChecks() removes the other rules if the kernel refuses to remove one", async () => {
  using fixture = new Fixture();
  for (let number = 0; number < 3; number++) await fixture.setUp(`c${number}`);
  fixture.nft("add", "chain", "bridge", "nat", "other");
  fixture.nft(
    ...["add", "rule", "bridge", "nat", "other"],
    ...["jump", "cni-br-iface-c1-eth0"],
  );
  const error = await assertRejects(() => fixture.endStale("net1"), Error);
  assertStringIncludes(describeError(error), '"eth0" of "c1"');
  const left = fixture.chains().filter((name) => name.includes("iface"));
  assertEquals(left, ["cni-br-iface-c1-eth0", "cni-br-iface-c1-eth0-mac"]);
});

test("checkCanCheckSpoofing() succeeds if the kernel has nf_tables", () => {
  using fixture = new Fixture();
  checkCanCheckSpoofing(fixture.path);
  assertEquals(fixture.list(), "");
});

test("tearDownSpoofCheck() removes the rules of no other network", async () => {
  using fixture = new Fixture();
  await fixture.setUp("c1");
  const owner = { containerId: "c1", ifName: "eth0" };
  fixture.addLink(hostIfNameOf({ ...owner, network: "net1" }));
  await fixture.tearDown("c1", "net2");
  fixture.check("c1");
  await fixture.tearDown("c1");
  assertEquals(fixture.list(), SKELETON);
});

test("tearDownSpoofCheck() removes the Go plugin's rules after the link was deleted", async () => {
  using fixture = new Fixture();
  const owner = { containerId: "c1", ifName: "eth0" };
  const allowed = { hostIfName: "veth0a1b2c3d", mac: MAC };
  await setUpSpoofCheck(fixture.path, owner, allowed);
  await fixture.tearDown("c1");
  assertEquals(fixture.list(), SKELETON);
});

test("REPAIR does not allow a MAC address that the container set itself", async () => {
  using scene = new PluginScene(
    "bridge",
    (hosts) => bridgeConfig(hosts, { cniVersion: "1.1.0", macspoofchk: true }),
  );
  const { host, sandbox } = scene.hosts;
  const { json: prevResult } = await scene.succeed("ADD");
  const rules = runIn(host, "nft", "list", "ruleset");
  runIn(sandbox, "ip", "link", "set", "eth0", "address", "02:00:00:00:00:99");
  await scene.succeed("REPAIR", { prevResult });
  assertEquals(runIn(host, "nft", "list", "ruleset"), rules);
});
