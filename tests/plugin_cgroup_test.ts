/**
 * The cgroup of the plugins that the node daemon starts, in a real cgroup v2.
 *
 * @module
 */

import { assertEquals, assertNotEquals } from "@std/assert";
import { allOf, ignoreUnless } from "../testing/capabilities.ts";
import { BIN, needsBin } from "./_harness/executables.ts";

const NAME = `cni-test-${Deno.pid}`;

/** Runs a shell in mounts of its own, in a cgroup below the root. */
function shell(script: string): { success: boolean; stdout: string } {
  const whole = `set -e
    root=$(mktemp -d)
    mount -t tmpfs none /sys/fs/cgroup 2>/dev/null || true
    mount -t cgroup2 none /sys/fs/cgroup
    mkdir /sys/fs/cgroup/${NAME}
    end() {
      echo 0 > /sys/fs/cgroup/cgroup.procs
      rmdir /sys/fs/cgroup/${NAME}.plugins /sys/fs/cgroup/${NAME} || true
      rm -rf $root
    }
    trap end EXIT
    echo 0 > /sys/fs/cgroup/${NAME}/cgroup.procs
    cd $root
    ${script}`;
  const { success, stdout } = new Deno.Command("unshare", {
    args: ["--mount", "--propagation=private", "sh", "-c", whole],
    stderr: "inherit",
  }).outputSync();
  return { success, stdout: new TextDecoder().decode(stdout) };
}

const needsCgroup = ignoreUnless(
  ((): boolean => {
    try {
      return shell("true").success;
    } catch {
      return false;
    }
  })(),
  "needs a writable cgroup v2",
);

const { ignore, suffix } = allOf(needsBin, needsCgroup);

Deno.test({
  name: "plugins of the node daemon run in a separate cgroup" + suffix,
  ignore,
  fn(): void {
    const config = JSON.stringify({
      cniVersion: "1.0.0",
      name: "net",
      type: "chain",
      plugins: [{ type: "foreign" }],
    });
    const { stdout } = shell(`
      cat > foreign <<'END'
#!/bin/sh
sleep 0.2
grep ^0:: /proc/self/cgroup > groups
END
      chmod +x foreign
      ln -s ${BIN}/cni chain
      ${BIN}/cni daemon --socket-dir=$root/run --no-heal 2> log &
      daemon=$!
      until [ -S run/daemon.sock ]; do sleep 0.05; done
      echo '${config}' | sed "s#}]#}],\\"daemonSocket\\":\\"$root/run/daemon.sock\\"#" |
        CNI_COMMAND=DEL CNI_CONTAINERID=c CNI_IFNAME=eth0 CNI_PATH=$root ./chain
      cat groups
      grep ^0:: /proc/$daemon/cgroup
      kill $daemon
      wait $daemon || true
      grep -c "msg=call" log`);
    const [plugin, daemon, calls] = stdout.split("\n");
    assertEquals(daemon, `0::/${NAME}`);
    assertNotEquals(plugin, daemon);
    assertEquals(plugin, `0::/${NAME}.plugins`);
    assertEquals(calls, "1");
  },
});
