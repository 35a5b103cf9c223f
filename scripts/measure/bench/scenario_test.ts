import { assertEquals, assertStringIncludes } from "@std/assert";
import { rootTest } from "../../../testing/capabilities.ts";
import { PluginDirectory } from "../../../tests/_harness/plugin_directory.ts";
import { CallRunner } from "./call.ts";
import type { Cell } from "./plan.ts";
import { measureScenario } from "./scenario.ts";
import type { Subject } from "./subject.ts";
import type { CellResult, Workbench } from "./workbench.ts";
import { eachRow } from "../../../tests/_harness/table.ts";

/** A script that fails at a verb. */
const failAt = (verb: string): string => `test "$CNI_COMMAND" != ${verb}`;

/** Subjects with a script as host-local, which records its calls. */
class Scene implements Disposable {
  readonly #stack = new DisposableStack();
  readonly #directory = Deno.makeTempDirSync({ prefix: "cni-test-" });
  readonly #log = `${this.#directory}/log`;
  readonly notes: string[] = [];
  readonly #subjects: Subject[];

  /** @param scripts By the subject's name, what else it does */
  constructor(scripts: Readonly<Record<string, string>>) {
    Deno.writeTextFileSync(this.#log, "");
    this.#subjects = Object.entries(scripts).map(([name, script]) => {
      const plugins = this.#stack.use(new PluginDirectory());
      const line = `echo "${name} $CNI_COMMAND $CNI_CONTAINERID"`;
      plugins.add(
        "host-local",
        `${line} >> ${this.#log}\nprintf {}\n${script}`,
      );
      return { name, bin: plugins.path };
    });
  }

  measure(...cells: Partial<Cell>[]): CellResult[] {
    const chain = "host-local";
    const bench: Workbench = {
      subjects: this.#subjects,
      runner: new CallRunner(this.#directory),
      strace: undefined,
      deno: [],
      rounds: { warmUp: 1, single: 2, batch: 1, peak: 0 },
      directory: this.#directory,
      note: (text) => void this.notes.push(text),
      progress: () => {},
    };
    const full = cells.map((cell): Cell => ({
      name: "cell",
      chain,
      masquerade: false,
      containers: 0,
      parallel: 1,
      verbs: ["ADD", "CHECK", "DEL"],
      ...cell,
    }));
    return measureScenario({ chain, masquerade: false, cells: full }, bench);
  }

  /** The calls, without the container. */
  calls(): string[] {
    return this.lines().map((line) => line.replace(/ \S+$/, ""));
  }

  lines(): string[] {
    return Deno.readTextFileSync(this.#log).trimEnd().split("\n");
  }

  [Symbol.dispose](): void {
    Deno.removeSync(this.#directory, { recursive: true });
    this.#stack[Symbol.dispose]();
  }
}

/** Lists the measured steps, and how often. */
function describe(result: CellResult | undefined): string[] {
  return (result?.series ?? []).map(({ step, who, values }) =>
    `${step} ${who} ${values.wallMs?.length}`
  );
}

rootTest("measureScenario() takes turns and skips the first round", () => {
  using scene = new Scene({ a: "", b: "" });
  const [result] = scene.measure({});
  const turn = (who: string): string[] =>
    ["ADD", "CHECK", "DEL"].map((verb) => `${who} ${verb}`);
  const round = [...turn("a"), ...turn("b")];
  assertEquals(scene.calls(), [...round, ...round, ...round]);
  assertEquals(describe(result), [
    "ADD a 2",
    "ADD b 2",
    "CHECK a 2",
    "CHECK b 2",
    "DEL a 2",
    "DEL b 2",
  ]);
});

rootTest("measureScenario() gives every container another ID", () => {
  using scene = new Scene({ a: "" });
  scene.measure({ parallel: 3, verbs: ["ADD"] }, { containers: 5 });
  const added = scene.lines().filter((line) => line.includes("ADD"));
  assertEquals(new Set(added).size, added.length);
  // 2 rounds of 3, then 5 that stay, and 3 rounds of 1.
  assertEquals(added.length, 2 * 3 + 5 + 3);
});

rootTest("measureScenario() reports a failing CHECK once", () => {
  using scene = new Scene({ a: failAt("CHECK"), b: "" });
  const results = scene.measure({ name: "one" }, { name: "two" });
  for (const result of results) {
    const lines = ["ADD a 2", "ADD b 2", "CHECK b 2", "DEL a 2", "DEL b 2"];
    assertEquals(describe(result).toSorted(), lines);
  }
  assertEquals(scene.notes.length, 1);
  assertStringIncludes(scene.notes.join(), "Skipped CHECK of one, a: ");
  const checks = scene.calls().filter((call) => call === "a CHECK");
  assertEquals(checks.length, 1);
});

rootTest("measureScenario() detaches a failing contestant", async (t) => {
  await eachRow(t, ["ADD", "DEL"], (verb) => {
    using scene = new Scene({ a: failAt(verb), b: "" });
    const [result] = scene.measure({ verbs: ["ADD", "DEL"] });
    assertEquals(describe(result), ["ADD b 2", "DEL b 2"]);
    assertStringIncludes(scene.notes.join(), "Skipped cell, a: ");
    const calls = scene.calls().filter((call) => call.startsWith("a"));
    const expected = verb === "ADD"
      ? ["a ADD", "a DEL"]
      : ["a ADD", "a DEL", "a DEL"];
    assertEquals(calls, expected);
  });
});

rootTest("measureScenario() goes on if a node cannot be filled", () => {
  using scene = new Scene({ a: failAt("ADD"), b: "" });
  const [result] = scene.measure({ containers: 3, verbs: ["ADD"] });
  assertEquals(describe(result), ["ADD b 2"]);
  assertEquals(scene.notes.length, 1);
});
