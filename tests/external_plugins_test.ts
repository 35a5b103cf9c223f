/**
 * Plugins that are not part of the project are known to the tool: those that
 * `cni new plugin` makes, and one of the project's that was moved out.
 */

import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { findDescribedPlugin } from "../cli/node/described_plugin.ts";
import { createInvoker } from "../cni/invoke/in_process.ts";
import { createLog } from "../base/log/log.ts";
import type { Orphan } from "../metadata/orphans.ts";
import { dispatch } from "../cni/skel.ts";
import { findOrphans } from "../cli/orphans/mod.ts";
import { findPlugin } from "../plugins/registry.ts";
import { ROOT } from "../scripts/project.ts";
import { rootTest } from "../testing/capabilities.ts";
import { PluginDirectory } from "./_harness/plugin_directory.ts";
import { runCni, runCniOn } from "./_harness/tool_call.ts";

const IPAM = { type: "host-local", subnet: "10.61.0.0/24" };

/** A directory with projects, and their executables, which run from the sources. */
class Projects extends PluginDirectory {
  /** Directories of CNI_PATH. */
  get bin(): string {
    return `${this.path}/bin`;
  }

  /** Adds the executable of a project with a `main.ts`. */
  async addExecutable(name: string, map: string): Promise<void> {
    await Deno.mkdir(this.bin, { recursive: true });
    const variables = ["HOME", "PATH", "DENO_DIR"].flatMap((name) => {
      const value = Deno.env.get(name);
      return value === undefined ? [] : [`${name}='${value}'`];
    });
    const run = `${Deno.execPath()} run -A -q --no-check --no-config ` +
      `--import-map=${map} ${this.path}/${name}/main.ts`;
    this.add(`bin/${name}`, `${variables.join(" ")} exec ${run}`);
  }

  /** Makes a project as `cni new plugin` does. */
  async make(name: string, ...flags: string[]): Promise<void> {
    const before = Deno.cwd();
    Deno.chdir(this.path);
    try {
      const call = ["new", "plugin", name, "--checkout", ROOT, ...flags];
      assertEquals((await runCni(...call)).stderr, "");
    } finally {
      Deno.chdir(before);
    }
    await this.addExecutable(name, `${this.path}/${name}/import_map.json`);
  }

  /** Runs the tool, which finds the executables. */
  async run(...args: string[]): Promise<string> {
    const env = { CNI_PATH: this.bin };
    const { stdout, stderr } = await runCniOn({ env }, ...args);
    assertEquals(stderr, "");
    return stdout;
  }

  /** Lists the problems that the tool finds in a list of plugins. */
  async validate(...plugins: object[]): Promise<string[]> {
    const list = { cniVersion: "1.0.0", name: "own", plugins };
    const file = this.addFile("own.conflist", JSON.stringify(list), 0o644);
    const { stdout } = await runCni(
      ...["validate", "--json", "--cni-path", this.bin, file],
    );
    const { problems } = JSON.parse(stdout);
    return problems.map((
      { severity, path, message }: Record<string, string>,
    ) => `${severity} ${path}: ${message}`);
  }
}

/** Calls for which all plugins must be there. */
function addOurs(projects: Projects): void {
  for (const type of ["ptp", "host-local", "vlan"]) {
    projects.addOwnExecutable(`bin/${type}`);
  }
}

rootTest(
  "cni validates and explains a plugin created by cni new plugin",
  async () => {
    using projects = new Projects();
    await projects.make("marker", "--chained");
    addOurs(projects);
    const ptp = { type: "ptp", ipam: IPAM };
    const marked = (keys: object): Promise<string[]> =>
      projects.validate(ptp, { type: "marker", ...keys });
    assertEquals(await marked({ mtu: 1400 }), []);
    assertEquals(await marked({ mtu: "1400" }), [
      "error plugins[1].mtu: expected a number, got a string; write 1400 without quotes",
    ]);
    assertEquals(await marked({ mtuu: 1400 }), [
      'warning plugins[1].mtuu: marker has no such key; did you mean "mtu"?',
    ]);
    assertEquals(await marked({ mtu: 1000 }), [
      "warning plugins[1].mtu: less than the 1280 bytes that IPv6 needs",
    ]);
    assertEquals(await projects.validate({ type: "marker" }, ptp), [
      "error plugins[0]: marker must come after another plugin",
    ]);
    assertEquals(
      await projects.run("explain", "marker.mtu"),
      `marker.mtu
  MTU of the interface in bytes.

  Type:     integer
  Default:  1400

Example:
  "mtu": 1400
`,
    );
    const schema = JSON.parse(await projects.run("schema", "marker"));
    assertEquals(schema.title, "marker plugin");
  },
);

rootTest("cni report masks keys that a plugin declares secret", async () => {
  using projects = new Projects();
  await projects.make("marker", "--chained");
  const file = `${projects.path}/marker/metadata.ts`;
  const about = await Deno.readTextFile(file);
  await Deno.writeTextFile(
    file,
    about.replace("mtu: {", "mtu: { isSecret: true,"),
  );
  const { signal } = new AbortController();
  const described = await findDescribedPlugin("marker", [projects.bin], {
    env: {},
    signal,
  });
  assertEquals(described?.secrets, ["mtu"]);
});

rootTest("cni validates an IPAM plugin created by cni new plugin", async () => {
  using projects = new Projects();
  await projects.make("pool", "--ipam");
  addOurs(projects);
  const leased = (keys: object): Promise<string[]> =>
    projects.validate({ type: "ptp", ipam: { type: "pool", ...keys } });
  assertEquals(await leased({ subnet: "10.61.0.0/24" }), []);
  assertMatch(
    (await leased({ subnet: "x" }))[0] ?? "",
    /^error plugins\[0\]\.ipam\.subnet: invalid CIDR/,
  );
  assertEquals(await leased({ subnet: "10.61.0.0/24", subnets: 1 }), [
    'warning plugins[0].ipam.subnets: pool has no such key; did you mean "subnet"?',
  ]);
});

