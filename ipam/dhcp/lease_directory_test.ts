import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { createLog } from "../../base/log/log.ts";
import { eachRow } from "../../tests/_harness/table.ts";
import type { Lease4 } from "./lease.ts";
import { LeaseDirectory } from "./lease_directory.ts";

function leaseOf(containerId: string): Lease4 {
  return {
    network: "net",
    containerId,
    ifName: "eth0",
    netns: "/run/netns/c",
    netnsId: "4:1",
    ifindex: 2,
    options: {},
    priority: 0,
    address: "10.9.0.2",
    obtainedAt: 0,
    expires: "",
    ack: {},
    serverMac: "",
  };
}

/** What stands for a lease, and how to make it. */
const UNREADABLE: [what: string, make: (path: string) => Promise<unknown>][] = [
  ["half a file", (path) => Deno.writeTextFile(path, "{")],
  ["a number", (path) => Deno.writeTextFile(path, "5")],
  ["another document", (path) => Deno.writeTextFile(path, "{}")],
  [
    "a lease without an address",
    (path) =>
      Deno.writeTextFile(
        path,
        JSON.stringify({ ...leaseOf("c1"), address: "none" }),
      ),
  ],
  ["a directory", (path) => Deno.mkdir(path)],
  ["a pipe", (path) => new Deno.Command("mkfifo", { args: [path] }).output()],
];

Deno.test("LeaseDirectory skips files that are not leases", async (t) => {
  await eachRow(t, UNREADABLE, async ([, make]) => {
    const root = await Deno.makeTempDir();
    const directory = new LeaseDirectory(`${root}/dhcp.sock`);
    await directory.write(leaseOf("c2"));
    const path = `${directory.path}/net:c1:eth0.json`;
    await make(path);
    let text = "";
    const log = createLog({}, (line) => text += line);
    assertEquals(await directory.find(leaseOf("c1"), log), undefined);
    assertStringIncludes(text, path);
    assertEquals(directory.list(log), [leaseOf("c2")]);
    await directory.markReleased(() => true, log);
    assertEquals(directory.list(), [{ ...leaseOf("c2"), isReleased: true }]);
    await Deno.remove(root, { recursive: true });
  });
});

Deno.test("LeaseDirectory.markReleased() marks the other leases if one cannot be written", async () => {
  const root = await Deno.makeTempDir();
  const directory = new LeaseDirectory(`${root}/dhcp.sock`);
  for (const id of ["c2", "c3"]) await directory.write(leaseOf(id));
  // It is read first, and its place is taken.
  await Deno.writeTextFile(
    `${directory.path}/a.json`,
    JSON.stringify(leaseOf("c1")),
  );
  await Deno.mkdir(`${directory.path}/net:c1:eth0.json`);
  await assertRejects(
    () => directory.markReleased(() => true),
    Error,
    "Cannot mark the lease of 10.9.0.2 as released",
  );
  const marked = directory.list().filter(({ isReleased }) => isReleased);
  assertEquals(
    marked.map(({ containerId }) => containerId).sort(),
    ["c2", "c3"],
  );
  await Deno.remove(root, { recursive: true });
});
