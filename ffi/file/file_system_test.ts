/** File systems. */
import { assertEquals, assertThrows } from "@std/assert";
import { SyscallError } from "../errno.ts";
import { findMount, readFileSystem } from "./file_system.ts";

Deno.test("readFileSystem() reads what stat(1) prints", () => {
  const directory = Deno.makeTempDirSync({ prefix: "cni-test-" });
  try {
    const { size, free, available, files, isReadOnly } = readFileSystem(
      directory,
    );
    assertEquals([free <= size, available <= free], [true, true]);
    const { stdout } = new Deno.Command("stat", {
      args: ["-f", "-c", "%b %S %c", directory],
    }).outputSync();
    const [blocks = 0, blockSize = 0, inodes = 0] = new TextDecoder()
      .decode(stdout).trim().split(" ").map(Number);
    assertEquals(size, blocks * blockSize);
    assertEquals(files, inodes);
    assertEquals(isReadOnly, false);
  } finally {
    Deno.removeSync(directory);
  }
  assertThrows(() => readFileSystem("/nonexistent"), SyscallError, "statfs");
});

Deno.test("findMount() finds the innermost mount, and the last one there", () => {
  const text = [
    "22 1 8:1 / / rw,relatime - ext4 /dev/sda1 rw",
    "30 22 0:25 / /opt/a\\040b rw,noexec - tmpfs tmpfs rw",
    "31 22 0:26 / /opt rw - xfs /dev/sdb rw",
    "32 30 0:27 / /opt/a\\040b rw - nfs host:/x rw",
    "",
  ].join("\n");
  const of = (path: string): unknown => findMount(path, text);
  assertEquals(of("/opt/a b/bin"), { target: "/opt/a b", type: "nfs" });
  assertEquals(of("/opt/a b"), { target: "/opt/a b", type: "nfs" });
  assertEquals(of("/optional"), { target: "/", type: "ext4" });
  assertEquals(of("/opt/bin"), { target: "/opt", type: "xfs" });
});
