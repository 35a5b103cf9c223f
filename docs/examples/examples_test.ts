import { assertStringIncludes } from "@std/assert";
import { importFlags } from "../../scripts/import_flags.ts";
import { rootTest, runIn, TestHosts } from "@cni/plugins/testing";

const ROOT = new URL("../..", import.meta.url).pathname;
const guide = Deno.readTextFileSync(`${ROOT}docs/write-a-plugin.md`);

/** Runs an example on the temporary host. Returns what it prints. */
async function runExample(
  { host, path, directory }: TestHosts,
  name: string,
  ...args: readonly string[]
): Promise<string> {
  const flags = await importFlags();
  const script = [
    Deno.execPath(),
    "run",
    "-A",
    ...flags,
    `docs/examples/${name}`,
  ];
  return runIn(
    host,
    ...[
      "env",
      "--chdir",
      ROOT,
      `CNI_PATH=${path}`,
      `CNI_CACHE_DIR=${directory}`,
    ],
    ...script,
    ...args,
  );
}

rootTest(
  "docs/examples/list_links.ts prints what the guide shows",
  async () => {
    using hosts = TestHosts.create();
    const printed = await runExample(hosts, "list_links.ts");
    assertStringIncludes(guide, `list_links.ts\n${printed}\`\`\``);
  },
);

rootTest(
  "docs/examples/run_in_network.ts prints what the guide shows",
  async () => {
    using hosts = TestHosts.create();
    const file = `${hosts.directory}/pods.conflist`;
    const ipam = hosts.hostLocal("10.22.0.0/24");
    const plugins = [{ type: "ptp", ipam }];
    const list = { cniVersion: "1.0.0", name: "pods", plugins };
    await Deno.writeTextFile(file, JSON.stringify(list));
    const command = ["ping", "-c1", "-q", "10.22.0.1"];
    const printed = await runExample(
      hosts,
      "run_in_network.ts",
      file,
      ...command,
    );
    const lines = printed.split("\n").filter((line) => !line.startsWith("rtt"));
    assertStringIncludes(printed, "1 received");
    for (const line of lines) {
      assertStringIncludes(guide, line.replace(/time \d+ms/, "time 0ms"));
    }
  },
);
