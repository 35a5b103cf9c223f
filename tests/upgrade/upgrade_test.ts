/**
 * Upgrades of a node with pods, and the way back: from and to two releases of
 * the Go plugins and Go's thin multus, and from our own first version.
 *
 * The nodes are recorded in tests/golden/upgrade: everything that those plugins
 * left for two pods, and what stayed after their own DEL. So these tests need
 * no Go plugins. Where they are installed, the nodes are also made anew, and
 * compared with the recordings. `CNI_RECORD=1` writes those again.
 * `CNI_GO_MULTUS` is the directory of Go's multus.
 */

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { isAtLeast } from "../../cni/version.ts";
import {
  allOf,
  hasCommand,
  ignoreUnless,
  rootTest,
} from "../../testing/capabilities.ts";
import { BIN, needsBin } from "../_harness/executables.ts";
import {
  comparable,
  FIRST,
  makeState,
  type NodeState,
  OLD,
  pathOf,
  type Recording,
  ROWS,
  sh,
  UpgradeNode,
} from "./nodes.ts";
import { listPeers } from "../_harness/parity.ts";
import { needsRuleTools } from "../_harness/rules.ts";

const needs = allOf(
  needsBin,
  needsRuleTools,
  ignoreUnless(["tc", "unshare", "nft"].every(hasCommand), "needs iproute2"),
);

async function readRecording(row: string, maker: string): Promise<Recording> {
  return JSON.parse(await Deno.readTextFile(pathOf(row, maker)));
}

/** Makes a recorded node, on which our plugins are installed. */
async function makeNode(
  row: string,
  state: NodeState,
): Promise<UpgradeNode> {
  const node = await UpgradeNode.create(
    ROWS[row] ?? { plugins: [], madeBy: [] },
  );
  await makeState(node.host, state);
  assertEquals(comparable(await node.state()), comparable(state));
  return node;
}

/** Has our plugins check both pods, detach `one`, and release `two`, which is lost. */
async function takeOver(node: UpgradeNode): Promise<void> {
  await node.run("check", "one");
  await node.run("check", "two");
  await node.run("del", "one");
  await node.run("check", "two");
  await node.lose("two");
  node.configure("1.1.0");
  await node.succeed("gc pods --all");
  await node.replace("two");
}

/** Tables of Go that our plugins delete once they are empty; Go's leave them. */
const DELETED = [/^inet cni_plugins_masquerade$/, /^ip6? cni_hostport$/];

/** Returns a state without some tables of nftables. */
function withoutTables(
  { nftables, ...state }: NodeState,
  isMeant: (name: string) => boolean,
): NodeState {
  const tables = nftables.join("\n").split(/(?<=^})\n/m)
    .filter((table) => !isMeant(/^table (.*) \{/.exec(table)?.[1] ?? ""));
  const lines = tables.flatMap((table) => table.split("\n"));
  return { ...state, nftables: lines.filter((line) => line !== "") };
}

const same = (state: NodeState): NodeState => state;

/** Leases of Go plugins before 0.8 have the container only. */
function withOldLeases(state: NodeState): NodeState {
  const files = Object.entries(state.files).map((
    [path, text],
  ) => [path, text.replace(/^(\w{64})\r\neth0$/, "$1")]);
  return { ...state, files: Object.fromEntries(files) };
}

/** That our plugins turned it on is in a label, which nft does not print. */
function withoutLocalnet(state: NodeState): NodeState {
  const commands = state.commands.filter((line) => !/localnet/.test(line));
  return { ...state, commands };
}

for (const [row, { madeBy }] of Object.entries(ROWS)) {
  for (const maker of madeBy) {
    rootTest(
      `upgrade: recorded pods of ${maker} (${row}) are checked, repaired and detached`,
      needs,
      async () => {
        const recording = await readRecording(row, maker);
        const before = maker === OLD ? withOldLeases : same;
        await using node = await makeNode(row, before(recording.attached));
        await takeOver(node);
        const left = await node.state();
        const gone = listTables(recording.detached)
          .filter((name) => !listTables(left).includes(name));
        assert(gone.every((name) => DELETED.some((one) => one.test(name))));
        // What their own DEL leaves, and nothing else.
        const expected = withoutTables(
          recording.detached,
          (name) => gone.includes(name),
        );
        const see = maker === FIRST
          ? withoutLocalnet
          : (state: NodeState) => state;
        assertEquals(comparable(see(left)), comparable(see(expected)));
      },
    );
  }
}

const MULTUS = Deno.env.get("CNI_GO_MULTUS") ?? "";

const needsMultus = ignoreUnless(
  MULTUS !== "",
  "needs CNI_GO_MULTUS, the directory of Go's multus",
);

/** Has our plugins attach both pods, and those of a release detach them. */
async function goBack(
  node: UpgradeNode,
  ...directories: readonly string[]
): Promise<NodeState> {
  await node.install(BIN);
  await node.run("add", "one");
  await node.run("add", "two");
  await node.install(...directories);
  await node.run("del", "one");
  await node.run("del", "two");
  return await node.state();
}

for (const peer of listPeers("upgrade")) {
  for (const [row, { madeBy }] of Object.entries(ROWS)) {
    if (!madeBy.includes(peer.name)) continue;
    const isMultus = row === "multus";
    rootTest(
      `upgrade: ${peer.name} (${row}) creates the recorded state, and detaches this project's pods`,
      isMultus ? allOf(needs, needsMultus) : needs,
      async () => {
        const directories = [peer.directory, ...isMultus ? [MULTUS] : []];
        await using node = await UpgradeNode.create(ROWS[row]);
        await node.install(...directories);
        const { attached, detached } = await node.record();
        // A bridge and chains that both sides use stay.
        const returned = await goBack(node, ...directories);
        const made = { attached, detached, returned };
        if (Deno.env.has("CNI_RECORD")) writeRecording(row, peer.name, made);
        const recorded = await readRecording(row, peer.name);
        assertEquals(hide(made), hide(recorded));
      },
    );
  }
}

