/**
 * A plugin is its directory. Without it, and with the lists made again, the
 * project is complete; put back, the project is as before.
 */

import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { pluginNames } from "../plugins/registry.ts";
import { ROOT } from "../scripts/project.ts";
import { importFlags } from "../scripts/import_flags.ts";
import { hasCommand, ignoreUnless, rootTest } from "../testing/capabilities.ts";

const SOURCES = [
  ...[
    "net",
    "ffi",
    "base",
    "cni",
    "metadata",
    "libcni",
    "kube",
    "ipam",
    "plugins",
  ],
  ...["node", "daemon", "cli"],
  ...["main.ts", "mod.ts", "libcni.ts", "nftables.ts", "traffic_control.ts"],
  ...["scripts", "testing", "tests", "docs", "deploy/daemon"],
  ...["deno.json", "deno.lock", "README.md", "ARCHITECTURE.md"],
];

/**
 * Lists the project's files; directories that tests and builds create in
 * between do not count.
 */
const LIST = "git -c safe.directory=* ls-files -z --";

/** The lists, which are made from the directories. */
const LISTS = [
  "plugins/lists/loaders.ts",
  "plugins/lists/metadata.ts",
  "plugins/lists/traits.ts",
];

interface Output {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** A copy of the project, and another one to compare it with. */
class Copy implements Disposable {
  readonly #origin = Deno.makeTempDirSync({ prefix: "cni-test-" });
  readonly #root = Deno.makeTempDirSync({ prefix: "cni-test-" });

  async run(program: string, ...args: string[]): Promise<Output> {
    const { code, ...written } = await new Deno.Command(program, {
      args,
      cwd: this.#root,
      env: { NO_COLOR: "1" },
      stdin: "null",
    }).output();
    const decode = (bytes: Uint8Array): string =>
      new TextDecoder().decode(bytes);
    return {
      code,
      stdout: decode(written.stdout),
      stderr: decode(written.stderr),
    };
  }

  async deno(subcommand: string, ...args: string[]): Promise<Output> {
    return await this.run(
      Deno.execPath(),
      subcommand,
      "-q",
      ...await importFlags(),
      ...args,
    );
  }

  /** Runs the tool, in a network namespace of its own. */
  async cni(...args: string[]): Promise<Output> {
    const run = ["run", "-q", "-A", "--no-check", ...await importFlags()];
    return await this.run(
      "unshare",
      "-n",
      ...[Deno.execPath(), ...run, "cli/main.ts", ...args],
    );
  }

  /** Copies the project's sources, as they are now. */
  async takeAll(): Promise<void> {
    const copy = `cd ${ROOT} && ${LIST} ${SOURCES.join(" ")} |
      tar -c --null -T - | tar -C ${this.#origin} -x`;
    const { code, stderr } = await this.run("sh", "-c", copy);
    assertEquals(code, 0, stderr);
    await this.take(".");
  }

  /** Copies files or directories that {@linkcode takeAll} has copied. */
  async take(...paths: string[]): Promise<void> {
    const copy = `tar -C ${this.#origin} -c ${paths.join(" ")} | tar -x`;
    const { code, stderr } = await this.run("sh", "-c", copy);
    assertEquals(code, 0, stderr);
  }

  async remove(path: string): Promise<void> {
    await Deno.remove(`${this.#root}/${path}`, { recursive: true });
  }

  /** What `deno task schemas` does. */
  async makeLists(): Promise<void> {
    const { code, stderr } = await this.deno("run", "-A", "scripts/schemas.ts");
    assertEquals(code, 0, stderr);
  }

  /** Lists the product's files that are others than the project's. */
  async listChanges(): Promise<string[]> {
    const changes: string[] = [];
    for (const part of SOURCES) {
      const own = `${this.#root}/${part}`;
      const origin = `${this.#origin}/${part}`;
      const { stdout } = await this.run("diff", "-rq", origin, own);
      changes.push(...stdout.split("\n").filter((line) => line !== ""));
    }
    return changes.map((line) =>
      line.replaceAll(`${this.#root}/`, "").replaceAll(`${this.#origin}/`, "")
    );
  }

  /** Runs the tool, which prints JSON. */
  // deno-lint-ignore no-explicit-any -- a wrong path is a failed test
  async ask(...args: string[]): Promise<any> {
    return JSON.parse((await this.cni(...args, "--json")).stdout);
  }

  async write(name: string, content: string): Promise<void> {
    await Deno.writeTextFile(`${this.#root}/${name}`, content);
  }

  async read(name: string): Promise<string> {
    return await Deno.readTextFile(`${this.#root}/${name}`);
  }

