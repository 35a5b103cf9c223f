import { assert, assertEquals, assertRejects } from "@std/assert";
import { join } from "@std/path/posix";
import { CniError } from "../../../base/error.ts";
import { createLog } from "../../../base/log/log.ts";
import { Cidr } from "../../../net/cidr.ts";
import { Ip } from "../../../net/ip.ts";
import type { AttachmentId } from "../../../cni/config/types.ts";
import type { Lease } from "../lease.ts";
import { leaseEach } from "../lease_each.ts";
import { resolveRangeSet } from "../range.ts";
import { LeaseStore } from "../store.ts";
import { testRows } from "../../../tests/_harness/table.ts";

const OWNER: AttachmentId = { containerId: "dummy", ifName: "eth0" };
const OTHER: AttachmentId = { containerId: "other", ifName: "eth0" };
const CONTENT = "dummy\r\neth0";
const INDEX = ".index/net";

/** Few leases, which are always all read, and enough for a large directory. */
const FEW = 100, MANY = 900;

const RANGE_SETS = [
  resolveRangeSet([{ subnet: Cidr.parse("10.9.0.0/16") }], 0),
  resolveRangeSet([{ subnet: Cidr.parse("2001:db8::/64") }], 1),
];

/** A directory of leases, and its surroundings. */
class Fixture implements Disposable {
  readonly root = Deno.makeTempDirSync({ prefix: "leases-" });
  readonly directory = join(this.root, "net");

  /** Creates leases of containers `c0`, `c1`…, with an address each. */
  constructor(count: number) {
    Deno.mkdirSync(this.directory);
    for (let i = 0; i < count; i++) {
      this.write(`net/${addressOf(i)}`, `c${i}\r\neth0`);
    }
  }

  /** Writes a file like another program. */
  write(name: string, content: string): void {
    Deno.writeTextFileSync(join(this.root, name), content);
  }

  /** Reads a file; undefined if it does not exist. */
  read(name: string): string | undefined {
    try {
      return Deno.readTextFileSync(join(this.root, name));
    } catch {
      return undefined;
    }
  }

  remove(name: string): void {
    Deno.removeSync(join(this.root, name), { recursive: true });
  }

  /** Runs cp(1) or another program in the root. */
  shell(script: string): void {
    const { success } = new Deno.Command("sh", {
      args: ["-ec", script],
      cwd: this.root,
    }).outputSync();
    assert(success, script);
  }

  /** Uses the leases under a single lock. */
  async run<T>(use: (store: LeaseStore) => T): Promise<T> {
    using store = await LeaseStore.open(this.root, "net");
    return use(store);
  }

  leasesOf(owner = OWNER): Promise<string[]> {
    return this.run((store) => namesOf(store.leasesOf(owner)));
  }

  /**
   * Runs the steps of ADD, with an address from each set unless one is
   * requested.
   */
  add(owner = OWNER, requested?: string): Promise<string[]> {
    const wishes = requested === undefined
      ? RANGE_SETS.map((set) => ({ set, requested: undefined }))
      : RANGE_SETS.slice(0, 1)
        .map((set) => ({ set, requested: Ip.parse(requested) }));
    const log = createLog({}, (line) => assert(false, line));
    return this.run((store) => namesOf(leaseEach(wishes, owner, store, log)));
  }

  /** Runs the steps of DEL. */
  del(owner = OWNER): Promise<void> {
    return this.run((store) => store.release(store.leasesOf(owner)));
  }

  /**
   * Reports whether the next call believes the index: an entry is put into it that no
   * lease has.
   */
  async believesIndex(): Promise<boolean> {
    const before = this.read(INDEX);
    if (before === undefined) return false;
    this.write(
      INDEX,
      `${before}10.7.7.7 "planted\\r\\neth0"\n`,
    );
    try {
      return await this.run((store) =>
        !store.reserve(Ip.parse("10.7.7.7"), OTHER)
      );
    } finally {
      this.write(INDEX, before);
    }
  }

  [Symbol.dispose](): void {
    Deno.removeSync(this.root, { recursive: true });
  }
}

function addressOf(i: number): string {
  return `10.1.${i >> 8}.${i & 255}`;
}

function namesOf(leases: readonly Pick<Lease, "ip">[]): string[] {
  return leases.map(({ ip }) => `${ip}`).sort();
}

