import { assert, assertEquals } from "@std/assert";
import { hasCommand } from "../testing/capabilities.ts";
import { type ExactProgram, PreparedProgram } from "./measure/bench/process.ts";
import { fetchDeno } from "./compile/fetch_deno.ts";
import { getOwnTarget } from "./compile/target.ts";
import { exists } from "./exists.ts";
import {
  HARMLESS,
  HOSTILE,
  makeProbe,
  type Probe,
  readReport,
  type Report,
  run,
  tryProbe,
} from "./mkdenort/probe_sample.ts";
import { NO_ARGUMENTS_STATUS } from "./mkdenort/mod.ts";

/** Runs a program with any arguments and environment that the kernel accepts. */
function runExactly(
  program: Pick<ExactProgram, "path" | "argv" | "environment">,
): { readonly code: number; readonly stdout: string } {
  const stdout = Deno.makeTempFileSync();
  const files = { stdin: "/dev/null", stdout, stderr: "/dev/null" };
  using prepared = new PreparedProgram({ ...program, ...files });
  const { code } = prepared.run();
  const text = Deno.readTextFileSync(stdout);
  Deno.removeSync(stdout);
  return { code, stdout: text };
}

/** Tries what only the kernel can be asked for, and what only this machine runs. */
async function tryOddCalls(t: Deno.TestContext, probe: Probe): Promise<void> {
  const { path } = probe;
  const report = (environment: string[], argv = ["probe"]): Report =>
    readReport({ ...runExactly({ path, argv, environment }), stderr: "" });

  await t.step("argv[0] stays as it is", () => {
    const { cmdline } = report([], ["/opt/cni/bin/ptp", "x"]);
    assertEquals(cmdline, ["/opt/cni/bin/ptp", "x", ""]);
  });
  await t.step("argv[0] may be empty", () => {
    assertEquals(report([], ["", "x"]).args, ["x"]);
  });
  await t.step("an empty argv starts or fails, but does not crash", () => {
    // Linux before 5.18 gives us argc 0; after it, one empty argument.
    const { code } = runExactly({ path, argv: [], environment: [] });
    assert(code === 0 || code === NO_ARGUMENTS_STATUS, `status ${code}`);
  });
  await t.step("entries without = are not variables", () => {
    const { env } = report(["HOME", "HOMER", "", "=", "=x", "DENO_", "A=1"]);
    assertEquals(env, { A: "1" });
  });
  await t.step("of two variables with one name the first counts", () => {
    const twice = ["HOME=a", "HOME=b", "DENO_X=a", "DENO_X=b", "NO_COLOR=a"];
    const { env } = report(twice);
    assertEquals(env, { HOME: "a", DENO_X: "a", NO_COLOR: "a" });
  });
  await t.step("a variable may be long", () => {
    const value = "x".repeat(100_000);
    const { env } = report([`DENO_LONG=${value}`, `LONG=${value}`]);
    assertEquals(env, { DENO_LONG: value, LONG: value });
  });
  await t.step("children get the caller's environment as it is", async () => {
    const env = { ...HOSTILE, ...HARMLESS };
    const { stdout } = await run([path, "child"], { env });
    const lines = Object.entries(env).map((entry) => entry.join("="));
    assertEquals(stdout.trim().split("\n").sort(), lines.sort());
  });
}

Deno.test("a stand-in starts however the kernel lets it be called", async (t) => {
  await using probe = await makeProbe(Deno.execPath());
  await tryOddCalls(t, probe);
});

/** How long the npm registry may take to send 35 MB. */
const FETCH_TIMEOUT_MS = 20_000;

/** The other machine, libraries for it, and its deno, if this machine can run it. */
const arm64 = await findArm64();

async function findArm64(): Promise<
  { readonly emulator: readonly string[]; readonly deno: string } | string
> {
  if (getOwnTarget() !== "x86_64-unknown-linux-gnu") return "is tested above";
  const libraries = Deno.env.get("QEMU_LD_PREFIX") ?? "/usr/aarch64-linux-gnu";
  if (!hasCommand("qemu-aarch64")) return "needs qemu-user";
  if (!exists(`${libraries}/lib/libgcc_s.so.1`)) {
    return "needs libc6-arm64-cross and libgcc-s1-arm64-cross";
  }
  try {
    const limit = AbortSignal.timeout(FETCH_TIMEOUT_MS);
    const { path } = await fetchDeno("aarch64-unknown-linux-gnu", limit);
    return { emulator: ["qemu-aarch64", "-L", libraries], deno: path };
  } catch {
    return "needs deno for arm64 from the npm registry";
  }
}

Deno.test({
  name: `makeDenort() gives a runtime for arm64${
    typeof arm64 === "string" ? ` (skipped: ${arm64})` : ""
  }`,
  ignore: typeof arm64 === "string",
  fn: async (t) => {
    if (typeof arm64 === "string") return;
    const { deno, emulator } = arm64;
    const target = "aarch64-unknown-linux-gnu";
    await using probe = await makeProbe(deno, target, emulator);
    await tryProbe(t, probe);
  },
});
