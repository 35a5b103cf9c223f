/**
 * What plugins outside of this project leave, if they tell tools of themselves.
 *
 * @module
 */

import { ifPossible } from "../../base/files/io.ts";
import { askPlugin } from "../../cni/invoke/ask_plugin.ts";
import { findPlugin as findExecutable } from "../../cni/invoke/find.ts";
import type { JsonObject } from "../../base/json/json.ts";
import type { Orphan } from "../../cni/tools/leftovers.ts";
import type { ToldLeftover } from "../../cni/tools/tool_question.ts";
import { Ip, unlessNoAddress } from "../../net/ip.ts";
import { pluginNames } from "../../plugins/registry.ts";
import { listPlugins, readConfs, type Scene } from "./search.ts";

/** Asks each plugin that a configuration names. */
export async function askOthers(scene: Scene): Promise<Orphan[]> {
  const confs = readConfs(scene).flatMap(listPlugins)
    .filter(({ type }) => !pluginNames.includes(String(type)));
  const orphans: Orphan[] = [];
  for (const [type, own] of Map.groupBy(confs, ({ type }) => String(type))) {
    const { pluginDirs } = scene;
    const path = ifPossible(() => findExecutable(type, pluginDirs));
    if (path !== undefined) orphans.push(...await ask(scene, path, own));
  }
  return orphans;
}

async function ask(
  { hostNetns, evidence, env, signal }: Scene,
  path: string,
  confs: readonly JsonObject[],
): Promise<Orphan[]> {
  const question = {
    ask: "leftovers",
    hostNetns,
    path: env["PATH"] ?? "",
    confs,
  } as const;
  const options = { env, signal };
  const answer = await askPlugin(path, question, options);
  return (answer?.leftovers ?? []).flatMap((told) => {
    const { kind, where, container, network } = told;
    const why = told.why || evidence.findProof(claimOf(told));
    return !why ? [] : [{
      kind,
      where,
      container,
      network,
      why,
      async remove(): Promise<void> {
        const removed = { ...question, remove: [where] };
        if (await askPlugin(path, removed, options) === undefined) {
          throw new Error(`Cannot remove ${where}: ${path} failed`);
        }
      },
    }];
  });
}

function claimOf(
  { claim = {} }: ToldLeftover,
): Parameters<Scene["evidence"]["findProof"]>[0] {
  const { addresses = [], since, ...others } = claim;
  return {
    ...others,
    addresses: addresses
      .flatMap((text) => unlessNoAddress(() => Ip.parse(text)) ?? []),
    since: since === undefined ? undefined : new Date(since),
  };
}
