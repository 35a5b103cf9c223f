import { assertEquals, assertStringIncludes } from "@std/assert";
import {
  assertFailure,
  CURRENT,
  current,
  ENV,
  run,
  runCommand,
} from "../../tests/_harness/recorder.ts";
import { testRows } from "../../tests/_harness/table.ts";
import type { Plugin, RepairScope } from "../plugin.ts";
import { CniError } from "../../base/error.ts";

const PREV_RESULT = { cniVersion: "1.1.0", ips: [] };
const CONFIG = { ...CURRENT, prevResult: PREV_RESULT };

/** A plugin whose attachment lacks things, some of which it can make again. */
class Broken {
  readonly #missing: string[];
  readonly #curable: readonly string[];
  readonly scopes: RepairScope[] = [];
  failure: Error | undefined;

  constructor(missing: readonly string[], curable = missing) {
    this.#missing = [...missing];
    this.#curable = curable;
  }

  get plugin(): Plugin {
    return {
      ...current().plugin,
      check: (): void => {
        const [first, ...others] = this.#missing;
        if (first === undefined) return;
        const details = others.map((text) => `also: ${text}`).join("\n");
        throw new CniError(999, first, { details });
      },
      repair: (_call, scope): void => {
        this.scopes.push(scope);
        for (const text of this.#curable) {
          this.#missing.splice(this.#missing.indexOf(text), 1);
        }
        if (this.failure) throw this.failure;
      },
    };
  }
}

testRows("REPAIR reports what CHECK no longer finds, and what it still finds", [
  ["all", ["a", "b"], ["a", "b"], ["a", "b"], []],
  ["some", ["a", "b", "c"], ["b"], ["b"], ["a", "c"]],
  ["none", ["a"], [], [], ["a"]],
], async ([, missing, curable, repaired, remaining]: [
  string,
  string[],
  string[],
  string[],
  string[],
]) => {
  const broken = new Broken(missing, curable);
  const { exitCode, json } = await runCommand(broken.plugin, "REPAIR", CONFIG);
  assertEquals(exitCode, 0);
  assertEquals(json, { cniVersion: "1.1.0", repaired, remaining });
});

Deno.test("REPAIR changes nothing if CHECK finds nothing", async () => {
  const broken = new Broken([]);
  const { json } = await runCommand(broken.plugin, "REPAIR", CONFIG);
  assertEquals([json.repaired, json.remaining, broken.scopes], [[], [], []]);
});

Deno.test("REPAIR tells why a step has failed, and what remains", async () => {
  const broken = new Broken(["a", "b"], ["a"]);
  broken.failure = new Error("no room");
  const { json } = await runCommand(broken.plugin, "REPAIR", CONFIG);
  assertEquals(json.repaired, ["a"]);
  assertEquals(json.remaining, ["b"]);
  assertEquals(json.error, "no room");
});

Deno.test("REPAIR is for the container's side only if it is asked to be", async () => {
  for (const [value, sandbox] of [["", false], ["1", true]] as const) {
    const broken = new Broken(["a"]);
    const env = { ...ENV, CNI_COMMAND: "REPAIR", CNI_REPAIR_SANDBOX: value };
    await run(broken.plugin, env, CONFIG);
    assertEquals(broken.scopes, [{ sandbox }]);
  }
});

Deno.test("REPAIR has what CHECK finds of a plugin that cannot repair", async () => {
  const { plugin } = current({
    check: () => {
      throw new Error("it is gone");
    },
  });
  const { json } = await runCommand(plugin, "REPAIR", CONFIG);
  assertEquals([json.repaired, json.remaining], [[], ["it is gone"]]);
});

Deno.test("REPAIR refuses what CHECK refuses", async (t) => {
  const { plugin } = new Broken(["a"]);
  await t.step("no prevResult", async () => {
    const outcome = await runCommand(plugin, "REPAIR", CURRENT);
    assertFailure(outcome, { code: 7 });
    assertStringIncludes(outcome.json.msg, "without prevResult");
  });
  await t.step("a version without CHECK", async () => {
    const config = { ...CONFIG, cniVersion: "0.3.1" };
    const outcome = await runCommand(plugin, "REPAIR", config);
    assertFailure(outcome, { code: 1 });
  });
  await t.step("a missing variable", async () => {
    const env = { ...ENV, CNI_COMMAND: "REPAIR", CNI_NETNS: "" };
    const outcome = await run(plugin, env, CONFIG);
    assertFailure(outcome, {
      code: 4,
      msg: "required env variables [CNI_NETNS] missing",
    });
  });
});
