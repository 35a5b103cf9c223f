import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { PluginDirectory } from "../../tests/_harness/plugin_directory.ts";
import { WARNING_CODES } from "../../metadata/problem.ts";
import { eachRow } from "../../tests/_harness/table.ts";
import { runCni } from "../../tests/_harness/tool_call.ts";

const VERSIONS = `echo '{"cniVersion":"1.1.0","supportedVersions":["1.1.0"]}'`;

/** A chain of two plugins; the second declares a capability. */
const NETWORK = JSON.stringify({
  cniVersion: "1.1.0",
  name: "pods",
  plugins: [{
    type: "chain",
    plugins: [
      { type: "a", ipam: { type: "i" } },
      { type: "b", capabilities: { mac: true } },
    ],
  }],
});

/** Runs the tool with some plugins and the chain of two. */
async function run(
  types: readonly string[],
  ...args: readonly string[]
): Promise<{ stdout: string; stderr: string }> {
  using directory = new PluginDirectory();
  for (const type of types) directory.add(type, VERSIONS);
  const file = directory.addFile("10.conflist", NETWORK);
  const { path } = directory;
  const argv = args.map((arg) => arg === "FILE" ? file : arg);
  const { stdout, stderr } = await runCni(
    ...argv,
    `--cni-path=${path}`,
    `--conf-dir=${path}`,
  );
  return { stdout, stderr };
}

Deno.test("validate runs VERSION and STATUS of the plugins in a chain", async () => {
  const all = await run(["chain", "a", "b"], "validate", "FILE");
  assertStringIncludes(
    all.stdout,
    "pods is not valid: chain, a, b; declares mac; keys not checked: chain, a, i, b\n",
  );
  assertMatch(all.stdout, / error {3}plugins\[0\]\.plugins\[0\]\.ipam\.type: /);
  const missing = await run(["chain", "a", "i"], "validate", "FILE");
  assertMatch(
    missing.stdout,
    / error {3}plugins\[0\]\.plugins\[1\]\.type: failed to find plugin "b"/,
  );
});

Deno.test("validate reports missing plugins", async () => {
  using directory = new PluginDirectory();
  const file = directory.addFile(
    "10.conflist",
    '{"cniVersion":"1.1.0","name":"pods","plugins":[{"type":"loopback"}]}',
  );
  const empty = `${directory.path}/bin`;
  await Deno.mkdir(empty);
  for (const path of [empty, "/nonexistent"]) {
    const { stderr, exitCode } = await runCni(
      ...["validate", file, `--cni-path=${path}`],
    );
    assertEquals(
      [stderr, exitCode],
      [
        `There are no plugins in "${path}", so missing ones are not reported\n`,
        0,
      ],
    );
  }
});

Deno.test("validate reports no mistake in a configuration at its time limit", async () => {
  using directory = new PluginDirectory();
  directory.add("slow", "exec sleep 60");
  const file = directory.addFile(
    "10.conflist",
    '{"cniVersion":"1.1.0","name":"pods","plugins":[{"type":"slow"}]}',
  );
  const ended = await runCni(
    ...["validate", file, `--cni-path=${directory.path}`, "--timeout=20ms"],
  );
  assertEquals([ended.stdout, ended.exitCode], ["", 1]);
  assertMatch(ended.stderr, /deadline has passed\n$/);
});

Deno.test("validate names a missing file", async () => {
  const { stderr } = await run([], "validate", "nope.conflist");
  assertEquals(
    stderr,
    'Cannot read "nope.conflist"; No such file or directory\n',
  );
});

Deno.test("networks shows the plugins of a chain and missing plugins", async () => {
  const { stdout } = await run(["chain", "a"], "networks", "--json");
  const [{ plugins, problems }] = JSON.parse(stdout);
  assertEquals(plugins, ["chain", "a", "b"]);
  assertEquals(
    problems.map((text: string) => text.replace(/ in path.*/, "")),
    ['failed to find plugin "i"', 'failed to find plugin "b"'],
  );
});

Deno.test("networks shows whether the node daemon runs the plugins", async () => {
  using directory = new PluginDirectory();
  directory.add("foreign", VERSIONS);
  const daemons = {
    absent: { type: "ptp", daemonSocket: `${directory.path}/daemon.sock` },
    off: { type: "ptp", daemonSocket: "" },
    theirs: { type: "foreign" },
  };
  for (const [name, plugin] of Object.entries(daemons)) {
    const list = { cniVersion: "1.0.0", name, plugins: [plugin] };
    directory.addFile(`${name}.conflist`, JSON.stringify(list));
  }
  const { path } = directory;
  const flags = [`--cni-path=${path}`, `--conf-dir=${path}`];
  const { stdout } = await runCni("networks", "--json", ...flags);
  const rows: { name: string; daemon: string | null }[] = JSON.parse(stdout);
  assertEquals(rows.map(({ name, daemon }) => [name, daemon]), [
    ["absent", "absent"],
    ["off", "off"],
    ["theirs", null],
  ]);
});

Deno.test("validate --ignore omits warnings, but no errors", async (t) => {
  using directory = new PluginDirectory();
  for (const type of ["ptp", "host-local"]) directory.addOwnExecutable(type);
  const validate = async (
    keys: object,
    ...args: string[]
  ): Promise<string[]> => {
    const ipam = {
      type: "host-local",
      subnet: "10.1.0.0/24",
      gateway: "10.9.0.1",
    };
    const network = {
      cniVersion: "1.1.0",
      name: "pods",
      plugins: [{ type: "ptp", ipam, ...keys }],
    };
    const file = directory.addFile("10.conflist", JSON.stringify(network));
    const { stdout, exitCode } = await runCni(
      ...["validate", "--strict", "--json", file, ...args],
      `--cni-path=${directory.path}`,
      "--conf-dir=/dev/null",
    );
    const { problems } = JSON.parse(stdout);
    const codes = problems.map((one: { code: string }) => `${one.code}`);
    return [`exit ${exitCode}`, ...codes];
  };
  const off = "gateway-off-subnet";
  const rows: [
    name: string,
    keys: object,
    ignored: string[],
    found: string[],
  ][] = [
    ["nothing", { x: 1 }, [], ["exit 1", off, "unknown-key"]],
    ["one code", { x: 1 }, [`--ignore=${off}`], ["exit 1", "unknown-key"]],
    ["the only warning", {}, [`--ignore=${off}`], ["exit 0"]],
    ["two codes", { x: 1 }, [`--ignore=unknown-key, ${off}`], ["exit 0"]],
    ["an error", { mtu: "x" }, ["--ignore", `value,${off}`], [
      "exit 1",
      "null",
    ]],
  ];
  await eachRow(t, rows, async ([, keys, ignored, found]) => {
    assertEquals((await validate(keys, ...ignored)).sort(), found.toSorted());
  });
  const { stderr, exitCode } = await runCni(
    "validate",
    "--ignore=gateway-of-subnet",
    "pods",
  );
  assertMatch(
    stderr,
    /no warning has the code "gateway-of-subnet"; did you mean "gateway-off-subnet"\?; the codes are file, /,
  );
  assertEquals(exitCode, 1);
  const page = await Deno.readTextFile("docs/validate.md");
  assertEquals(
    WARNING_CODES.filter((code) => !page.includes(`| \`${code}\` `)),
    [],
  );
});
