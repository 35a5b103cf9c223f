/** `cni gc --orphans` on a node of its own, with our plugins and Go's. */

import {
  assert,
  assertEquals,
  assertMatch,
  assertStringIncludes,
} from "@std/assert";
import { rootTest } from "../../testing/capabilities.ts";
import { peerDirectories } from "../../tests/_harness/peers.ts";
import { PluginDirectory } from "../../tests/_harness/plugin_directory.ts";
import { eachRow } from "../../tests/_harness/table.ts";
import { runCni } from "../../tests/_harness/tool_call.ts";
import { ToolHost } from "../../tests/_harness/tool_host.ts";

// Processes of this machine that name a container keep it, including processes
// of another run of this test.
const [GONE, LIVE] = [randomId(), randomId()];
/** Names of namespaces that no other test on the machine has: their paths are evidence. */
const [GONE_NS, LIVE_NS] = [
  `gone-${GONE.slice(0, 8)}`,
  `live-${LIVE.slice(0, 8)}`,
];
const LIVE_CACHE = `/var/lib/cni/results/pods-${LIVE}-eth0`;
const TYPES = [
  ...["bridge", "portmap", "firewall", "bandwidth", "tuning"],
  ...["host-local", "static"],
];

function randomId(): string {
  return crypto.getRandomValues(new Uint8Array(32)).toHex();
}

/** An orphan, as the tool prints it. */
interface Row {
  readonly kind: string;
  readonly where: string;
  readonly containerID: string;
  readonly why: string;
  readonly removed?: boolean;
}

/** The plugins that attach two containers, and their backend. */
interface Scene {
  readonly name: string;
  /** Directory of the plugins. */
  readonly path: string;
  readonly backend: "iptables" | "nftables";
  readonly isOurs: boolean;
}

async function gc(host: ToolHost, flags = ""): Promise<Row[]> {
  const ended = await host.cni(`gc --orphans --json ${flags}`.trim());
  assertEquals(ended.code, 0, ended.stdout + ended.stderr);
  return JSON.parse(ended.stdout).orphans;
}

async function sh(host: ToolHost, script: string): Promise<string> {
  const { code, stdout, stderr } = await host.run(["sh", "-c", script]);
  assertEquals(code, 0, script + stdout + stderr);
  return stdout;
}

async function succeed(
  host: ToolHost,
  line: string,
  env: Record<string, string> = {},
): Promise<void> {
  Object.assign(host.env, env);
  const ended = await host.cni(line);
  assertEquals(ended.code, 0, line + ended.stdout + ended.stderr);
}

/** Attaches a container that stays, and one whose namespace then goes away. */
async function attachBoth(
  host: ToolHost,
  { path, backend, isOurs }: Scene,
): Promise<void> {
  const portmap = { snat: true, capabilities: { portMappings: true } };
  const limits = { egressRate: 8e6, egressBurst: 8e6 };
  host.addNetwork("pods", [
    {
      type: "bridge",
      bridge: "cni9",
      isGateway: true,
      ipMasq: true,
      ipMasqBackend: backend,
      macspoofchk: true,
      ipam: host.hostLocal("10.7.2.0/24"),
    },
    { type: "portmap", ...portmap, backend },
    { type: "firewall", ...isOurs && { backend } },
    { type: "bandwidth", ...limits, ingressRate: 8e6, ingressBurst: 8e6 },
    { type: "tuning", mtu: 1400 },
  ], { cniVersion: "1.0.0" });
  host.env["CNI_PATH"] = path;
  for (
    const [name, id, hostPort] of [
      [GONE_NS, GONE, 8080],
      [LIVE_NS, LIVE, 8081],
    ] as const
  ) {
    const portMappings = [{ hostPort, containerPort: 80, protocol: "tcp" }];
    await succeed(host, `netns add ${name}`);
    await succeed(host, `add pods ${name} --container-id ${id}`, {
      CAP_ARGS: JSON.stringify({ portMappings }),
    });
  }
  // The kernel removes the links of a namespace some time after it.
  await sh(
    host,
    `umount /run/netns/${GONE_NS} && rm /run/netns/${GONE_NS} && ` +
      "until [ $(ip -o link show type veth | wc -l) = 1 ]; do sleep 0.05; done",
  );
}

