/**
 * GC and STATUS.
 *
 * @module
 */

import type { Requirement } from "../requirement.ts";
import { expect, Untried } from "../verdict.ts";
import {
  type Attachment,
  type Changes,
  describeReply,
  type Scene,
} from "../scene.ts";

const VALID = "cni.dev/valid-attachments";

/** Lists attachments that are still valid, as runtimes do for GC. */
function valid(...all: readonly Attachment[]): Changes {
  return {
    keys: {
      prevResult: undefined,
      [VALID]: all.map(({ containerId, ifName }) => ({
        containerID: containerId,
        ifname: ifName,
      })),
    },
  };
}

/** Runs GC, which must change nothing. */
async function keepsAll(
  scene: Scene,
  changesFor: (one: Attachment) => Changes,
): Promise<void> {
  const one = await scene.added();
  const [before, inside] = [scene.state(), scene.stateOf(one)];
  await scene.call("GC", undefined, changesFor(one));
  await scene.same(before, () => scene.state(), "GC changed");
  await scene.same(inside, () => scene.stateOf(one), "GC changed");
}

function several(scene: Scene): void {
  if ((scene.subject.most ?? 2) < 2) {
    throw new Untried("it attaches one container at a time");
  }
}

export const UPKEEP_REQUIREMENTS: readonly Requirement[] = [
  {
    id: "gc",
    title: "GC succeeds, and prints nothing",
    section: "2 GC",
    strength: "SHOULD",
    since: "1.1.0",
    async run(scene): Promise<void> {
      const { stdout } = await scene.succeed("GC", undefined, valid());
      expect(stdout.trim() === "", `it prints ${JSON.stringify(stdout)}`);
    },
  },
  {
    id: "gc-keeps",
    title: "GC does not change what belongs to valid attachments",
    section: "2 GC",
    strength: "MUST",
    since: "1.1.0",
    run: (scene) => keepsAll(scene, valid),
  },
  {
    id: "gc-stale",
    title: "GC removes what deleted containers left behind",
    section: "2 GC",
    strength: "SHOULD",
    since: "1.1.0",
    async run(scene): Promise<void> {
      several(scene);
      await scene.warmUp();
      const stays = await scene.added();
      const before = scene.state();
      const goes = await scene.added();
      await scene.remove(goes);
      await scene.succeed("GC", undefined, valid(stays));
      await scene.same(before, () => scene.state(), "after GC");
    },
  },
  {
    id: "gc-other-network",
    title: "GC of one network does not change another network's attachments",
    section: "2 GC",
    strength: "MUST",
    since: "1.1.0",
    run: (scene) =>
      keepsAll(scene, () => ({ keys: { ...valid().keys, name: "net2" } })),
  },
  {
    id: "status",
    title: "STATUS succeeds if ADD would",
    section: "2 STATUS",
    strength: "MUST",
    since: "1.1.0",
    async run(scene): Promise<void> {
      const { exit } = await scene.call("STATUS");
      await scene.added();
      expect(exit === "0", "STATUS fails although ADD succeeds");
      if (scene.subject.most !== 1) await scene.succeed("STATUS");
    },
  },
  {
    id: "status-full",
    title:
      "STATUS succeeds or fails with code 50 or 51 if there is no room for another container",
    section: "2 STATUS",
    strength: "SHOULD",
    since: "1.1.0",
    kinds: ["ipam"],
    async run(scene): Promise<void> {
      const { full } = scene.subject;
      if (full === undefined) throw new Untried("no configuration is full");
      await scene.added(undefined, { keys: full });
      const next = await scene.container();
      const more = await scene.call("ADD", next, { keys: full });
      if (more.exit === "0") throw new Untried("there was room for a second");
      const keys = { ...full, prevResult: undefined };
      const reply = await scene.call("STATUS", undefined, { keys });
      const isExpected = reply.exit === "0" ||
        [50, 51].includes(reply.json?.code);
      expect(isExpected, describeReply(reply));
    },
  },
];
