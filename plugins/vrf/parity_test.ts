/**
 * vrf  compared with the Go plugin: what each leaves in the container on the
 * same configuration, and one checking and taking down what the other has
 * added. The differences that are meant are listed here, and nowhere else is a
 * difference allowed.
 */

import { assertEquals, assertStringIncludes } from "@std/assert";
import { rootTest } from "../../testing/capabilities.ts";
import { runIn } from "../../testing/ip_json.ts";
import { listPeers, nameOf, type Who } from "../../tests/_harness/parity.ts";
import type { Peer } from "../../tests/_harness/peers.ts";
import type { Keys } from "../../tests/_harness/plugin_scene.ts";
import { eachRow } from "../../tests/_harness/table.ts";
import { needsVrf, VrfScene } from "./testing.ts";

const LINES = [
  "address add 10.0.0.2/24 dev eth0",
  "address add 2001:db8::2/64 dev eth0 nodad",
  "route add 10.10.10.0/24 via 10.0.0.7",
  "route add default via 10.0.0.1",
  "route add 2001:db8:7::/48 via 2001:db8::7",
];

const ROWS: Readonly<Record<string, Keys>> = {
  "a new VRF": { vrfname: "blue" },
  "its table": { vrfName: "blue", table: 1001 },
  "an existing VRF": { vrfname: "red" },
  "a free table": { vrfname: "green", table: 0 },
};

/** Go 1.1.1 does not keep routes. */
const isOld = ({ cniVersion }: Peer): boolean => cniVersion === "1.0.0";

/** Adds a VRF with a port beside it. */
const BESIDE = ["link add red type vrf table 1", "link set eth1 master red"];

/** What there is, without our IPv6 addresses' `nodad`, which is meant. */
function stateOf(scene: VrfScene): string[] {
  return scene.state.map((line) => line.replace(/ nodad$/, "").trimEnd());
}

for (const peer of listPeers("vrf")) {
  const lines = isOld(peer) ? LINES.slice(0, 2) : LINES;
  rootTest(
    `vrf creates the same network as the Go plugin (${peer.name})`,
    needsVrf,
    async (t) => {
      await eachRow(t, Object.entries(ROWS), async ([, keys]) => {
        const states = [];
        for (const who of ["ours", peer] as const) {
          using scene = new VrfScene(keys, [...lines, ...BESIDE]);
          const { json, stdout } = await scene.run("ADD", {}, { who });
          assertEquals(json.code, undefined, stdout);
          const { dns: _, ...result } = json;
          assertEquals(result, scene.prevResult);
          states.push(stateOf(scene));
        }
        assertEquals(states[0], states[1]);
      });
    },
  );

  for (const [adder, other] of [["ours", peer], [peer, "ours"]] as const) {
    rootTest(
      `vrf: what is added by ${nameOf(adder)} is checked and deleted by ${
        nameOf(other)
      }`,
      needsVrf,
      async (t) => {
        await eachRow(t, Object.entries(ROWS), async ([, keys]) => {
          using scene = new VrfScene(keys, [...lines, ...BESIDE]);
          const { links } = scene;
          const before = stateOf(scene);
          const { json } = await scene.run("ADD", {}, { who: adder });
          const result = { prevResult: json };
          await scene.succeed("CHECK", result, { who: other });
          await scene.succeed("DEL", result, { who: other });
          assertEquals(scene.links, links);
          // The Go plugin loses routes and IPv6 addresses.
          if (other === "ours") assertEquals(stateOf(scene), before);
        });
      },
    );
  }

  if (isOld(peer)) continue;

  rootTest(
    `vrf refuses the same input as the Go plugin, with its messages (${peer.name})`,
    needsVrf,
    async (t) => {
      const rows: [name: string, keys: Keys, text: string, ifName?: string][] =
        [
          [
            "no name",
            {},
            "configuration is expected to have a valid vrf name",
          ],
          [
            "no result",
            { vrfname: "blue", prevResult: undefined },
            "missing prevResult from earlier plugin",
          ],
          [
            "another table",
            { vrfname: "red", table: 7 },
            "VRF red already exist with different routing table 1",
          ],
          ["another link", { vrfname: "eth1" }, "Netlink eth1 is not a VRF"],
          [
            "another master",
            { vrfname: "blue" },
            "interface eth1 has already a master set: red",
            "eth1",
          ],
          [
            "no interface",
            { vrfname: "blue" },
            "could not get link by name eth9",
            "eth9",
          ],
        ];
      await eachRow(t, rows, async ([, keys, text, ifName = "eth0"]) => {
        for (const who of ["ours", peer] as const) {
          using scene = new VrfScene(keys, BESIDE);
          const { json } = await scene.run("ADD", {}, { ifName, who });
          assertStringIncludes(json.msg, text);
        }
      });
      await t.step("CHECK", async () => {
        const text = "failed to find eth0 associated to vrf red";
        for (const who of ["ours", peer] as const) {
          using scene = new VrfScene({ vrfname: "red" }, BESIDE);
          const { json } = await scene.run("CHECK", {}, { who });
          assertEquals(json.msg, text);
        }
      });
    },
  );

  // Differences that are meant.
  rootTest(
    `vrf avoids known errors of the Go plugin (${peer.name})`,
    needsVrf,
    async (t) => {
      const both = async (
        lines: readonly string[],
        run: (scene: VrfScene, who: Who) => Promise<unknown>,
      ): Promise<unknown[]> => {
        const outcomes = [];
        for (const who of ["ours", peer] as const) {
          using scene = new VrfScene({ vrfname: "blue" }, lines);
          outcomes.push(await run(scene, who));
        }
        return outcomes;
      };
      await t.step("DEL without the interface", async () => {
        const outcomes = await both(LINES, async (scene, who) => {
          await scene.run("ADD", {}, { who });
          scene.ip("link del eth0");
          const { exitCode } = await scene.run("DEL", {}, { who });
          return [exitCode, scene.links];
        });
        assertEquals(outcomes, [[0, ["eth1"]], [1, ["eth1", "blue 1"]]]);
      });
      await t.step("ADD again", async () => {
        const outcomes = await both(LINES, async (scene, who) => {
          await scene.run("ADD", {}, { who });
          return (await scene.run("ADD", {}, { who })).exitCode;
        });
        assertEquals(outcomes, [0, 1]);
      });
      await t.step("a failed ADD", async () => {
        const outcomes = await both(BESIDE, async (scene, who) => {
          await scene.run("ADD", {}, { ifName: "eth1", who });
          return scene.links.includes("blue 2");
        });
        assertEquals(outcomes, [false, true]);
      });
      await t.step("DEL of an interface that is elsewhere", async () => {
        const lines = [...BESIDE, "link add blue type vrf table 2"];
        const outcomes = await both(lines, async (scene, who) => {
          await scene.run("DEL", {}, { ifName: "eth1", who });
          return runIn(scene.hosts.sandbox, "ip", "link", "show", "eth1")
            .includes("master red");
        });
        assertEquals(outcomes, [true, false]);
      });
      await t.step(
        "routes of other tables, and to hosts on the link",
        async () => {
          const lines = [
            ...LINES,
            "route add 10.0.1.1 dev eth0 scope link",
            "route add 10.3.0.0/16 via 10.0.0.7 table 5000",
          ];
          const outcomes = await both(lines, async (scene, who) => {
            await scene.run("ADD", {}, { who });
            return scene.state.filter((line) => /^10\.(0\.1|3)\./.test(line))
              .length;
          });
          assertEquals(outcomes, [2, 0]);
        },
      );
    },
  );
}
