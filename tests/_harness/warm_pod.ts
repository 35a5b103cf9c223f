/**
 * A program that adds and deletes a pod several times in one process, for
 * tests that watch its system calls: `warm_pod.ts ROUNDS`.
 *
 * Before each command and at the end it looks for a file with a name such as
 * `/mark-ADD-3`.
 *
 * @module
 */

import { OWN_NETNS } from "../../cni/call/own_netns.ts";
import { TestHosts } from "../../testing/test_hosts.ts";

function mark(name: string): void {
  try {
    Deno.statSync(`/mark-${name}`);
  } catch {
    // It does not exist.
  }
}

if (import.meta.main) {
  using hosts = TestHosts.create();
  const [rate, burst] = [1e8, 1e7];
  const config = {
    cniVersion: "1.1.0",
    name: "net1",
    type: "chain",
    plugins: [
      {
        type: "ptp",
        ipam: {
          ...hosts.hostLocal("10.1.2.0/24"),
          routes: [{ dst: "0.0.0.0/0" }],
        },
      },
      {
        type: "bandwidth",
        ingressRate: rate,
        ingressBurst: burst,
        egressRate: rate,
        egressBurst: burst,
      },
      { type: "sbr" },
    ],
  };
  const run = async (command: string, keys = {}): Promise<unknown> => {
    const { exitCode, stdout, json } = await hosts.run("chain", command, {
      ...config,
      ...keys,
    }, { hostNetns: OWN_NETNS });
    if (exitCode !== 0) throw new Error(stdout);
    return json;
  };
  for (let round = 1; round <= Number(Deno.args[0]); round++) {
    mark(`ADD-${round}`);
    const prevResult = await run("ADD");
    mark(`DEL-${round}`);
    await run("DEL", { prevResult });
  }
  mark("end");
}
