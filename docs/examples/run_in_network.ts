/**
 * A small container runtime: runs a program in a new network namespace that is
 * attached to a network, and removes the attachment afterwards:
 *
 *     deno task deno run -A docs/examples/run_in_network.ts FILE.conflist COMMAND...
 *
 * @module
 */

import { dispatch, inNetns, NetNs } from "@cni/plugins";
import {
  AttachmentLocks,
  createInvoker,
  findPlugin,
  lockDirectoryOf,
  NetworkRuntime,
  readNetworkConfList,
} from "@cni/plugins/libcni";

const [file = "", program = "", ...args] = Deno.args;
const cacheDir = Deno.env.get("CNI_CACHE_DIR") ?? "/var/lib/cni";
const runtime = new NetworkRuntime({
  pluginDirs: (Deno.env.get("CNI_PATH") ?? "/opt/cni/bin").split(":"),
  env: Deno.env.toObject(),
  cacheDir,
  // Plugins of this project that are this very executable need no process.
  invoker: createInvoker(dispatch, findPlugin),
  locks: new AttachmentLocks(lockDirectoryOf(cacheDir)),
});
const list = readNetworkConfList(file);
using netns = NetNs.create();
const attachment = {
  containerId: `example-${Deno.pid}`,
  netns: netns.path,
  ifName: "eth0",
};
const { result } = await runtime.addNetworkListOrUndo(list, attachment);
try {
  console.log(
    `attached to ${list.name}:`,
    result.ips.map(({ address }) => address),
  );
  // The child starts in the namespace, and stays there.
  const child = inNetns(
    netns,
    () => new Deno.Command(program, { args }).spawn(),
  );
  const { code } = await child.status;
  Deno.exitCode = code;
} finally {
  await runtime.delNetworkList(list, attachment);
  console.log(`detached from ${list.name}`);
}
