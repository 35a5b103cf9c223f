import { assert, assertEquals, assertRejects } from "@std/assert";
import { join } from "@std/path/posix";
import { CniError } from "../../base/error.ts";
import { createLog } from "../../base/log/log.ts";
import { Cidr } from "../../net/cidr.ts";
import { Ip } from "../../net/ip.ts";
import type { AttachmentId } from "../../cni/config/types.ts";
import { formatOwner, type Lease } from "./lease.ts";
import { leaseEach } from "./add.ts";
import { resolveRangeSet } from "./range.ts";
import { LeaseStore } from "./store.ts";
import { testRows } from "../../tests/_harness/table.ts";

const OWNER: AttachmentId = { containerId: "dummy", ifName: "eth0" };
const OTHER: AttachmentId = { containerId: "other", ifName: "eth0" };
const CONTENT = "dummy\r\neth0";
const OWNER_FILE = ".by-owner/net/dummy:eth0";

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

  /** Uses the leases under one lock. */
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
    return this.run((store) => {
      store.release(store.leasesOf(owner));
      store.forgetOwner(owner);
    });
  }

  /** Runs the steps of GC. */
  gc(valid: readonly AttachmentId[]): Promise<void> {
    return this.run((store) => {
      store.release(store.leasesOfOthers(valid));
      store.retainOwners(valid);
    });
  }

  /** Lists the owners with a file, except those of the first leases. */
  owners(): string[] {
    return listDirectory(join(this.root, ".by-owner/net"))
      .filter((name) => !/^c\d+:eth0$/.test(name));
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

Deno.test("OwnerFiles leave no trace where there are few leases", async () => {
  using fixture = new Fixture(FEW);
  await fixture.add();
  assertEquals((await fixture.leasesOf()).length, 2);
  await fixture.del();
  assertEquals(await fixture.leasesOf(), []);
  assertEquals(listDirectory(fixture.root), ["net"]);
});

Deno.test("OwnerFiles say which addresses an attachment has", async () => {
  using fixture = new Fixture(MANY);
  const before = listDirectory(fixture.directory);
  assertEquals(await fixture.add(), ["10.9.0.2", "2001:db8::2"]);
  assertEquals(fixture.read(OWNER_FILE), "10.9.0.2 2001:db8::2\n");
  await fixture.add({ ...OWNER, ifName: "net/1" });
  assertEquals(fixture.owners(), ["dummy:eth0", "dummy:net%2F1"]);
  assertEquals(await fixture.leasesOf(), ["10.9.0.2", "2001:db8::2"]);
  await fixture.del();
  assertEquals(fixture.owners(), ["dummy:net%2F1"]);
  await fixture.del({ ...OWNER, ifName: "net/1" });
  assertEquals(fixture.owners(), []);
  const own = ["last_reserved_ip.0", "last_reserved_ip.1", "lock"];
  assertEquals(listDirectory(fixture.directory), [...before, ...own]);
});

Deno.test("OwnerFiles may be cut off anywhere, and no lease is lost", async () => {
  using fixture = new Fixture(MANY);
  await fixture.add();
  const line = fixture.read(OWNER_FILE) ?? "";
  const leases = await fixture.leasesOf();
  for (let length = 0; length <= line.length; length++) {
    fixture.write(OWNER_FILE, line.slice(0, length));
    assertEquals(await fixture.leasesOf(), leases, `${length} bytes`);
    await assertRejects(() => fixture.add(OWNER, leases[0]), CniError);
  }
  const others = [
    "\n",
    "\0".repeat(20),
    "10.9.0.2 2001:db8::\n",
    "lock\n",
    "x ".repeat(9),
  ];
  for (const text of [...others, `${line}${line}`, "../../etc/passwd\n"]) {
    fixture.write(OWNER_FILE, text);
    assertEquals(await fixture.leasesOf(), leases, JSON.stringify(text));
  }
  fixture.write(OWNER_FILE, line.slice(0, 5));
  await fixture.del();
  assertEquals(await fixture.leasesOf(), []);
  assertEquals(fixture.owners(), []);
});

testRows("OwnerFiles are believed only as far as the leases agree", [
  [
    "another program ended the leases and made another one",
    (f) => {
      f.remove("net/10.9.0.2");
      f.remove("net/2001:db8::2");
      f.write("net/10.9.0.77", CONTENT);
    },
    ["10.9.0.77"],
  ],
  [
    "another program ended one and gave its address away",
    (f) => f.write("net/10.9.0.2", "other\r\neth0"),
    ["2001:db8::2"],
  ],
  [
    "another program made one of the container alone",
    (f) => {
      f.remove("net/10.9.0.2");
      f.remove("net/2001:db8::2");
      f.write("net/10.9.0.77", "dummy");
    },
    ["10.9.0.77"],
  ],
  ["the files were removed", (f) => f.remove(".by-owner"), [
    "10.9.0.2",
    "2001:db8::2",
  ]],
  ["the directory was emptied", (f) => {
    for (const name of listDirectory(f.directory)) f.remove(`net/${name}`);
  }, []],
], async ([, change, want]: [string, (fixture: Fixture) => void, string[]]) => {
  using fixture = new Fixture(MANY);
  await fixture.add();
  change(fixture);
  assertEquals(await fixture.leasesOf(), want);
  await fixture.del();
  assertEquals(await fixture.leasesOf(), []);
  // Whatever was left, the attachment can be added again.
  await fixture.add();
  assertEquals((await fixture.leasesOf()).length, 2);
});

Deno.test("OwnerFiles tell ADD that an attachment has a lease", async () => {
  using fixture = new Fixture(MANY);
  const leases = await fixture.add();
  const before = fixture.read(OWNER_FILE);
  const { message } = await assertRejects(() => fixture.add(), CniError);
  assert(message.includes("duplicate allocation is not allowed"), message);
  assertEquals(fixture.read(OWNER_FILE), before);
  assertEquals(await fixture.leasesOf(), leases);
});

testRows("OwnerFiles hide no lease from a second ADD", [
  ["from before the directory was large", () => {}],
  ["with another attachment's ADD in between", (f) => f.add(OTHER)],
  ["whose files were removed", async (f) => {
    await f.add(OTHER);
    f.remove(".by-owner");
    await f.add({ ...OTHER, ifName: "net1" });
  }],
  ["while an ADD that wrote the files was killed", async (f) => {
    await Deno.mkdir(join(f.root, ".by-owner/.net"), { recursive: true });
    f.write(".by-owner/.net/dummy:eth0", "10.1.0.0\n");
    await f.add(OTHER);
  }],
  ["with a very old one of another container alone", async (f) => {
    f.write("net/10.8.0.1", "old");
    await f.add(OTHER);
  }],
  ["of the container alone", async (f) => {
    f.write("net/10.9.0.77", "dummy");
    await f.add(OTHER);
  }],
  ["of another program, after ours ended", async (f) => {
    await f.add(OTHER);
    f.write(OWNER_FILE, "10.9.0.70\n");
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

Deno.test("OwnerFiles name every owner from the first ADD on", async () => {
  using fixture = new Fixture(MANY);
  fixture.write("net/10.8.0.1", "c7\r\neth0");
  fixture.write("net/10.8.0.2", "");
  await fixture.add();
  const files = listDirectory(join(fixture.root, ".by-owner/net"));
  assertEquals(files.length, MANY + 1);
  const addresses = fixture.read(".by-owner/net/c7:eth0")?.trim().split(" ");
  assertEquals(addresses?.sort(), ["10.1.0.7", "10.8.0.1"]);
  assertEquals(listDirectory(join(fixture.root, ".by-owner")), ["net"]);
});

Deno.test("OwnerFiles keep an owner's other leases when its ADD fails", async () => {
  using fixture = new Fixture(MANY);
  await fixture.add(OWNER, "10.9.0.9");
  fixture.write("net/10.8.0.2", "other\r\neth0");
  const set = resolveRangeSet([{ subnet: Cidr.parse("10.8.0.0/16") }], 0);
  const wishes = [{ set, requested: Ip.parse("10.8.0.2") }];
  const log = createLog({}, () => {});
  await assertRejects(
    () => fixture.run((store) => leaseEach(wishes, OWNER, store, log)),
    CniError,
  );
  const { message } = await assertRejects(() => fixture.add(), CniError);
  assert(message.includes("10.9.0.9 has been allocated"), message);
});

Deno.test("OwnerFiles list leases of other ranges, too", async () => {
  using fixture = new Fixture(MANY);
  await fixture.add(OWNER, "10.9.0.9");
  const set = resolveRangeSet([{ subnet: Cidr.parse("10.8.0.0/16") }], 0);
  const log = createLog({}, () => {});
  await fixture.run((store) =>
    leaseEach([{ set, requested: undefined }], OWNER, store, log)
  );
  assertEquals(fixture.read(OWNER_FILE), "10.9.0.9 10.8.0.2\n");
  await fixture.del();
  assertEquals(await fixture.leasesOf(), []);
});

Deno.test("OwnerFiles say nothing while an ADD is under way", async () => {
  using fixture = new Fixture(MANY);
  await fixture.add(OWNER, "10.9.0.9");
  // The state after an ADD that was killed after its first lease.
  await fixture.run((store) => {
    store.knownLeasesOf(OWNER);
    store.announceOwner(OWNER);
    assert(store.reserve(Ip.parse("10.8.0.2"), OWNER));
  });
  assertEquals(await fixture.leasesOf(), ["10.8.0.2", "10.9.0.9"]);
  await fixture.del();
  assertEquals(await fixture.leasesOf(), []);
});

Deno.test("OwnerFiles have ADD look for what a killed one left", async () => {
  using fixture = new Fixture(MANY);
  await fixture.run((store) => {
    store.knownLeasesOf(OWNER);
    store.announceOwner(OWNER);
    assert(store.reserve(Ip.parse("10.9.0.77"), OWNER));
  });
  const { message } = await assertRejects(() => fixture.add(), CniError);
  assert(message.includes("10.9.0.77 has been allocated"), message);
  await fixture.del();
  assertEquals(await fixture.leasesOf(), []);
  assertEquals(fixture.read("net/10.9.0.77"), undefined);
  assertEquals((await fixture.add()).length, 2);
});

Deno.test("OwnerFiles are gone after an ADD that failed", async () => {
  using fixture = new Fixture(MANY);
  fixture.write("net/10.9.0.9", "other\r\neth0");
  await assertRejects(() => fixture.add(OWNER, "10.9.0.9"), CniError);
  assertEquals(fixture.owners(), ["other:eth0"]);
});

Deno.test("OwnerFiles are kept on when a large directory becomes small", async () => {
  using fixture = new Fixture(MANY);
  await fixture.add(OWNER, "10.9.0.2");
  // The directory itself is replaced, since some file systems never shrink one.
  await Deno.remove(fixture.directory, { recursive: true });
  await Deno.mkdir(fixture.directory);
  fixture.write("net/10.9.0.2", formatOwner(OWNER));
  await fixture.del();
  assertEquals(fixture.owners(), []);
  assertEquals(await fixture.add(), ["10.9.0.2", "2001:db8::2"]);
  assertEquals(fixture.read(OWNER_FILE), "10.9.0.2 2001:db8::2\n");
});

Deno.test("OwnerFiles of a network leave other networks alone", async () => {
  using fixture = new Fixture(MANY);
  await fixture.add();
  {
    using store = await LeaseStore.open(fixture.root, "other");
    store.announceOwner(OWNER);
    assert(store.reserve(Ip.parse("10.1.0.1"), OWNER));
    store.recordOwner(OWNER, [Ip.parse("10.1.0.1")]);
  }
  assertEquals(listDirectory(join(fixture.root, ".by-owner")), ["net"]);
});

Deno.test("LeaseStore.retainOwners() removes the files of owners that are gone", async () => {
  using fixture = new Fixture(MANY);
  const owners = ["a", "b", "c"].map((containerId): AttachmentId => ({
    containerId,
    ifName: "eth0",
  }));
  for (const owner of owners) await fixture.add(owner);
  const valid = owners.slice(1);
  await fixture.gc(valid);
  assertEquals(fixture.owners(), ["b:eth0", "c:eth0"]);
  for (const [i, owner] of owners.entries()) {
    assertEquals((await fixture.leasesOf(owner)).length, i === 0 ? 0 : 2);
  }
  assertEquals(
    await fixture.leasesOf({ containerId: "c1", ifName: "eth0" }),
    [],
  );
});

Deno.test("LeaseStore works where no owner's file can be made", async () => {
  using fixture = new Fixture(MANY);
  fixture.write(".by-owner", "in the way");
  const leases = await fixture.add();
  assertEquals(leases.length, 2);
  assertEquals(await fixture.leasesOf(), leases);
  await fixture.del();
  assertEquals(await fixture.leasesOf(), []);
});

Deno.test("LeaseStore.announceOwner() refuses to go on with a file that it cannot empty", async () => {
  using fixture = new Fixture(MANY);
  await fixture.add(OWNER, "10.9.0.9");
  fixture.remove(OWNER_FILE);
  await Deno.mkdir(join(fixture.root, OWNER_FILE, "in-the-way"), {
    recursive: true,
  });
  const error = await assertRejects(
    () => fixture.run((store) => store.announceOwner(OWNER)),
    CniError,
  );
  assertEquals(error.code, 5);
});

Deno.test("LeaseStore.reserve() reads a large directory after many misses", async () => {
  using fixture = new Fixture(MANY);
  fixture.write(`net/${addressOf(300)}`, "");
  await fixture.run((store) => {
    const isFree = (i: number): boolean =>
      store.reserve(Ip.parse(addressOf(i)), OWNER);
    const all = Array.from({ length: MANY + 1 }, (_, i) => i);
    // The address of the empty lease, and the one after the last.
    assertEquals(all.filter(isFree), [300, MANY]);
  });
  assertEquals(await fixture.leasesOf(), [addressOf(300), addressOf(MANY)]);
});
