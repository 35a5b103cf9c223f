/**
 * tuning  compared with the Go plugin: what each leaves in the container on the
 * same configuration, and one checking and taking down what the other has set.
 * The differences that are meant are listed here, and nowhere else is a
 * difference allowed.
 */

import { assert, assertEquals } from "@std/assert";
import { rootTest } from "../../testing/capabilities.ts";
import { ipJson, runIn } from "../../testing/ip_json.ts";
import { BIN, needsBin } from "../../tests/_harness/executables.ts";
import {
  listPeers,
  nameOf,
  testLeavesTheSame,
  type Who,
} from "../../tests/_harness/parity.ts";
import type { Peer } from "../../tests/_harness/peers.ts";
import type { Keys } from "../../tests/_harness/plugin_scene.ts";
import { eachRow } from "../../tests/_harness/table.ts";
import {
  ALL_SETTINGS,
  NEW_MAC,
  OLD_MAC,
  SYSCTL,
  TunedLink,
  withAllowlist,
} from "./testing.ts";

/** Go 1.1.1 has no queue length, no allowlist, and no IFNAME in CHECK. */
const isOld = ({ cniVersion }: Peer): boolean => cniVersion === "1.0.0";

const OLD_ROWS: Readonly<Record<string, Keys>> = {
  "a sysctl": { sysctl: { [SYSCTL]: "1" } },
  "everything": {
    ...ALL_SETTINGS,
    txQLen: undefined,
    sysctl: { [SYSCTL]: "1" },
  },
};

const NEW_ROWS: Readonly<Record<string, Keys>> = {
  "nothing": {},
  "a sysctl": { sysctl: { [SYSCTL]: "1" } },
  "a sysctl with slashes": {
    sysctl: { "net/ipv4/conf/all/log_martians": "1" },
  },
  "a sysctl of the interface": {
    sysctl: { "net.ipv4.conf.IFNAME.arp_filter": "1" },
  },
  "MAC": { mac: NEW_MAC },
  "promiscuous mode": { promisc: true },
  "no promiscuous mode": { promisc: false },
  "MTU": { mtu: 1454 },
  "MTU 0": { mtu: 0 },
  "all-multicast mode": { allmulti: true },
  "no all-multicast mode": { allmulti: false },
  "queue": { txQLen: 20_000 },
  "everything": { ...ALL_SETTINGS, sysctl: { [SYSCTL]: "1" } },
  "args.cni": { args: { cni: { ...ALL_SETTINGS } } },
  "args.cni over the configuration": {
    ...ALL_SETTINGS,
    sysctl: { [SYSCTL]: "0" },
    args: { cni: { mtu: 0, txQLen: 0, sysctl: { [SYSCTL]: "1" } } },
  },
  "MACs by precedence": {
    mac: "02:00:00:00:00:01",
    RuntimeConfig: { mac: NEW_MAC },
  },
  "other spellings": { MTU: 1454, TXQLEN: 7, Promisc: true, unknown: 1 },
};

/** What a plugin did, without what differs from one run to the next. */
async function observe(
  who: Who,
  keys: Keys,
  cniVersion: string,
  changeOfPod?: string,
): Promise<unknown> {
  using scene = new TunedLink({ ...keys, cniVersion });
  const { interfaces, ips } = scene.prevResult;
  const version = cniVersion.startsWith("0.") ? { version: "4" } : {};
  const prevResult = {
    cniVersion,
    interfaces,
    ips: (ips as Keys[]).map((ip) => ({ ...version, ...ip })),
  };
  const added = await scene.run("ADD", { prevResult }, { who });
  assertEquals(added.exitCode, 0, added.stdout);
  const { dns, ...result } = added.json;
  assertEquals(dns ?? {}, {});
  const sandbox = scene.hosts.sandbox.path;
  const backups = Object.entries(scene.backups).map(([name, backup]) => {
    // A difference that is meant: GC needs the network's name.
    const { network: _, ...settings } = backup as Keys;
    return [name, settings];
  });
  const [link] = ipJson(scene.hosts.sandbox, "link", "show", "eth0");
  if (changeOfPod !== undefined) {
    const { sandbox } = scene.hosts;
    runIn(sandbox, "ip", ..."address add 10.0.0.2/24 dev eth0".split(" "));
    scene.change(changeOfPod);
  }
  const after = await scene.run("DEL", { prevResult: result }, { who });
  assertEquals(after.stdout, "");
  return {
    result: JSON.parse(
      JSON.stringify(result).replaceAll(sandbox, "SANDBOX"),
    ),
    backups,
    added: [link.address, link.mtu, link.txqlen, link.flags.sort()],
    sysctls: [
      scene.sysctl(),
      scene.sysctl("net/ipv4/conf/eth0/arp_filter"),
    ],
    left: [scene.link, scene.backups],
  };
}

