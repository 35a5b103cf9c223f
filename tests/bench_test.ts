/**
 * `deno task bench`, run as people run it: that it measures, and that nothing
 * is left of it. How long things take is not asserted.
 */

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { ROOT } from "../scripts/project.ts";
import { importFlags } from "../scripts/import_flags.ts";
import type { Report } from "../scripts/measure/bench/report.ts";
import type { Row } from "../scripts/measure/bench/summary.ts";
import {
  goPlugin,
  requireRoot,
  type TestHeader,
} from "../testing/capabilities.ts";
import { eventually } from "./_harness/eventually.ts";
import { BIN, needsBin } from "./_harness/executables.ts";

function bench(name: string): TestHeader {
  return requireRoot(`deno task bench ${name}`, needsBin);
}

/** A run with a directory for temporary files of its own, and one for results. */
class Run implements Disposable {
  readonly #directory = Deno.makeTempDirSync({ prefix: "cni-test-" });
  readonly temporary = `${this.#directory}/tmp`;
  readonly out = `${this.#directory}/out`;

  constructor() {
    Deno.mkdirSync(this.temporary);
  }

  async start(...args: string[]): Promise<Deno.ChildProcess> {
    const flags = await importFlags();
    return new Deno.Command(Deno.execPath(), {
      args: ["run", "-A", ...flags, "scripts/measure/bench.ts", "--bin", BIN]
        .concat("--out", this.out, args),
      cwd: ROOT,
      env: { TMPDIR: this.temporary },
      stdout: "piped",
      stderr: "piped",
    }).spawn();
  }

  /** Asserts that no files are left, and that all processes end. */
  async assertNothingLeft(): Promise<void> {
    const files = [...Deno.readDirSync(this.temporary)];
    assertEquals(files.map(({ name }) => name), []);
    // Those of an interrupted run are killed with its namespace, by the kernel.
    await eventually(
      "its processes have ended",
      () => !listCommands().some((it) => it.includes(this.#directory)),
    );
  }

  [Symbol.dispose](): void {
    Deno.removeSync(this.#directory, { recursive: true });
  }
}

/** Lists the command lines of all processes. */
function listCommands(): string[] {
  return [...Deno.readDirSync("/proc")].flatMap(({ name }) => {
    try {
      const text = Deno.readTextFileSync(`/proc/${Number(name)}/cmdline`);
      return text === "" ? [] : [text.replaceAll("\0", " ")];
    } catch {
      return []; // It is no process, or has ended.
    }
  });
}

/** State of the machine that a run might change. */
function observeMachine(): unknown {
  const list = (directory: string): string[] => {
    try {
      return [...Deno.readDirSync(directory)].map(({ name }) => name).sort();
    } catch {
      return [];
    }
  };
  return {
    mounts: Deno.readTextFileSync("/proc/self/mounts"),
    leases: list("/var/lib/cni/networks"),
    cached: list("/var/lib/cni/results"),
  };
}

function assertIsMeasured(row: Row): void {
  const { rounds, wallMs, cpuMs } = row;
  assertEquals(rounds, row.parallel === 1 ? 3 : 2);
  for (const { q1, median, q3 } of [wallMs, cpuMs]) {
    assert(q1 > 0 && q1 <= median && median <= q3);
  }
  assertEquals(row.parallel === 1, row.perSecond === undefined);
}

Deno.test(
  bench("measures, writes what it found out, and leaves nothing"),
  async () => {
    using run = new Run();
    const machine = observeMachine();
    const child = await run.start("--quick", "--filter", "host-local");
    const output = await child.output();
    const decoder = new TextDecoder();
    assert(output.success, decoder.decode(output.stderr));

    const read = (extension: string): string =>
      Deno.readTextFileSync(`${run.out}/bench.${extension}`);
    const report: Report = JSON.parse(read("json"));
    const others = goPlugin("host-local") ? ["go"] : [];
    const subjects = ["ours", "ours daemon", ...others];
    const measured = report.rows.map((
      { cell, step, who },
    ) => [cell, step, who]);
    assertEquals(
      measured,
      ["0 containers", "0 containers, 4 at once", "50 containers"]
        .flatMap((cell) =>
          ["ADD", "DEL"].flatMap((step) =>
            subjects.map((who) => [`host-local, ${cell}`, step, who])
          )
        ),
    );
    report.rows.forEach(assertIsMeasured);

    assertStringIncludes(read("md"), "## host-local, 50 containers");
    assertEquals(decoder.decode(output.stdout), `${read("md")}\n`);
    await run.assertNothingLeft();
    assertEquals(observeMachine(), machine);
  },
);

Deno.test(bench("leaves nothing when it is interrupted"), async () => {
  using run = new Run();
  const child = await run.start("--quick", "--filter", "ptp, 0 containers");
  const stderr = child.stderr.pipeThrough(new TextDecoderStream());
  const reader = stderr.getReader();
  // It is in the midst of it when it has begun with the second cell.
  for (let said = ""; !said.includes("4 at once");) {
    const { value, done } = await reader.read();
    assert(!done, said);
    said += value;
  }
  child.kill("SIGINT");
  await reader.cancel();
  const [{ code }] = await Promise.all([child.status, child.stdout.cancel()]);
  assertEquals(code, 130);
  await run.assertNothingLeft();
});

Deno.test(bench("says so when there is nothing of that name"), async () => {
  using run = new Run();
  const child = await run.start("--filter", "no such cell");
  const { code, stderr } = await child.output();
  assertEquals(code, 1);
  const text = new TextDecoder().decode(stderr);
  assertStringIncludes(text, 'Nothing was measured that has "no such cell"');
  await run.assertNothingLeft();
});
