/** `cni doctor` that is killed at a system call: it leaves nothing on the node. */
import { assert, assertEquals } from "@std/assert";
import { removeLeftRecordings } from "../../ffi/packet_events.ts";
import {
  allOf,
  hasCommand,
  ignoreUnless,
  rootTest,
} from "../../testing/capabilities.ts";
import { needsBin } from "../../tests/_harness/executables.ts";
import { eventually } from "../../tests/_harness/eventually.ts";
import { needsInetRules, needsRuleTools } from "../../tests/_harness/rules.ts";
import { ToolHost } from "../../tests/_harness/tool_host.ts";

const NEEDS = allOf(
  needsRuleTools,
  needsInetRules,
  needsBin,
  ignoreUnless(hasCommand("strace"), "needs strace"),
);

/** Calls that create something, or ask the kernel to. */
const CALLS = "unshare,setns,fsopen,fsconfig,fsmount,mkdir,mkdirat,rmdir," +
  "unlink,unlinkat,rename,renameat2,socket,sendto,sendmsg,clone,clone3,vfork";

/** How many calls of each command are the last one. */
const KILLS = 8;

/** Commands on a node without a pod, and on one that drops the packets of a pod. */
const COMMANDS: readonly (readonly [line: string, prepare: string])[] = [
  ["doctor --try", ":"],
  [
    "doctor --pod blue",
    "echo 1 > /proc/sys/net/ipv4/ip_forward; nft 'table inet fw { chain f { type filter hook forward priority 0; policy drop; }; }'",
  ],
];

const STOCK = "ip -o link; ip -o addr; ip route; ip rule; nft list ruleset; " +
  "cat /proc/sys/net/ipv4/ip_forward /proc/sys/net/ipv6/conf/all/forwarding; " +
  "ls /run/netns; find /var/lib/cni/results /run/leases -type f ! -name 'l*' | sort";

const RECORDINGS =
  "mkdir -p /run/trace; mount -t tracefs tracefs /run/trace && " +
  "ls /run/trace/instances; umount /run/trace; rmdir /run/trace";

for (const [line, prepare] of COMMANDS) {
  rootTest(`a killed cni ${line} leaves nothing`, NEEDS, async () => {
    await using host = await ToolHost.create();
    const ipam = {
      ...host.hostLocal("10.1.2.0/24"),
      routes: [{ dst: "0.0.0.0/0" }],
    };
    host.addNetwork("pods", [
      { type: "ptp", ipMasq: true, ipMasqBackend: "nftables", ipam },
      {
        type: "portmap",
        backend: "nftables",
        capabilities: { portMappings: true },
      },
    ]);
    const run = async (...command: string[]): Promise<string> => {
      const { code, stdout, stderr } = await host.run(command);
      assertEquals(code, 0, stderr);
      return stdout;
    };
    const look = async (): Promise<string[]> =>
      (await run("sh", "-c", STOCK)).split("\n")
        // Addresses of the link come by themselves, and timers run.
        .filter((text) => !/fe80|ff00/.test(text))
        .map((text) => text.replace(/\d+sec|qlen \d+|handle \d+/g, ""));
    await run(
      "sh",
      "-ec",
      "ip link set lo up; ip link add out0 type veth peer name out1; " +
        "ip addr add 192.0.2.1/24 dev out0; ip link set out0 up; " +
        "ip link set out1 up; ip route add default via 192.0.2.2; " +
        prepare,
    );
    await run(...host.command("netns", "add", "blue"));
    const portMappings = [
      { hostPort: 8080, containerPort: 80, protocol: "tcp" },
    ];
    host.env["CAP_ARGS"] = JSON.stringify({ portMappings });
    if (line.includes("blue")) {
      await run(...host.command("add", "pods", "blue"));
    }
    const log = `${host.confDir}/strace`;
    // Only the first thread is traced: the process that restores the node must go on.
    const trace = async (...inject: string[]): Promise<string[]> => {
      const strace = ["strace", "-qq", "-o", log, "-e", `trace=${CALLS}`];
      await host.run([
        ...strace,
        ...inject.flatMap((one) => ["-e", one]),
        ...host.command(...line.split(" ")),
      ]);
      return (await Deno.readTextFile(log)).trim().split("\n");
    };
    await host.run(host.command(...line.split(" ")));
    const before = await look();
    const whole = await trace();
    assertEquals(await look(), before);
    const calls = listCalls(whole);
    const kills = Math.min(KILLS, calls.length);
    for (let kill = 0; kill < kills; kill++) {
      const at = Math.floor(calls.length * (kill + 0.5) / kills);
      const [name, when] = calls[at] ?? [];
      const lines = await trace(`inject=${name}:signal=SIGKILL:when=${when}`);
      const what = `killed at ${name} ${when}, call ${at} of ${calls.length}`;
      assert(lines.some((text) => text.includes("killed by SIGKILL")), what);
      let now: string[] = [];
      await eventually(
        "nothing is left",
        async () => `${now = await look()}` === `${before}`,
        () =>
          `${what}\n${now.filter((one) => !before.includes(one)).join("\n")}`,
      );
      // The next recording and the node daemon remove one that was left.
      removeLeftRecordings();
      const recordings = lines
        .flatMap((text) => /cni-probe-[\da-f]{8}/.exec(text)?.[0] ?? []);
      const { stdout: left } = await host.run(["sh", "-c", RECORDINGS]);
      assertEquals(recordings.filter((name) => left.includes(name)), [], what);
    }
  });
}

/** Lists calls: the name, and how many of that name there were. */
function listCalls(
  lines: readonly string[],
): (readonly [name: string, count: number])[] {
  const counts = new Map<string, number>();
  return lines.flatMap((line) => {
    const [, name] = /^(\w+)\(/.exec(line) ?? [];
    if (name === undefined) return [];
    const count = (counts.get(name) ?? 0) + 1;
    counts.set(name, count);
    return [[name, count] as const];
  });
}
