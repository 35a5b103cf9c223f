/**
 * Hosts as RootlessKit makes them, where the tests run as root of a user
 * namespace only: a network namespace that is created together with its user
 * namespace, before IDs are mapped there. The files of its `/proc/net` belong to
 * an unmapped user, so not even root can read files of mode 0440.
 *
 * @module
 */

import { NetNs, unbindNetNs } from "../../ffi/netns.ts";
import { TestHosts } from "../../testing/test_hosts.ts";

/** Whether the tests run as root of a user namespace only. */
export const isRootless: boolean = Deno.env.get("CNI_TEST_ROOTLESS") === "1";

/** Mounts the namespace of a process that ends then on a file. */
const BIND = `
unshare --user --net sh -c 'echo $$; exec sleep infinity' | {
  read -r pid
  mount --bind "/proc/$pid/ns/net" "$0"
  status=$?
  kill "$pid"
  exit "$status"
}`;

/** Creates such a namespace, which the stack ends. */
function createHost(stack: DisposableStack): NetNs {
  const path = Deno.makeTempFileSync({ prefix: "cni-test-" });
  stack.defer(() => Deno.removeSync(path));
  const args = ["-c", BIND, path];
  const { success, stderr } = new Deno.Command("sh", { args }).outputSync();
  if (!success) throw new Error(new TextDecoder().decode(stderr));
  stack.defer(() => unbindNetNs(path));
  return stack.use(NetNs.open(path));
}

if (isRootless) TestHosts.createHost = createHost;
