import { assert, assertEquals } from "@std/assert";
import { type IndexEntry, indexPathOf, OwnerIndex } from "./owner_index.ts";

/** A lease folder and a place for its index. */
class Fixture implements Disposable {
  readonly root = Deno.makeTempDirSync();
  readonly folder = `${this.root}/net`;
  readonly indexDir = `${this.root}/run/index`;

  constructor() {
    Deno.mkdirSync(this.folder);
  }

  open(): OwnerIndex {
    return new OwnerIndex(this.folder, this.indexDir);
  }

  [Symbol.dispose](): void {
    Deno.removeSync(this.root, { recursive: true });
  }
}

function entry(containerId: string, address: string): IndexEntry {
  return { containerId, address };
}

Deno.test("OwnerIndex tells which addresses a container has", () => {
  using fixture = new Fixture();
  const index = fixture.open();
  assertEquals(index.addressesOf("a"), []);
  assert(index.add(entry("a", "10.1.2.2")));
  assert(index.add(entry("b", "10.1.2.3")));
  assert(index.add(entry("a", "2001:db8::2")));
  assert(index.add(entry("a", "10.1.2.23")));
  assertEquals(index.addressesOf("a"), [
    "10.1.2.2",
    "2001:db8::2",
    "10.1.2.23",
  ]);
  assert(index.remove(entry("a", "10.1.2.2")));
  assertEquals(index.addressesOf("a"), ["2001:db8::2", "10.1.2.23"]);
  assertEquals(index.addressesOf("b"), ["10.1.2.3"]);
});

Deno.test("OwnerIndex keeps what another call wrote", () => {
  using fixture = new Fixture();
  assertEquals(fixture.open().signature, "");
  fixture.open().add(entry("a", "10.1.2.2"));
  fixture.open().sign("state 1");
  assertEquals(fixture.open().addressesOf("a"), ["10.1.2.2"]);
  assertEquals(fixture.open().signature, "state 1");
  const { mode } = Deno.statSync(indexPathOf(fixture.folder, fixture.indexDir));
  assertEquals((mode ?? 0) & 0o777, 0o700 & ~Deno.umask());
});

Deno.test("OwnerIndex.replaceAll() forgets what was", () => {
  using fixture = new Fixture();
  const index = fixture.open();
  const leases = Array.from(
    { length: 500 },
    (_, i) => entry(`container${i % 250}`, `10.1.${i >> 8}.${i & 255}`),
  );
  index.add(entry("old", "10.9.9.9"));
  assert(index.replaceAll(leases));
  assertEquals(index.addressesOf("old"), []);
  for (const { containerId } of leases) {
    assertEquals(
      index.addressesOf(containerId),
      leases.filter((lease) => lease.containerId === containerId)
        .map(({ address }) => address),
    );
  }
});

Deno.test("OwnerIndex loses one line to a full disk, and no other", () => {
  using fixture = new Fixture();
  const index = fixture.open();
  index.add(entry("a", "10.1.2.2"));
  const path = indexPathOf(fixture.folder, fixture.indexDir);
  const [file] = [...Deno.readDirSync(path)].map(({ name }) => name);
  Deno.truncateSync(`${path}/${file}`, 16);
  index.add(entry("a", "10.1.2.3"));
  assertEquals(index.addressesOf("a").at(-1), "10.1.2.3");
});

Deno.test("OwnerIndex is one for a folder by any path", () => {
  using fixture = new Fixture();
  Deno.symlinkSync(fixture.folder, `${fixture.root}/link`);
  fixture.open().add(entry("a", "10.1.2.2"));
  const index = new OwnerIndex(`${fixture.root}/link`, fixture.indexDir);
  assertEquals(index.addressesOf("a"), ["10.1.2.2"]);
});

Deno.test("OwnerIndex does without a place to be", () => {
  using fixture = new Fixture();
  Deno.writeTextFileSync(`${fixture.root}/file`, "");
  const index = new OwnerIndex(fixture.folder, `${fixture.root}/file/index`);
  assert(!index.add(entry("a", "10.1.2.2")));
  assert(!index.remove(entry("a", "10.1.2.2")));
  assert(!index.replaceAll([entry("a", "10.1.2.2")]));
  index.sign("state 1");
  assertEquals(index.signature, "");
  assertEquals(index.addressesOf("a"), []);
});
