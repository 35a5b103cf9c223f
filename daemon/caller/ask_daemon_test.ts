import { assertEquals } from "@std/assert";
import { importFlags } from "../../scripts/import_flags.ts";
import { testRows } from "../../tests/_harness/table.ts";

/** Names no daemon of this machine. */
const CONFIG = JSON.stringify({
  daemonSocket: "/nonexistent/daemon.sock",
  daemonSocketDir: "/nonexistent",
});

const ENV = {
  CNI_COMMAND: "DEL",
  CNI_CONTAINERID: "pod-1",
  CNI_IFNAME: "eth0",
};

/** Exit code of a process that asks a daemon and then waits for what never comes. */
async function endByItself(
  name: string,
  env: Record<string, string>,
): Promise<number> {
  const module = new URL("ask_daemon.ts", import.meta.url);
  const { code } = await new Deno.Command(Deno.execPath(), {
    args: [
      "eval",
      ...await importFlags(),
      `import { askDaemon } from "${module}";
       const stdin = () => new TextEncoder().encode('${CONFIG}');
       askDaemon("${name}", stdin).then((answer) => {
         if (answer !== undefined) Deno.exit(2);
         return new Promise(() => {});
       });`,
    ],
    cwd: new URL("../..", import.meta.url),
    env: { ...ENV, ...env },
    stderr: "null",
  }).output();
  return code;
}

testRows<[what: string, name: string, env?: Record<string, string>]>(
  "askDaemon() makes the end of a process without an answer a failure",
  [
    ["multus-shim that finds no daemon", "multus-shim"],
    ["multus-shim that asks none", "multus-shim", { CNI_NO_DAEMON: "1" }],
    ["a plugin that finds no daemon", "ptp"],
  ],
  async ([, name, env = {}]) => assertEquals(await endByItself(name, env), 1),
);
