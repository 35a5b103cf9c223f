/** Behaviour of nftables masquerading that operators and the Go plugins rely on. */

import { assert, assertEquals, fail } from "@std/assert";
import { createLog } from "../../base/log/log.ts";
import type { NetNs } from "../../ffi/netns.ts";
import { Cidr } from "../../net/cidr.ts";
import {
  collectMasqueradeGarbage,
  type MasqueradeHost,
  setUpMasquerade,
  tearDownMasquerade,
} from "../../plugins/parts/firewall/masquerade/mod.ts";
import type { Attachment } from "../../cni/config/types.ts";
import { namesOf } from "../../plugins/parts/firewall/masquerade/names.ts";
import { allOf, needsRoot } from "../../testing/capabilities.ts";
import { conformance, type Row } from "../_harness/conformance.ts";
import { runIn } from "../../testing/ip_json.ts";
import { needsInetRules } from "../_harness/rules.ts";
import { TestHosts } from "../../testing/test_hosts.ts";

const NETWORK = "unit-test";
const GOLDEN = new URL("../golden/nftables/", import.meta.url);

function ownerOf(containerId: string, network = NETWORK): Attachment {
  return { network, containerId, ifName: "eth0" };
}

/** Attachments on a temporary host. */
class Host implements Disposable {
  readonly #hosts = TestHosts.create();
  readonly #masquerade: MasqueradeHost = {
    hostNetns: this.#hosts.host.path,
    backend: "nftables",
    path: undefined,
    log: createLog({}, fail),
  };

  async add(owner: Attachment, ...addresses: string[]): Promise<void> {
    await setUpMasquerade(
      { ...this.#masquerade, owner },
      addresses.map(Cidr.parse),
    );
  }

  async del(owner: Attachment, ...addresses: string[]): Promise<void> {
    const known = addresses.length === 0
      ? undefined
      : addresses.map((address) => Cidr.parse(address).ip);
    await tearDownMasquerade({ ...this.#masquerade, owner }, known);
  }

  async gc(network: string, ...valid: Attachment[]): Promise<void> {
    await collectMasqueradeGarbage(this.#masquerade, network, valid);
  }

  /** Adds a rule as the Go plugin does from 1.6 on. */
  async addAsGo(owner: Attachment, address: string): Promise<void> {
    const { comment } = await namesOf(owner);
    const cidr = Cidr.parse(address);
    const rule = `ip saddr == ${cidr.ip} ip daddr != ${cidr.masked()} ` +
      `masquerade comment "${comment}"`;
    this.nft(`add rule inet cni_plugins_masquerade masq_checks ${rule}`);
  }

  nft(command: string): void {
    runIn(this.#hosts.host, "nft", command);
  }

  list(): string[] {
    return listRuleset(this.#hosts.host);
  }

  text(): string {
    return this.list().join("\n");
  }

  [Symbol.dispose](): void {
    this.#hosts[Symbol.dispose]();
  }
}

/**
 * Lists the ruleset as `nft -j` tells it: without handles, which say how often
 * something was added, and with all but the rules in alphabetical order.
 */
function listRuleset(host: NetNs): string[] {
  const text = runIn(host, "nft", "-j", "list", "ruleset");
  const objects: Listed[] = JSON.parse(text).nftables.slice(1);
  const rules = objects.flatMap(({ rule }) => rule ?? []);
  const others = objects.filter(({ rule }) => rule === undefined);
  const chains = Map.groupBy(rules, ({ chain }) => chain);
  return [...others, ...chains].map((object) =>
    JSON.stringify(
      object,
      (key, value) => key === "handle" ? undefined : value,
    )
  ).sort();
}

/** One object of `nft -j list ruleset`. */
interface Listed {
  readonly rule?: { readonly chain: string };
}

/** What `nft` lists after it has read a golden file. */
function golden(name: string): string[] {
  using hosts = TestHosts.create();
  const { pathname } = new URL(`${name}.nft`, GOLDEN);
  runIn(hosts.host, "nft", "-f", pathname);
  return listRuleset(hosts.host);
}

const ONE = ownerOf("one"), TWO = ownerOf("two");
const ONE_ADDRESSES = ["192.168.1.2/24", "2001:db8:1::2/64"] as const;

const ROWS: Readonly<Record<string, Row>> = {
  "the hashes are the Go plugins'": async () => {
    const { networkHash, instance } = await namesOf(ONE);
    assertEquals(networkHash, "6fd94d501e58f0aa");
    assertEquals(instance, "6fd94d501e58f0aa-287fc69eff0574a2");
  },
  "the exact ruleset of two containers": async () => {
    using host = new Host();
    await host.add(ONE, ...ONE_ADDRESSES);
    await host.add(TWO, "192.168.1.3/24");
    assertEquals(host.list(), golden("two_containers"));
  },
  "no table after the last DEL": async () => {
    using host = new Host();
    await host.add(ONE, ...ONE_ADDRESSES);
    await host.add(TWO, "192.168.1.3/24");
    await host.del(ONE, ...ONE_ADDRESSES);
    assert(host.text().includes("id: two"));
    await host.del(TWO);
    assertEquals(host.list(), []);
  },
  "ADD again changes nothing": async () => {
    using host = new Host();
    await host.add(ONE, ...ONE_ADDRESSES);
    const before = host.list();
    await host.add(ONE, ...ONE_ADDRESSES);
    assertEquals(host.list(), before);
  },
  "a reused address survives DEL of its former owner": async () => {
    using host = new Host();
    await host.add(ONE, "192.168.1.2/24");
    await host.add(TWO, "192.168.1.2/24");
    await host.del(ONE, "192.168.1.2/24");
    assert(host.text().includes("id: two"));
    assert(!host.text().includes(", id: one"));
  },
  "GC keeps the attachments that are listed": async () => {
    using host = new Host();
    await host.add(ONE, ...ONE_ADDRESSES);
    await host.add(TWO, "192.168.1.3/24");
    await host.gc(NETWORK, TWO);
    assert(host.text().includes("id: two"));
    assert(!host.text().includes(", id: one"));
  },
  "GC with none listed leaves no table": async () => {
    using host = new Host();
    await host.add(ONE, ...ONE_ADDRESSES);
    await host.gc(NETWORK);
    assertEquals(host.list(), []);
  },
  "GC does not touch other networks": async () => {
    using host = new Host();
    await host.add(ownerOf("one", "other"), "10.9.0.2/24");
    const before = host.list();
    await host.gc(NETWORK);
    assertEquals(host.list(), before);
  },
  "DEL and GC remove rules of the Go plugin's": async () => {
    using host = new Host();
    await host.add(TWO, "192.168.1.3/24");
    await host.addAsGo(ONE, "192.168.1.2/24");
    await host.addAsGo(ownerOf("three"), "192.168.1.4/24");
    await host.del(ONE);
    assert(!host.text().includes(", id: one"));
    await host.gc(NETWORK, TWO);
    assert(!host.text().includes("id: three"));
    assert(host.text().includes("id: two"));
  },
  "a chain that was emptied is filled again": async () => {
    using host = new Host();
    await host.add(ONE, ...ONE_ADDRESSES);
    const before = host.list();
    host.nft("flush table inet cni_plugins_masquerade");
    await host.add(ONE, ...ONE_ADDRESSES);
    assertEquals(host.list(), before);
  },
  "no flood of ADDs at once loses one": async () => {
    using host = new Host();
    const owners = Array.from(
      { length: 40 },
      (_, index) => ownerOf(`c${index}`),
    );
    await Promise.all(
      owners.map((owner, index) =>
        host.add(owner, `192.168.1.${index + 2}/24`)
      ),
    );
    const text = host.text();
    for (const { containerId } of owners) {
      assert(text.includes(`, id: ${containerId}"`), containerId);
    }
  },
};

conformance("masquerade", ROWS, allOf(needsInetRules, needsRoot));