function listDirectory(path: string): string[] {
  return [...Deno.readDirSync(path)].map(({ name }) => name).sort();
}

Deno.test("LeaseStore creates no index for a few leases", async () => {
  using fixture = new Fixture(FEW);
  await fixture.add();
  assertEquals((await fixture.leasesOf()).length, 2);
  await fixture.del();
  assertEquals(await fixture.leasesOf(), []);
  assertEquals(listDirectory(fixture.root), ["net"]);
});

Deno.test("LeaseStore uses its index after each of its own calls", async () => {
  using fixture = new Fixture(MANY);
  const before = listDirectory(fixture.directory);
  assertEquals(await fixture.add(), ["10.9.0.2", "2001:db8::2"]);
  assert(await fixture.believesIndex(), "after ADD");
  await fixture.add({ ...OWNER, ifName: "net1" });
  assertEquals(await fixture.leasesOf(), ["10.9.0.2", "2001:db8::2"]);
  assert(await fixture.believesIndex(), "after CHECK");
  await fixture.del();
  assert(await fixture.believesIndex(), "after DEL");
  await assertRejects(() => fixture.add(OWNER, addressOf(1)), CniError);
  assert(await fixture.believesIndex(), "after an ADD that failed");
  await fixture.del({ ...OWNER, ifName: "net1" });
  const own = ["last_reserved_ip.0", "last_reserved_ip.1", "lock"];
  assertEquals(listDirectory(fixture.directory), [...before, ...own]);
  assertEquals(listDirectory(join(fixture.root, ".index")), ["net"]);
});

/** The addresses of the owner. */
const BOTH = ["10.9.0.2", "2001:db8::2"];

/** What other programs do to a directory with two leases, and which are left. */
const FOREIGN: readonly [
  name: string,
  change: (fixture: Fixture) => void,
  want: readonly string[],
][] = [
  ["the index is removed", (f) => f.remove(".index"), BOTH],
  ["the index is emptied", (f) => f.write(INDEX, ""), BOTH],
  ["the index is of another time", (f) => {
    const old = f.read(INDEX) ?? "";
    f.write(INDEX, old.replace(/^.*/, "1:1 1 1 1:1 1 1"));
  }, BOTH],
  [
    "Go's DEL and ADD",
    (f) => {
      f.remove("net/10.9.0.2");
      f.remove("net/2001:db8::2");
      f.write("net/10.9.0.77", CONTENT);
    },
    ["10.9.0.77"],
  ],
  [
    "Go's DEL, and an ADD of another container with the address",
    (f) => {
      f.remove("net/10.9.0.2");
      f.write("net/10.9.0.2", "other\r\neth0");
    },
    ["2001:db8::2"],
  ],
  [
    "another owner in the same file",
    (f) => f.write("net/10.9.0.2", "other\r\neth0"),
    ["2001:db8::2"],
  ],
  [
    "a lease of the container alone",
    (f) => {
      f.remove("net/10.9.0.2");
      f.remove("net/2001:db8::2");
      f.write("net/10.9.0.77", "dummy");
    },
    ["10.9.0.77"],
  ],
  ["an empty directory", (f) => {
    for (const name of listDirectory(f.directory)) f.remove(`net/${name}`);
  }, []],
  ["a copy of the directory, with all of its times", (f) => {
    f.shell("cp -a net copy && rm -r net/10.9.0.2 && rm -r net && mv copy net");
  }, BOTH],
  ["a backup in place of the directory", (f) => {
    f.shell("mv net away && mv backup net");
  }, ["10.9.0.77"]],
  ["a backup that is copied over the directory", (f) => {
    f.shell("cp -a backup/. net");
  }, ["10.9.0.2", "10.9.0.77", "2001:db8::2"]],
];

testRows(
  "LeaseStore follows changes of other programs in an indexed directory",
  [...FOREIGN],
  async ([, change, want]) => {
    using fixture = new Fixture(MANY);
    fixture.shell("cp -a net backup");
    fixture.write("backup/10.9.0.77", CONTENT);
    fixture.write("backup/lock", "");
    await fixture.add();
    assert(await fixture.believesIndex());
    change(fixture);
    if (want.length > 0) {
      const { message } = await assertRejects(() => fixture.add(), CniError);
      assert(message.includes("has been allocated to dummy"), message);
    }
    assertEquals(await fixture.leasesOf(), want);
    await fixture.del();
    assertEquals(await fixture.leasesOf(), []);
    // Whatever was left, the attachment can be added again.
    await fixture.add();
    assertEquals((await fixture.leasesOf()).length, 2);
  },
);

