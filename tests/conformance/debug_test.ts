// deno-lint-ignore-file no-sync-fn-in-async-fn -- nothing else waits during these calls

/**
 * debug, as the Go plugin of that name is known.
 *
 * Source: containernetworking/plugins plugins/debug.
 */

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { execInvoker } from "../../cni/invoke/exec_invoker.ts";
import {
  canUseNetns,
  hasCommand,
  ignoreUnless,
} from "../../testing/capabilities.ts";
import { conformance } from "../_harness/conformance.ts";
import { dualStack } from "../_harness/dual_stack.ts";
import { ipJson } from "../../testing/ip_json.ts";
import { PluginDirectory } from "../_harness/plugin_directory.ts";
import { writeDebugFile } from "../../plugins/debug/testing.ts";
import {
  type Keys,
  PluginScene,
  type SceneCall,
} from "../_harness/plugin_scene.ts";
import type { CallOutput } from "../../testing/test_hosts.ts";

/** A host on which debug is called. */
class DebugHosts extends PluginScene {
  readonly cniOutput = `${this.hosts.directory}/cni_output.txt`;

  constructor() {
    const config = { cniVersion: "1.1.0", name: "net1", type: "debug" };
    super("debug", () => config);
  }

  /** Runs a command that a file on the node asks for. */
  override run(
    command: string,
    extras: Keys = {},
    options: SceneCall = {},
  ): Promise<CallOutput> {
    writeDebugFile(this.hosts.directory, extras);
    return super.run(command, extras, options);
  }

  /** The record of a call. */
  record(
    title: string,
    more: Keys,
    sandbox = this.hosts.sandbox.path,
  ): string {
    return `${title}
ContainerID: test-container
Netns: ${sandbox}
IfName: eth0
Args: K=V
Path: ${this.hosts.path}
StdinData: ${JSON.stringify({ ...this.config, ...more })}
----------------------
`;
  }

  get written(): string {
    return Deno.readTextFileSync(this.cniOutput);
  }

  /** A hook that writes what a command prints to a file. */
  saving(name: string, command: string): string[] {
    return ["sh", "-c", `${command} > "${this.hosts.directory}/${name}"`];
  }

  /** The output of such a hook; undefined if it did not run. */
  saved(name: string): string | undefined {
    try {
      return Deno.readTextFileSync(`${this.hosts.directory}/${name}`);
    } catch {
      return undefined;
    }
  }
}

const env = { CNI_ARGS: "K=V" };

/** Asserts that a command is written down, and printed nothing. */
async function assertRecorded(command: string, title: string): Promise<void> {
  using debug = new DebugHosts();
  const { cniOutput } = debug;
  const output = await debug.run(command, { cniOutput }, { env });
  assertEquals([output.exitCode, output.stderr], [0, ""]);
  assertEquals(debug.written, debug.record(title, { cniOutput }));
}

/** Asserts which hooks a command runs. */
async function assertRuns(command: string, key: string): Promise<void> {
  using debug = new DebugHosts();
  const keys = ["addHooks", "delHooks", "checkHooks"];
  const hooks = keys.map((name) => [name, [debug.saving(name, "echo ran")]]);
  const { exitCode } = await debug.run(command, Object.fromEntries(hooks));
  assertEquals(exitCode, 0);
  assertEquals(keys.filter((name) => debug.saved(name) !== undefined), [key]);
}

/** Asserts what ADD answers. */
async function assertAnswers(config: Keys, expected: object): Promise<void> {
  using debug = new DebugHosts();
  const { exitCode, json } = await debug.run("ADD", config);
  assertEquals([exitCode, json], [0, expected]);
}

