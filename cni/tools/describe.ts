/**
 * Answers what tools ask a plugin's executable, for plugins that are not part of
 * this project: they are validated, explained and cleaned up like its own.
 *
 * @module
 */

import type { About } from "./about.ts";
import { foldKeys, type JsonObject, listIssues } from "../../base/json/json.ts";
import { describePlugin } from "./json_schema.ts";
import type {
  Claim,
  Leftovers,
  LeftoverSearch,
  Orphan,
  Proofs,
} from "./leftovers.ts";
import { createLog } from "../../base/log/log.ts";
import type { Plugin } from "../plugin.ts";
import type { KeyFacts } from "./plugin_keys.ts";
import { errorAt } from "./problem.ts";
import type {
  Description,
  LeftoverAnswer,
  LeftoverQuestion,
  LintAnswer,
  Question,
  ToldLeftover,
} from "./tool_question.ts";

/** A plugin's answers to tools. */
export interface Told {
  /** Facts about it. */
  readonly about: About;
  /** The plugin's task, in a sentence. */
  readonly text: string;
  /** A configuration: a list, or the plugin's own object. */
  readonly example?: Readonly<Record<string, unknown>>;
  /** Keys that it cannot do without, although its schema does. */
  readonly required?: readonly string[];
  /** Its keys' meanings, by path; an IPAM plugin's keys are in `ipam`. */
  readonly keys?: Readonly<Record<string, KeyFacts>>;
  /** Its possible leftovers on a node. */
  readonly leftovers?: Leftovers;
}

/** Answers a question about a plugin. */
export async function answerTools(
  question: Question,
  plugin: Plugin,
  told: Told,
): Promise<Description | LintAnswer | LeftoverAnswer> {
  switch (question.ask) {
    case "describe":
      return await describe(plugin, told);
    case "lint":
      return await lint(question, plugin, told);
    case "leftovers":
      return await findLeftovers(question, told);
  }
}

async function describe(
  { configSchema }: Plugin,
  { about, keys = {}, ...others }: Told,
): Promise<Description> {
  const table = { keys, ...others };
  const schema = await configSchema();
  return {
    about,
    schema: describePlugin({ about, keys: table, schema }, []),
    secrets: Object.entries(keys)
      .flatMap(([path, { isSecret }]) =>
        isSecret ? path.split(".").slice(-1) : []
      ),
  };
}

async function lint(
  { conf, ...given }: Extract<Question, { ask: "lint" }>,
  { configSchema }: Plugin,
  { about }: Told,
): Promise<LintAnswer> {
  const schema = await configSchema();
  const folded = foldKeys(schema, conf) as JsonObject;
  return {
    problems: [
      ...listIssues(schema, conf)
        .map(({ path, message }) => errorAt(path, message)),
      ...about.lint?.({ ...given, conf: folded, isOurs: true }) ?? [],
    ],
  };
}

/**
 * Notes what is claimed, which the tool that asks compares with what is alive. In
 * place of a reason, a leftover gets a text that no reason is.
 */
class NotedClaims implements Proofs {
  readonly #claims = new Map<string, ToldLeftover["claim"]>();
  readonly isBusy = false;

  isAlive(): boolean {
    return false;
  }

  findProof(claim: Claim): string {
    const note = crypto.randomUUID();
    this.#claims.set(note, encodeClaim(claim));
    return note;
  }

  /** Tells a leftover with its claim or, if it made none, with its reason. */
  tell({ kind, where, container, network, why }: Orphan): ToldLeftover {
    const told = { kind, where, container, network };
    const claim = this.#claims.get(why);
    return claim === undefined ? { ...told, why } : { ...told, why: "", claim };
  }
}

function encodeClaim(
  { addresses, since, ...claim }: Claim,
): ToldLeftover["claim"] {
  return {
    ...claim,
    ...addresses && { addresses: addresses.map(String) },
    ...since && { since: since.getTime() },
  };
}

async function findLeftovers(
  { hostNetns, path, confs, remove = [] }: LeftoverQuestion,
  { leftovers }: Told,
): Promise<LeftoverAnswer> {
  const { state, finders = [] } = leftovers ?? {};
  const named = confs.map((conf) => state && conf[state.key])
    .filter((place) => typeof place === "string" && place.startsWith("/"));
  const refuse = (): never => {
    throw new Error("not available to plugins outside of the executable");
  };
  const claims = new NotedClaims();
  const search: LeftoverSearch = {
    hostNetns,
    env: { PATH: path },
    invoker: { invoke: refuse },
    log: createLog({}, () => {}),
    evidence: claims,
    renew: () => claims,
    places: [...new Set([...state ? [state.usual] : [], ...named as string[]])],
    pluginDirs: [],
  };
  const orphans: Orphan[] = [];
  for (const find of finders) orphans.push(...await find(search));
  for (const orphan of orphans) {
    if (remove.includes(orphan.where)) await orphan.remove();
  }
  return { leftovers: orphans.map((orphan) => claims.tell(orphan)) };
}