/**
 * Hides the container that stays: only the mount namespace of another process
 * has its network namespace, and its cached attachment is missing.
 */
async function hideLive(host: ToolHost): Promise<void> {
  await sh(
    host,
    `unshare -m --propagation private sleep 100 > /dev/null 2>&1 &
     echo $! > /run/holder
     until [ "$(readlink /proc/$!/ns/mnt)" != "$(readlink /proc/self/ns/mnt)" ]
     do sleep 0.01; done
     umount /run/netns/${LIVE_NS} && mv ${LIVE_CACHE} /run/live-cache`,
  );
}

async function showLive(host: ToolHost): Promise<void> {
  await sh(
    host,
    `holder=$(cat /run/holder)
     nsenter --net=/proc/$holder/root/run/netns/${LIVE_NS} \\
       mount --bind /proc/self/ns/net /run/netns/${LIVE_NS} &&
     mv /run/live-cache ${LIVE_CACHE} && kill $holder`,
  );
}

/** Searches where the processes of the node are hidden; fails with a reason. */
async function gcWithoutHostPid(host: ToolHost, flag: string): Promise<void> {
  const { code, stdout, stderr } = await host.run([
    ...["unshare", "-p", "-f", "--mount-proc", "sh", "-c"],
    `umount /run/netns/${LIVE_NS} && exec "$@"`,
    "sh",
    ...host.command("gc", "--orphans", flag, "--grace", "0"),
  ]);
  assertEquals([code, stdout], [1, ""]);
  assertMatch(stderr, /neither kernel threads nor a .*with hostPID/);
}

/** Everything on the node that names the container that is gone, or its address. */
function listLeft(host: ToolHost): Promise<string> {
  return sh(
    host,
    `{ find /run/leases /run/cni /var/lib/cni -type f
       for iptables in iptables-save iptables-legacy-save; do $iptables; done
       nft list ruleset; tc qdisc; } 2>/dev/null |
     grep -v '"cni9" comment' | grep -e '${GONE}' -e '10[.]7[.]2[.]2\\>' -e '\\b8080\\b' || true`,
  );
}

const backends = ["iptables", "nftables"] as const;

rootTest(
  "cni gc --orphans removes the resources of a lost container",
  async (t) => {
    using plugins = new PluginDirectory();
    const bin = Deno.env.get("CNI_BIN");
    if (!bin) TYPES.forEach((type) => plugins.addOwnExecutable(type));
    const go = peerDirectories().at(-1);
    const scenes: Scene[] = backends.flatMap((backend) => [
      {
        name: `ours, ${backend}`,
        path: bin ?? plugins.path,
        backend,
        isOurs: true,
      },
      ...go
        ? [{
          name: `${go.name}, ${backend}`,
          path: go.directory,
          backend,
          isOurs: false,
        }]
        : [],
    ]);
    await eachRow(t, scenes, async (scene) => {
      await using host = await ToolHost.create();
      await attachBoth(host, scene);
      const isCached = scene.isOurs && scene.backend === "iptables";
      if (!isCached) {
        await sh(host, `rm /var/lib/cni/results/pods-${GONE}-eth0`);
      }

      if (isCached) {
        const young = await gc(host);
        assertEquals(
          young.filter(({ kind }) => kind !== "link"),
          [],
        );
      }
      await sh(
        host,
        "find /run/leases /var/lib/cni -exec touch -d '1 hour ago' {} +",
      );

      if (isCached) {
        await gcWithoutHostPid(host, "--dry-run");
        await gcWithoutHostPid(host, "--yes");
      }
      await hideLive(host);
      const found = await gc(host, "--grace 0");
      await showLive(host);
      const kinds = new Set(found.map(({ kind }) => kind));
      const expected = [
        ...isCached ? ["attachment"] : [],
        ...["lease", "record", "link"],
        // The Go firewall has no nftables.
        ...scene.isOurs && scene.backend === "nftables" ? [] : ["iptables"],
        "nftables",
      ];
      assertEquals([...kinds].sort(), expected.sort());
      assert(
        found.every(({ containerID, kind }) =>
          containerID === GONE || containerID === "" && kind !== "lease"
        ),
      );
      assert(await listLeft(host) !== "");

      const removed = await gc(host, "--grace 0 --yes");
      assertEquals(removed.length, found.length);
      assert(removed.every(({ removed }) => removed));
      assertEquals(await listLeft(host), "");
      if (isCached) assertEquals(await gc(host, "--grace 0"), []);
      // The portmap of 1.1.1 misses IPv6 rules that its ADD does not make.
      if (!scene.name.startsWith("Go 1.1.1")) {
        await succeed(host, `check pods ${LIVE_NS} --container-id ${LIVE}`);
      }
      await succeed(host, `del pods ${LIVE_NS} --container-id ${LIVE}`);
    }, ({ name }) => name);
  },
);

