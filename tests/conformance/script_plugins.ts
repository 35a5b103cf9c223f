/**
 * Running shell scripts as plugins, by themselves and as delegates.
 *
 * @module
 */

import { assertRejects } from "@std/assert";
import { CniError } from "../../base/error.ts";
import { type DelegatedPlugin, delegateTo } from "../../cni/invoke/delegate.ts";
import { execPlugin } from "../../cni/invoke/exec.ts";
import { execInvoker } from "../../cni/invoke/exec_invoker.ts";
import type { Invocation, Invoker } from "../../cni/call/context.ts";
import { createLog } from "../../base/log/log.ts";
import { encodeResult } from "../../cni/result/encoding.ts";
import { PluginDirectory } from "../_harness/plugin_directory.ts";
import { contextWith } from "../_harness/call_context.ts";

const utf8 = new TextEncoder();
/** Where a script finds its programs. */
export const PATH = "/bin:/usr/bin";
/** A configuration; not as JSON.stringify would have it: it is to arrive byte for byte. */
export const CONFIG = ' { "cniVersion": "1.1.0",  "name": "net1" }\n';

/** Source: OpenTelemetry, environment variables as context carriers. */
export const TRACE = {
  TRACEPARENT: "00-1-2-03",
  TRACESTATE: "vendor=1",
  BAGGAGE: "user=7",
};

/** The environment of a plugin that delegates. */
export function callerEnv(
  directory: string,
  command = "ADD",
): Record<string, string> {
  return {
    CNI_COMMAND: command,
    CNI_CONTAINERID: "c1",
    CNI_NETNS: "/run/netns/c1",
    CNI_IFNAME: "eth7",
    CNI_ARGS: "K=V",
    CNI_PATH: `/nonexistent:${directory}`,
    PATH,
    ...TRACE,
  };
}

/** A plugin to delegate to, and what is seen of that. */
export class Delegation implements Disposable {
  readonly directory = new PluginDirectory();
  readonly log: string[] = [];
  readonly env: Record<string, string>;
  #cniVersion = "1.1.0";

  /** @param script What the plugin does */
  constructor(script: string, command = "ADD") {
    this.directory.add("noop", script);
    this.env = callerEnv(this.directory.path, command);
  }

  /** Has the caller's configuration name another version. */
  withVersion(cniVersion: string): this {
    this.#cniVersion = cniVersion;
    return this;
  }

  to(type: string, invoker: Invoker = execInvoker): DelegatedPlugin {
    const write = (text: string): unknown => this.log.push(text);
    return delegateTo(type, {
      caller: "caller",
      context: contextWith({
        invoker,
        env: this.env,
        onStderr: write,
      }),
      stdin: utf8.encode(CONFIG),
      cniVersion: this.#cniVersion,
      log: createLog({}, write),
    });
  }

  /** Runs ADD; the result as 1.1.0 has it. */
  async add(): Promise<unknown> {
    return encodeResult(await this.to("noop").add(), "1.1.0");
  }

  [Symbol.dispose](): void {
    this.directory[Symbol.dispose]();
  }
}

/** Runs a plugin as a runtime does. */
export async function exec(
  path: string,
  more: Partial<Invocation> = {},
): Promise<string> {
  return await execPlugin(path, {
    env: { PATH },
    stdin: utf8.encode(CONFIG),
    onStderr(): void {},
    ...more,
  }, () => Promise.resolve());
}

/** Runs a script as a plugin. */
export async function run(
  script: string,
  more: Partial<Invocation> = {},
): Promise<string> {
  using directory = new PluginDirectory();
  return await exec(directory.add("plugin", script), more);
}

/** Runs a script as a plugin that fails. */
export async function failureOf(
  script: string,
  more: Partial<Invocation> = {},
): Promise<CniError> {
  return await assertRejects(() => run(script, more), CniError);
}

/** Returns what `env` prints of a plugin's environment. */
export function parseEnv(text: string): Record<string, string> {
  return Object.fromEntries(
    text.split("\0").filter((line) => line !== "").map((line) => {
      const [name = "", ...value] = line.split("=");
      return [name, value.join("=")];
    }),
  );
}

/** What a plugin does that prints its environment, each variable with a NUL. */
export const PRINT_ENV = "cat /proc/$$/environ";

/** A delegate's record of a call. */
export const TELL = 'echo "$CNI_COMMAND $CNI_IFNAME" >&2';

/** The script of a plugin that prints a JSON document. */
export function print(value: unknown): string {
  return `cat > /dev/null; echo '${JSON.stringify(value)}'`;
}
