import { assertEquals, assertThrows } from "@std/assert";
import { rootTest } from "../../../testing/capabilities.ts";
import { PluginDirectory } from "../../../tests/_harness/plugin_directory.ts";
import { type Job, runJob, runJobs } from "./attach.ts";
import { CallFailure, CallRunner } from "./call.ts";
import { makeNetns } from "./netns.ts";
import type { Attachment, PlannedCall, Verb } from "./route.ts";
import { eachRow } from "../../../tests/_harness/table.ts";

/** Plugins that write down how they are called, one line each. */
class Scene implements Disposable {
  readonly #plugins = new PluginDirectory();
  readonly #files = Deno.makeTempDirSync({ prefix: "cni-test-" });
  readonly #log = `${this.#plugins.path}/log`;
  readonly runner = new CallRunner(this.#files);
  readonly host = makeNetns();

  /** A job of calls that print their names; those named "bad…" fail. */
  job(id: string, verb: Verb, ...plugins: string[]): Job {
    const attachment: Attachment = {
      id,
      netns: "/netns",
      list: { cniVersion: "1.0.0", name: "net", plugins: [] },
    };
    const calls = plugins.map((plugin): PlannedCall => {
      const path = this.#add(plugin);
      return {
        plugin,
        make: ({ result = "" }) => ({
          path,
          args: [id],
          env: {},
          stdin: result,
        }),
      };
    });
    return { verb, attachment, calls };
  }

  #add(plugin: string): string {
    const isBad = plugin.startsWith("bad");
    return this.#plugins.add(
      plugin,
      `echo "$1 ${plugin} after $(cat)" >> ${this.#log}
printf ${plugin}
exit ${isBad ? 1 : 0}`,
    );
  }

  lines(): string[] {
    return Deno.readTextFileSync(this.#log).split("\n").slice(0, -1);
  }

  [Symbol.dispose](): void {
    this.host[Symbol.dispose]();
    Deno.removeSync(this.#files, { recursive: true });
    this.#plugins[Symbol.dispose]();
  }
}

rootTest("runJob() hands what one call of ADD printed to the next", () => {
  using scene = new Scene();
  const job = scene.job("c", "ADD", "first", "second");
  const measured = runJob(
    job,
    (call) => scene.runner.runTimed(call, scene.host),
  );
  assertEquals(measured.map(({ plugin }) => plugin), ["first", "second"]);
  assertEquals(scene.lines(), ["c first after ", "c second after first"]);
  assertEquals(job.attachment.result, "second");
});

rootTest("runJob() keeps the result of ADD for CHECK and DEL", () => {
  using scene = new Scene();
  const job = scene.job("c", "DEL", "first", "second");
  job.attachment.result = "added";
  runJob(job, (call) => scene.runner.runTimed(call, scene.host));
  assertEquals(scene.lines(), ["c first after added", "c second after added"]);
});

rootTest("runJobs() does every job, each in its order", async (t) => {
  await eachRow(t, [1, 2, 5], (width) => {
    using scene = new Scene();
    const ids = ["a", "b", "c"];
    const jobs = ids.map((id) => scene.job(id, "ADD", "first", "second"));
    const { runner, host } = scene;
    const measures = runJobs(jobs, { runner, host, width });
    assertEquals(Object.keys(measures), ["wallMs", "cpuMs"]);
    const lines = scene.lines();
    for (const id of ids) {
      assertEquals(lines.filter((line) => line.startsWith(id)), [
        `${id} first after `,
        `${id} second after first`,
      ]);
    }
    assertEquals(lines.length, 6);
    if (width === 1) assertEquals(lines, lines.toSorted());
  }, (width) => `${width} at the same time`);
});

rootTest("runJobs() throws after a failure, once nothing runs any more", () => {
  using scene = new Scene();
  const jobs = [
    scene.job("a", "ADD", "bad", "second"),
    scene.job("b", "ADD", "first", "second"),
  ];
  const { runner, host } = scene;
  assertThrows(() => runJobs(jobs, { runner, host, width: 2 }), CallFailure);
  assertEquals(scene.lines().toSorted(), [
    "a bad after ",
    "b first after ",
    "b second after first",
  ]);
});

rootTest("runJobs() begins no other job after a failure", () => {
  using scene = new Scene();
  const jobs = [scene.job("a", "ADD", "bad"), scene.job("b", "ADD", "first")];
  const { runner, host } = scene;
  assertThrows(() => runJobs(jobs, { runner, host, width: 1 }), CallFailure);
  assertEquals(scene.lines(), ["a bad after "]);
});

rootTest("runJobs() has nothing to do without jobs", () => {
  using scene = new Scene();
  const { runner, host } = scene;
  assertEquals(runJobs([], { runner, host, width: 4 }).cpuMs, 0);
});
