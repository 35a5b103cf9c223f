/**
 * Validates a network: finds everything that its configuration reveals before a
 * container is attached.
 *
 * @module
 */

import type {
  GivenRange,
  PluginMetadata,
} from "../../metadata/plugin_metadata.ts";
import { ErrorCode, toCniError } from "../../base/error.ts";
import {
  isObject,
  type JsonObject,
  type JsonValue,
  objectOf,
  type Schema,
} from "../../base/json/json.ts";
import {
  decodePluginConf,
  listCapabilities,
  type NetworkConfList,
  type PluginConf,
} from "../../libcni/conf.ts";
import { type PlacedPlugin, placePlugins } from "../node/chain_form.ts";
import { formatFailureText } from "../../base/command_line/failure.ts";
import { pluginNames } from "../../plugins/registry.ts";
import { findOwnPlugin, findOwnType } from "../node/plugin_file.ts";
import {
  type DescribedPlugin,
  findDescribedPlugin,
} from "../node/described_plugin.ts";
import { METADATA } from "../../plugins/lists/metadata.ts";
import {
  checkAddresses,
  checkGateways,
  listGateways,
  listRanges,
  type NetworkGateway,
} from "./addresses.ts";
import { type Given, readConf } from "./document.ts";
import { checkEffects } from "./effects.ts";
import {
  checkCapabilities,
  checkChain,
  checkIpam,
  checkList,
  checkOrder,
} from "./rules.ts";
import {
  type CheckedPlugin,
  foldPlugin,
  listOddSpellings,
  listStrangeKeys,
  listWrongValues,
} from "./keys.ts";
import {
  askForErrors,
  checkExecutables,
  type Validator,
} from "./plugin_calls.ts";
import {
  type ConfigPath,
  errorAt,
  formatPlace,
  type Problem,
  under,
} from "../../metadata/problem.ts";
import { advise } from "./advice.ts";
import { ipamTypeOf } from "../../cni/config/ipam.ts";

/** The outcome of a validation. */
export interface Validation {
  /** The network; undefined if the configuration is malformed. */
  readonly list: NetworkConfList | undefined;
  readonly problems: readonly Problem[];
  /** The types of all plugins, including plugins in chains and delegates. */
  readonly types: readonly string[];
  /** The capabilities that plugins declare. */
  readonly capabilities: readonly string[];
  /** The types of other projects' plugins, which have no key checks. */
  readonly notChecked: readonly string[];
  /** The ranges that host-local gives addresses from. */
  readonly ranges: readonly NetworkRange[];
  /** The gateways that ADD adds to links of the host. */
  readonly gateways: readonly NetworkGateway[];
}

/** A range, and what its addresses are reachable through. */
export interface NetworkRange extends GivenRange {
  /** The host's interface whose network the containers join; "" if the node has a route to them. */
  readonly segment: string;
}

/**
 * Validates a network and all its plugins, including those in chains and the
 * delegates of multus.
 */
export async function validateNetwork(
  given: Given,
  validator: Validator,
): Promise<Validation> {
  const { list, isBare, problems } = readConf(given);
  const nothing = {
    types: [],
    capabilities: [],
    notChecked: [],
    ranges: [],
    gateways: [],
  };
  if (list === undefined) return { list, problems, ...nothing };
  const checks = new NetworkChecks(list, validator, given.hasDevice);
  try {
    const placed = placePlugins(list.plugins);
    const document = objectOf(given.document);
    for (const { conf } of placed) await checks.learn(conf.type);
    checks.problems.push(
      ...problems,
      ...checkList(list, isBare ? undefined : document),
      ...checkOrder(placed, (type) => checks.metadataOf(type)),
    );
    for (const plugin of placed) await checks.checkPlugin(plugin);
  } catch (error) {
    if (toCniError(error).code === ErrorCode.Internal) throw error;
    // A chain has a malformed plugin.
    checks.problems.push(errorAt([], formatFailureText(error)));
  }
  // A bare plugin is the whole document.
  const strip = (place: ConfigPath): ConfigPath =>
    isBare ? place.slice(2) : place;
  return {
    list,
    problems: checks.problems.map((problem) => ({
      ...problem,
      place: problem.place[0] === "plugins"
        ? strip(problem.place)
        : problem.place,
    })),
    types: checks.types,
    capabilities: listCapabilities(checks.confs),
    notChecked: [...checks.foreign],
    ranges: checks.ranges.map((range) => ({
      ...range,
      place: strip(range.place),
    })),
    gateways: checks.gateways.map((gateway) => ({
      ...gateway,
      place: strip(gateway.place),
    })),
  };
}

/** Keys that name the host's interface of a plugin. */
const SEGMENT_KEYS = ["master", "bridge", "vlanId"];

/** The checks of a network. */
class NetworkChecks {
  readonly problems: Problem[] = [];
  readonly types: string[] = [];
  readonly confs: PluginConf[] = [];
  readonly ranges: NetworkRange[] = [];
  readonly gateways: NetworkGateway[] = [];
  /** The types of other projects' plugins. */
  readonly foreign: Set<string> = new Set();
  readonly #described = new Map<string, Promise<DescribedPlugin | undefined>>();
  readonly #metadata = new Map<string, PluginMetadata>();
  readonly #list: NetworkConfList;
  readonly #validator: Validator;
  readonly #hasDevice: boolean;

