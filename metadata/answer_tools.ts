/**
 * Answers what tools ask a plugin's executable, for plugins that are not part of
 * this project: they are validated, explained and cleaned up like its own.
 *
 * @module
 */

import type { PluginMetadata } from "./plugin_metadata.ts";
import { foldKeys, type JsonObject, listIssues } from "../base/json/json.ts";
import { describePlugin } from "./json_schema.ts";
import type {
  Evidence,
  Orphan,
  OrphanOwner,
  OrphanSearch,
  PluginOrphans,
} from "./orphans.ts";
import { createLog } from "../base/log/log.ts";
import type { Plugin } from "../cni/plugin.ts";
import type { KeyDescription } from "./plugin_keys.ts";
import { errorAt } from "./problem.ts";
import type {
  DescribeAnswer,
  LintAnswer,
  OrphanAnswer,
  OrphanQuestion,
  Question,
  ReportedOrphan,
} from "./tool_question.ts";

/** The description of a plugin for tools. */
export interface PluginDescription {
  /** Metadata about it. */
  readonly metadata: PluginMetadata;
  /** The plugin's task, in a sentence. */
  readonly text: string;
  /** A configuration: a list, or the plugin's own object. */
  readonly example?: Readonly<Record<string, unknown>>;
  /** Keys that it cannot do without, although its schema does. */
  readonly required?: readonly string[];
  /** Its keys' meanings, by path; an IPAM plugin's keys are in `ipam`. */
  readonly keys?: Readonly<Record<string, KeyDescription>>;
  /** Its possible orphans on a node. */
  readonly orphans?: PluginOrphans;
}

/**
 * Answers a question about a plugin.
 *
 * @param asked A question, as `answerTools` of a plugin gets it
 */
export async function answerTools(
  asked: Question | { readonly ask: string },
  plugin: Plugin,
  description: PluginDescription,
): Promise<DescribeAnswer | LintAnswer | OrphanAnswer> {
  const question = asked as Question;
  switch (question.ask) {
    case "describe":
      return await describe(plugin, description);
    case "lint":
      return await lint(question, plugin, description);
    case "leftovers":
      return await answerOrphans(question, description);
  }
}

async function describe(
  { configSchema }: Plugin,
  { metadata, keys = {}, ...others }: PluginDescription,
): Promise<DescribeAnswer> {
  const table = { keys, ...others };
  const schema = await configSchema();
  return {
    about: metadata,
    schema: describePlugin({ metadata, keys: table, schema }, []),
    secrets: Object.entries(keys)
      .flatMap(([path, { isSecret }]) =>
        isSecret ? path.split(".").slice(-1) : []
      ),
  };
}

async function lint(
  { conf, ...given }: Extract<Question, { ask: "lint" }>,
  { configSchema }: Plugin,
  { metadata }: PluginDescription,
): Promise<LintAnswer> {
  const schema = await configSchema();
  const folded = foldKeys(schema, conf) as JsonObject;
  return {
    problems: [
      ...listIssues(schema, conf)
        .map(({ path, message }) => errorAt(path, message)),
      ...metadata.lint?.({ ...given, conf: folded, isOurs: true }) ?? [],
    ],
  };
}

/** Leaves the decision to the tool that asks, which has the evidence. */
const UNDECIDED: Evidence = {
  isBusy: false,
  isAlive: () => false,
  findReason: (owner) => ({ why: "", owner }),
};

function report(
  { kind, where, container, network, why, owner }: Orphan,
): ReportedOrphan {
  const reported = { kind, where, container, network, why };
  return owner === undefined
    ? reported
    : { ...reported, claim: encodeOwner(owner) };
}

function encodeOwner(
  { addresses, since, ...owner }: OrphanOwner,
): NonNullable<ReportedOrphan["claim"]> {
  return {
    ...owner,
    ...addresses && { addresses: addresses.map(String) },
    ...since && { since: since.getTime() },
  };
}

async function answerOrphans(
  { hostNetns, path, confs, remove = [] }: OrphanQuestion,
  { orphans: described }: PluginDescription,
): Promise<OrphanAnswer> {
  const { state, finders = [] } = described ?? {};
  const named = confs.map((conf) => state && conf[state.key])
    .filter((place) => typeof place === "string" && place.startsWith("/"));
  const refuse = (): never => {
    throw new Error("not available to plugins outside of the executable");
  };
  const search: OrphanSearch = {
    hostNetns,
    env: { PATH: path },
    invoker: { invoke: refuse },
    log: createLog({}, () => {}),
    evidence: UNDECIDED,
    renew: () => Promise.resolve(UNDECIDED),
    places: [...new Set([...state ? [state.usual] : [], ...named as string[]])],
    pluginDirs: [],
  };
  const orphans: Orphan[] = [];
  for (const find of finders) orphans.push(...await find(search));
  for (const orphan of orphans) {
    if (remove.includes(orphan.where)) await orphan.remove();
  }
  return { leftovers: orphans.map(report) };
}
