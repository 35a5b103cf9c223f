import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import {
  allOf,
  hasCommand,
  ignoreUnless,
  rootTest,
} from "../../testing/capabilities.ts";
import { eventually } from "../../tests/_harness/eventually.ts";
import { boot, type BootEnd } from "./boot.ts";
import { findKernel } from "./find_kernel.ts";
import { listProcessors } from "../test_kernel.ts";

const KERNEL = findKernel();
const needsKernel = ignoreUnless(
  KERNEL !== undefined,
  "needs Debian's user-mode-linux",
);
const needsPinning = allOf(
  needsKernel,
  ignoreUnless(hasCommand("taskset"), "needs taskset"),
);

/** A processor that this process may use. */
const [PROCESSOR = 0] = listProcessors();

/** Boots with a script as the first process. */
class Boot implements Disposable {
  readonly directory = Deno.makeTempDirSync({ prefix: "cni-test-" });
  readonly stop = new AbortController();
  shown = "";

  run(
    script: string,
    onText: () => void = () => {},
    env: Record<string, string> = {},
    processor?: number,
  ): Promise<BootEnd> {
    const init = `${this.directory}/init.sh`;
    Deno.writeTextFileSync(
      init,
      `#!/bin/sh\nexec >/dev/tty1 2>&1\n${script}\n`,
    );
    Deno.chmodSync(init, 0o755);
    return boot({
      kernel: KERNEL ?? { program: "none", env: {}, modules: "" },
      init,
      env,
      directory: this.directory,
      processor,
      stop: this.stop.signal,
      onText: (text) => {
        this.shown += text;
        onText();
      },
    });
  }

  /** Lists the kernel's processes: all name its first process. */
  listProcesses(): string[] {
    return [...Deno.readDirSync("/proc")].map(({ name }) => name).filter(
      (pid) => {
        try {
          return Deno.readTextFileSync(`/proc/${pid}/cmdline`)
            .includes(`${this.directory}/init.sh`);
        } catch {
          return false; // no process, or one that has just ended
        }
      },
    );
  }

  isRunning(): boolean {
    return this.listProcesses().length > 0;
  }

  [Symbol.dispose](): void {
    Deno.removeSync(this.directory, { recursive: true });
  }
}

rootTest("boot() runs a script, and files stay", needsKernel, async () => {
  using kernel = new Boot();
  const path = `${kernel.directory}/file`;
  await Deno.writeTextFile(path, "old");
  const { output, log, stopped } = await kernel.run(
    `read -r text < ${path}; echo "$GREETING $text $(uname -r)"
      echo new > ${path}; halt -f`,
    () => {},
    { GREETING: "hello" },
  );
  assertStringIncludes(output, "hello old ");
  assertEquals(output.includes(Deno.osRelease()), false, output);
  assertEquals(kernel.shown, output);
  assertStringIncludes(log, "Linux version ");
  assertEquals(stopped, undefined);
  assertEquals(await Deno.readTextFile(path), "old");
  await eventually("the kernel is gone", () => !kernel.isRunning());
});

rootTest(
  "boot() ends a kernel when told to, and had it on one processor",
  needsPinning,
  async () => {
    using kernel = new Boot();
    const seen = new Set<string | undefined>();
    const look = (): void => {
      for (const pid of kernel.listProcesses()) {
        const status = Deno.readTextFileSync(`/proc/${pid}/status`);
        seen.add(/^Cpus_allowed_list:\t(.*)$/m.exec(status)?.[1]);
      }
      kernel.stop.abort("enough");
    };
    const script = "echo begun; while :; do sleep 1; done";
    const { output, stopped } = await kernel.run(script, look, {}, PROCESSOR);
    assertStringIncludes(output, "begun");
    assertEquals([...seen], [`${PROCESSOR}`]);
    assertEquals(stopped, "enough");
    await eventually("the kernel is gone", () => !kernel.isRunning());
  },
);

rootTest("boot() returns if the first process dies", needsKernel, async () => {
  using kernel = new Boot();
  const { output, log, stopped } = await kernel.run("echo begun; exit 1");
  assertStringIncludes(output, "begun");
  assertStringIncludes(log, "Attempted to kill init");
  assertEquals(stopped, undefined);
  await eventually("the kernel is gone", () => !kernel.isRunning());
});

Deno.test("boot() refuses what the kernel would read as two words", async () => {
  using kernel = new Boot();
  await assertRejects(
    () => kernel.run("", () => {}, { NAME: "two words" }),
    Error,
    'Cannot boot a kernel with whitespace in "NAME=two words"',
  );
});