for (const peer of listPeers("upgrade, one plugin at a time")) {
  if (!isAtLeast(peer.cniVersion, "1.1.0")) continue;
  rootTest(
    `upgrade: GC of our bridge keeps what multus attached with host-local of ${peer.name}`,
    needs,
    async () => {
      await using node = await UpgradeNode.create();
      await node.install(BIN);
      const network = {
        cniVersion: "1.1.0",
        name: "pods",
        type: "bridge",
        ipam: { type: "host-local", subnet: "10.1.2.0/24" },
      };
      const call = (command: string, config: object): Promise<string> =>
        sh(
          node.host,
          `ln -sf "$1/host-local" /run/bin
           export CNI_PATH=/run/bin CNI_COMMAND=$2 CNI_CONTAINERID=one
           export CNI_IFNAME=eth0 CNI_NETNS=/run/netns/one
           printf %s "$4" | /run/bin/$3 >&2
           ls /var/lib/cni/networks/pods`,
          peer.directory,
          command,
          Reflect.get(config, "type"),
          JSON.stringify(config),
        );
      const leased = await call("ADD", {
        ...network,
        name: "multus",
        type: "multus",
        binDir: "/run/bin",
        delegates: [network],
      });
      assertStringIncludes(leased, "10.1.2.2");
      // CRI-O has attached no pod to this network, and lists none.
      const gc = { ...network, "cni.dev/valid-attachments": null };
      assertEquals(await call("GC", gc), leased);
    },
  );
}

function hide(recording: Recording): unknown {
  return Object.values(recording).map(comparable);
}

function writeRecording(row: string, maker: string, made: Recording): void {
  const text = `${JSON.stringify(made, null, 1)}\n`;
  Deno.writeTextFileSync(pathOf(row, maker), text);
}

Deno.test("upgrade: after a rollback, only this project's empty tables are left", async () => {
  const left: Record<string, unknown> = {};
  for (const [row, { madeBy }] of Object.entries(ROWS)) {
    for (const maker of madeBy) {
      const { detached, returned } = await readRecording(row, maker);
      if (returned === undefined) continue;
      const tables = listTables(returned)
        .filter((table) => !listTables(detached).includes(table));
      const rest = withoutTables(returned, (name) => tables.includes(name));
      assertEquals(
        comparable({ ...rest, files: {} }),
        comparable({ ...detached, files: {} }),
      );
      assertEquals(Object.keys(returned.files), Object.keys(detached.files));
      left[`${row}, ${maker}`] = tables;
    }
  }
  assertEquals(left, {
    "iptables, Go 1.1.1": ["inet cni_portmap", "inet cni_firewall"],
    "iptables, Go 1.10.0": ["inet cni_portmap", "inet cni_firewall"],
    "nftables, Go 1.10.0": ["inet cni_portmap"],
    "multus, Go 1.10.0": [],
  });
});

function listTables({ nftables }: NodeState): string[] {
  return nftables.flatMap((line) => /^table (.*) \{$/.exec(line)?.[1] ?? []);
}

/** Where the other forms of state are taken over: a file, and a test in it. */
const ELSEWHERE:
  readonly (readonly [form: string, file: string, test: string])[] = [
    [
      "each plugin by itself",
      "tests/cross_parity_test.ts",
      "adds, ${other} checks and deletes",
    ],
    ["leases", "ipam/host_local/parity_test.ts", "release each other's leases"],
    [
      "a large directory of leases",
      "ipam/host_local/parity_test.ts",
      "run in turn in a large directory",
    ],
    ["libcni's cache", "cli/cnitool_parity_test.ts", "(${name})"],
    [
      "portmap's chains",
      "plugins/portmap/parity_test.ts",
      "is checked and deleted by",
    ],
    [
      "portmap's nft rules",
      "plugins/portmap/parity_test.ts",
      "what ${peer.name} added to nftables",
    ],
    [
      "firewall's rules",
      "plugins/firewall/parity_test.ts",
      "removes the rules of ${peer.name} without prevResult",
    ],
    ["IFBs", "plugins/bandwidth/parity_test.ts", "is checked and deleted by"],
    [
      "tuning's backup",
      "plugins/tuning/parity_test.ts",
      "is checked and deleted by",
    ],
    [
      "sbr's tables",
      "plugins/sbr/parity_test.ts",
      "sbr checks and deletes what the Go plugin added",
    ],
    [
      "host-device's names",
      "plugins/host_device/parity_test.ts",
      "returns what ${peer.name}",
    ],
    ["vrf", "plugins/vrf/parity_test.ts", "is checked and deleted by"],
    ["tap, dummy", "tests/own_link_parity_test.ts", "creates, ${"],
    ["dhcp's daemon", "ipam/dhcp/parity_test.ts", "dhcp refuses the daemon of"],
    [
      "flannel's files",
      "tests/conformance/flannel_test.ts",
      "FL-12 DEL works from the saved",
    ],
    [
      "lost containers",
      "cli/orphans/orphans_test.ts",
      "removes the resources of a lost container",
    ],
    [
      "multus' scratch files",
      "tests/conformance/multus_state_test.ts",
      "was remembered is",
    ],
  ];

Deno.test("upgrade: the other forms of installation have tests", async () => {
  for (const [form, file, test] of ELSEWHERE) {
    const path = new URL(`../../${file}`, import.meta.url);
    assertStringIncludes(await Deno.readTextFile(path), test, form);
  }
});
