/**
 * Runs this process as a node daemon that kills itself at one of its requests to
 * the kernel or to the disk: `dying_daemon.ts DIRECTORY STEP`. At the end of a call
 * it prints how many there were.
 *
 * @module
 */

import { findPlugin, pluginNames } from "../../plugins/registry.ts";
import { OWN_NETNS } from "../../ffi/own_netns.ts";
import { NetlinkSocket } from "../../ffi/netlink/socket.ts";
import { runDaemon } from "../../daemon/server/daemon.ts";
import { readOwnAttributes } from "../../daemon/server/caller_check.ts";
import { attributesLike, BUILD } from "./by_daemon.ts";
import { intercept } from "../../testing/fault_injector.ts";

/** Functions that change the disk, beside `openSync`. */
const ON_DISK = [
  "linkSync",
  "mkdirSync",
  "removeSync",
  "renameSync",
  "writeFileSync",
  "writeTextFileSync",
] as const;

const [directory = "", last = ""] = Deno.args;
let steps = 0;
let isCounting = false;

function step(): void {
  if (!isCounting) return;
  steps++;
  if (steps === Number(last)) Deno.kill(Deno.pid, "SIGKILL");
}

for (
  const method of ["request", "requestAll", "requestEach", "dump"] as const
) {
  intercept(NetlinkSocket.prototype, method, (_, work) => {
    step();
    return work();
  });
}
for (const method of [...ON_DISK, "openSync"] as const) {
  intercept(Deno, method, (args, work) => {
    const [, options] = args as [unknown, Deno.OpenOptions | undefined];
    if (method !== "openSync" || options?.write) step();
    return work();
  });
}
const own = readOwnAttributes(BUILD, OWN_NETNS);
await Promise.all(pluginNames.map((type) => findPlugin(type)));
await runDaemon({
  socketDir: directory,
  maxCalls: 64,
  build: BUILD,
  hostNetns: OWN_NETNS,
  env: {},
  readAttributes: attributesLike(() => own),
  lookup(type): ReturnType<typeof findPlugin> {
    isCounting = true;
    return findPlugin(type);
  },
  afterCall: () => console.log(`steps: ${steps}`),
  log: {
    debug: () => {},
    info: (message) => void (message === "listening" && console.log(message)),
    warn: console.error,
    error: console.error,
  },
  signal: new AbortController().signal,
});
