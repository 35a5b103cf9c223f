import { assert, assertEquals, assertThrows } from "@std/assert";
import { CniError } from "../../base/error.ts";
import {
  describeOwner,
  findIp,
  formatContainer,
  formatOwner,
} from "./lease.ts";
import { LeaseFiles } from "./lease_files.ts";

Deno.test("formatOwner() returns the same content as the Go plugin", () => {
  const ifName = "eth0";
  assertEquals(formatOwner({ containerId: "dummy", ifName }), "dummy\r\neth0");
  assertEquals(formatOwner({ containerId: " d ", ifName }), "d\r\neth0");
  assertEquals(formatContainer(" dummy\n"), "dummy");
});

Deno.test("describeOwner() names the container and interface of a lease", () => {
  assertEquals(
    describeOwner("dummy\r\neth0"),
    'container "dummy", interface "eth0"',
  );
  assertEquals(describeOwner("dummy"), 'container "dummy"');
});

Deno.test("findIp() returns undefined for a file name that is not an address", () => {
  assertEquals(findIp("10.1.2.2")?.toString(), "10.1.2.2");
  assertEquals(findIp("lock"), undefined);
});

/** Runs `test` in a new directory with these files, and returns its files afterwards. */
function inDirectory(
  left: Readonly<Record<string, string>>,
  test: (files: LeaseFiles) => void,
): Record<string, string> {
  const dataDir = Deno.makeTempDirSync();
  try {
    using files = new LeaseFiles(dataDir, "net1");
    files.create();
    for (const [name, content] of Object.entries(left)) {
      Deno.writeTextFileSync(files.pathOf(name), content);
    }
    test(files);
    return read(files);
  } finally {
    Deno.removeSync(dataDir, { recursive: true });
  }
}

/** Reads all files by name. */
function read(files: LeaseFiles): Record<string, string> {
  return Object.fromEntries(
    [...Deno.readDirSync(files.path)].map(({ name }) => [
      name,
      Deno.readTextFileSync(files.pathOf(name)),
    ]),
  );
}

Deno.test("LeaseFiles.addLease() creates a lease file", () => {
  const all = inDirectory({}, (files) => {
    assert(files.addLease("10.1.2.3", "new"));
  });
  assertEquals(all, { "10.1.2.3": "new" });
});

Deno.test("LeaseFiles.addLease() keeps an existing lease, and reuses its own unfinished file", () => {
  const left = { "10.1.2.3": "old" };
  const all = inDirectory(left, (files) => {
    assert(!files.addLease("10.1.2.3", "new"));
    assertEquals(read(files), { ...left, unfinished: "new" });
    assert(files.addLease("10.1.2.4", "new"));
  });
  assertEquals(all, { ...left, "10.1.2.4": "new" });
});

Deno.test("LeaseFiles removes its unfinished file on disposal", () => {
  const left = { "10.1.2.3": "old" };
  const all = inDirectory(left, (files) => {
    assert(!files.addLease("10.1.2.3", "new"));
    files[Symbol.dispose]();
  });
  assertEquals(all, left);
});

Deno.test("LeaseFiles.addLease() replaces an empty lease file", () => {
  const all = inDirectory({ "10.1.2.3": "" }, (files) => {
    assert(files.addLease("10.1.2.3", "new"));
  });
  assertEquals(all, { "10.1.2.3": "new" });
});

Deno.test("LeaseFiles.replace() replaces an existing file", () => {
  const all = inDirectory({ "10.1.2.3": "old", name: "old" }, (files) => {
    assert(!files.addLease("10.1.2.3", "new"));
    files.replace("name", "new");
    assert(files.addLease("10.1.2.4", "new"));
  });
  assertEquals(all, { "10.1.2.3": "old", "10.1.2.4": "new", name: "new" });
});

Deno.test("LeaseFiles.replaceLease() leaves the old lease if it cannot set its time", () => {
  const { utimeSync } = Deno, { utimeSync: ofFile } = Deno.FsFile.prototype;
  const fail = (): never => {
    throw new Deno.errors.PermissionDenied("utimensat");
  };
  const left = { "10.1.2.3": "old" };
  const all = inDirectory(left, (files) => {
    Deno.utimeSync = Deno.FsFile.prototype.utimeSync = fail;
    try {
      assertThrows(() => files.replaceLease("10.1.2.3", "new", 1000), CniError);
    } finally {
      Deno.utimeSync = utimeSync;
      Deno.FsFile.prototype.utimeSync = ofFile;
    }
    assertEquals(read(files), left);
    files.replaceLease("10.1.2.3", "new", 1000);
    assertEquals(files.writtenMs("10.1.2.3"), 1000);
  });
  assertEquals(all, { "10.1.2.3": "new" });
});

Deno.test("LeaseFiles.replaceLease() leaves nothing with an old time if it fails", () => {
  const all = inDirectory({}, (files) => {
    Deno.mkdirSync(files.pathOf("10.1.2.3"));
    assertThrows(() => files.replaceLease("10.1.2.3", "new", 1000), CniError);
    Deno.removeSync(files.pathOf("10.1.2.3"));
    const beforeMs = Date.now() - 1000;
    assert(files.addLease("10.1.2.4", "new"));
    assert((files.writtenMs("10.1.2.4") ?? 0) > beforeMs);
  });
  assertEquals(all, { "10.1.2.4": "new" });
});

Deno.test("LeaseFiles does not write through a hard link that a killed process left", () => {
  const all = inDirectory({ "10.1.2.2": "dummy" }, (files) => {
    // Left by a kill between the two steps of a link: one file with two names.
    Deno.linkSync(files.pathOf("10.1.2.2"), files.pathOf("unfinished"));
    assert(files.addLease("10.1.2.3", "other"));
  });
  assertEquals(all, { "10.1.2.2": "dummy", "10.1.2.3": "other" });
});

Deno.test("LeaseFiles leaves no unfinished file when replace() fails", () => {
  const all = inDirectory({}, (files) => {
    Deno.mkdirSync(files.pathOf("name"));
    Deno.mkdirSync(files.pathOf("name/inner"));
    assertThrows(() => files.replace("name", "new"), CniError);
    Deno.removeSync(files.pathOf("name"), { recursive: true });
  });
  assertEquals(all, {});
  const none = new LeaseFiles("/nonexistent", "net1");
  assertThrows(() => none.addLease("10.1.2.3", "new"), CniError);
});
