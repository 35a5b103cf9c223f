import { assertEquals, assertMatch, assertRejects } from "@std/assert";
import { Cidr } from "../../net/cidr.ts";
import { PluginDirectory } from "../../tests/_harness/plugin_directory.ts";
import { callWith, runCni } from "../../tests/_harness/tool_call.ts";
import { findFreeSubnet } from "./free_subnets.ts";
import type { NodeSubnets } from "./free_subnets.ts";
import type { Prompt } from "../../base/command_line/prompt.ts";
import { init } from "./command.ts";

const NODE: NodeSubnets = {
  taken: [Cidr.parse("10.22.0.0/23"), Cidr.parse("fd00:22::/48")],
  uplink: "ens3",
};

/** Makes a network on a node without plugin directories. */
async function run(
  flags: Record<string, string | boolean>,
  { ask, directory }: { ask?: Prompt; directory?: string } = {},
): Promise<Record<string, unknown>> {
  const call = callWith({
    flags: {
      "conf-dir": directory ?? "/dev/null",
      "cni-path": "/dev/null",
      ...flags,
    },
  });
  const setting = { ask, readNode: () => NODE };
  return (await init(call, setting)).json as Record<string, unknown>;
}

Deno.test("init writes networks of each type from flags", async () => {
  const types: [flags: Record<string, string | boolean>, first: object][] = [
    [{}, {
      type: "bridge",
      bridge: "cni-pods",
      isDefaultGateway: true,
      ipMasq: true,
      hairpinMode: true,
      ipam: { type: "host-local", ranges: [[{ subnet: "10.22.2.0/24" }]] },
    }],
    [{ type: "ptp", ipv6: true }, {
      type: "ptp",
      ipMasq: true,
      ipam: {
        type: "host-local",
        ranges: [[{ subnet: "10.22.2.0/24" }], [{ subnet: "fd00:23::/64" }]],
        routes: [{ dst: "0.0.0.0/0" }, { dst: "::/0" }],
      },
    }],
    [{ type: "vlan", "vlan-id": "7", subnet: "10.9.0.0/24" }, {
      type: "vlan",
      master: "ens3",
      vlanId: 7,
      ipam: {
        type: "host-local",
        ranges: [[{ subnet: "10.9.0.0/24" }]],
        routes: [{ dst: "0.0.0.0/0" }],
      },
    }],
  ];
  for (const [flags, first] of types) {
    const { plugins } = await run({ output: "-", ...flags });
    assertEquals((plugins as object[])[0], first);
  }
});

Deno.test("init reports that plugins must be installed first", async () => {
  using directory = new PluginDirectory();
  const { note } = await init(
    callWith({
      flags: { "conf-dir": directory.path, "cni-path": "/nonexistent" },
    }),
    { ask: undefined, readNode: () => NODE },
  );
  assertEquals(
    note,
    'There are no plugins in "/nonexistent" yet: cni install /nonexistent',
  );
});

Deno.test("init uses installed plugins", async () => {
  using plugins = new PluginDirectory();
  for (const type of ["ptp", "host-local"]) plugins.addOwnExecutable(type);
  const flags = { output: "-", "cni-path": plugins.path };
  const make = async (
    more: Record<string, string | boolean>,
  ): Promise<[types: string[], note: unknown]> => {
    const call = callWith({
      flags: { "conf-dir": "/dev/null", ...flags, ...more },
    });
    const setting = { ask: undefined, readNode: () => NODE };
    const { json, note } = await init(call, setting);
    const list = (json as { plugins: { type: string }[] }).plugins;
    return [list.map(({ type }) => type), note];
  };
  assertEquals(await make({}), [
    ["ptp"],
    "Omitted portmap, which forwards host ports: it is not installed",
  ]);
  assertEquals(await make({ "no-portmap": true }), [["ptp"], undefined]);
  const rows: [flags: Record<string, string | boolean>, names: string][] = [
    [{ type: "bridge" }, "bridge"],
    [{ portmap: true, bandwidth: true }, "portmap,bandwidth"],
  ];
  for (const [more, names] of rows) {
    const end = `; run cni install ${plugins.path} --only ${names}`;
    const { message } = await assertRejects(() => make(more), Error);
    assertEquals(message.slice(-end.length), end);
  }
  const answers = ["blue"];
  const questions: string[] = [];
  const ask = (question: string, fallback: string): string => {
    questions.push(`${question} ${fallback}`);
    return answers.shift() ?? fallback;
  };
  await run(flags, { ask });
  assertEquals(questions.at(1)?.endsWith(" ptp"), true);
  assertEquals(questions.includes("Forward host ports (y/n) n"), true);

  plugins.addOwnExecutable("bridge");
  plugins.addOwnExecutable("portmap");
  assertEquals(await make({}), [["bridge", "portmap"], undefined]);
});

