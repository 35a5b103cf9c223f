import { assert, assertEquals, assertThrows } from "@std/assert";
import { type Ended, PreparedProgram, type Program } from "./process.ts";
import { testRows } from "../../../tests/_harness/table.ts";

/** Files of a program, removed in the end. */
class Scene implements Disposable {
  readonly #directory = Deno.makeTempDirSync({ prefix: "cni-test-" });
  readonly #stdout = `${this.#directory}/stdout`;

  program(path: string, ...args: string[]): Program {
    const stdin = `${this.#directory}/stdin`;
    Deno.writeTextFileSync(stdin, "asked");
    const files = { stdin, stdout: this.#stdout, stderr: "/dev/null" };
    return { path, args, env: { NAME: "a b", EMPTY: "" }, ...files };
  }

  run(path: string, ...args: string[]): Ended & { readonly wallMs: number } {
    using program = new PreparedProgram(this.program(path, ...args));
    return program.run();
  }

  stdout(): string {
    return Deno.readTextFileSync(this.#stdout);
  }

  [Symbol.dispose](): void {
    Deno.removeSync(this.#directory, { recursive: true });
  }
}

const SH = "/bin/sh";

Deno.test("PreparedProgram.run() hands over everything that it is given", () => {
  using scene = new Scene();
  const script = 'cat; echo "|$0|$1|$NAME|${EMPTY-unset}|${HOME-unset}"';
  const { code, wallMs } = scene.run(SH, "-c", script, "zero", "one two");
  assertEquals(code, 0);
  assertEquals(scene.stdout(), "asked|zero|one two|a b||unset\n");
  assert(wallMs > 0);
});

Deno.test("PreparedProgram.run() empties what is left of an earlier output", () => {
  using scene = new Scene();
  scene.run(SH, "-c", "echo a long line");
  scene.run(SH, "-c", "echo no");
  assertEquals(scene.stdout(), "no\n");
});

testRows<[string, number]>("PreparedProgram.run() says how a process ended", [
  ["exit 0", 0],
  ["exit 3", 3],
  ["kill -TERM $$", 143],
], ([script, code]) => {
  using scene = new Scene();
  assertEquals(scene.run(SH, "-c", script).code, code);
});

Deno.test("PreparedProgram.run() counts the processor time of children", () => {
  using scene = new Scene();
  const loop = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done";
  const idle = scene.run(SH, "-c", "true");
  const busy = scene.run(SH, "-c", `sh -c '${loop}'; true`);
  assert(busy.cpuMs > 5 * idle.cpuMs, `${busy.cpuMs} ms, ${idle.cpuMs} ms`);
});

Deno.test("PreparedProgram.start() names what cannot be started", () => {
  using scene = new Scene();
  using program = new PreparedProgram(scene.program("/no/such/file"));
  const text = 'Cannot start "/no/such/file": ENOENT';
  assertThrows(() => program.start(), Error, text);
});

/** In a process of its own: adoption is for good, and for all children. */
const PEAKS = `
  import { adoptOrphans, runForPeak } from "${new URL(
  "process.ts",
  import.meta.url,
)}";
  adoptOrphans();
  const files = { stdin: Deno.args[0], stdout: "/dev/null", stderr: "/dev/null" };
  const peakOf = (path, ...args) => {
    const { code, peakKib } = runForPeak({ path, args, env: {}, ...files });
    if (code !== 0) throw new Error(path + " ended with " + code);
    return peakKib;
  };
  const small = peakOf("/bin/sh", "-c", 'test "$(cat)" = asked');
  const large = peakOf(Deno.execPath(), "eval", "--no-config", "0");
  const parent = peakOf("/bin/sh", "-c", 'exec 3<&0; "$0" eval --no-config 0; true', Deno.execPath());
  console.log(JSON.stringify({ small, large, parent }));
`;

Deno.test("runForPeak() tells the peak of a program and its children, not ours", async () => {
  using scene = new Scene();
  const { stdin } = scene.program("");
  const { stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["eval", "--no-config", "--ext=ts", PEAKS, stdin],
  }).output();
  const text = new TextDecoder().decode(stdout);
  assert(text !== "", new TextDecoder().decode(stderr));
  const { small, large, parent } = JSON.parse(text);
  assert(small > 0 && small < 8_000, `sh: ${small} KiB`);
  assert(large > 20_000, `deno: ${large} KiB`);
  assert(parent > large / 2, `sh with deno: ${parent} KiB`);
});
