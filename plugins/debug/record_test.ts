import { assertEquals } from "@std/assert";
import { COMMANDS } from "../../cni/call/args.ts";
import { formatRecord } from "./record.ts";

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

Deno.test("formatRecord() begins with the command", () => {
  const stdin = new Uint8Array();
  const titles = COMMANDS.map((command) =>
    formatRecord({ command, args, stdin }).split("\n")[0]
  );
  assertEquals(titles, ["CmdAdd", "CmdDel", "CmdCheck", "CmdGC", "CmdStatus"]);
});
