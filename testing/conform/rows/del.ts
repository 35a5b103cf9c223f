/**
 * DEL, in all that can have happened before.
 *
 * @module
 */

import { pause } from "../../../base/deadline.ts";
import type { Requirement } from "../requirement.ts";
import { expect, Untried } from "../verdict.ts";
import {
  type Attachment,
  type Changes,
  describeReply,
  type Scene,
} from "../scene.ts";
import type { State } from "../state.ts";
import { attachIn } from "./add.ts";

/** Attaches, does something, and expects a DEL that leaves nothing. */
async function deleted(
  scene: Scene,
  {
    meanwhile = () => {},
    changes = () => ({}),
    isGone = false,
  }: {
    readonly meanwhile?: (one: Attachment) => void | Promise<void>;
    readonly changes?: (one: Attachment) => Changes;
    readonly isGone?: boolean;
  },
): Promise<void> {
  await scene.warmUp();
  const empty = scene.state();
  const one = await scene.container();
  const [before, inside] = [scene.state(), scene.stateOf(one)];
  await scene.added(one);
  await meanwhile(one);
  await scene.succeed("DEL", one, changes(one));
  if (!isGone) {
    const now = (): State => scene.stateOf(one);
    await scene.same(before, () => scene.state(), "after DEL");
    await scene.same(inside, now, "after DEL, in the container");
    await scene.remove(one);
  }
  await scene.same(empty, () => scene.state(), "after DEL");
}

export const DEL_REQUIREMENTS: readonly Requirement[] = [
  {
    id: "del",
    title: "DEL undoes everything that ADD did",
    section: "2 DEL",
    strength: "SHOULD",
    async run(scene): Promise<void> {
      await deleted(scene, {});
    },
  },
  {
    id: "del-versions",
    title: "DEL works in each version that VERSION lists",
    section: "1 Version considerations",
    strength: "MUST",
    async run(scene): Promise<void> {
      for (const version of scene.versions) {
        const { added, deleted } = await attachIn(scene, version);
        if (added.exit !== "0") {
          throw new Untried(`ADD failed: ${describeReply(added)}`);
        }
        expect(
          deleted.exit === "0",
          `${version}: DEL failed: ${describeReply(deleted)}`,
        );
      }
    },
  },
  {
    id: "del-twice",
    title: "A second and a third DEL succeed",
    section: "2 DEL",
    strength: "MUST",
    async run(scene): Promise<void> {
      const one = await scene.added();
      for (let time = 0; time < 3; time++) await scene.succeed("DEL", one);
    },
  },
  {
    id: "del-never-added",
    title: "DEL of an unknown attachment succeeds, and changes nothing",
    section: "2 DEL",
    strength: "MUST",
    async run(scene): Promise<void> {
      await scene.warmUp();
      const one = await scene.container();
      const [before, inside] = [scene.state(), scene.stateOf(one)];
      // A chained plugin's prevResult is in the newest version.
      for (const cniVersion of scene.versions) {
        const isOwn = cniVersion === scene.version;
        await scene.succeed("DEL", one, {
          keys: { cniVersion, ...isOwn ? {} : { prevResult: undefined } },
        });
      }
      await scene.same(before, () => scene.state(), "DEL changed");
      await scene.same(inside, () => scene.stateOf(one), "DEL changed");
    },
  },
  {
    id: "del-without-netns",
    title: "DEL succeeds without CNI_NETNS",
    section: "2 DEL",
    strength: "MUST",
    async run(scene): Promise<void> {
      for (const CNI_NETNS of [undefined, ""]) {
        const one = await scene.added();
        await scene.succeed("DEL", one, { env: { CNI_NETNS } });
      }
    },
  },
  {
    id: "del-netns-gone",
    title: "DEL after the namespace was deleted leaves nothing on the node",
    section: "2 DEL",
    strength: "SHOULD",
    async run(scene): Promise<void> {
      await deleted(scene, {
        isGone: true,
        async meanwhile(one): Promise<void> {
          await scene.remove(one);
          await pause(50);
        },
      });
    },
  },
  {
    id: "del-link-gone",
    title: "DEL succeeds if the interface is missing",
    section: "2 DEL",
    strength: "MUST",
    kinds: ["interface", "chained"],
    async run(scene): Promise<void> {
      if (scene.subject.ifName === "lo") throw new Untried("lo cannot go");
      const one = await scene.added();
      scene.shell(`ip link del ${one.ifName}`, one);
      await scene.succeed("DEL", one);
    },
  },
  {
    id: "del-without-prev-result",
    title: "DEL without prevResult succeeds",
    section: "2 DEL",
    strength: "SHOULD",
    async run(scene): Promise<void> {
      const one = await scene.added();
      await scene.succeed("DEL", one, { keys: { prevResult: undefined } });
    },
  },
  {
    id: "del-without-prev-result-clean",
    title: "DEL without prevResult leaves nothing",
    section: "2 DEL",
    strength: "PRACTICE",
    async run(scene): Promise<void> {
      await deleted(scene, {
        changes: () => ({ keys: { prevResult: undefined } }),
      });
    },
  },
  {
    id: "del-wrong-prev-result",
    title:
      "DEL with another container's prevResult does not change that container",
    section: "2 DEL",
    strength: "PRACTICE",
    async run(scene): Promise<void> {
      if ((scene.subject.most ?? 2) < 2) {
        throw new Untried("it attaches one container at a time");
      }
      const one = await scene.added(), other = await scene.added();
      const inside = scene.stateOf(other);
      const wrong = other.prevResult;
      await scene.call("DEL", one, { keys: { prevResult: wrong } });
      await scene.same(
        inside,
        () => scene.stateOf(other),
        "DEL changed the other container",
      );
      if (scene.has("CHECK")) {
        const { exit } = await scene.call("CHECK", other);
        expect(exit === "0", "CHECK of the other container fails");
      }
    },
  },
  {
    id: "del-others-stay",
    title:
      "DEL of one container does not change another container's attachment",
    section: "2 DEL",
    strength: "MUST",
    async run(scene): Promise<void> {
      if ((scene.subject.most ?? 2) < 2) {
        throw new Untried("it attaches one container at a time");
      }
      await scene.warmUp();
      const other = await scene.added();
      const [before, inside] = [scene.state(), scene.stateOf(other)];
      const one = await scene.added();
      await scene.succeed("DEL", one);
      await scene.remove(one);
      await scene.same(before, () => scene.state(), "DEL changed");
      await scene.same(inside, () => scene.stateOf(other), "DEL changed");
    },
  },
  {
    id: "cut-short",
    title: "One DEL is enough after an ADD that stopped at any point",
    section: "3 Lifecycle & Ordering",
    strength: "SHOULD",
    async run(scene): Promise<void> {
      await scene.way.cutShort(scene);
    },
  },
];
