import { assertEquals } from "@std/assert";
import { dirname } from "@std/path/posix";
import type { EndedCall } from "../../daemon/server/call.ts";
import { DaemonDirectories } from "./directories.ts";

/** The file of this process. */
const EXECUTABLE = Deno.realPathSync("/proc/self/exe");

function note(directories: DaemonDirectories, path: string, code = 0): void {
  const call = { env: { CNI_PATH: path } } as unknown as EndedCall["call"];
  directories.note({ call, code });
}

Deno.test("DaemonDirectories: without CNI_PATH, the directories of calls come first, then the executable's", () => {
  const directories = new DaemonDirectories({}, EXECUTABLE);
  const usual = [dirname(EXECUTABLE), "/opt/cni/bin"];
  assertEquals(directories.pluginDirs, usual);
  note(directories, "/usr/libexec/cni:/usr/lib/cni");
  note(directories, "/opt/cni/bin:relative");
  // It was declined.
  note(directories, "/declined", -1);
  const calls = ["/opt/cni/bin", "/usr/libexec/cni", "/usr/lib/cni"];
  assertEquals(directories.pluginDirs, [...calls, dirname(EXECUTABLE)]);
});

Deno.test("DaemonDirectories: CNI_PATH and NETCONFPATH of the environment come first", () => {
  const env = { CNI_PATH: "/a:/b", NETCONFPATH: "/conf" };
  const directories = new DaemonDirectories(env, EXECUTABLE);
  note(directories, "/usr/libexec/cni:/b");
  const { pluginDirs, confDir, cacheDir } = directories;
  assertEquals(pluginDirs.slice(0, 3), ["/a", "/b", "/usr/libexec/cni"]);
  assertEquals([confDir, cacheDir], ["/conf", "/var/lib/cni"]);
});

Deno.test("DaemonDirectories ignores a different file at the executable's path", () => {
  const { pluginDirs } = new DaemonDirectories({}, "/etc/passwd");
  assertEquals(pluginDirs, ["/opt/cni/bin"]);
});

Deno.test("DaemonDirectories keeps the directories of the last calls", () => {
  const directories = new DaemonDirectories({}, "/etc/passwd");
  const paths = Array.from({ length: 20 }, (_, index) => `/plugins${index}`);
  for (const path of [...paths, "/plugins10"]) note(directories, path);
  const { pluginDirs } = directories;
  assertEquals(pluginDirs.slice(0, 2), ["/plugins10", "/plugins19"]);
  assertEquals(pluginDirs.length, 16 + 1);
});