  constructor(list: NetworkConfList, validator: Validator, hasDevice = false) {
    this.#list = list;
    this.#validator = validator;
    this.#hasDevice = hasDevice;
  }

  async checkPlugin(placed: PlacedPlugin): Promise<void> {
    const { conf, path } = placed;
    this.confs.push(conf);
    this.types.push(conf.type);
    const checked = await this.#addSchemas(conf, path);
    const segment = checked.metadata?.network?.joins === "node"
      ? ""
      : SEGMENT_KEYS.map((key) => checked.folded[key]).join();
    this.ranges.push(
      ...listRanges(checked).map((range) => ({
        ...range,
        segment,
        place: [...path, ...range.place],
      })),
    );
    this.gateways.push(...listGateways(checked).flat());
    // Further problems do not matter if an IPAM plugin is in the place of a main plugin.
    if (checked.metadata?.kind === "ipam") return;
    const found = [
      ...await checkExecutables(this.#list, checked, this.#validator),
      ...listWrongValues(checked),
      ...listStrangeKeys(checked),
      ...listOddSpellings(checked),
      ...checkChain(placed),
      ...checkIpam(checked),
      ...checkEffects(checked, this.#list),
      ...checkCapabilities(checked),
      ...checkAddresses(checked, this.#list),
      ...checkGateways(checked),
    ];
    // The plugin also finds some of them.
    const places = new Set(found.map(({ place }) => formatPlace(place)));
    found.push(
      ...under(path, checked.reported)
        .filter(({ place }) => !places.has(formatPlace(place))),
    );
    this.problems.push(...found);
    // A known problem would only be repeated in other words.
    if (!found.some(({ severity }) => severity === "error")) {
      this.problems.push(
        ...await askForErrors(this.#list, checked, this.#validator),
      );
    }
    await this.#checkDelegates(checked);
  }

  /** Reads the description of a type; queries a third-party plugin. */
  async learn(type: string): Promise<DescribedPlugin | undefined> {
    const { pluginDirs, signal, env } = this.#validator;
    if (pluginNames.includes(type)) return undefined;
    const own = METADATA.get(await findOwnType(type, pluginDirs) ?? "");
    if (own !== undefined) {
      this.#metadata.set(type, own);
      return undefined;
    }
    const described = this.#described.get(type) ??
      findDescribedPlugin(type, pluginDirs, { signal, env });
    this.#described.set(type, described);
    const plugin = await described;
    if (plugin !== undefined) this.#metadata.set(type, plugin.metadata);
    return plugin;
  }

  /** Finds the metadata of a plugin; third-party plugins are queried before. */
  metadataOf(type: string): PluginMetadata | undefined {
    return METADATA.get(type) ?? this.#metadata.get(type);
  }

  async #addSchemas(
    conf: PluginConf,
    place: ConfigPath,
  ): Promise<CheckedPlugin> {
    const reported: Problem[] = [];
    const find = async (type: string): Promise<Schema<unknown> | undefined> => {
      const { pluginDirs } = this.#validator;
      const plugin = await findOwnPlugin(type, pluginDirs);
      if (plugin !== undefined) return await plugin.configSchema();
      const other = await this.learn(type);
      if (other === undefined) this.foreign.add(type);
      for (const problem of await other?.lint(conf, this.#hasDevice) ?? []) {
        const { message, place } = problem;
        reported.push({
          ...problem,
          message: advise(message, place, conf.document),
        });
      }
      return other?.schema;
    };
    const own = await find(conf.type);
    const ipamType = ipamTypeOf(conf.document);
    const ipam = ipamType === undefined ? undefined : await find(ipamType);
    return {
      conf,
      place,
      own,
      ipam,
      metadata: this.metadataOf(conf.type),
      ipamMetadata: ipamType === undefined
        ? undefined
        : this.metadataOf(ipamType),
      reported,
      folded: foldPlugin(conf, [own, ipam]),
      hasDevice: this.#hasDevice,
    };
  }

  async #checkDelegates(
    { folded, place, own, metadata }: CheckedPlugin,
  ): Promise<void> {
    const { key, areNetworks, type = "" } = metadata?.runs ?? {};
    if (own === undefined || key === undefined) return;
    const given = folded[key];
    if (areNetworks && Array.isArray(given)) {
      for (const [index, document] of given.entries()) {
        await this.#checkDelegate(document, [...place, key, index]);
      }
    }
    if (!areNetworks) {
      const conf = { type, ...objectOf(given) };
      const checked = await this.#addSchemas(
        decodePluginConf(conf),
        [...place, key],
      );
      this.problems.push(
        ...listWrongValues(checked),
        ...listStrangeKeys(checked),
      );
    }
  }

  async #checkDelegate(document: JsonValue, place: ConfigPath): Promise<void> {
    const { name, cniVersion } = this.#list;
    const versioned = isObject(document) && !document["cniVersion"]
      ? { ...document as JsonObject, cniVersion }
      : document;
    const given = {
      document: versioned,
      form: "either",
      defaultName: name,
    } as const;
    const { problems, types, notChecked } = await validateNetwork(
      given,
      this.#validator,
    );
    this.problems.push(...under(place, problems));
    this.types.push(...types);
    for (const type of notChecked) this.foreign.add(type);
  }
}