rootTest(
  "cni gc --orphans finds masquerade rules of an address that was assigned again",
  async (t) => {
    await eachRow(t, backends, async (backend) => {
      await using host = await ToolHost.create();
      using plugins = new PluginDirectory();
      const bin = Deno.env.get("CNI_BIN");
      if (!bin) TYPES.forEach((type) => plugins.addOwnExecutable(type));
      const path = bin ?? plugins.path;
      await attachBoth(host, { name: "", path, backend, isOurs: true });
      // Its lease is free, and DEL of the interface never came.
      await sh(
        host,
        `rm /var/lib/cni/results/pods-${GONE}-eth0 /run/leases/pods/10.7.2.2 \
           /run/leases/pods/last_reserved_ip.0
         find /run/leases /var/lib/cni -exec touch -d '1 hour ago' {} +`,
      );
      const next = randomId();
      await succeed(host, "netns add next");
      const ports = [{ hostPort: 8082, containerPort: 80, protocol: "tcp" }];
      await succeed(host, `add pods next --container-id ${next}`, {
        CAP_ARGS: JSON.stringify({ portMappings: ports }),
      });
      const left = (await gc(host, "--grace 0"))
        .filter(({ where }) => /CNI-[0-9a-f]{24} |masquerade/.test(where));
      assertEquals(left.map(({ containerID, why }) => [containerID, why]), [
        [GONE, `10.7.2.2 belongs to container ${next}`],
      ]);
      await gc(host, "--grace 0 --yes");
      assertEquals(await gc(host, "--grace 0"), []);
      await succeed(host, `check pods next --container-id ${next}`);
      await succeed(host, `check pods ${LIVE_NS} --container-id ${LIVE}`);
    });
  },
);

/** Files and links that no plugin needs to make: `NAME` is the container. */
const PLANTED: Readonly<Record<string, string>> = {
  "attachment /var/lib/cni/multus/NAME":
    `printf '[{"Bytes":"eyJuYW1lIjoibiIsInR5cGUiOiJzdGF0aWMifQ==","Name":"n"}]' > /var/lib/cni/multus/NAME`,
  "record /var/lib/cni/flannel/NAME":
    `printf '{"name":"n","type":"bridge"}' > /var/lib/cni/flannel/NAME`,
  "record /run/cni/tuning/NAME_eth_0.json":
    "echo '{}' > /run/cni/tuning/NAME_eth_0.json",
  "lock /var/lib/cni/locks/NAME": "echo 1 > /var/lib/cni/locks/NAME",
  "lock /run/cni/locks/netns-4:1": "touch /run/cni/locks/netns-4:1",
  "link bwp0123456789ab": "ip link add bwp0123456789ab type ifb && " +
    "ip link set bwp0123456789ab alias cni/n/NAME/eth0",
  "link vethh0": "ip link add vethh0 type veth peer name foreign0 && " +
    "ip link set vethh0 alias cni/n/NAME/eth0",
  "lease /run/cni/dhcp: 10.7.3.8 of eth0":
    `echo '{"network":"n","containerId":"NAME","ifName":"eth0","netns":"/gone","address":"10.7.3.8"}' > /run/cni/dhcp/n:NAME:eth0.json`,
  "lease /var/lib/cni/networks/n/10.7.3.9":
    "printf 'NAME\\r\\neth0' > /var/lib/cni/networks/n/10.7.3.9",
  "lease /var/lib/cni/networks/n/10.7.3.10":
    "printf 'NAME\\neth0\\n' > /var/lib/cni/networks/n/10.7.3.10",
};

