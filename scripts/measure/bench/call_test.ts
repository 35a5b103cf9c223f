import { assert, assertEquals, assertThrows } from "@std/assert";
import {
  ignoreUnless,
  requireRoot,
  rootTest,
} from "../../../testing/capabilities.ts";
import { PluginDirectory } from "../../../tests/_harness/plugin_directory.ts";
import {
  type Call,
  CallFailure,
  CallRunner,
  findStrace,
  parseStraceSummary,
  PATH,
  type RunningCall,
} from "./call.ts";
import { makeNetns } from "./netns.ts";
import { waitFor } from "./process.ts";

/** As strace 6.1 prints it. */
const SUMMARY = `% time     seconds  usecs/call     calls    errors syscall
------ ----------- ----------- --------- --------- ----------------
 82.96    0.004130        4130         1           wait4
  7.43    0.000370          28        13           mmap
  0.00    0.000000           0         5         2 execve
  0.00    0.000000           0         1         1 access
------ ----------- ----------- --------- --------- ----------------
100.00    0.004978          73        20         3 total
`;

Deno.test("parseStraceSummary() counts calls, and programs that did begin", () => {
  assertEquals(parseStraceSummary(SUMMARY), { execs: 3, syscalls: 20 });
});

Deno.test("parseStraceSummary() refuses other text", () => {
  const text = "strace: Cannot find executable 'x'\n";
  assertThrows(() => parseStraceSummary(text), Error, "Cannot find executable");
});

Deno.test("findStrace() returns undefined if strace is not installed", () => {
  assertEquals(findStrace("/no/such/directory:/proc"), undefined);
});

/** A plugin that is a script, and a directory for the files of its calls. */
class Scene implements Disposable {
  readonly #plugins = new PluginDirectory();
  readonly #files = Deno.makeTempDirSync({ prefix: "cni-test-" });
  readonly runner = new CallRunner(this.#files);
  readonly host = makeNetns();

  call(script: string, more: Partial<Call> = {}): Call {
    const path = this.#plugins.add("plugin", script);
    const env = { CNI_COMMAND: "ADD" };
    return { path, args: [], env, stdin: "asked", ...more };
  }

  files(): string[] {
    return [...Deno.readDirSync(this.#files)].map(({ name }) => name);
  }

  [Symbol.dispose](): void {
    this.host[Symbol.dispose]();
    Deno.removeSync(this.#files, { recursive: true });
    this.#plugins[Symbol.dispose]();
  }
}

rootTest("CallRunner.runTimed() returns a call's output and times", () => {
  using scene = new Scene();
  const call = scene.call('cat; echo " $CNI_COMMAND $1"', { args: ["one"] });
  const { stdout, measures } = scene.runner.runTimed(call, scene.host);
  assertEquals(stdout, "asked ADD one\n");
  assertEquals(Object.keys(measures), ["wallMs", "cpuMs"]);
  assertEquals(scene.files(), []);
});

rootTest("CallRunner.runTimed() throws what a call that fails says", () => {
  using scene = new Scene();
  const call = scene.call("echo '{\n  \"code\": 7 }'; echo oh >&2; exit 1");
  const text = 'ADD: exit status 1: { "code": 7 } oh';
  const run = (): unknown => scene.runner.runTimed(call, scene.host);
  assertThrows(run, CallFailure, text);
  assertEquals(scene.files(), []);
});

rootTest("CallRunner.start() runs calls at the same time", () => {
  using scene = new Scene();
  using other = new PluginDirectory();
  // Each waits, up to 10 s, until the other one has begun.
  const call = scene.call(
    'cd "$1"; touch "$2"; n=0\n' +
      'until test -e "$3" || test $n = 1000; do sleep 0.01; n=$((n+1)); done\n' +
      'test -e "$3"',
  );
  const start = (own: string, others: string): RunningCall => {
    const args = [other.path, own, others];
    return scene.runner.start({ ...call, args }, scene.host);
  };
  const [first, second] = [start("a", "b"), start("b", "a")];
  assert(first.pid !== second.pid);
  for (const call of [first, second]) {
    call.finish(waitFor(call.pid));
  }
  assertEquals(scene.files(), []);
});

const strace = findStrace(PATH);
const { ignore, suffix } = ignoreUnless(strace !== undefined, "needs strace");
const { name, ignore: isNotRoot } = requireRoot(
  `CallRunner.runTraced() counts programs, and leaves the output alone${suffix}`,
);
Deno.test({ name, ignore: ignore || isNotRoot }, () => {
  using scene = new Scene();
  const call = scene.call("cat; /bin/true");
  const { runner, host } = scene;
  const { stdout, measures } = runner.runTraced(call, host, strace ?? "");
  assertEquals(stdout, "asked");
  assertEquals(measures.execs, 3);
  assert((measures.syscalls ?? 0) > 30);
});
