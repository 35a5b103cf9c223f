import { assert, assertEquals } from "@std/assert";
import { join } from "@std/path/posix";
import { Ip } from "../../net/ip.ts";
import { findSignature } from "./folder_signature.ts";
import type { Lease, Owner } from "./lease.ts";
import { indexPathOf } from "./owner_index.ts";
import { LeaseStore } from "./store.ts";

const OWNER: Owner = { containerId: "dummy", ifName: "eth0" };
const CONTENT = "dummy\r\neth0";

/** Few enough to be read each time, many, and enough for a large folder. */
const FEW = 60, MANY = 70, VERY_MANY = 600;

/** A folder of leases, and a place for its index. */
class Fixture implements Disposable {
  readonly root = Deno.makeTempDirSync({ prefix: "leases-" });
  readonly folder = join(this.root, "net");
  indexDir = join(this.root, "index");

  /** Makes leases of containers `c0`, `c1`…, each with its address. */
  constructor(count: number) {
    Deno.mkdirSync(this.folder);
    for (let i = 0; i < count; i++) this.write(addressOf(i), `c${i}\r\neth0`);
  }

  /** Writes a file as another program might. */
  write(name: string, content: string): void {
    Deno.writeTextFileSync(join(this.folder, name), content);
  }

  /** Does something with the leases under one lock. */
  run<T>(use: (store: LeaseStore) => T): T {
    using store = LeaseStore.open(this.root, "net", this.indexDir);
    return use(store);
  }

  leasesOf(owner = OWNER): string[] {
    return this.run((store) => namesOf(store.leasesOf(owner)));
  }

  knownLeasesOf(owner = OWNER): string[] {
    return this.run((store) => namesOf(store.knownLeasesOf(owner)));
  }

  /** Does what ADD does. */
  add(ip: string, owner = OWNER): boolean {
    return this.run((store) => {
      store.knownLeasesOf(owner);
      const isReserved = store.reserve(Ip.parse(ip), owner);
      store.setLastReserved(0, Ip.parse(ip));
      return isReserved;
    });
  }

  /** Does what DEL does. */
  del(owner = OWNER): void {
    this.run((store) => store.release(store.leasesOf(owner)));
  }

  get isSigned(): boolean {
    return findSignature(this.folder) !== undefined;
  }

  get hasIndex(): boolean {
    try {
      return Deno.statSync(indexPathOf(this.folder, this.indexDir)).isDirectory;
    } catch {
      return false;
    }
  }

  /**
   * Says whether a look-up reads the container's files alone: a lease that is
   * overwritten in place, which nothing tells, is not seen then.
   */
  readsAll(lookUp: (owner: Owner) => string[]): boolean {
    const path = join(this.folder, addressOf(1));
    const before = Deno.readTextFileSync(path);
    // Not the same twice: an index that is made meanwhile has it.
    const containerId = crypto.randomUUID();
    Deno.writeTextFileSync(path, `${containerId}\r\neth0`);
    const found = lookUp({ containerId, ifName: "eth0" });
    Deno.writeTextFileSync(path, before);
    return found.length > 0;
  }

  [Symbol.dispose](): void {
    Deno.removeSync(this.root, { recursive: true });
  }
}

function addressOf(i: number): string {
  return `10.1.${i >> 8}.${i & 255}`;
}

function namesOf(leases: readonly Lease[]): string[] {
  return leases.map(({ ip }) => `${ip}`).sort();
}

Deno.test("LeaseLookup keeps no index of few leases", () => {
  using fixture = new Fixture(FEW);
  assert(fixture.add("10.9.0.1"));
  assertEquals(fixture.knownLeasesOf(), ["10.9.0.1"]);
  fixture.del();
  assertEquals(fixture.leasesOf(), []);
  assert(!fixture.hasIndex);
  assert(!fixture.isSigned);
});

