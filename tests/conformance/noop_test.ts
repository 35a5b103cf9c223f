/**
 * noop as a process of its own, run as libcni runs it: the behaviours of the Go
 * noop, so that tests written for that find the same here.
 *
 * Source: containernetworking/cni plugins/test/noop/noop_test.go.
 */

import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { delegateTo } from "../../cni/invoke/delegate.ts";
import { createInvoker } from "../../cni/invoke/in_process.ts";
import { createLog } from "../../base/log/log.ts";
import { dispatch } from "../../cni/skel.ts";
import { findPlugin } from "../../plugins/registry.ts";
import { conformance } from "../_harness/conformance.ts";
import {
  type Debug,
  installNoop,
  readCommandLog,
  readDebug,
  writeCommandLog,
  writeDebug,
} from "../../plugins/noop/testing.ts";
import { PluginDirectory } from "../_harness/plugin_directory.ts";
import { contextWith } from "../_harness/call_context.ts";

const RESULT = '{ "ips": [{ "version": "4", "address": "10.1.2.3/24" }] }';
const NOTE = "CNI_ARGS or config empty, no debug behavior\n";

interface Ended {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** noop in a directory, with its debug file. */
class Noop implements Disposable {
  readonly #directory = new PluginDirectory();
  readonly executable: string = installNoop(this.#directory.path);
  readonly debugFile = `${this.#directory.path}/debug`;
  readonly commandLog = `${this.#directory.path}/commands`;

  constructor(debug: Debug = { ReportResult: RESULT }) {
    writeDebug(this.debugFile, debug);
  }

  get path(): string {
    return this.#directory.path;
  }

  /** CNI_ARGS that name the debug file. */
  get args(): string {
    return `DEBUG=${this.debugFile};FOO=BAR`;
  }

  environment(command: string, args: string): Record<string, string> {
    return {
      CNI_COMMAND: command,
      CNI_CONTAINERID: "some-container-id",
      CNI_NETNS: "/some/netns/path",
      CNI_IFNAME: "some-eth0",
      CNI_PATH: "/some/bin/path",
      CNI_ARGS: args,
    };
  }

  /** Runs it, by default with CNI_ARGS that name the debug file. */
  async run(
    command: string,
    config: object = {},
    args: string = this.args,
  ): Promise<Ended> {
    await using child = new Deno.Command(this.executable, {
      clearEnv: true,
      env: this.environment(command, args),
      stdin: "piped",
      stdout: "piped",
      stderr: "piped",
    }).spawn();
    await feed(child, configText(config));
    const { code, stdout, stderr } = await child.output();
    const [out = "", err = ""] = [stdout, stderr]
      .map((bytes) => new TextDecoder().decode(bytes));
    return { code, stdout: out, stderr: err };
  }

  [Symbol.dispose](): void {
    this.#directory[Symbol.dispose]();
  }
}

function configText(config: object): string {
  return JSON.stringify({
    name: "noop-test",
    type: "noop",
    cniVersion: "1.1.0",
    ...config,
  });
}

/** Writes stdin; what crashes need not read it. */
async function feed(child: Deno.ChildProcess, text: string): Promise<void> {
  const writer = child.stdin.getWriter();
  try {
    await writer.write(new TextEncoder().encode(text));
    await writer.close();
  } catch (error) {
    if (!(error instanceof Deno.errors.BrokenPipe)) throw error;
  }
}

function printed(stdout: string): Ended {
  return { code: 0, stdout, stderr: "" };
}

/** Asserts what a result in one version becomes, compared as JSON. */
async function assertPassed(
  debug: Debug,
  config: object,
  expected: unknown,
): Promise<void> {
  using noop = new Noop(debug);
  const { code, stdout } = await noop.run("ADD", config);
  assertEquals([code, JSON.parse(stdout)], [0, expected]);
}

const PASSTHROUGH: Debug = { ReportResult: "PASSTHROUGH" };

conformance("noop", {
  "prints ReportResult verbatim": async () => {
    using noop = new Noop();
    assertEquals(await noop.run("ADD"), printed(RESULT));
  },
  "prints text that is not a result": async () => {
    using noop = new Noop({ ReportResult: "no JSON\n{" });
    assertEquals(await noop.run("ADD"), printed("no JSON\n{"));
  },
  "prints nothing when ReportResult is empty": async () => {
    using noop = new Noop({ ReportResult: "" });
    assertEquals(await noop.run("ADD"), printed(""));
  },
  "crashes with 2 if CNI_ARGS names no debug file": async () => {
    using noop = new Noop();
    const ended = await noop.run("ADD", {}, "FOO=BAR");
    assertEquals([ended.code, ended.stdout], [2, ""]);
    assertStringIncludes(ended.stderr, "test setup error");
  },
  "crashes with 2 if the file of CNI_ARGS is missing": async () => {
    using noop = new Noop();
    const ended = await noop.run("ADD", {}, "DEBUG=/no/such/file");
    assertEquals([ended.code, ended.stdout], [2, ""]);
    assertStringIncludes(ended.stderr, "/no/such/file");
  },
  "crashes with 2 if CNI_ARGS cannot be split": async () => {
    using noop = new Noop();
    const ended = await noop.run("ADD", {}, `${noop.args};BAZ`);
    assertEquals([ended.code, ended.stdout], [2, ""]);
  },
  "prints {} and a note without file and CNI_ARGS": async () => {
    using noop = new Noop();
    const ended = await noop.run("ADD", {}, "");
    assertEquals(ended, { code: 0, stdout: "{}", stderr: NOTE });
  },
  "fails on a debug file of the configuration that is missing": async () => {
    using noop = new Noop();
    const ended = await noop.run("ADD", { debugFile: "/no/such/file" }, "");
    assertEquals(ended.code, 1);
    assertStringIncludes(JSON.parse(ended.stdout).msg, "/no/such/file");
  },
  "finds the debug file that the configuration names": async () => {
    using noop = new Noop();
    const { debugFile } = noop;
    assertEquals(
      await noop.run("ADD", { debugFile }, "FOO=BAR"),
      printed(RESULT),
    );
    assertEquals(readDebug(debugFile)?.CmdArgs.Args, "FOO=BAR");
    assertEquals(await noop.run("DEL", { debugFile }, ""), printed(RESULT));
    assertEquals(readDebug(debugFile)?.Command, "DEL");
  },
  "prefers the debug file of CNI_ARGS to the configuration's": async () => {
    using noop = new Noop();
    const config = { debugFile: "/no/such/file" };
    assertEquals(await noop.run("ADD", config), printed(RESULT));
  },
  "records the command and all arguments": async () => {
    using noop = new Noop();
    await noop.run("ADD", { some: "stdin-json" });
    assertEquals(readDebug(noop.debugFile), {
      Command: "ADD",
      CmdArgs: {
        ContainerID: "some-container-id",
        Netns: "/some/netns/path",
        IfName: "some-eth0",
        Args: noop.args,
        Path: "/some/bin/path",
        NetnsOverride: "",
        StdinData: btoa(configText({ some: "stdin-json" })),
      },
      stdin: JSON.parse(configText({ some: "stdin-json" })),
    });
  },
  "records the arguments that GC and STATUS have": async () => {
    using noop = new Noop();
    for (const command of ["GC", "STATUS"]) {
      await noop.run(command);
      assertEquals(readDebug(noop.debugFile)?.Command, command);
    }
  },
  "keeps what the debug file told it": async () => {
    const debug = { ReportResult: RESULT, ExitWithCode: 3, Unheard: [1] };
    using noop = new Noop(debug);
    await noop.run("ADD");
    const { Command: _, CmdArgs: __, ...kept } = JSON.parse(
      await Deno.readTextFile(noop.debugFile),
    );
    assertEquals(kept, debug);
  },
  "does all of it on DEL, CHECK, GC and STATUS too": async () => {
    using noop = new Noop({ ReportResult: '{ "some": "delete-data" }' });
    for (const command of ["DEL", "CHECK", "GC", "STATUS"]) {
      assertEquals(
        await noop.run(command),
        printed('{ "some": "delete-data" }'),
      );
      assertEquals(readDebug(noop.debugFile)?.Command, command);
    }
  },
  "passes a prevResult of 0.3.1 through": () =>
    assertPassed(PASSTHROUGH, {
      cniVersion: "0.3.1",
      prevResult: {
        cniVersion: "0.3.1",
        ips: [{ version: "4", address: "10.1.2.15/24" }],
      },
    }, {
      cniVersion: "0.3.1",
      ips: [{ version: "4", address: "10.1.2.15/24" }],
      dns: {},
    }),
  "passes a prevResult of 0.4.0 through": () =>
    assertPassed(PASSTHROUGH, {
      cniVersion: "0.4.0",
      prevResult: {
        cniVersion: "0.4.0",
        ips: [{ version: "4", address: "10.1.2.15/24" }],
      },
    }, {
      cniVersion: "0.4.0",
      ips: [{ version: "4", address: "10.1.2.15/24" }],
      dns: {},
    }),
  "passes a prevResult on in the configuration's version": () =>
    assertPassed(PASSTHROUGH, {
      cniVersion: "1.1.0",
      prevResult: { cniVersion: "1.0.0", interfaces: [{ name: "eth0" }] },
    }, { cniVersion: "1.1.0", interfaces: [{ name: "eth0" }] }),
  "puts a name server into the prevResult on INJECT-DNS": () =>
    assertPassed({ ReportResult: "INJECT-DNS" }, {
      cniVersion: "0.4.0",
      prevResult: {
        cniVersion: "0.4.0",
        ips: [{ version: "4", address: "10.1.2.3/24" }],
        dns: { nameservers: ["9.9.9.9"], domain: "local" },
      },
    }, {
      cniVersion: "0.4.0",
      ips: [{ version: "4", address: "10.1.2.3/24" }],
      dns: { nameservers: ["1.2.3.4"], domain: "local" },
    }),
  "fails to pass on a missing prevResult": async () => {
    using noop = new Noop(PASSTHROUGH);
    const { code, stdout } = await noop.run("ADD");
    assertEquals(code, 1);
    assertMatch(JSON.parse(stdout).msg, /PASSTHROUGH.* no prevResult$/);
  },
  "refuses an invalid prevResult, and records nothing": async () => {
    using noop = new Noop();
    const { code } = await noop.run("ADD", {
      prevResult: { cniVersion: "0.4.0" },
    });
    assertEquals([code, readDebug(noop.debugFile)], [1, undefined]);
  },
  "prints ReportError with code 999 and ends with 1": async () => {
    using noop = new Noop({ ReportResult: RESULT, ReportError: "banana" });
    const { code, stdout, stderr } = await noop.run("ADD");
    const { code: errorCode, msg } = JSON.parse(stdout);
    assertEquals([code, errorCode, msg, stderr], [1, 999, "banana", ""]);
  },
  "prints ReportError with ReportErrorCode": async () => {
    using noop = new Noop({
      ReportError: "banana",
      ReportErrorCode: 50,
      ExitWithCode: 3,
    });
    const { code, stdout } = await noop.run("STATUS");
    assertEquals([code, JSON.parse(stdout).code], [1, 50]);
    assertEquals(readDebug(noop.debugFile)?.Command, "STATUS");
  },
  "writes ReportStderr verbatim": async () => {
    using noop = new Noop({ ReportStderr: "some\tstderr" });
    const ended = await noop.run("ADD");
    assertEquals(ended, { code: 0, stdout: "", stderr: "some\tstderr" });
  },
  "ends with ExitWithCode after ReportResult": async () => {
    using noop = new Noop({ ReportResult: RESULT, ExitWithCode: 3 });
    const ended = await noop.run("ADD");
    assertEquals(ended, { code: 3, stdout: RESULT, stderr: "" });
  },
  "claims ReportVersionSupport on VERSION": async () => {
    using noop = new Noop({ ReportVersionSupport: ["0.123.0", "0.2.0"] });
    const { stdout } = await noop.run("VERSION");
    assertEquals(JSON.parse(stdout), {
      cniVersion: "1.1.0",
      supportedVersions: ["0.123.0", "0.2.0"],
    });
    assertEquals(readDebug(noop.debugFile), undefined);
  },
  "claims all versions and an invalid one by default": async () => {
    using noop = new Noop();
    for (const args of [noop.args, ""]) {
      const { stdout } = await noop.run("VERSION", {}, args);
      const supported = JSON.parse(stdout).supportedVersions;
      assertEquals(supported.join(), VERSIONS);
    }
  },
  "serves the versions of ReportVersionSupport and no others": async () => {
    using noop = new Noop({ ReportVersionSupport: ["9.8.7"] });
    assertEquals((await noop.run("ADD", { cniVersion: "9.8.7" })).code, 0);
    const { code, stdout } = await noop.run("ADD");
    const error = JSON.parse(stdout);
    assertEquals([code, error.code], [1, 1]);
    assertEquals(error.details, 'config is "1.1.0", plugin supports ["9.8.7"]');
  },
  "adds every call to the command log, in order": async () => {
    using noop = new Noop({ ReportError: "banana" });
    const { commandLog } = noop;
    writeCommandLog(commandLog);
    for (const command of ["ADD", "GC", "DEL"]) {
      await noop.run(command, { commandLog });
    }
    const calls = readCommandLog(commandLog);
    assertEquals(calls.map(({ Command }) => Command), ["ADD", "GC", "DEL"]);
    assertEquals(calls[2]?.CmdArgs, readDebug(noop.debugFile)?.CmdArgs);
  },
  "loses no concurrent call": async () => {
    using noop = new Noop();
    const { commandLog } = noop;
    writeCommandLog(commandLog);
    const calls = Array.from({ length: 8 }, async () => {
      const { code, stdout } = await noop.run("ADD", { commandLog });
      assertEquals(code, 0, stdout);
    });
    await Promise.all(calls);
    assertEquals(readCommandLog(commandLog).length, 8);
  },
  "fails when the command log is not there": async () => {
    using noop = new Noop();
    const { commandLog } = noop;
    const { code, stdout } = await noop.run("ADD", { commandLog });
    assertEquals(code, 1);
    assertStringIncludes(JSON.parse(stdout).msg, commandLog);
  },
  "records first and answers later when told to sleep": async () => {
    using noop = new Noop({ SleepSeconds: 60 });
    await using child = new Deno.Command(noop.executable, {
      clearEnv: true,
      env: noop.environment("STATUS", noop.args),
      stdin: "piped",
      stdout: "piped",
    }).spawn();
    await feed(child, configText({}));
    const deadline = Date.now() + 20_000;
    while (readDebug(noop.debugFile) === undefined && Date.now() < deadline);
    assertEquals(readDebug(noop.debugFile)?.Command, "STATUS");
    child.kill("SIGTERM");
    const { signal, stdout } = await child.output();
    assertEquals([signal, stdout.length], ["SIGTERM", 0]);
  },
  "is a process of its own for plugins that delegate to it": async () => {
    using noop = new Noop({ ReportResult: '{"cniVersion":"1.1.0"}' });
    assertEquals(findPlugin("noop"), undefined);
    const env = { ...noop.environment("ADD", noop.args), CNI_PATH: noop.path };
    const delegate = delegateTo("noop", {
      caller: "test",
      context: contextWith({
        invoker: createInvoker(dispatch, findPlugin),
        env,
      }),
      stdin: new TextEncoder().encode(configText({})),
      cniVersion: "1.1.0",
      log: createLog({}, () => undefined),
    });
    assertEquals((await delegate.add()).ips, []);
    await delegate.del();
    assertEquals(readDebug(noop.debugFile)?.Command, "DEL");
  },
  "replaces a plugin of another name": async () => {
    using directory = new PluginDirectory();
    const path = installNoop(directory.path, "ptp");
    const { stderr } = await new Deno.Command(path, { clearEnv: true })
      .output();
    assertMatch(new TextDecoder().decode(stderr), /^CNI noop plugin v/);
  },
});

const VERSIONS = "0.-42.0,0.1.0,0.2.0,0.3.0,0.3.1,0.4.0,1.0.0,1.1.0";
