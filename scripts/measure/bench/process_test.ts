import { assert, assertEquals, assertThrows } from "@std/assert";
import { rootTest } from "../../../testing/capabilities.ts";
import { testRows } from "../../../tests/_harness/table.ts";
import { type Call, CallFailure, CallRunner } from "./call.ts";
import { makeNetns } from "./isolation.ts";
import { type Ended, PreparedProgram, waitFor } from "./process.ts";

/** Files of programs, removed in the end. */
class Scene implements Disposable {
  readonly #directory = Deno.makeTempDirSync({ prefix: "cni-test-" });
  readonly runner = new CallRunner(this.#directory);
  readonly stdout = `${this.#directory}/stdout`;

  prepare(path: string, ...args: string[]): PreparedProgram {
    const stdin = `${this.#directory}/stdin`;
    Deno.writeTextFileSync(stdin, "asked");
    const files = { stdin, stdout: this.stdout, stderr: "/dev/null" };
    const env = { NAME: "a b", EMPTY: "" };
    return new PreparedProgram({ path, args, env, ...files });
  }

  run(...args: string[]): Ended & { readonly wallMs: number } {
    using program = this.prepare("/bin/sh", "-c", ...args);
    return program.run();
  }

  files(): string[] {
    return [...Deno.readDirSync(this.#directory)].map(({ name }) => name);
  }

  [Symbol.dispose](): void {
    Deno.removeSync(this.#directory, { recursive: true });
  }
}

Deno.test("a program gets everything that it is given, and an empty stdout", () => {
  using scene = new Scene();
  scene.run("yes | head -c 1000");
  const script = 'cat; echo "|$0|$1|$NAME|${EMPTY-unset}|${HOME-unset}"';
  const { code, wallMs } = scene.run(script, "zero", "one two");
  assertEquals(code, 0);
  const printed = Deno.readTextFileSync(scene.stdout);
  assertEquals(printed, "asked|zero|one two|a b||unset\n");
  assert(wallMs > 0);
});

testRows<[string, number]>("PreparedProgram.run() says how a process ended", [
  ["exit 0", 0],
  ["exit 3", 3],
  ["kill -TERM $$", 143],
], ([script, code]) => {
  using scene = new Scene();
  assertEquals(scene.run(script).code, code);
});

Deno.test("PreparedProgram.run() counts the processor time of children", () => {
  using scene = new Scene();
  const loop = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done";
  const idle = scene.run("true");
  const busy = scene.run(`sh -c '${loop}'; true`);
  assert(busy.cpuMs > 5 * idle.cpuMs, `${busy.cpuMs} ms, ${idle.cpuMs} ms`);
});

Deno.test("PreparedProgram.start() names what cannot be started", () => {
  using scene = new Scene();
  using program = scene.prepare("/no/such/file");
  const text = 'Cannot start "/no/such/file": ENOENT';
  assertThrows(() => program.start(), Error, text);
});

function callOf(script: string, ...args: string[]): Call {
  return {
    path: "/bin/sh",
    args: ["-c", script, ...args],
    env: { CNI_COMMAND: "ADD" },
    stdin: "asked",
  };
}

rootTest(
  "CallRunner returns a call's output, and throws what a failure says",
  () => {
    using scene = new Scene();
    using host = makeNetns();
    const { runner } = scene;
    const { stdout } = runner.run(callOf('cat; echo " $CNI_COMMAND"'), host);
    assertEquals(stdout, "asked ADD\n");
    const failing = callOf("echo '{\n  \"code\": 7 }'; echo oh >&2; exit 1");
    const text = 'ADD: exit status 1: { "code": 7 } oh';
    assertThrows(() => runner.run(failing, host), CallFailure, text);
    assertEquals(scene.files(), []);
  },
);

rootTest("CallRunner.start() runs calls at the same time", () => {
  using scene = new Scene();
  using host = makeNetns();
  const directory = Deno.makeTempDirSync({ prefix: "cni-test-" });
  // Each opens a FIFO, which waits until the other one has opened it.
  new Deno.Command("mkfifo", { args: [`${directory}/fifo`] }).outputSync();
  const scripts = ['echo met > "$0"', 'cat "$0"'];
  const calls = scripts.map((script) =>
    scene.runner.start(callOf(script, `${directory}/fifo`), host)
  );
  const said = calls.map((call) => call.finish(waitFor(call.pid)));
  assertEquals(said, ["", "met\n"]);
  assertEquals(scene.files(), []);
  Deno.removeSync(directory, { recursive: true });
});