testRows(
  "LeaseStore detects a lease whose owner changed in place",
  [
    ["cp", "cp backup/* net"],
    ["cp -a", "cp -a backup/. net"],
  ],
  async ([, copy]: [string, string]) => {
    using fixture = new Fixture(MANY);
    await fixture.add(OTHER);
    fixture.shell("cp -a net backup");
    fixture.write("backup/10.1.0.5", CONTENT);
    await fixture.add({ ...OWNER, ifName: "net1" }, "10.9.0.9");
    await fixture.del({ ...OWNER, ifName: "net1" });
    assert(await fixture.believesIndex());
    fixture.shell(copy);
    assertEquals(await fixture.leasesOf(), ["10.1.0.5"]);
  },
);

testRows("LeaseStore refuses a second ADD even if its index lacks the lease", [
  ["from before the directory was large", () => {}],
  ["with another attachment's ADD in between", (f) => f.add(OTHER)],
  ["of the Go plugin, at the tick of our last call", async (f) => {
    f.remove("net/10.9.0.77");
    await f.add(OTHER);
    f.write("net/10.9.0.77", CONTENT);
  }],
  ["of the container alone", async (f) => {
    f.write("net/10.9.0.77", "dummy");
    await f.add(OTHER);
  }],
], async ([, prepare]: [string, (fixture: Fixture) => unknown]) => {
  using fixture = new Fixture(MANY);
  fixture.write("net/10.9.0.77", CONTENT);
  await prepare(fixture);
  const { message } = await assertRejects(() => fixture.add(), CniError);
  assert(message.includes("10.9.0.77 has been allocated"), message);
  await fixture.del();
  assertEquals(fixture.read("net/10.9.0.77"), undefined);
});

Deno.test("LeaseStore discards its index after a change within one clock tick", async () => {
  using fixture = new Fixture(MANY);
  for (let i = 0; i < 20; i++) {
    const owner = { containerId: `tick${i}`, ifName: "eth0" };
    await fixture.add(OTHER);
    fixture.write(`net/10.8.0.${i}`, `tick${i}\r\neth0`);
    assertEquals(await fixture.leasesOf(owner), [`10.8.0.${i}`]);
    await fixture.del(OTHER);
  }
});

Deno.test("LeaseStore.collect() releases stale leases that the index lacks", async () => {
  using fixture = new Fixture(MANY);
  await fixture.add();
  await fixture.add(OTHER);
  // In place, so that the directory does not change.
  fixture.write("net/10.1.0.1", "unknown\r\neth0");
  fixture.write("net/10.9.0.3", CONTENT);
  await fixture.run((store) => store.collect([OWNER]));
  assertEquals(await fixture.leasesOf(), [
    "10.9.0.2",
    "10.9.0.3",
    "2001:db8::2",
  ]);
  assertEquals(fixture.read("net/10.1.0.1"), undefined);
  assertEquals(await fixture.leasesOf(OTHER), []);
});

Deno.test("LeaseStore works if the index cannot be created", async () => {
  using fixture = new Fixture(MANY);
  fixture.write(".index", "in the way");
  const leases = await fixture.add();
  assertEquals(leases.length, 2);
  assertEquals(await fixture.leasesOf(), leases);
  await fixture.del();
  assertEquals(await fixture.leasesOf(), []);
});

Deno.test("LeaseStore.reserve() finds the free addresses of a large directory", async () => {
  using fixture = new Fixture(MANY);
  fixture.write(`net/${addressOf(300)}`, "");
  await fixture.run((store) => {
    const isFree = (i: number): boolean =>
      store.reserve(Ip.parse(addressOf(i)), OWNER);
    const all = Array.from({ length: MANY + 1 }, (_, i) => i);
    // The address of the empty lease, and the address after the last.
    assertEquals(all.filter(isFree), [300, MANY]);
  });
  assertEquals(await fixture.leasesOf(), [addressOf(300), addressOf(MANY)]);
});
