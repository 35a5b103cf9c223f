import { assertEquals, assertMatch } from "@std/assert";
import { PluginDirectory } from "../../tests/_harness/plugin_directory.ts";
import { runCniOn } from "../../tests/_harness/tool_call.ts";

const PATH = "/var/lib/cni/results/" + "network-".repeat(9) + "eth0";
const at = { startUs: 1_000_000, durationUs: 500, pid: 7 };
const RECORDS = [
  { kind: "plugin", name: "ptp ADD", object: "eth0", ...at },
  {
    ...{ kind: "file", name: "readDir", object: PATH, ...at },
    error: `No such file or directory: "${PATH}"`,
  },
  {
    ...{ kind: "netlink", name: "RTM_GETLINK", object: '"eth0"', ...at },
    error: 'RTM_GETLINK "eth0": ENODEV',
  },
].map((record) => JSON.stringify(record)).join("\n");

Deno.test("cni trace shows errors in full on a terminal of 80 columns", async () => {
  using directory = new PluginDirectory();
  const file = directory.addFile("trace", RECORDS);
  const call = ["trace", "--from", file];
  const context = { isTerminal: true, width: 80, env: { NO_COLOR: "1" } };
  const narrow = await runCniOn(context, ...call);
  const text = narrow.stdout + narrow.stderr;
  assertEquals(text.split("\n").filter((line) => line.length > 80), []);
  assertMatch(text, /readDir +\/var\/lib\/cni\/resu.*….*network-eth0$/m);
  assertMatch(text, /^ {2}✗ No such file or directory$/m);
  assertMatch(text, /^ {2}✗ ENODEV$/m);
  assertMatch(text, /Shortened: OBJECT \(--wide shows all\)/);
  const whole = new RegExp(`${PATH} ✗ No such file or directory`);
  assertMatch((await runCniOn(context, ...call, "--wide")).stdout, whole);
  assertMatch((await runCniOn({}, ...call)).stdout, whole);
});