Deno.test("init prompts on a terminal", async () => {
  const answers = ["blue", "ptp", "10.50.0.0/24", "y", "n", "y"];
  const questions: string[] = [];
  const ask = (question: string, fallback: string): string => {
    questions.push(`${question} ${fallback}`);
    return answers.shift() ?? fallback;
  };
  const { name, plugins } = await run({ output: "-" }, { ask });
  assertEquals(name, "blue");
  assertEquals(
    (plugins as { type: string }[]).map(({ type }) => type),
    ["ptp", "bandwidth"],
  );
  assertEquals(questions[2], "Subnet of the containers 10.22.2.0/24");
  assertEquals(answers, []);
});

Deno.test("init writes a valid file, and replaces none", async () => {
  using directory = new PluginDirectory();
  const { path } = directory;
  const { file } = await run({ name: "blue" }, { directory: path });
  assertEquals(file, `${path}/10-blue.conflist`);
  const { stdout } = await runCni(
    ...["validate", String(file), "--json", "--strict"],
    ...["--cni-path=/dev/null", `--conf-dir=${path}`],
  );
  assertEquals(JSON.parse(stdout).problems, []);
  const again = run({ name: "blue" }, { directory: path });
  await assertRejects(() => again, Error, "replace it with --force");
  await run({ name: "blue", force: true }, { directory: path });
  const other = run(
    { name: "blue", output: `${path}/20.conflist`, force: true },
    { directory: path },
  );
  await assertRejects(() => other, Error, "choose a different --name");
});

Deno.test("init creates the configuration directory, and no other", async () => {
  using directory = new PluginDirectory();
  const conf = `${directory.path}/cni/net.d`;
  const elsewhere = { output: `${directory.path}/other/10.conflist` };
  const mistyped = run(elsewhere, { directory: conf });
  await assertRejects(
    () => mistyped,
    Error,
    `Cannot write "${elsewhere.output}"`,
  );
  assertEquals(await Array.fromAsync(Deno.readDir(directory.path)), []);
  const { file } = await run({ name: "blue" }, { directory: conf });
  assertEquals(file, `${conf}/10-blue.conflist`);
});

Deno.test("init refuses contradictory flags", async () => {
  const rows: [flags: Record<string, string | boolean>, problem: string][] = [
    [{ subnet: "10.22.1.0/24" }, "this node has 10.22.0.0/23; 10.22.2.0/24 is"],
    [{ subnet: "10.22.2.1/24" }, "has host bits set; use 10.22.2.0/24"],
    [{ subnet: "ten" }, "must be like 10.1.2.0/24"],
    [{ name: "a b" }, "invalid network name"],
    [{ master: "ens3" }, "bridge has no --master"],
    [{ "cni-version": "2.0.0" }, "is not a version"],
    [{ type: "vlan", "vlan-id": "4095" }, "must be 1 to 4094"],
  ];
  for (const [flags, problem] of rows) {
    await assertRejects(() => run({ output: "-", ...flags }), Error, problem);
  }
});

Deno.test("init reads the node's own subnets", async () => {
  const { stdout } = await runCni(
    ...["init", "--name", "x", "--output", "-", "--conf-dir=/nonexistent"],
    "--cni-path=/dev/null",
  );
  assertMatch(stdout, /"subnet": "10\.\d+\.\d+\.0\/24"/);
});

Deno.test("findFreeSubnet() fails if none is left", () => {
  const all = [Cidr.parse("10.0.0.0/8")];
  let message = "";
  try {
    findFreeSubnet(4, all);
  } catch (error) {
    message = String(error);
  }
  assertMatch(message, /choose one with --subnet/);
});
