// deno-lint-ignore-file no-sync-fn-in-async-fn -- nothing else waits during these calls

/**
 * The compiled executables, run as runtimes run them. `deno task test` builds
 * them and says where they are by CNI_BIN.
 */

import {
  assert,
  assertEquals,
  assertMatch,
  assertStringIncludes,
} from "@std/assert";
import { makeSchemas } from "../cli/explain/make.ts";
import { selectSchema } from "../cli/explain/schemas.ts";
import { findPlugin, pluginNames } from "../plugins/registry.ts";
import {
  goPlugin,
  hasCommand,
  ignoreUnless,
  requireRoot,
} from "../testing/capabilities.ts";
import { dualStack } from "./_harness/dual_stack.ts";
import { ipJson, snapshot } from "../testing/ip_json.ts";
import { type CallOutput, TestHosts } from "../testing/test_hosts.ts";
import { PluginDirectory } from "./_harness/plugin_directory.ts";
import { eachRow } from "./_harness/table.ts";

const BIN = Deno.env.get("CNI_BIN") ?? "";
const needsBin = ignoreUnless(
  BIN !== "",
  "needs CNI_BIN, as `deno task test` sets it",
);

/** Header of a test that runs executables, as root if it says so. */
function executables(
  name: string,
  { ignore, suffix }: { ignore: boolean; suffix: string } = {
    ignore: false,
    suffix: "",
  },
): { name: string; ignore: boolean } {
  return {
    name: name + needsBin.suffix + suffix,
    ignore: needsBin.ignore || ignore,
  };
}

const root = ((): { ignore: boolean; suffix: string } => {
  const { name, ignore } = requireRoot("");
  return { ignore, suffix: name };
})();

