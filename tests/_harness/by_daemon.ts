/**
 * Calls of plugins by way of a node daemon: its socket, its protocol and its
 * queue, in this process.
 *
 * @module
 */

import type { Dispatch } from "../../cni/invoke/in_process.ts";
import type { Plugin } from "../../cni/plugin.ts";
import type { DispatchInput, DispatchOutput } from "../../cni/call/context.ts";
import { findFileId } from "../../base/files/same_file.ts";
import { dispatch } from "../../cni/skel.ts";
import {
  CallSocket,
  type CallSocketOptions,
} from "../../daemon/server/call_socket.ts";
import { Calls } from "../../daemon/server/calls.ts";
import {
  type OwnAttributes,
  readOwnAttributes,
} from "../../daemon/server/caller_check.ts";
import { eventually } from "./eventually.ts";
import type { Message } from "../../daemon/wire/request.ts";
import { concat } from "../../net/bytes.ts";
import { decodeMessages, encodeRequest } from "./call_format.ts";
import { LinkRemover } from "../../plugins/parts/link/link_remover.ts";
import { findPlugin } from "../../plugins/registry.ts";
import { TestHosts } from "../../testing/test_hosts.ts";

/** Stands for the identity of the code. */
export const BUILD = "by daemon";

/**
 * Gives every caller the daemon's own attributes, because the process of a test is in
 * its own namespace, and calls for hosts in others.
 */
export function attributesLike(
  getOwn: () => OwnAttributes,
): NonNullable<CallSocketOptions["readAttributes"]> {
  return () => ({
    ...getOwn(),
    exe: findFileId("/proc/self/exe") ?? "",
  });
}

/** A daemon whose host is that of the caller, whichever it is. */
class Daemon {
  readonly #directory = Deno.makeTempDirSync({ prefix: "cni-test-" });
  readonly #path = `${this.#directory}/daemon.sock`;
  readonly #own: OwnAttributes & { host: string };
  readonly #hosts = new Map<string, { calls: Calls; links: LinkRemover }>();
  /** Plugins of tests that are not in the registry. */
  readonly #plugins = new Map<string, Plugin>();
  #hostNetns = "/proc/thread-self/ns/net";

  constructor() {
    this.#own = { ...readOwnAttributes(BUILD, this.#hostNetns) };
    const calls = (): Calls => this.#host(this.#hostNetns).calls;
    const socket = new CallSocket({
      lookup: (type) => this.#lookup(type),
      get calls(): Calls {
        return calls();
      },
      own: this.#own,
      readAttributes: attributesLike(() => this.#own),
      log: { info(): void {}, warn: console.error },
      onDeclined: (why) => console.error(`the daemon says: ${why}`),
    });
    socket.listen(this.#path);
    globalThis.addEventListener("unload", () => {
      Deno.removeSync(this.#directory, { recursive: true });
    });
  }

  #lookup(type: string): Promise<Plugin> | undefined {
    const plugin = this.#plugins.get(type);
    return plugin === undefined ? findPlugin(type) : Promise.resolve(plugin);
  }

  #host(hostNetns: string): { calls: Calls; links: LinkRemover } {
    const known = this.#hosts.get(hostNetns);
    if (known !== undefined) return known;
    const links = new LinkRemover(hostNetns);
    const calls = new Calls({
      lookup: (type) => this.#lookup(type),
      hostNetns,
      maxCalls: 64,
      linkDeletion: links,
      log: { info(): void {}, warn: console.error },
    });
    const host = { calls, links };
    this.#hosts.set(hostNetns, host);
    return host;
  }

  /** Runs a call as a process does that hands it over. */
  async run(plugin: Plugin, input: DispatchInput): Promise<DispatchOutput> {
    const { hostNetns } = input;
    this.#hostNetns = hostNetns;
    this.#own.host = findFileId(hostNetns) ?? "";
    this.#plugins.set(plugin.name, plugin);
    const output = await callDaemon(this.#path, plugin.name, input);
    if (output === undefined) throw new Error("the daemon did not answer");
    // Tests count open sockets.
    const { links } = this.#host(hostNetns);
    await eventually("links are deleted", () => links.unacknowledged === 0);
    return output;
  }
}

/**
 * Hands a call over, as a process in the host's namespace does.
 *
 * @returns Undefined if the daemon went away
 */
export async function callDaemon(
  path: string,
  name: string,
  { env, stdin, onStderr }: DispatchInput,
): Promise<DispatchOutput | undefined> {
  using connection = await Deno.connect({ transport: "unix", path });
  let bytes = encodeRequest({
    build: BUILD,
    name,
    env,
    stdin: Uint8Array.from(stdin()),
  });
  while (bytes.length > 0) {
    bytes = bytes.subarray(await connection.write(bytes));
  }
  let stderr = "";
  for await (const message of readMessages(connection)) {
    if (message === "taken" || message === "alive") continue;
    else if ("stderr" in message) {
      stderr += message.stderr;
      onStderr?.(message.stderr);
    } else if ("declined" in message) throw new Error(message.declined);
    else {
      const exitCode = message.exitCode === 0 ? 0 : 1;
      return { stdout: message.stdout, stderr, exitCode };
    }
  }
  return undefined;
}

async function* readMessages(
  connection: Deno.UnixConn,
): AsyncGenerator<Message> {
  const buffer = new Uint8Array(64 * 1024);
  let bytes = new Uint8Array();
  for (;;) {
    const length = await connection.read(buffer).catch(() => null);
    if (length === null) return; // the end, or ECONNRESET
    const { messages, rest } = decodeMessages(
      concat([bytes, buffer.subarray(0, length)]),
    );
    bytes = rest;
    yield* messages;
  }
}

let daemon: Daemon | undefined;

/**
 * Runs a plugin by way of the daemon, unless its caller is in this process and
 * passes it more than a process can.
 */
const dispatchByDaemon: Dispatch = async (plugin, input) => {
  const {
    env,
    stdin: _stdin,
    invoker: _invoker,
    hostNetns: _host,
    onStderr: _onStderr,
    ...more
  } = input;
  const isMore = Object.values(more).some((value) => value !== undefined);
  if (isMore || env["CNI_COMMAND"] === "VERSION") {
    return await dispatch(plugin, input);
  }
  return await getDaemon().run(plugin, input);
};

function getDaemon(): Daemon {
  return daemon ??= new Daemon();
}

/** Runs a test in which `TestHosts` and others call plugins by a daemon. */
export async function byDaemon(
  test: () => void | Promise<void>,
): Promise<void> {
  // Now, since scenes count the sockets that they begin with.
  getDaemon();
  const before = TestHosts.dispatch;
  TestHosts.dispatch = dispatchByDaemon;
  try {
    await test();
  } finally {
    TestHosts.dispatch = before;
  }
}