Deno.test("LeaseLookup reads a container's leases alone where there are many", () => {
  using fixture = new Fixture(MANY);
  assert(fixture.readsAll((owner) => fixture.leasesOf(owner)));
  assert(fixture.isSigned);
  assert(fixture.add("10.9.0.1"));
  assertEquals(fixture.leasesOf(), ["10.9.0.1"]);
  for (const lookUp of ["leasesOf", "knownLeasesOf"] as const) {
    assert(!fixture.readsAll((owner) => fixture[lookUp](owner)), lookUp);
  }
  fixture.del();
  assertEquals(fixture.leasesOf(), []);
  assert(!fixture.readsAll((owner) => fixture.leasesOf(owner)));
});

Deno.test("LeaseLookup finds leases that another program made or ended", async (t) => {
  const changes: [name: string, (fixture: Fixture) => void, want: string[]][] =
    [
      ["made", (f) => f.write("10.9.0.2", CONTENT), ["10.9.0.1", "10.9.0.2"]],
      ["ended", (f) => Deno.removeSync(join(f.folder, "10.9.0.1")), []],
      [
        "made, of the container alone",
        (f) => {
          Deno.removeSync(join(f.folder, "10.9.0.1"));
          f.write("10.9.0.2", "dummy");
        },
        ["10.9.0.2"],
      ],
    ];
  for (const [name, change, want] of changes) {
    for (const count of [FEW, MANY, VERY_MANY]) {
      await t.step(`${name}, among ${count}`, () => {
        using fixture = new Fixture(count);
        fixture.leasesOf();
        assert(fixture.add("10.9.0.1"));
        change(fixture);
        if (count < VERY_MANY) assertEquals(fixture.knownLeasesOf(), want);
        assertEquals(fixture.leasesOf(), want);
        assertEquals(fixture.knownLeasesOf(), want);
        fixture.del();
        assertEquals(fixture.leasesOf(), []);
      });
    }
  }
});

Deno.test("LeaseStore.knownLeasesOf() reads no large folder", async (t) => {
  await t.step("that has no index", () => {
    using fixture = new Fixture(VERY_MANY);
    assert(!fixture.readsAll((owner) => fixture.knownLeasesOf(owner)));
    assert(fixture.add("10.9.0.1"));
    assertEquals(fixture.knownLeasesOf(), ["10.9.0.1"]);
    assert(!fixture.isSigned);
  });
  await t.step("that another program has changed", () => {
    using fixture = new Fixture(VERY_MANY);
    fixture.leasesOf();
    assert(fixture.add("10.9.0.1"));
    fixture.write("10.9.0.2", CONTENT);
    // The one that is missed: no lease of ours, in a large folder.
    assertEquals(fixture.knownLeasesOf(), ["10.9.0.1"]);
    assert(fixture.add("10.9.0.3"));
    assertEquals(fixture.knownLeasesOf(), ["10.9.0.1", "10.9.0.3"]);
    assertEquals(fixture.leasesOf(), ["10.9.0.1", "10.9.0.2", "10.9.0.3"]);
  });
});

Deno.test("LeaseStore.knownLeasesOf() believes the leases, not the index", () => {
  using fixture = new Fixture(VERY_MANY);
  assert(fixture.add("10.9.0.1"));
  fixture.write("10.9.0.1", "other\r\neth0");
  assertEquals(fixture.knownLeasesOf(), []);
  Deno.removeSync(join(fixture.folder, "10.9.0.1"));
  assertEquals(fixture.knownLeasesOf(), []);
});

Deno.test("LeaseLookup is right by way of every size", () => {
  using fixture = new Fixture(0);
  const owners = Array.from(
    { length: 100 },
    (_, i): Owner => ({ containerId: `o${i}`, ifName: "eth0" }),
  );
  const check = (): void => {
    for (const [i, owner] of owners.entries()) {
      const want = Deno.readTextFileSync(
          join(fixture.folder, addressOf(i)),
        ) === ""
        ? []
        : [addressOf(i)];
      assertEquals(fixture.knownLeasesOf(owner), want);
    }
  };
  for (const [i, owner] of owners.entries()) {
    assert(fixture.add(addressOf(i), owner));
  }
  check();
  assert(fixture.isSigned);
  for (const owner of owners.slice(20)) fixture.del(owner);
  for (const [i, owner] of owners.entries()) {
    assertEquals(fixture.add(addressOf(i), owner), i >= 20);
  }
  check();
});

