import { assertEquals, assertNotEquals } from "@std/assert";
import { ROOT } from "../../compile/project.ts";
import { rootTest } from "../../../testing/capabilities.ts";
import { runIsolated } from "./isolation.ts";

rootTest("runIsolated() runs a command in namespaces of its own", async () => {
  const script = "echo $$; for kind in net mnt pid; do " +
    "readlink /proc/self/ns/$kind; done; ls /sys/class/net; pwd";
  const { code, stdout } = await runIsolated(["sh", "-c", script], ROOT);
  const [pid, ...lines] = stdout.trimEnd().split("\n");
  assertEquals([code, pid], [0, "1"]);
  for (const [at, kind] of ["net", "mnt", "pid"].entries()) {
    assertNotEquals(lines[at], await Deno.readLink(`/proc/self/ns/${kind}`));
  }
  assertEquals(`${lines.at(-1)}/`, ROOT);
});

rootTest("runIsolated() returns the exit status", async () => {
  const { code, stdout } = await runIsolated(["sh", "-c", "exit 3"], "/");
  assertEquals([code, stdout], [3, ""]);
});

rootTest("runIsolated() ends what a command has left running", async () => {
  // It would hold stdout open, and so be waited for.
  const script = "sleep 1000 & echo begun";
  const { code, stdout } = await runIsolated(["sh", "-c", script], "/");
  assertEquals([code, stdout], [0, "begun\n"]);
});
