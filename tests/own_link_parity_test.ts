/**
 * dummy and tap  compared with the Go plugins: what each leaves in the sandbox,
 * what it reports, and one checking and deleting what the other has created.
 * The differences that are meant are listed here, and nowhere else is a
 * difference allowed.
 */

import { assert, assertEquals } from "@std/assert";
import { isExecutable, rootTest } from "../testing/capabilities.ts";
import { ipJson, linkNames, runIn } from "../testing/ip_json.ts";
import {
  needsOwnLink,
  ownLinkScene,
  type OwnLinkType,
} from "./_harness/own_link_cases.ts";
import {
  ASKED_MAC,
  listPeers,
  nameOf,
  normaliseResult,
  observeNetns,
  type Who,
} from "./_harness/parity.ts";
import type { Peer } from "./_harness/peers.ts";
import type { Keys, PluginScene } from "./_harness/plugin_scene.ts";
import type { CallOutput } from "../testing/test_hosts.ts";
import { eachRow } from "./_harness/table.ts";

const ROWS: Readonly<Record<OwnLinkType, readonly [string, Keys][]>> = {
  dummy: [["addresses of both families", {}]],
  tap: [
    ["addresses of both families", {}],
    ["no IPAM", { ipam: undefined }],
    ["settings", { mac: ASKED_MAC, mtu: 1400, multiQueue: true }],
    ["an owner", { owner: 4242 }],
    ["an owner and a group", { owner: 4242, group: 4243 }],
    ["a bridge", { bridge: "br0", ipam: undefined }],
  ],
};

/** Keys that the Go plugin ignores together with an owner and a group. */
const IGNORED: readonly (readonly [string, Keys])[] = [
  ["mtu and mac", { owner: 1, group: 1, mtu: 1400, mac: ASKED_MAC }],
];

const ERRORS: Readonly<Record<OwnLinkType, readonly [Keys, string][]>> = {
  dummy: [[{ ipam: undefined }, "dummy interface requires an IPAM"]],
  tap: [
    [{ bridge: "br9" }, "failed to get bridge br9: Link not found"],
  ],
};

async function succeed(
  who: Who,
  scene: PluginScene,
  command: string,
  extras: Keys = {},
): Promise<CallOutput> {
  const output = await scene.run(command, extras, { who });
  assertEquals(output.exitCode, 0, output.stdout + output.stderr);
  return output;
}

function makeScene(type: OwnLinkType, keys: Keys): PluginScene {
  const scene = ownLinkScene(type, keys);
  const add = ["ip", "link", "add", "br0", "type", "bridge"] as const;
  if (keys["bridge"] === "br0") runIn(scene.hosts.sandbox, ...add);
  return scene;
}

/**
 * Two differences that are meant: our interfaces have an alias, and `pi` and
 * `vnet_hdr` of a tap do not depend on its owner. Programs that open the device
 * set these two.
 */
async function observe(
  type: OwnLinkType,
  keys: Keys,
  who: Who,
): Promise<unknown> {
  using scene = makeScene(type, keys);
  const { hosts } = scene;
  const { stdout } = await succeed(who, scene, "ADD");
  const [link] = ipJson(hosts.sandbox, "link", "show", "eth0");
  const { pi: _pi, vnet_hdr: _header, ...data } = link.linkinfo.info_data ?? {};
  const { links, routes } = await observeNetns(hosts.sandbox);
  return {
    result: normaliseResult(stdout, hosts),
    sandbox: { links: links.map(withoutState), routes },
    data,
  };
}

/** The kernel notices a little later that a tap has no carrier. */
function withoutState(link: unknown): unknown {
  return { ...(link as Keys), state: undefined };
}

function testBeside(type: OwnLinkType, peer: Peer): void {
  const needs = needsOwnLink(type);
  rootTest(`${type} leaves what ${peer.name} leaves`, needs, async (t) => {
    await eachRow(t, ROWS[type], async ([, keys]) => {
      assertEquals(
        await observe(type, keys, "ours"),
        await observe(type, keys, peer),
      );
    });
  });

  rootTest(`${type} prints the errors of ${peer.name}`, needs, async (t) => {
    await eachRow(t, ERRORS[type], async ([keys, text]) => {
      for (const who of ["ours", peer] as const) {
        using scene = makeScene(type, keys);
        const { json } = await scene.run("ADD", {}, { who });
        assert(json.msg.startsWith(text), `${nameOf(who)}: ${json.msg}`);
        if (who !== "ours") continue;
        assertEquals(linkNames(scene.hosts.sandbox), ["lo"]);
      }
    }, ([, text]) => text);
  });

  for (const [adder, other] of [["ours", peer], [peer, "ours"]] as const) {
    rootTest(
      `${type}: what ${nameOf(adder)} creates, ${
        nameOf(other)
      } checks and deletes`,
      needs,
      async (t) => {
        const rows = [...ROWS[type], ...type === "tap" ? IGNORED : []];
        await eachRow(t, rows, async ([, keys]) => {
          using scene = makeScene(type, keys);
          const before = linkNames(scene.hosts.sandbox);
          const { json: prevResult } = await succeed(adder, scene, "ADD");
          await succeed(other, scene, "CHECK", { prevResult });
          await succeed(other, scene, "DEL", { prevResult });
          assertEquals(linkNames(scene.hosts.sandbox), before);
          assertEquals(scene.hosts.leases(), []);
        });
      },
    );
  }
}

// Go 1.1.1 has neither.
for (const peer of listPeers("dummy and tap")) {
  for (const type of ["dummy", "tap"] as const) {
    if (isExecutable(`${peer.directory}/${type}`)) testBeside(type, peer);
  }
}