for (const peer of listPeers("tuning")) {
  const ROWS = isOld(peer) ? OLD_ROWS : NEW_ROWS;
  for (const [name, keys] of Object.entries(ROWS)) {
    testLeavesTheSame(
      peer,
      ["tuning", name],
      (who) => observe(who, keys, peer.cniVersion),
    );
  }
  testLeavesTheSame(
    peer,
    ["tuning", "0.3.0"],
    (who) => observe(who, ROWS["everything"] ?? {}, "0.3.0"),
  );

  testLeavesTheSame(
    peer,
    ["tuning", "a MAC that the pod changes"],
    (who) =>
      observe(
        who,
        ROWS["everything"] ?? {},
        peer.cniVersion,
        "address 02:00:00:00:00:07",
      ),
  );

  for (const [adder, other] of [["ours", peer], [peer, "ours"]] as const) {
    rootTest(
      `tuning: what is added by ${nameOf(adder)} is checked and deleted by ${
        nameOf(other)
      }`,
      async (t) => {
        await eachRow(t, Object.entries(ROWS), async ([, keys]) => {
          const { cniVersion } = peer;
          using scene = new TunedLink({ ...keys, cniVersion });
          const { link: before } = scene;
          const prevResult = { ...scene.prevResult, cniVersion };
          const added = await scene.run("ADD", { prevResult }, { who: adder });
          assertEquals(added.exitCode, 0, added.stdout);
          const result = { prevResult: added.json };
          await scene.succeed("CHECK", result, { who: other });
          await scene.succeed("DEL", result, { who: other });
          assertEquals([scene.link, scene.backups], [before, {}]);
        });
      },
    );
  }

  rootTest(
    `tuning: DEL restores the same after an ADD of each plugin (${peer.name})`,
    async () => {
      const { cniVersion } = peer;
      using scene = new TunedLink({ ...ROWS["everything"], cniVersion });
      const { link: before } = scene;
      const prevResult = { ...scene.prevResult, cniVersion };
      const { json } = await scene.run("ADD", { prevResult }, { who: peer });
      await scene.succeed("ADD", { prevResult });
      await scene.succeed("DEL", { prevResult: json }, { who: peer });
      assertEquals([scene.link, scene.backups], [before, {}]);
    },
  );

  if (isOld(peer)) continue;

  rootTest(
    `tuning refuses the same input as the Go plugin, with its messages (${peer.name})`,
    async (t) => {
      const rows: [name: string, keys: Keys, text: RegExp, ifName?: string][] =
        [
          ["no result", { prevResult: undefined }, /^Required prevResult miss/],
          ["MAC", { mac: "x" }, /./],
          [
            "sysctl elsewhere",
            { sysctl: { "kernel.shmmax": "1" } },
            /^invalid net sysctl key: "kernel\/shmmax"/,
          ],
          [
            "no interface",
            { mtu: 1400 },
            /^failed to get "eth9": Link /,
            "eth9",
          ],
          ["a group's MAC", { mac: "01:00:5e:00:00:01" }, /./],
          ["big MTU", { mtu: 1e6 }, /./],
          ["negative MTU", { mtu: -1 }, /./],
          ["no such sysctl", { sysctl: { "net.none": "1" } }, /./],
          ["sysctl's value", { sysctl: { [SYSCTL]: "x" } }, /./],
          ["type", { mtu: "1500" }, /./],
        ];
      await eachRow(t, rows, async ([, keys, text, ifName = "eth0"]) => {
        const { cniVersion } = peer;
        for (const who of ["ours", peer] as const) {
          using scene = new TunedLink({ ...keys, cniVersion });
          const extras = "prevResult" in keys
            ? {}
            : { prevResult: { ...scene.prevResult, cniVersion } };
          const added = await scene.run("ADD", extras, { ifName, who });
          assertEquals(added.exitCode, 1);
          const { msg, details } = added.json;
          assert(text.test(`${msg}: ${details}`), added.stdout);
        }
      });
    },
  );

  rootTest(
    `tuning's CHECK fails with the Go plugin's messages (${peer.name})`,
    async (t) => {
      const rows: [change: string, keys: Keys][] = [
        ["address 02:00:00:00:00:07", { mac: NEW_MAC }],
        ["mtu 1300", { mtu: 1400 }],
        ["name eth1", { mtu: 1400 }],
        ["mtu 1400", { sysctl: { [SYSCTL]: "1" } }],
      ];
      await eachRow(t, rows, async ([change, keys]) => {
        const { cniVersion } = peer;
        using scene = new TunedLink({ ...keys, cniVersion });
        const prevResult = { ...scene.prevResult, cniVersion };
        scene.change(change);
        const texts = [];
        for (const who of ["ours", peer] as const) {
          const { json } = await scene.run("CHECK", { prevResult }, { who });
          texts.push(json.msg);
        }
        assertEquals(texts[0], texts[1]);
      });
    },
  );

  rootTest(
    `tuning allows the sysctls that the Go plugin allows (${peer.name})`,
    needsBin,
    async (t) => {
      const rows: [name: string, list: string, text: RegExp | undefined][] = [
        ["a match", "^net\\.ipv4\\.conf\\..*", undefined],
        ["flags", "(?i)NET\\.IPV4", undefined],
        ["classes", "^[[:alpha:]]+\\.[^.]+\\.\\w+\\.all\\b", undefined],
        [
          "no match",
          "net.ipv6\n tcp ",
          /^Sysctl \S+ is not allowed\. .*\[net.ipv6 tcp\]: undefined$/,
        ],
        ["nothing", "\n", /is not allowed\. Only .*: \[\]: undefined$/],
        ["a bad line", "[a\nnet", /missing closing \]/],
        ["a bad line later", "net\n[a", undefined],
        ["a look-ahead", "net(?=.)", /./],
      ];
      await eachRow(t, rows, ([, list, text]) => {
        for (const directory of [BIN, peer.directory]) {
          using scene = new TunedLink({ sysctl: { [SYSCTL]: "1" } });
          const { cniVersion } = peer;
          const prevResult = { ...scene.prevResult, cniVersion };
          const program = `${directory}/tuning`;
          const script = withAllowlist(scene.hosts.directory, program, list);
          const config = { ...scene.config, cniVersion, prevResult };
          const { stdout, json } = scene.hosts.exec(script, "ADD", config);
          if (text === undefined) assertEquals(json.code, undefined, stdout);
          else assert(text.test(`${json.msg}: ${json.details}`), stdout);
          assertEquals(scene.sysctl(), text === undefined ? "1" : "0");
        }
      });
    },
  );

  // Differences that are meant.
  rootTest(
    `tuning avoids known errors of the Go plugin (${peer.name})`,
    async (t) => {
      const { cniVersion } = peer;
      const both = async (
        keys: Keys,
        run: (scene: TunedLink, who: Who, prevResult: Keys) => Promise<unknown>,
      ): Promise<unknown[]> => {
        const outcomes = [];
        for (const who of ["ours", peer] as const) {
          using scene = new TunedLink({ ...keys, cniVersion });
          const prevResult = { ...scene.prevResult, cniVersion };
          outcomes.push(await run(scene, who, prevResult));
        }
        return outcomes;
      };
      await t.step("a backup survives when ADD is repeated", async () => {
        const macs = await both(
          ALL_SETTINGS,
          async (scene, who, prevResult) => {
            await scene.run("ADD", { prevResult }, { who });
            const { json } = await scene.run("ADD", { prevResult }, { who });
            await scene.run("DEL", { prevResult: json }, { who });
            return scene.link.mac;
          },
        );
        assertEquals(macs, [OLD_MAC, NEW_MAC]);
      });
      await t.step("a failed ADD leaves nothing", async () => {
        const keys = { mac: NEW_MAC, mtu: 1e6 };
        const left = await both(keys, async (scene, who, prevResult) => {
          await scene.run("ADD", { prevResult }, { who });
          return [scene.link.mac, Object.keys(scene.backups).length];
        });
        assertEquals(left, [[OLD_MAC, 0], [NEW_MAC, 1]]);
      });
      await t.step("DEL without the namespace removes the backup", async () => {
        const left = await both(
          { mtu: 1400 },
          async (scene, who, prevResult) => {
            await scene.run("ADD", { prevResult }, { who });
            const env = { CNI_NETNS: "/run/netns/none" };
            const { exitCode } = await scene.run(
              "DEL",
              { prevResult },
              { env, who },
            );
            return [exitCode, Object.keys(scene.backups).length];
          },
        );
        assertEquals(left, [[0, 0], [0, 1]]);
      });
      await t.step("CHECK accepts a promiscuous interface", async () => {
        const codes = await both(
          { mtu: 1400 },
          async (scene, who, prevResult) => {
            await scene.run("ADD", { prevResult }, { who });
            scene.change("promisc on");
            return (await scene.run("CHECK", { prevResult }, { who })).exitCode;
          },
        );
        assertEquals(codes, [0, 1]);
      });
      await t.step("CHECK compares MACs and numbers, not texts", async () => {
        const keys = {
          mac: NEW_MAC.toUpperCase(),
          sysctl: { "net.ipv4.ip_local_port_range": "20000 30000" },
        };
        const codes = await both(keys, async (scene, who, prevResult) => {
          const { json } = await scene.run("ADD", { prevResult }, { who });
          const result = { prevResult: json };
          return (await scene.run("CHECK", result, { who })).exitCode;
        });
        assertEquals(codes, [0, 1]);
      });
      await t.step("sysctls of args.cni alone", async () => {
        const keys = { args: { cni: { sysctl: { [SYSCTL]: "1" } } } };
        const codes = await both(keys, async (scene, who, prevResult) => {
          const { stderr } = await scene.run("ADD", { prevResult }, { who });
          return [scene.sysctl(), /panic/.test(stderr)];
        });
        assertEquals(codes[0], ["1", false]);
        assertEquals((codes[1] as unknown[])[0], "0");
      });
    },
  );
}
