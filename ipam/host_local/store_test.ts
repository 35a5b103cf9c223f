import {
  assert,
  assertEquals,
  assertRejects,
  assertStringIncludes,
  assertThrows,
} from "@std/assert";
import { join } from "@std/path/posix";
import { CniError, ErrorCode } from "../../base/error.ts";
import { FileLock } from "../../base/files/lock.ts";
import { createLog } from "../../base/log/log.ts";
import { Ip } from "../../net/ip.ts";
import {
  allOf,
  canUseNetns,
  hasCommand,
  ignoreUnless,
} from "../../testing/capabilities.ts";
import { Disk } from "./testing.ts";
import type { AttachmentId } from "../../cni/config/types.ts";
import type { Lease } from "./lease.ts";
import { LeaseStore } from "./store.ts";
import { eachRow, testRows } from "../../tests/_harness/table.ts";

const OWNER: AttachmentId = { containerId: "dummy", ifName: "eth0" };

/** Files of a directory: content by name, `undefined` for a directory. */
type Files = Record<string, string | undefined>;

/** The lease directory of network `net`, in a new data directory. */
class Fixture implements Disposable {
  readonly dataDir = Deno.makeTempDirSync({ prefix: "leases-" });
  readonly directory = join(this.dataDir, "net");

  /** Creates a directory with these files, or no directory without files. */
  static create(files?: Files): Fixture {
    const fixture = new Fixture();
    if (files !== undefined) Deno.mkdirSync(fixture.directory);
    for (const [name, content] of Object.entries(files ?? {})) {
      const path = join(fixture.directory, name);
      if (content === undefined) Deno.mkdirSync(path);
      else Deno.writeTextFileSync(path, content);
    }
    return fixture;
  }

  open(): Promise<LeaseStore> {
    return LeaseStore.open(this.dataDir, "net");
  }

  /** Reads all files except the empty lock file. */
  read(): Files {
    const { lock: _, ...files } = readDirectory(this.directory);
    return files;
  }

  [Symbol.dispose](): void {
    Deno.removeSync(this.dataDir, { recursive: true });
  }
}

function readDirectory(directory: string): Files {
  return Object.fromEntries(
    [...Deno.readDirSync(directory)].map(({ name, isFile }) => [
      name,
      isFile ? Deno.readTextFileSync(join(directory, name)) : undefined,
    ]),
  );
}

function listDataDir({ dataDir }: Fixture): string[] {
  return [...Deno.readDirSync(dataDir)].map(({ name }) => name);
}

function namesOf(leases: readonly Lease[]): string[] {
  return leases.map(({ ip }) => `${ip}`).sort();
}

testRows("LeaseStore.reserve() writes the Go plugin's files", [
  ["IPv4", "10.1.2.2", OWNER, "10.1.2.2"],
  ["IPv6 as RFC 5952 has it", "2001:DB8:1:0::2", OWNER, "2001:db8:1::2"],
  [
    "HL-10: blanks around the container ID, which dispatch() never lets in",
    "10.1.2.2",
    { containerId: "  dummy\n ", ifName: "eth0" },
    "10.1.2.2",
  ],
], async ([, ip, owner, name]: [string, string, AttachmentId, string]) => {
  using fixture = Fixture.create();
  using store = await fixture.open();
  assert(store.reserve(Ip.parse(ip), owner));
  assertEquals(fixture.read(), { [name]: "dummy\r\neth0" });
  const { mode } = await Deno.stat(join(fixture.directory, name));
  assertEquals((mode ?? 0) & 0o777, 0o600);
  store.release(store.leasesOf(owner));
  assertEquals(fixture.read(), {});
});

testRows("LeaseStore.reserve() leases an address only if it is free", [
  ["no file", {}, true],
  ["another address", { "10.1.2.3": "other\r\neth0" }, true],
  ["taken by somebody", { "10.1.2.2": "other\r\neth0" }, false],
  ["taken by the owner", { "10.1.2.2": "dummy\r\neth0" }, false],
  ["taken by who knows", { "10.1.2.2": "kept for the printer" }, false],
  ["a directory of that name", { "10.1.2.2": undefined }, false],
  // The Go plugin never hands out such an address again.
  ["an empty file, left by a crash", { "10.1.2.2": "" }, true],
  ["what a killed process left", { unfinished: "dummy\r\net" }, true],
], async ([, files, want]: [string, Files, boolean]) => {
  using fixture = Fixture.create(files);
  {
    using store = await fixture.open();
    assertEquals(store.reserve(Ip.parse("10.1.2.2"), OWNER), want);
  }
  const { unfinished: _, ...others } = files;
  const after = want ? { ...others, "10.1.2.2": "dummy\r\neth0" } : files;
  assertEquals(fixture.read(), after);
});

