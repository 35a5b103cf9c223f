import { assertEquals } from "@std/assert";
import { hasCommand, ignoreUnless } from "../../testing/capabilities.ts";
import { PluginDirectory } from "../../tests/_harness/plugin_directory.ts";
import { eachRow } from "../../tests/_harness/table.ts";
import { pluginNames } from "../../plugins/registry.ts";
import { cni } from "../commands.ts";
import { makeSchemas } from "../explain/make.ts";
import { runCni } from "../../tests/_harness/tool_call.ts";

Deno.test("the tool completes commands, flags and values", async (t) => {
  using directory = new PluginDirectory();
  for (const name of ["net-a", "net-b", "$(x)"]) {
    const list = { cniVersion: "1.1.0", name, plugins: [{ type: "ptp" }] };
    directory.addFile(`${name.slice(-1)}.conflist`, JSON.stringify(list));
  }
  const dir = directory.path;
  addToCache(directory);
  const all = [
    ...new Set(
      cni.rows.filter(({ isHidden }) => !isHidden)
        .map(({ name }) => name.split(" ")[0]),
    ),
  ].join(" ");
  const { definitions } = await makeSchemas();
  const vrfKeys = Object.keys(definitions["vrf"]?.properties ?? {});
  const rows: [line: string, want: string][] = [
    ["", all],
    ["a", all],
    ["x ", ""],
    ["netns ", "add del list exec"],
    ["netns e", "add del list exec"],
    ["daemon ", "enable disable restart status"],
    ["daemon status -", "--json --help -h"],
    ["version ", ""],
    [`--conf-dir ${dir} net`, all],
    [`--conf-dir ${dir} add n`, "net-a net-b"],
    [`add --conf-dir=${dir} n`, "net-a net-b"],
    [`add --conf-dir = ${dir} --ifname = x n`, "net-a net-b"],
    [`add pods --conf-dir ${dir} -i net1 /`, ":file"],
    [`gc --conf-dir ${dir} pods a b /`, ":file"],
    ["add ./", ":file"],
    ["version -", "--json --help -h"],
    ["-", "--json --help -h --version -V"],
    ["add --timeout ", ""],
    ["completion f", "bash zsh fish"],
    ["list --conf-dir /pro", ":directory"],
    ["list --conf-dir = /pro", ":directory"],
    ["list --conf-dir=/pro", ":directory"],
    ["convert --to ", "chain list"],
    ["convert --to=l", "chain list"],
    ["convert --output ", ":file"],
    ["convert f", ":file"],
    [`convert --conf-dir ${dir} n`, "net-a net-b"],
    [`convert --conf-dir ${dir} net-a x`, ":file"],
    [`networks --conf-dir ${dir} `, "net-a net-b"],
    [`trace --conf-dir ${dir} `, "net-a net-b"],
    ["networks -o ", "wide name"],
    ["explain ", pluginNames.join(" ")],
    ["explain vrf.", vrfKeys.map((key) => `vrf.${key}`).join(" ")],
    ["schema ", `conflist conf ${pluginNames.join(" ")}`],
    ["install --only ptp,", pluginNames.map((name) => `ptp,${name}`).join(" ")],
    ["netns exec blue ", ":command"],
    ["netns exec blue -- ls -l x", ":command"],
    ["status pods ", ""],
    ["__complete ", ""],
    ["help ", all],
    ["help netns ", "add del list exec"],
    [`del --cache-dir ${dir} net1 `, "green blue"],
    [`check --cache-dir ${dir} net2 `, "blue"],
    [`del --cache-dir ${dir} net1 green --container-id `, "c1 c2"],
    [`gc --cache-dir ${dir} net1 `, "green blue"],
    [`gc --cache-dir ${dir} net1 green:`, "green:eth0 blue:net1"],
    [`gc --cache-dir ${dir} net1 blue green :`, "eth0"],
    [`gc --cache-dir ${dir} net1 blue : n`, "net1"],
    ["del net1 ", ""],
  ];
  await eachRow(t, rows, async ([line, want]) => {
    const { stdout: words } = await runCni(
      "__complete",
      "--",
      ...line.split(" "),
    );
    const shown = words.split("\n").map((word) => word.split("\t")[0]);
    assertEquals(shown.join(" ").trim(), want);
  });
  await t.step("with descriptions", async () => {
    const { stdout: words } = await runCni("__complete", "--", "netns", "");
    assertEquals(words.split("\n")[0], "add\tCreate a named network namespace");
  });
});

/** Caches three attachments. */
function addToCache(directory: PluginDirectory): void {
  Deno.mkdirSync(`${directory.path}/results`, { recursive: true });
  for (
    const [containerId, networkName, ifName, name] of [
      ["c1", "net1", "eth0", "green"],
      ["c2", "net1", "net1", "blue"],
      ["c3", "net2", "eth0", "blue"],
    ]
  ) {
    directory.addFile(
      `results/${networkName}-${containerId}-${ifName}`,
      JSON.stringify({
        kind: "cniCacheV1",
        containerId,
        networkName,
        ifName,
        netns: `/var/run/netns/${name}`,
        config: "",
      }),
    );
  }
}

/** Stands in for the tool: prints its arguments in words, or what one says. */
const STUB = `#!/bin/sh
[ "$1 $2" = "__complete --" ] || exit 1
shift 2
for last; do :; done
case $last in
  :*) echo "$last" ;;
  *) printf '%s\\tFirst\\n' "$last-a"; printf '%s\\tSecond\\n' "$last-$#" ;;
esac`;

/** Completes a command line in a shell. */
const ASK: Readonly<Record<string, string>> = {
  bash: `source "$1"; COMP_WORDS=("\${@:2}"); COMP_CWORD=$(($# - 2))
_cni 2>/dev/null; printf '%s\\n' "\${COMPREPLY[@]}"`,
  fish: `source $argv[1]; complete -C "$argv[2..]"`,
  zsh: "exit",
};

for (const [shell, script] of Object.entries(ASK)) {
  const { ignore, suffix } = ignoreUnless(hasCommand(shell), `needs ${shell}`);
  Deno.test({
    name: `${shell} asks the tool for words${suffix}`,
    ignore,
    async fn(): Promise<void> {
      using directory = new PluginDirectory();
      directory.addFile("cni", STUB, 0o755);
      const path = directory.addFile(
        "script",
        (await runCni("completion", shell)).stdout,
      );
      const env = { PATH: `${directory.path}:${Deno.env.get("PATH")}` };
      const ask = (...args: string[]): string[] => {
        const command = new Deno.Command(shell, { args, env });
        const { code, stdout, stderr } = command.outputSync();
        assertEquals([code, new TextDecoder().decode(stderr)], [0, ""]);
        return new TextDecoder().decode(stdout).trim().split("\n");
      };
      ask("-n", path);
      if (shell === "zsh") return;
      const rest = shell === "bash" ? ["bash", path] : [path];
      const words = ask("-c", script, ...rest, "cni", "x", "y");
      const found = words.map((word) => word.split("\t")[0]).sort();
      assertEquals(found, ["y-2", "y-a"]);
    },
  });
}
