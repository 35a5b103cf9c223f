import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { ROOT } from "../../scripts/project.ts";
import {
  hasCommand,
  ignoreUnless,
  rootTest,
} from "../../testing/capabilities.ts";
import { PluginDirectory } from "../../tests/_harness/plugin_directory.ts";
import { runCni } from "../../tests/_harness/tool_call.ts";

/** Runs work in another directory. */
async function inDirectory<T>(
  path: string,
  work: () => Promise<T>,
): Promise<T> {
  const before = Deno.cwd();
  Deno.chdir(path);
  try {
    return await work();
  } finally {
    Deno.chdir(before);
  }
}

const MAIN = "a-main";
const KINDS = { [MAIN]: [], "chained": ["--chained"], "ipam2": ["--ipam"] };

rootTest("cni new plugin creates plugins that pass their tests", async () => {
  using directory = new PluginDirectory();
  await inDirectory(directory.path, async () => {
    for (const [name, flags] of Object.entries(KINDS)) {
      const call = ["new", "plugin", name, "--checkout", ROOT, ...flags];
      const { stdout, stderr, exitCode } = await runCni(...call);
      assertEquals([stderr, exitCode], ["", 0]);
      assertStringIncludes(stdout, "main.ts, plugin_test.ts");
    }
  });
  const run = async (...args: string[]): Promise<string> => {
    const { success, stdout, stderr } = await new Deno.Command(
      Deno.execPath(),
      { args, cwd: directory.path },
    ).output();
    const text = new TextDecoder().decode(stdout) +
      new TextDecoder().decode(stderr);
    assertEquals(success, true, text);
    return text;
  };
  const map = "--import-map=a-main/import_map.json";
  const settings = JSON.parse(
    await Deno.readTextFile(`${directory.path}/a-main/.vscode/settings.json`),
  );
  // Relative to the project, which has the map next to main.ts.
  assertEquals(settings["deno.importMap"], "./import_map.json");
  const names = Object.keys(KINDS);
  await run("fmt", "--check", ...names);
  // tests/write_a_plugin_test.ts checks their types, with those of the pages.
  const tests = ["test", "-A", "--no-check", "--no-config", map];
  const others = names.filter((name) => name !== MAIN);
  assertMatch(
    await run(...tests, ...others),
    /2 passed \(\d+ steps\) \| 0 failed/,
  );
});

Deno.test("cni new plugin reports the source of its imports without a checkout", async () => {
  using directory = new PluginDirectory();
  await inDirectory(directory.path, async () => {
    const { stderr, exitCode } = await runCni("new", "plugin", "greeter");
    assertEquals(exitCode, 0);
    assertMatch(
      stderr,
      /^It imports jsr:@cni\/plugins@\^[\d.]+\. If jsr.io .* --checkout\n$/,
    );
  });
});

Deno.test("cni new plugin refuses names and directories in use", async () => {
  using directory = new PluginDirectory();
  await inDirectory(directory.path, async () => {
    const run = async (...args: string[]): Promise<string> => {
      const { stderr, exitCode } = await runCni("new", "plugin", ...args);
      assertEquals(exitCode, 1);
      return stderr;
    };
    assertMatch(await run("ptp"), /"ptp" is a plugin of this project/);
    assertMatch(await run("Greeter"), /NAME must be lower-case letters/);
    assertMatch(await run("a", "--ipam", "--chained"), /not both/);
    assertMatch(
      await run("a", "--checkout", "."),
      /Cannot read ".*deno\.json"/,
    );
    assertEquals(await Array.fromAsync(Deno.readDir(".")), []);
    await Deno.mkdir("b");
    assertMatch(await run("b"), /Cannot create ".*\/b"/);
  });
});

Deno.test("cni new plugin imports the published package by default", async () => {
  using directory = new PluginDirectory();
  await inDirectory(directory.path, async () => {
    await runCni("new", "plugin", "greeter");
    const { imports } = JSON.parse(
      await Deno.readTextFile("greeter/deno.json"),
    );
    assertEquals(imports["@cni/plugins"], "jsr:@cni/plugins@^0.1.0");
  });
});

const needs = ignoreUnless(hasCommand("unshare"), "needs unshare");

rootTest(
  "cni new plugin works as printed, without a network",
  needs,
  async () => {
    // Inside the checkout, which need not be named.
    const parent = await Deno.makeTempDir({ dir: `${ROOT}build` });
    try {
      const { stdout, stderr } = await inDirectory(
        parent,
        () => runCni("new", "plugin", MAIN),
      );
      assertEquals(stderr, "");
      const [, command = ""] = /^Test it as root: (.*)$/m.exec(stdout) ?? [];
      assertMatch(command, /^cd a-main && .*deno.* task test$/);
      const line = command.replace(/&& .*deno\S*/, `&& ${Deno.execPath()}`);
      const ended = await new Deno.Command("unshare", {
        args: ["--net", "sh", "-c", `${line} --no-check`],
        cwd: parent,
      }).output();
      const text = new TextDecoder().decode(ended.stdout) +
        new TextDecoder().decode(ended.stderr);
      assertEquals(ended.success, true, text);
      assertMatch(text, /1 passed \(\d+ steps\) \| 0 failed/);
    } finally {
      await Deno.remove(parent, { recursive: true });
    }
  },
);