testRows("LeaseStore.leasesOf() reads the files of Go plugins", [
  ["nothing", {}, []],
  ["a lease", { "10.1.2.2": "dummy\r\neth0" }, ["10.1.2.2"]],
  ["an edited lease", { "10.1.2.2": " dummy\r\neth0\r\n" }, ["10.1.2.2"]],
  [
    "HL-8: of the container alone",
    { "10.1.2.2": "dummy", "10.1.2.3": "dummy\r\n" },
    ["10.1.2.2", "10.1.2.3"],
  ],
  [
    "of the container alone beside an exact one",
    { "10.1.2.2": "dummy", "10.1.2.3": "dummy\r\neth0" },
    ["10.1.2.3"],
  ],
  [
    "of others",
    {
      "10.1.2.2": "dummy\r\neth1",
      "10.1.2.3": "dummy2\r\neth0",
      "10.1.2.4": "dummy\neth0",
      "10.1.2.5": "",
    },
    [],
  ],
  [
    "several, of both families",
    { "10.1.2.2": "dummy\r\neth0", "2001:db8::2": "dummy\r\neth0" },
    ["10.1.2.2", "2001:db8::2"],
  ],
  [
    "files that are not leases",
    {
      "10.1.2.2.bak": "dummy\r\neth0",
      "010.1.2.3": "dummy\r\neth0",
      "10.1.2.4": undefined,
      "last_reserved_ip.0": "dummy\r\neth0",
      "unfinished": "dummy\r\neth0",
      "README": "dummy",
    },
    [],
  ],
], async ([, files, want]: [string, Files, string[]]) => {
  using fixture = Fixture.create(files);
  using store = await fixture.open();
  assertEquals(namesOf(store.leasesOf(OWNER)), want);
});

Deno.test("LeaseStore.leasesOf() removes the unfinished file of a killed process", async () => {
  const lease = { "10.1.2.2": "dummy\r\neth0" };
  using fixture = Fixture.create({ ...lease, unfinished: "dummy\r\net" });
  {
    using store = await fixture.open();
    assertEquals(namesOf(store.leasesOf(OWNER)), ["10.1.2.2"]);
  }
  assertEquals(fixture.read(), lease);
});

Deno.test("LeaseStore.leasesOfOthers() omits each lease of the given owners", async () => {
  using fixture = Fixture.create({
    "10.1.2.2": "dummy\r\neth0",
    "10.1.2.3": "dummy",
    "10.1.2.4": "dummy\r\neth1",
    "10.1.2.5": "gone\r\neth0",
    "10.1.2.6": "gone",
    "10.1.2.7": "",
    "README": "gone",
  });
  using store = await fixture.open();
  const others = namesOf(store.leasesOfOthers([OWNER]));
  assertEquals(others, ["10.1.2.4", "10.1.2.5", "10.1.2.6", "10.1.2.7"]);
  assertEquals(store.leasesOfOthers([]).length, 6);
});

Deno.test("LeaseStore.release() removes only the given leases", async () => {
  const foreign = { "10.1.2.9": "other\r\neth0", "README": "dummy" };
  using fixture = Fixture.create({ "10.1.2.2": "dummy\r\neth0", ...foreign });
  using store = await fixture.open();
  const leases = store.leasesOf(OWNER);
  store.release(leases);
  assertEquals(fixture.read(), foreign);
  store.release(leases);
  store.removeLease(Ip.parse("10.1.2.2"));
  assertEquals(fixture.read(), foreign);
});

Deno.test("LeaseStore.release() removes the other leases after a failure", async (t) => {
  const leases = ["10.1.2.2", "10.1.2.3", "10.1.2.4"];
  const rows = [["10.1.2.2"], ["10.1.2.2", "10.1.2.3"]];
  await eachRow(t, rows, async (stuck) => {
    using fixture = Fixture.create(
      Object.fromEntries(leases.map((name) => [name, "dummy\r\neth0"])),
    );
    using store = await fixture.open();
    const listed = store.leasesOf(OWNER);
    for (const name of stuck) obstruct(join(fixture.directory, name));
    const error = assertThrows(() => store.release(listed), Error);
    const failures = error instanceof AggregateError ? error.errors : [error];
    assertEquals(failures.map(({ code }) => code), stuck.map(() => 5));
    assertEquals(Object.keys(fixture.read()).sort(), stuck);
  }, (stuck) => `${stuck.length} of them cannot be removed`);
});

/** Replaces a file with a directory that is not empty and cannot be removed. */
function obstruct(path: string): void {
  Deno.removeSync(path);
  Deno.mkdirSync(join(path, "in-the-way"), { recursive: true });
}