Deno.test("LeaseStore.reserve() reads a large folder after many misses", () => {
  using fixture = new Fixture(VERY_MANY);
  fixture.write(addressOf(300), "");
  fixture.run((store) => {
    const isFree = (i: number): boolean =>
      store.reserve(Ip.parse(addressOf(i)), OWNER);
    const all = Array.from({ length: VERY_MANY + 1 }, (_, i) => i);
    // The empty one, and the one after the last.
    assertEquals(all.filter(isFree), [300, VERY_MANY]);
  });
  assertEquals(fixture.knownLeasesOf(), [addressOf(300), addressOf(VERY_MANY)]);
  assert(!fixture.readsAll((owner) => fixture.leasesOf(owner)));
});

Deno.test("LeaseLookup believes no index but that of the last change", () => {
  // As two mount namespaces have it, with a /run each.
  using fixture = new Fixture(MANY);
  const [here, there] = ["here", "there"].map((name) =>
    join(fixture.root, name)
  );
  const runIn = <T>(indexDir: string | undefined, use: () => T): T => {
    fixture.indexDir = indexDir ?? "";
    return use();
  };
  runIn(here, () => assert(fixture.add("10.9.0.1")));
  runIn(
    there,
    () => assert(fixture.add("10.9.0.2", { ...OWNER, ifName: "b" })),
  );
  runIn(here, () => fixture.del());
  runIn(there, () => {
    assertEquals(fixture.leasesOf(), []);
    assertEquals(fixture.leasesOf({ ...OWNER, ifName: "b" }), ["10.9.0.2"]);
    assert(fixture.add("10.9.0.1"));
  });
  runIn(here, () => assertEquals(fixture.leasesOf(), ["10.9.0.1"]));
});

Deno.test("LeaseLookup has an index that grows with the leases only", () => {
  using fixture = new Fixture(MANY);
  fixture.leasesOf();
  const path = indexPathOf(fixture.folder, fixture.indexDir);
  const measure = (): number =>
    [...Deno.readDirSync(path)].filter(({ name }) => name.length === 1)
      .reduce(
        (sum, { name }) => sum + Deno.statSync(`${path}/${name}`).size,
        0,
      );
  const before = measure();
  for (let i = 0; i < 10; i++) {
    assert(fixture.add("10.9.0.1"));
    assert(measure() > before);
    fixture.del();
    assertEquals(measure(), before);
  }
});

Deno.test("LeaseLookup believes no index that could not be written", () => {
  using fixture = new Fixture(MANY);
  fixture.leasesOf();
  const path = indexPathOf(fixture.folder, fixture.indexDir);
  for (const digit of "0123456789abcdef") {
    Deno.removeSync(`${path}/${digit}`);
    Deno.mkdirSync(`${path}/${digit}`);
  }
  assert(fixture.add("10.9.0.1"));
  assertEquals(fixture.knownLeasesOf(), ["10.9.0.1"]);
  assertEquals(fixture.leasesOf(), ["10.9.0.1"]);
});

Deno.test("LeaseLookup works where no index can be kept", () => {
  using fixture = new Fixture(VERY_MANY);
  fixture.write("file", "");
  fixture.indexDir = join(fixture.folder, "file", "index");
  assert(fixture.add("10.9.0.1"));
  assert(!fixture.add("10.9.0.1"));
  assertEquals(fixture.leasesOf(), ["10.9.0.1"]);
  fixture.del();
  assertEquals(fixture.leasesOf(), []);
});

Deno.test("LeaseStore.leasesOfOthers() ends leases in the index too", () => {
  using fixture = new Fixture(VERY_MANY);
  fixture.leasesOf();
  const valid = Array.from(
    { length: MANY },
    (_, i): Owner => ({ containerId: `c${i}`, ifName: "eth0" }),
  );
  fixture.run((store) => store.release(store.leasesOfOthers(valid)));
  assert(!fixture.readsAll((owner) => fixture.leasesOf(owner)));
  const gone = { containerId: `c${MANY}`, ifName: "eth0" };
  assertEquals(fixture.leasesOf(gone), []);
  assertEquals(fixture.leasesOf(valid[0]), [addressOf(0)]);
});
