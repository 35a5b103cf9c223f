import { assertEquals } from "@std/assert";
import { ignoreUnless, rootTest } from "../../../../testing/capabilities.ts";
import { StartedPrograms } from "./started_programs.ts";

const OWN = "/proc/self/ns/pid";
/** Source: include/linux/proc_ns.h `PROC_PID_INIT_INO`. */
const isInitial = Deno.statSync(OWN).ino === 0xeffffffc;
const needsInitial = ignoreUnless(
  isInitial,
  "needs the initial PID namespace",
);

rootTest(
  "StartedPrograms forgets a program 10 s after it exited",
  needsInitial,
  () => {
    let now = 0;
    const programs = new StartedPrograms(OWN, () => now);
    programs.noteStart(7);
    programs.noteStart(8);
    // It waits for the lock.
    now += 20_000;
    assertEquals([7, 8, 9].map((one) => programs.has(one)), [
      true,
      true,
      false,
    ]);
    programs.noteEnd(7);
    now += 9_999;
    assertEquals(programs.has(7), true);
    now += 1;
    assertEquals([7, 8].map((one) => programs.has(one)), [false, true]);
    programs.noteStart(7);
    assertEquals(programs.has(7), true);
  },
);

rootTest(
  "StartedPrograms ignores programs in another PID namespace",
  async () => {
    const child = new Deno.Command("unshare", {
      args: ["--pid", "--fork", "sh", "-c", "echo started; cat"],
      stdin: "piped",
      stdout: "piped",
    }).spawn();
    const reader = child.stdout.getReader();
    await reader.read();
    try {
      const path = `/proc/${child.pid}/ns/pid_for_children`;
      const programs = new StartedPrograms(path);
      programs.noteStart(7);
      assertEquals(programs.has(7), false);
    } finally {
      await Promise.all([child.stdin.close(), reader.cancel()]);
      await child.status;
    }
  },
);
