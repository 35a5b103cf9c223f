import { assertEquals } from "@std/assert";
import { COMMANDS } from "../../cni/call/args.ts";
import { createLog } from "../../base/log/log.ts";
import type { Call } from "../../cni/plugin.ts";
import { formatRecord, recordCall } from "./record.ts";
import type { DebugConfig } from "./schema.ts";

const args = {
  containerId: "c1",
  netns: "/run/netns/c1",
  ifName: "eth0",
  args: "K8S_POD_NAME=web;IgnoreUnknown=1",
  path: "/opt/cni/bin:/usr/lib/cni",
  netnsOverride: false,
};

Deno.test("formatRecord() writes the lines that the Go plugin writes", () => {
  const stdin = new TextEncoder().encode('{"name":"nét",\n"x":1}\n');
  assertEquals(
    formatRecord({ command: "ADD", args, stdin }),
    `CmdAdd
ContainerID: c1
Netns: /run/netns/c1
IfName: eth0
Args: K8S_POD_NAME=web;IgnoreUnknown=1
Path: /opt/cni/bin:/usr/lib/cni
StdinData: {"name":"nét",
"x":1}

----------------------
`,
  );
});

Deno.test("formatRecord() writes the command first", () => {
  const stdin = new Uint8Array();
  const titles = COMMANDS.map((command) =>
    formatRecord({ command, args, stdin }).split("\n")[0]
  );
  assertEquals(titles, ["CmdAdd", "CmdDel", "CmdCheck", "CmdGC", "CmdStatus"]);
});

Deno.test("recordCall() appends to a file, and follows no link", () => {
  const directory = Deno.makeTempDirSync({ prefix: "cni-test-" });
  const file = `${directory}/calls`, link = `${directory}/link`;
  Deno.symlinkSync("calls", link);
  const lines: string[] = [];
  const record = (cniOutput: string): void => {
    const stdin = new Uint8Array();
    const log = createLog({}, (line) => lines.push(line));
    const call = { command: "ADD", args, stdin, config: { cniOutput }, log };
    recordCall(call as unknown as Call<DebugConfig>);
  };
  record(link);
  assertEquals([...Deno.readDirSync(directory)].length, 1);
  record(file);
  const once = Deno.readTextFileSync(file);
  record(link);
  assertEquals([Deno.readTextFileSync(file), lines.length], [once, 2]);
  record(file);
  assertEquals(Deno.readTextFileSync(file), once + once);
  Deno.removeSync(directory, { recursive: true });
});