  [Symbol.dispose](): void {
    for (const path of [this.#origin, this.#root]) {
      Deno.removeSync(path, { recursive: true });
    }
  }
}

const IPAM = { type: "host-local", subnet: "10.61.0.0/24" };

/** Writes networks with two plugins, and links to their executables. */
async function addNetworks(copy: Copy): Promise<void> {
  await copy.run("mkdir", "net.d", "bin", "cache");
  for (const type of ["ptp", "host-local"]) {
    await copy.run("ln", "-s", "/proc/self/exe", `bin/${type}`);
  }
  const plugins = {
    ptp: { type: "ptp", ipam: IPAM },
    vlan: { type: "vlan", master: "lo", vlanId: 5, ipam: IPAM },
  };
  for (const [name, plugin] of Object.entries(plugins)) {
    const list = { cniVersion: "1.0.0", name, plugins: [plugin] };
    await copy.write(`net.d/${name}.conflist`, JSON.stringify(list));
  }
}

const VLAN = "net.d/vlan.conflist", PTP = "net.d/ptp.conflist";

const DIRECTORIES = [
  ...["--cni-path", "bin", "--conf-dir", "net.d", "--cache-dir", "cache"],
];

/** Lists the plugins that have an explanation and a schema. */
async function listKnown(copy: Copy): Promise<string[]> {
  const explained = await copy.ask("explain");
  const types = explained.map(({ type }: { type: string }) => type);
  const { definitions } = await copy.ask("schema");
  assertEquals(Object.keys(definitions), types);
  return types;
}

async function removeRow(copy: Copy): Promise<void> {
  const readme = await copy.read("README.md");
  await copy.write("README.md", readme.replace(/^\| \[`vlan`\].*\n/m, ""));
}

const isCheckout = hasCommand("git") && new Deno.Command("git", {
  args: ["-c", "safe.directory=*", "rev-parse", "HEAD"],
  cwd: ROOT,
  stdout: "null",
  stderr: "null",
}).outputSync().success;

const needsCheckout = ignoreUnless(isCheckout, "needs git, and a checkout");

rootTest("a plugin consists of its directory", needsCheckout, async (t) => {
  using copy = new Copy();
  await copy.takeAll();
  assertEquals(await copy.listChanges(), []);
  await copy.remove("plugins/vlan");
  await copy.makeLists();
  await addNetworks(copy);

  await t.step("without it, only the lists change", async () => {
    assertEquals(await copy.listChanges(), [
      ...LISTS.map((path) => `Files ${path} and ${path} differ`),
      "Only in plugins: vlan",
    ]);
  });

  // The type check of the whole product is for the night.
  const verb = Deno.env.get("CNI_CONFORM") === "1" ? "check" : "cache";
  await t.step("without it, nothing imports it", async () => {
    const { code, stderr } = await copy.deno(verb, "main.ts", "libcni.ts");
    assertEquals(code, 0, stderr);
  });

  await t.step("without it, the lists and README agree", async () => {
    await removeRow(copy);
    const tests = ["plugins/metadata_test.ts", "plugins/registry_test.ts"];
    const { code, stdout } = await copy.deno(
      ...["test", "-A", "--no-check", ...tests] as const,
    );
    assertEquals(code, 0, stdout);
  });

  await t.step("without it, the tool does not list it", async () => {
    const refusals: [string[], string][] = [
      [["explain", "vlan"], 'no plugin is named "vlan"'],
      [["schema", "vlan"], 'No schema is named "vlan"'],
      [["install", "bin", "--only", "vlan"], 'no plugin is named "vlan"'],
      [["validate", VLAN, ...DIRECTORIES], 'failed to find plugin "vlan"'],
    ];
    for (const [call, refusal] of refusals) {
      const { code, stdout, stderr } = await copy.cni(...call);
      assertEquals(code === 0, false, call.join(" "));
      assertStringIncludes(`${stdout}${stderr}`, refusal);
    }
  });

  await t.step("without it, the tool works", async () => {
    assertEquals(
      await listKnown(copy),
      pluginNames.filter((type) => type !== "vlan"),
    );
    const { code, stderr } = await copy.cni("validate", PTP, ...DIRECTORIES);
    assertEquals([code, stderr], [0, ""]);
    const { stdout } = await copy.cni("doctor", ...DIRECTORIES);
    assertMatch(stdout, /^Plugins +2 in bin: 2 of this project$/m);
    assertStringIncludes(stdout, '"vlan" needs "vlan": failed to find plugin');
  });

  await copy.take("plugins/vlan", "README.md");
  await copy.makeLists();

  await t.step("after it is restored, the tool lists it again", async () => {
    assertEquals(await copy.listChanges(), []);
    assertEquals(await listKnown(copy), pluginNames);
  });
});