/** What looks like an orphan, but does not tell its container, or is foreign. */
const FOREIGN = `
  mkfifo "$NETCONFPATH/pipe.conf"
  echo notes > /var/lib/cni/flannel/README.md
  echo notes > /run/cni/tuning/a_b.json
  mkdir -p /var/lib/cni/networks/foreign
  echo gone > /var/lib/cni/networks/foreign/10.7.3.9
  ip link add bwp-foreign type ifb
  ip link add vethforeign type veth peer name foreign1
  ip link set vethforeign alias cni-foreign
  nft add table inet foreign
  nft 'add rule bridge nat PREROUTING iifname "vethx" drop' || true
`;

rootTest("cni gc --orphans keeps resources that might be in use", async () => {
  await using host = await ToolHost.create();
  using plugins = new PluginDirectory();
  plugins.addOwnExecutable("static");
  if (!Deno.env.get("CNI_BIN")) host.env["CNI_PATH"] = plugins.path;
  const name = "c".repeat(64);
  await sh(
    host,
    "cd /var/lib && mkdir -p cni/multus cni/flannel cni/locks " +
      "cni/networks/n /run/cni/tuning /run/cni/dhcp /run/cni/locks && touch cni/networks/n/lock",
  );
  await sh(
    host,
    Object.values(PLANTED).join("\n").replaceAll("NAME", name) + FOREIGN +
      "find /var/lib /run/cni -type f -exec touch -d '1 hour ago' {} +\n" +
      // The clock was wrong.
      "cd /var/lib/cni && touch -d 'now + 1 day' networks/n/10.7.3.9 locks/*",
  );
  const expected = Object.keys(PLANTED)
    .map((where) => where.replace("NAME", name)).sort();
  const list = (rows: readonly Row[]): string[] =>
    rows.map(({ kind, where }) => `${kind} ${where}`).sort();
  const locks = expected.filter((where) => where.startsWith("lock "));
  const found = list(await gc(host));
  assertEquals(found, expected);

  // A plugin of the container runs, of any program.
  await sh(
    host,
    `CNI_COMMAND=ADD CNI_CONTAINERID=${name} sleep 100 > /dev/null 2>&1 &
     echo $! > /run/pid`,
  );
  assertEquals(list(await gc(host)), locks);
  await sh(host, "kill $(cat /run/pid)");

  // A shim of the container runs.
  await sh(
    host,
    `sh -c 'sleep 100; true' shim -id ${name} > /dev/null 2>&1 &
     echo $! > /run/pid`,
  );
  assertEquals(list(await gc(host)), locks);
  await sh(host, "pkill -P $(cat /run/pid)");

  const dry = await host.cni("gc --orphans --exit-code");
  assertEquals(dry.code, 1);
  assertStringIncludes(dry.stdout, "KIND");
  assertStringIncludes(dry.stderr, "use --yes");

  const removed = await gc(host, "--yes --grace 1ms");
  assert(removed.every(({ removed }) => removed), JSON.stringify(removed));
  assertEquals(list(removed), expected);
  assertEquals(await gc(host), []);
  await sh(
    host,
    "cat /var/lib/cni/flannel/README.md /run/cni/tuning/a_b.json " +
      "/var/lib/cni/networks/foreign/10.7.3.9 > /dev/null && " +
      "ip link show bwp-foreign > /dev/null && ip link show vethforeign > /dev/null",
  );
  const last = await host.cni("gc --orphans --exit-code");
  assertEquals(last.code, 0);
});

Deno.test("cni gc --orphans refuses contradictory arguments", async () => {
  for (
    const line of [
      "gc --orphans pods",
      "gc --orphans --all",
      "gc --orphans --yes --dry-run",
      "gc --orphans --grace soon",
      "gc pods --yes",
      "gc pods blue --grace 1h",
      "gc",
    ]
  ) {
    const { exitCode, stderr } = await runCni(...line.split(" "));
    assert(exitCode !== 0, line);
    assertMatch(stderr, /orphans|--grace|--yes/);
  }
});