testRows("LeaseStore.lastReserved() reads one address, or none", [
  ["10.1.2.9", "10.1.2.9"],
  ["2001:db8::9", "2001:db8::9"],
  // The Go plugin accepts neither of these as an address, and starts over.
  ["10.1.2.9\n", "10.1.2.9"],
  [" 10.1.2.9\r\n", "10.1.2.9"],
  ["", undefined],
  ["10.1.2", undefined],
  ["\0\0\0\0\0\0\0\0", undefined],
], async ([content, want]: [string | undefined, string | undefined]) => {
  using fixture = Fixture.create({ "last_reserved_ip.1": content });
  using store = await fixture.open();
  assertEquals(store.lastReserved(1)?.toString(), want);
  assertEquals(store.lastReserved(0), undefined);
}, ([content]) => JSON.stringify(content));

Deno.test("LeaseStore.setLastReserved() replaces the address, without a line end", async () => {
  using fixture = Fixture.create({ "last_reserved_ip.0": "2001:db8::ffff\n" });
  using store = await fixture.open();
  store.setLastReserved(0, Ip.parse("10.1.2.2"));
  store.setLastReserved(1, Ip.parse("2001:db8::2"));
  assertEquals(fixture.read(), {
    "last_reserved_ip.0": "10.1.2.2",
    "last_reserved_ip.1": "2001:db8::2",
  });
});

Deno.test("LeaseStore.find() does not create a missing directory", async () => {
  using fixture = Fixture.create();
  assertEquals(await LeaseStore.find(fixture.dataDir, "net"), undefined);
  assertEquals(listDataDir(fixture), []);
});

Deno.test("LeaseStore gives up waiting for the lock and names its holder", async () => {
  using fixture = Fixture.create({});
  using _held = await fixture.open();
  const { acquire } = FileLock;
  FileLock.acquire = (path, mode, wait): Promise<FileLock> =>
    acquire(path, mode, { ...wait, limitMs: 20, noticeMs: 10 });
  try {
    for (const open of [LeaseStore.open, LeaseStore.find]) {
      const lines: string[] = [];
      const log = createLog({}, (line) => lines.push(line));
      const error = await assertRejects(
        () => open(fixture.dataDir, "net", { log }),
        CniError,
      );
      assertEquals(error.code, ErrorCode.TryAgainLater);
      assertEquals(error.message, `Cannot lock "${fixture.directory}/lock"`);
      assertStringIncludes(error.details, `process ${Deno.pid} (`);
      assertEquals(lines.length, 1);
    }
    const signal = AbortSignal.abort();
    const ended = await assertRejects(
      () => LeaseStore.open(fixture.dataDir, "net", { signal }),
      CniError,
    );
    assertEquals(ended.code, ErrorCode.TryAgainLater);
    assertStringIncludes(ended.details, "context canceled");
  } finally {
    FileLock.acquire = acquire;
  }
});

Deno.test("LeaseStore.open() creates the directory and an empty lock file", async () => {
  using fixture = Fixture.create();
  using _store = await LeaseStore.open(join(fixture.dataDir, "a/b"), "net");
  const directory = join(fixture.dataDir, "a/b/net");
  assertEquals(readDirectory(directory), { lock: "" });
  const { mode } = await Deno.stat(directory);
  assertEquals((mode ?? 0) & 0o777, 0o755 & ~Deno.umask());
});

/** Asserts that `run` fails with an I/O failure for this reason. */
async function assertIoFailure(
  run: () => unknown,
  message: string,
  reason: string,
): Promise<void> {
  const error = await assertRejects(() => Promise.try(run), CniError);
  assertEquals(error.code, ErrorCode.IoFailure);
  assertEquals(error.message, message);
  assertStringIncludes(error.details, reason);
}

const needsMount = ignoreUnless(canUseNetns, "needs root");
const needsFlock = allOf(
  needsMount,
  ignoreUnless(hasCommand("flock"), "needs flock"),
);

Deno.test({
  name: `LeaseStore leaves no partial file on a full disk${needsMount.suffix}`,
  ignore: needsMount.ignore,
  fn: async () => {
    await using disk = await Disk.mount(
      "16k",
      "mkdir net && head -c 12288 /dev/zero > /mnt/data",
    );
    const directory = `${disk.dataDir}/net`;
    using store = await LeaseStore.open(disk.dataDir, "net");
    assert(store.reserve(Ip.parse("10.1.2.2"), OWNER));
    const before = { "lock": "", "10.1.2.2": "dummy\r\neth0" };
    await assertIoFailure(
      () => store.reserve(Ip.parse("10.1.2.3"), OWNER),
      `Cannot write "${directory}/10.1.2.3"`,
      "No space left on device",
    );
    await assertIoFailure(
      () => store.setLastReserved(0, Ip.parse("10.1.2.2")),
      `Cannot write "${directory}/last_reserved_ip.0"`,
      "No space left on device",
    );
    assertEquals(readDirectory(directory), before);
    // Ending a lease needs no space, and frees some.
    store.release(store.leasesOf(OWNER));
    assert(store.reserve(Ip.parse("10.1.2.3"), OWNER));
  },
});