interface Ended {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs a program with nothing but the given environment. */
function run(
  command: readonly string[],
  env: Record<string, string> = {},
  cwd = "/",
): Ended {
  const [path = "", ...args] = command;
  const output = new Deno.Command(path, {
    args,
    env,
    cwd,
    clearEnv: true,
    stdin: "null",
  }).outputSync();
  const [stdout = "", stderr = ""] = [output.stdout, output.stderr]
    .map((bytes) => new TextDecoder().decode(bytes));
  return { code: output.code, stdout, stderr };
}

const VERSIONS = formatVersions(
  ["0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"],
);

/** What VERSION prints, to the letter. */
function formatVersions(versions: readonly string[]): string {
  const list = versions.map((version) => `"${version}"`).join(",");
  return `{"cniVersion":"1.1.0","supportedVersions":[${list}]}\n`;
}

for (const name of pluginNames) {
  Deno.test(
    executables(
      `${name} answers VERSION under every name and in every environment`,
    ),
    async (t) => {
      const plugin = await findPlugin(name);
      const stdout = formatVersions(plugin?.versions ?? []);
      const directory = Deno.makeTempDirSync();
      try {
        const path = `${BIN}/${name}`;
        Deno.mkdirSync(`${directory}/hard`);
        Deno.symlinkSync(path, `${directory}/${name}`);
        Deno.copyFileSync(path, `${directory}/hard/copy`);
        Deno.linkSync(`${directory}/hard/copy`, `${directory}/hard/${name}`);
        Deno.writeTextFileSync(
          `${directory}/.npmrc`,
          "registry=not a url\n\0=x",
        );
        const hostile = {
          COMPLETE: "bash",
          DENO_V8_FLAGS: "--help",
          DENO_DIR: "/nowhere/at/all",
          DENO_PERMISSION_BROKER_PATH: "/nowhere",
          DENO_COVERAGE_DIR: `${directory}/coverage`,
          DENO_CERT: "/nowhere",
          DENO_NO_PROMPT: "0",
          NODE_CHANNEL_FD: "77",
          NODE_DEBUG: "*",
          NODE_OPTIONS: "--bad",
          OTEL_DENO: "true",
          OTEL_EXPORTER_OTLP_ENDPOINT: "http://127.0.0.1:1",
          FORCE_COLOR: "1",
          JSR_URL: "x",
          NPM_CONFIG_REGISTRY: "y",
          SSLKEYLOGFILE: `${directory}/keys`,
        };
        const rows: [string, string, Record<string, string>][] = [
          ["an empty environment", path, {}],
          ["a symbolic link", `${directory}/${name}`, {}],
          ["a hard link to a copy", `${directory}/hard/${name}`, {}],
          ["a hostile environment", path, hostile],
          ["a broken .npmrc", path, { HOME: directory }],
          ["a HOME that is not there", path, { HOME: "/nowhere" }],
        ];
        await eachRow(t, rows, ([, executable, env]) => {
          const ended = run([executable], { ...env, CNI_COMMAND: "VERSION" });
          assertEquals(ended, { code: 0, stdout, stderr: "" });
        });
      } finally {
        Deno.removeSync(directory, { recursive: true });
      }
    },
  );
}

Deno.test(
  executables(
    "an executable says which plugins there are when it has none of their names",
  ),
  () => {
    const ended = run([`${BIN}/cni`], { CNI_COMMAND: "VERSION" });
    assertEquals(ended.code, 1);
    const error = JSON.parse(ended.stdout);
    assertEquals(error.code, 4);
    assertStringIncludes(error.details, pluginNames.join(", "));
  },
);

Deno.test(
  executables("cni schema prints the schemas that the sources make"),
  async () => {
    const { stdout } = await new Deno.Command(`${BIN}/cni`, {
      args: ["schema"],
    }).output();
    const text = new TextDecoder().decode(stdout);
    const made = selectSchema(await makeSchemas(), "conflist");
    assertEquals(text, `${JSON.stringify(made, null, 2)}\n`);
  },
);

Deno.test(
  executables("an executable prints what it is when it is run by hand"),
  () => {
    const { code, stdout, stderr } = run([`${BIN}/ptp`]);
    assertEquals([code, stdout], [0, ""]);
    assertMatch(
      stderr,
      /^CNI ptp plugin v1\.\d+\.\d+\+\d+\.\d+\.\d+\nCNI protocol versions/,
    );
    const help = run([`${BIN}/ptp`, "--help"]);
    assertEquals([help.code, help.stderr], [0, ""]);
    assertMatch(
      help.stdout,
      /^ptp plugin\n[^]*\nKeys:\n[^]*\n {2}ipMasq {2,}\w/,
    );
  },
);

Deno.test(
  executables("an executable answers by an error if a variable is not UTF-8"),
  async (t) => {
    const env = {
      CNI_COMMAND: "ADD",
      CNI_CONTAINERID: "one",
      CNI_NETNS: "/run/netns/one",
      CNI_IFNAME: "eth0",
      CNI_PATH: BIN,
    };
    const names = [...Object.keys(env).slice(1), "CNI_TRACE", "CNI_TOOL_ASKS"];
    await eachRow(t, names.map((name): [string] => [name]), ([name]) => {
      const script = `exec env "${name}=$(printf '\\377')" ${BIN}/ptp`;
      const { code, stdout, stderr } = run(["/bin/sh", "-c", script], {
        PATH: "/usr/bin:/bin",
        ...env,
      });
      assertEquals([code, stderr], [1, ""]);
      assertEquals([4, 6].includes(JSON.parse(stdout).code), true, stdout);
    });
  },
);

for (
  const command of [["strip"], ["objcopy", "--strip-debug"]] as const
) {
  const [program] = command;
  Deno.test(
    executables(
      `an executable is what it was after ${command.join(" ")}`,
      ignoreUnless(hasCommand(program), `needs ${program}`),
    ),
    () => {
      using directory = new PluginDirectory();
      const path = `${directory.path}/ptp`;
      Deno.copyFileSync(`${BIN}/cni`, path);
      const { stderr } = run([
        `/usr/bin/${program}`,
        ...command.slice(1),
        path,
      ]);
      assertStringIncludes(stderr, "has no sections");
      const ended = run([path], { CNI_COMMAND: "VERSION" });
      assertEquals(ended, { code: 0, stdout: VERSIONS, stderr: "" });
    },
  );
}

Deno.test(
  executables("an executable works on a read-only root file system", root),
  () => {
    const script = `mount -o remount,bind,ro / && exec '${BIN}/ptp'`;
    const ended = run(["/usr/bin/unshare", "-m", "/bin/sh", "-c", script], {
      CNI_COMMAND: "VERSION",
    });
    assertEquals(ended, { code: 0, stdout: VERSIONS, stderr: "" });
  },
);

Deno.test(
  executables(
    "an executable writes no file and opens no socket to answer VERSION",
    ignoreUnless(hasCommand("strace"), "needs strace"),
  ),
  () => {
    const directory = Deno.makeTempDirSync();
    try {
      // A file for each thread: lines of one are not cut by those of another.
      const { code } = run(
        ["/usr/bin/strace", "-ff", "-o", `${directory}/trace`, `${BIN}/ptp`],
        { CNI_COMMAND: "VERSION" },
      );
      assertEquals(code, 0);
      const calls = [...Deno.readDirSync(directory)]
        .flatMap(({ name }) =>
          Deno.readTextFileSync(`${directory}/${name}`).split("\n")
        )
        // What failed did nothing.
        .filter((line) => !/= -1 E[A-Z]+/.test(line));
      assert(calls.some((line) => line.startsWith("execve(")), "no trace");
      const wrote = calls.filter((line) =>
        /O_(WRONLY|RDWR|CREAT)/.test(line) ||
        /^(socket|mkdir|rename|unlink|symlink|link|chmod)(at)?2?\(/.test(line)
      );
      assertEquals(wrote, []);
    } finally {
      Deno.removeSync(directory, { recursive: true });
    }
  },
);

/** A complete configuration, the same for every way of running. */
function config(hosts: TestHosts, cniVersion: string): Record<string, unknown> {
  return { ...dualStack(hosts), cniVersion, mtu: 1400 };
}

/** Takes out what differs from one attachment to the next. */
function normalise(output: CallOutput, hosts: TestHosts): unknown {
  return JSON.parse(
    output.stdout.replaceAll(hosts.sandbox.path, "SANDBOX")
      .replace(/([0-9a-f]{2}:){5}[0-9a-f]{2}/g, "MAC"),
  );
}

/** Runs ADD, CHECK and DEL; returns the normalised result of ADD. */
function attachAndDetach(cniVersion: string, path: string): unknown {
  using hosts = TestHosts.create();
  const before = [snapshot(hosts.host), snapshot(hosts.sandbox)];
  const env = { CNI_PATH: path };
  const call = (command: string, more: object = {}): CallOutput => {
    const input = { ...config(hosts, cniVersion), ...more };
    const output = hosts.exec(`${BIN}/ptp`, command, input, { env });
    assertEquals([output.exitCode, output.stderr], [0, ""], output.stdout);
    return output;
  };
  const added = call("ADD");
  assertEquals(ipJson(hosts.sandbox, "link", "show", "eth0")[0].mtu, 1400);
  call("CHECK", { prevResult: added.json });
  call("DEL", { prevResult: added.json });
  assertEquals([snapshot(hosts.host), snapshot(hosts.sandbox)], before);
  return normalise(added, hosts);
}

Deno.test(
  executables(
    "ptp gives the same result with host-local in its process and as another one",
    root,
  ),
  async (t) => {
    const ours = attachAndDetach("1.0.0", BIN);
    await t.step("a copy of this project's host-local", () => {
      const directory = Deno.makeTempDirSync();
      try {
        Deno.copyFileSync(`${BIN}/host-local`, `${directory}/host-local`);
        assertEquals(attachAndDetach("1.0.0", directory), ours);
      } finally {
        Deno.removeSync(directory, { recursive: true });
      }
    });
    const go = goPlugin("host-local") ?? "";
    const { ignore, suffix } = ignoreUnless(
      go !== "",
      "needs the Go host-local",
    );
    await t.step({
      name: `the Go host-local${suffix}`,
      ignore,
      fn: () => {
        const directory = go.replace(/\/[^/]*$/, "");
        assertEquals(attachAndDetach("1.0.0", directory), ours);
      },
    });
    await t.step("in the plugin's own process", async () => {
      using hosts = TestHosts.create();
      const added = await hosts.run("ptp", "ADD", config(hosts, "1.0.0"));
      assertEquals(normalise(added, hosts), ours);
    });
  },
);

Deno.test(
  executables(
    "ptp starts no second process for our own host-local",
    ignoreUnless(hasCommand("strace") && !root.ignore, "needs root and strace"),
  ),
  async (t) => {
    const rows: [string, Record<string, string>, number][] = [
      ["in one process", {}, 1],
      ["in two when told so", { CNI_NO_INPROCESS: "1" }, 2],
    ];
    await eachRow(t, rows, ([, env, processes]) => {
      using hosts = TestHosts.create();
      const trace = `${hosts.directory}/trace`;
      const script = `${hosts.directory}/traced`;
      Deno.writeTextFileSync(
        script,
        `#!/bin/sh\nexec strace -f -e trace=execve -o '${trace}' '${BIN}/ptp'\n`,
        { mode: 0o755 },
      );
      const options = { env: { CNI_PATH: BIN, ...env } };
      const input = config(hosts, "1.0.0");
      const added = hosts.exec(script, "ADD", input, options);
      assertEquals(added.exitCode, 0, added.stdout + added.stderr);
      const started = Deno.readTextFileSync(trace).split("\n")
        .filter((line) => line.includes("execve(") && line.endsWith("= 0"));
      assertEquals(started.length, processes);
    });
  },
);