conformance(
  "debug",
  {
    "writes down ADD": () => assertRecorded("ADD", "CmdAdd"),
    "writes down DEL": () => assertRecorded("DEL", "CmdDel"),
    "writes down CHECK": () => assertRecorded("CHECK", "CmdCheck"),
    "adds to the end of the file": async () => {
      using debug = new DebugHosts();
      const { cniOutput } = debug;
      for (const command of ["ADD", "CHECK", "DEL"]) {
        await debug.run(command, { cniOutput }, { env });
      }
      assertEquals(
        debug.written,
        ["CmdAdd", "CmdCheck", "CmdDel"]
          .map((title) => debug.record(title, { cniOutput })).join(""),
      );
    },
    "makes the file with mode 0644": async () => {
      using debug = new DebugHosts();
      await debug.run("ADD", { cniOutput: debug.cniOutput });
      const { mode } = Deno.statSync(debug.cniOutput);
      assertEquals((mode ?? 0) & 0o777, 0o644 & ~Deno.umask());
    },
    "answers an empty result as the first plugin, in 1.x without dns": () =>
      assertAnswers({}, { cniVersion: "1.1.0" }),
    "answers an empty result as the first plugin, in 0.3 and 0.4 with dns":
      () =>
        assertAnswers({ cniVersion: "0.4.0" }, {
          cniVersion: "0.4.0",
          dns: {},
        }),
    "fails ADD when 0.1 and 0.2 cannot express the empty result": async () => {
      using debug = new DebugHosts();
      const { cniOutput } = debug;
      const hooks = [debug.saving("hook", "echo ran")];
      for (const cniVersion of ["0.1.0", "0.2.0"]) {
        const more = {
          cniVersion,
          cniOutput,
          addHooks: hooks,
          delHooks: hooks,
        };
        const { exitCode, json } = await debug.run("ADD", more);
        assertEquals(exitCode, 1);
        assertEquals(json.msg, "cannot convert: no valid IP addresses");
      }
      // It was refused before anything was done that had to be undone.
      assertEquals(debug.saved("hook"), undefined);
      assertEquals(debug.written.match(/^Cmd.*$/gm), ["CmdAdd", "CmdAdd"]);
    },
    "answers the prevResult": () => {
      const prevResult = {
        cniVersion: "1.1.0",
        interfaces: [{ name: "eth0", sandbox: "/run/netns/a", mtu: 1400 }],
        ips: [{ interface: 0, address: "10.1.2.3/24", gateway: "10.1.2.1" }],
        routes: [{ dst: "0.0.0.0/0", table: 0 }],
        dns: { nameservers: ["9.9.9.9"] },
      };
      return assertAnswers({ prevResult }, prevResult);
    },
    "answers the prevResult in the configuration's version": () =>
      assertAnswers({
        cniVersion: "1.0.0",
        prevResult: { cniVersion: "1.1.0", ips: [{ address: "fd00::1/64" }] },
      }, { cniVersion: "1.0.0", ips: [{ address: "fd00::1/64" }] }),
    "answers a prevResult of 0.2.0": () => {
      const prevResult = {
        cniVersion: "0.2.0",
        ip4: { ip: "10.1.2.3/24" },
        dns: {},
      };
      return assertAnswers({ cniVersion: "0.2.0", prevResult }, prevResult);
    },
    "keeps what no version knows in the prevResult": () => {
      const prevResult = { cniVersion: "1.1.0", vendor: { key: [1] } };
      return assertAnswers({ prevResult }, prevResult);
    },
    "prints nothing on DEL, CHECK, GC and STATUS": async () => {
      using debug = new DebugHosts();
      const prevResult = { cniVersion: "1.1.0" };
      for (const command of ["DEL", "CHECK", "GC", "STATUS"]) {
        const output = await debug.run(command, { prevResult });
        assertEquals([output.exitCode, output.stdout], [0, ""], command);
      }
    },
    "succeeds on DEL and CHECK whatever the version": async () => {
      using debug = new DebugHosts();
      for (const cniVersion of ["0.1.0", "0.2.0", "0.3.1", "0.4.0", "1.0.0"]) {
        const { exitCode } = await debug.run("DEL", { cniVersion });
        assertEquals(exitCode, 0, cniVersion);
      }
      assertEquals(
        (await debug.run("CHECK", { cniVersion: "0.4.0" })).exitCode,
        0,
      );
    },
    "writes down GC and STATUS too": async () => {
      using debug = new DebugHosts();
      const { cniOutput } = debug;
      const more = { cniOutput, "cni.dev/valid-attachments": [] };
      for (const command of ["GC", "STATUS"]) await debug.run(command, more);
      assertStringIncludes(debug.written, "CmdGC\nContainerID: ");
      assertStringIncludes(debug.written, '"cni.dev/valid-attachments":[]');
      assertStringIncludes(debug.written, "CmdStatus\n");
    },
    "runs addHooks on ADD alone": () => assertRuns("ADD", "addHooks"),
    "runs delHooks on DEL alone": () => assertRuns("DEL", "delHooks"),
    "runs checkHooks on CHECK alone": () => assertRuns("CHECK", "checkHooks"),
    "runs hooks in the sandbox": async () => {
      using debug = new DebugHosts();
      const { host, sandbox } = debug.hosts;
      const addHooks = [["ip", "link", "add", "made", "type", "bridge"]];
      await debug.run("ADD", { addHooks });
      const names = [host, sandbox].map((netns) =>
        ipJson(netns, "link", "show")
          .map(({ ifname }: { ifname: string }) => ifname)
      );
      assertEquals(names, [["lo"], ["lo", "made"]]);
    },
    "gives hooks the CNI variables and its own others": async () => {
      using debug = new DebugHosts();
      const addHooks = [debug.saving("env", "env")];
      await debug.run("ADD", { addHooks }, { env });
      const lines = debug.saved("env")?.split("\n") ?? [];
      const given = debug.hosts.environment("ADD", { env });
      for (const [name, value] of Object.entries(given)) {
        if (!name.startsWith("CNI_")) continue;
        assert(lines.includes(`${name}=${value}`), name);
      }
      assert(lines.includes(`PATH=${Deno.env.get("PATH")}`), "PATH");
    },
    "runs hooks in order, one after the other": async () => {
      using debug = new DebugHosts();
      const addHooks = ["one", "two", "three"].map((name) => [
        "sh",
        "-c",
        `echo ${name} >> "${debug.hosts.directory}/order"`,
      ]);
      await debug.run("ADD", { addHooks });
      assertEquals(debug.saved("order"), "one\ntwo\nthree\n");
    },
    "drops what hooks print to stdout": async () => {
      using debug = new DebugHosts();
      const addHooks = [["echo", "{"]];
      const output = await debug.run("ADD", { addHooks });
      assertEquals([output.json, output.stderr], [{ cniVersion: "1.1.0" }, ""]);
    },
    "goes on after a failing hook, with a line on stderr": async () => {
      using debug = new DebugHosts();
      const addHooks = [
        ["sh", "-c", "echo broken >&2; exit 3"],
        ["no-such-program"],
        debug.saving("after", "echo ran"),
      ];
      const output = await debug.run("ADD", { addHooks });
      assertEquals([output.exitCode, output.json], [0, {
        cniVersion: "1.1.0",
      }]);
      assertStringIncludes(output.stderr, "broken");
      assertStringIncludes(output.stderr, "exit status 3");
      assertStringIncludes(output.stderr, "no-such-program");
      assertEquals(debug.saved("after"), "ran\n");
    },
    "skips hooks without a namespace": async () => {
      using debug = new DebugHosts();
      const file = `${debug.hosts.directory}/no-netns`;
      Deno.writeTextFileSync(file, "");
      const delHooks = [debug.saving("hook", "echo ran")];
      for (const CNI_NETNS of ["", "/no/such/netns", file]) {
        const output = await debug.run("DEL", { delHooks }, {
          env: { CNI_NETNS },
        });
        assertEquals([output.exitCode, output.stderr], [0, ""], CNI_NETNS);
      }
      assertEquals(debug.saved("hook"), undefined);
    },
    "sees what the plugins before it made": async () => {
      using debug = new DebugHosts();
      const { hosts } = debug;
      const attached = await hosts.run("ptp", "ADD", dualStack(hosts));
      assertEquals(attached.exitCode, 0, attached.stdout);
      const { exitCode, json } = await debug.run("ADD", {
        ...dualStack(hosts),
        type: "debug",
        cniOutput: debug.cniOutput,
        addHooks: [debug.saving("links", "ip -o link show eth0")],
        prevResult: attached.json,
      });
      assertEquals([exitCode, json], [0, attached.json]);
      assertStringIncludes(debug.saved("links") ?? "", "eth0@");
      assertStringIncludes(debug.written, attached.json.interfaces[1].mac);
    },
  },
  ignoreUnless(canUseNetns, "needs root"),
);