/** Runs flock(1) on the lock, without waiting for it. */
function isLocked(directory: string): boolean {
  return !new Deno.Command("flock", {
    args: ["--nonblock", join(directory, "lock"), "true"],
  }).outputSync().success;
}

/** Command that makes the file system of a lease directory read-only. */
const READ_ONLY = "mount -o remount,ro /mnt";
const LEASE = "mkdir net && printf 'dummy\\r\\neth0' > net/10.1.2.2";
const OTHER: AttachmentId = { containerId: "other", ifName: "eth0" };

Deno.test({
  name:
    `LeaseStore locks a read-only directory while it reads it${needsFlock.suffix}`,
  ignore: needsFlock.ignore,
  fn: async () => {
    await using disk = await Disk.mount(
      "64k",
      `${LEASE} && touch net/lock && ${READ_ONLY}`,
    );
    const directory = `${disk.dataDir}/net`;
    const before = readDirectory(directory);
    {
      using store = await LeaseStore.find(disk.dataDir, "net");
      assert(store !== undefined);
      assert(isLocked(directory), "others are not kept out");
      assertEquals(store.leasesOf(OTHER), []);
      store.release([]);
      const leases = store.leasesOf(OWNER);
      assertEquals(namesOf(leases), ["10.1.2.2"]);
      await assertIoFailure(
        () => store.release(leases),
        `Cannot remove "${directory}/10.1.2.2"`,
        "Read-only file system",
      );
    }
    assert(!isLocked(directory), "it is still locked");
    assertEquals(readDirectory(directory), before);
  },
});

Deno.test({
  name:
    `LeaseStore reads a read-only directory that has no lock file, and releases no lease${needsMount.suffix}`,
  ignore: needsMount.ignore,
  fn: async () => {
    await using disk = await Disk.mount("64k", `${LEASE} && ${READ_ONLY}`);
    const directory = `${disk.dataDir}/net`;
    const before = readDirectory(directory);
    using store = await LeaseStore.find(disk.dataDir, "net");
    assert(store !== undefined);
    assertEquals(store.leasesOf(OTHER), []);
    store.release([]);
    const leases = store.leasesOf(OWNER);
    assertEquals(namesOf(leases), ["10.1.2.2"]);
    await assertIoFailure(
      () => store.release(leases),
      `Cannot open the lease directory "${directory}"`,
      "Read-only file system",
    );
    assertEquals(readDirectory(directory), before);
  },
});

Deno.test({
  name:
    `LeaseStore without a lock releases no lease, even after a remount${needsMount.suffix}`,
  ignore: needsMount.ignore,
  fn: async () => {
    await using disk = await Disk.mount("64k", `${LEASE} && ${READ_ONLY}`);
    const directory = `${disk.dataDir}/net`;
    const before = readDirectory(directory);
    using store = await LeaseStore.find(disk.dataDir, "net");
    const leases = store?.leasesOf(OWNER) ?? [];
    const [program = "", ...args] = disk.enter(
      ["mount", "-o", "remount,rw", "/mnt"],
    );
    assert(new Deno.Command(program, { args }).outputSync().success);
    await assertIoFailure(
      () => store?.release(leases),
      `Cannot open the lease directory "${directory}"`,
      "Read-only file system",
    );
    assertEquals(readDirectory(directory), before);
    // The next process gets the lock.
    using next = await LeaseStore.find(disk.dataDir, "net");
    next?.release(leases);
    assertEquals(readDirectory(directory), { lock: "" });
  },
});

Deno.test({
  name: `LeaseStore.open() refuses a read-only directory${needsMount.suffix}`,
  ignore: needsMount.ignore,
  fn: async (t) => {
    await eachRow(t, ["no lock", "a lock"], async (lock) => {
      const touch = lock === "a lock" ? "touch net/lock" : "true";
      await using disk = await Disk.mount(
        "64k",
        `${LEASE} && ${touch} && ${READ_ONLY}`,
      );
      await assertIoFailure(
        () => LeaseStore.open(disk.dataDir, "net"),
        `Cannot open the lease directory "${disk.dataDir}/net"`,
        "Read-only file system",
      );
    });
  },
});

Deno.test("LeaseStore.open() names a directory that cannot be created", async () => {
  using fixture = Fixture.create({ file: "" });
  const dataDir = join(fixture.directory, "file");
  await assertIoFailure(
    () => LeaseStore.open(dataDir, "net"),
    `Cannot open the lease directory "${dataDir}/net"`,
    "Not a directory",
  );
});