/** Moves one of the project's plugins out, under another name. */
async function moveOut(projects: Projects, type: string): Promise<void> {
  await projects.make("map");
  const directory = `${projects.path}/${type}-out`;
  await Deno.mkdir(directory);
  for await (const { name } of Deno.readDir(`${ROOT}plugins/${type}`)) {
    const text = await Deno.readTextFile(`${ROOT}plugins/${type}/${name}`);
    const moved = text.replaceAll('"../../', `"${ROOT}`)
      .replaceAll('"../', `"${ROOT}plugins/`)
      .replaceAll(
        new RegExp(`("?)(type|name)\\1: "${type}"`, "g"),
        `$1$2$1: "${type}-out"`,
      );
    await Deno.writeTextFile(`${directory}/${name}`, moved);
  }
  await Deno.writeTextFile(
    `${directory}/main.ts`,
    `import { answerTools, runMain } from "@cni/plugins";
     import { ${type} } from "./plugin.ts";
     const answer = async (question, plugin) => {
       const { metadata: all } = await import("./metadata.ts");
       const { keys, orphans, needs, ...metadata } = all;
       const description = {
         metadata,
         ...await keys(),
         orphans: await orphans?.(),
       };
       return await answerTools(question, plugin, description);
     };
     await runMain({ ...${type}, answerTools: answer });`,
  );
  const map = `${projects.path}/map/import_map.json`;
  await projects.addExecutable(`${type}-out`, map);
}

rootTest(
  "cni recognizes a plugin that was moved out of the project",
  async (t) => {
    using projects = new Projects();
    await moveOut(projects, "vlan");
    addOurs(projects);
    const rows: Record<string, object> = {
      "right": { master: "eth0", vlanId: 5, ipam: IPAM },
      "no ipam": { master: "eth0", vlanId: 5 },
      "wrong types": { master: 1, vlanId: "5", ipam: IPAM },
      "a misspelt key": { master: "eth0", vlanID: 5, vlanIds: 5, ipam: IPAM },
      "an unused capability": {
        master: "eth0",
        ipam: IPAM,
        capabilities: { bandwidth: true },
      },
      "a key for another plugin": { master: "eth0", ipam: IPAM, subnet: "x" },
      "a small MTU": { master: "eth0", mtu: 10, ipam: IPAM },
    };
    for (const [name, keys] of Object.entries(rows)) {
      await t.step(name, async () => {
        const inside = await projects.validate({ type: "vlan", ...keys });
        const outside = await projects.validate({ type: "vlan-out", ...keys });
        assertEquals(
          outside.map((problem) => problem.replaceAll("vlan-out", "vlan")),
          inside,
        );
        const isRight = ["right", "no ipam"].includes(name);
        assertEquals(inside.length === 0, isRight);
      });
    }
    await t.step("a second interface", async () => {
      const conf = { master: "eth0", ipam: IPAM };
      const twice = await projects.validate(
        { type: "ptp", ipam: IPAM },
        { type: "vlan-out", ...conf },
      );
      assertStringIncludes(
        twice.join(),
        "vlan-out would create the interface that ptp creates",
      );
    });
    for (const key of ["", ".master", ".vlanId", ".mtu"]) {
      await t.step(`explain vlan${key}`, async () => {
        const explain = async (type: string): Promise<string> => {
          const text = await projects.run("explain", `${type}${key}`);
          assertStringIncludes(text, `${type}${key}`);
          // It has no page in docs/.
          return text.replaceAll("vlan-out", "vlan")
            .replaceAll(/docs\/vlan.md(, and )?/g, "").trimEnd()
            .replace(/\s+See$/, "");
        };
        assertEquals(await explain("vlan-out"), await explain("vlan"));
      });
    }
  },
);

rootTest(
  "cni removes orphans of a plugin that was moved out of the project",
  async () => {
    using projects = new Projects();
    await moveOut(projects, "tuning");
    const container = crypto.randomUUID().replaceAll("-", "");
    const dataDir = `${projects.path}/state`;
    await Deno.mkdir(dataDir);
    const file = `${dataDir}/${container}_eth0.json`;
    await Deno.writeTextFile(file, JSON.stringify({ network: "own" }));
    const plugins = [{ type: "ptp", ipam: IPAM }, {
      type: "tuning-out",
      dataDir,
    }];
    projects.addFile(
      "own.conflist",
      JSON.stringify({ cniVersion: "1.0.0", name: "own", plugins }),
      0o644,
    );
    const find = async (graceMs: number): Promise<Orphan[]> => {
      const orphans = await findOrphans({
        hostNetns: "/proc/self/ns/net",
        confDir: projects.path,
        cacheDir: `${projects.path}/cache`,
        pluginDirs: [projects.bin],
        env: {},
        graceMs,
        invoker: createInvoker(dispatch, findPlugin),
        log: createLog({}, () => {}),
      });
      return orphans.filter(({ where }) => where === file);
    };
    assertEquals(await find(60_000), []);
    const [orphan] = await find(0);
    assertEquals(
      [orphan?.kind, orphan?.container, orphan?.network, orphan?.why],
      ["record", container, "own", "no process or attachment of the container"],
    );
    await orphan?.remove();
    assertEquals(await find(0), []);
    assertEquals(await Array.fromAsync(Deno.readDir(dataDir)), []);
  },
);