const BIN = Deno.env.get("CNI_BIN") ?? "";

conformance(
  "debug",
  {
    "writes each record at once, so that none mix": async () => {
      using directory = new PluginDirectory();
      const cniOutput = directory.addFile("output", "", 0o644);
      const trace = `${directory.path}/trace`;
      directory.add(
        "debug",
        `exec strace -f -o ${trace} -P ${cniOutput} -e write ${BIN}/debug`,
      );
      const filler = "x".repeat(1_000_000);
      const stdin = JSON.stringify({ name: "net1", cniOutput, filler });
      await execInvoker.invoke({
        type: "debug",
        env: {
          PATH: Deno.env.get("PATH") ?? "",
          CNI_COMMAND: "DEL",
          CNI_CONTAINERID: "c1",
          CNI_IFNAME: "eth0",
          CNI_PATH: directory.path,
          ...writeDebugFile(directory.path, { cniOutput }),
        },
        stdin: new TextEncoder().encode(stdin),
        hostNetns: "/proc/thread-self/ns/net",
        onStderr: () => undefined,
      });
      const written = Deno.readTextFileSync(cniOutput);
      assertStringIncludes(written, filler);
      const writes = Deno.readTextFileSync(trace).split("\n")
        .filter((line) => line.includes("write("));
      assertEquals(writes.length, 1);
      assert(writes[0]?.endsWith(` = ${written.length}`), writes[0]);
    },
  },
  ignoreUnless(BIN !== "" && hasCommand("strace"), "needs CNI_BIN and strace"),
);
