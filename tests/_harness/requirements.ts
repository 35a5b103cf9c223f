/**
 * The requirements of the specification on this project's plugins: the rows of
 * `testing/conform`, as rows of the conformance lists.
 *
 * @module
 */

import { AssertionError } from "@std/assert";
import type { Dispatch } from "../../cni/invoke/in_process.ts";
import type { Plugin } from "../../cni/plugin.ts";
import { SPEC_VERSIONS } from "../../cni/version.ts";
import {
  allOf,
  ignoreUnless,
  type Needs,
  needsRoot,
} from "../../testing/capabilities.ts";
import { InProcessWay } from "../../testing/conform/in_process_way.ts";
import { ThrowAwayNode } from "../../testing/conform/place.ts";
import {
  type Profile,
  PROFILES,
  subjectOf,
} from "../../testing/conform/profiles.ts";
import { REQUIREMENTS } from "../../testing/conform/rows/all.ts";
import {
  ERROR_REQUIREMENTS,
  INPUT_REQUIREMENTS,
  VERSION_REQUIREMENTS,
} from "../../testing/conform/rows/protocol.ts";
import { isAbout, testRequirement } from "../../testing/conform/run.ts";
import { type Json, type Known, Scene } from "../../testing/conform/scene.ts";
import { ProcessWay } from "../../testing/conform/way.ts";
import { EXCEPT, hostsAsPlace } from "../../testing/conform_plugin.ts";
import { TestHosts } from "../../testing/test_hosts.ts";
import { findPlugin } from "../../plugins/registry.ts";
import { conformance, type Row } from "./conformance.ts";
import { BIN, needsBin } from "./executables.ts";
import { isRootless } from "./rootless.ts";

/** A plugin under test, and what is special about it. */
export interface RequirementsOn {
  readonly type: string;
  /** Its name in those of the rows; the type by default. */
  readonly name?: string;
  /** What CHECK can miss, since ADD makes it; nothing by default. */
  readonly makes?: readonly (keyof typeof MADE)[];
  /** Requirements that do not apply, with the reason. */
  readonly except?: Readonly<Record<string, string>>;
  /** Whether to leave out what the plugin's own code does not decide: versions, errors, inputs. */
  readonly withoutProtocol?: boolean;
  /** Whether the gate leaves it to the night. */
  readonly isNightly?: boolean;
  /** Needs of the machine. */
  readonly needs?: Needs;
  /** Keys beside the profile's, or instead of them. */
  readonly keys?: (hosts: TestHosts) => Json;
  /** Keys of a configuration with room for one container only. */
  readonly full?: (hosts: TestHosts) => Json;
  /** Needs of a node, instead of the profile's. */
  readonly profile?: Profile;
  /** Steps that may fail without failing ADD. */
  readonly optional?: RegExp;
}

/**
 * The gate runs the rows of one plugin of each kind; those of all are for the
 * night.
 */
const IS_ALL = Deno.env.get("CNI_CONFORM") === "1";

/** Requirements that one code fulfils for all plugins. */
const PROTOCOL = [
  ...VERSION_REQUIREMENTS,
  ...ERROR_REQUIREMENTS,
  ...INPUT_REQUIREMENTS,
];

/** Requirements on CHECK about what only some plugins make. */
const MADE = {
  "firewall": "firewall rules",
  "shaping": "qdisc",
  "rule": "policy rule",
  "sysctl": "other value of a sysctl",
} as const;

/** Registers a row for each requirement on a plugin in this process, and for some by a daemon. */
export function requirementsOn(one: RequirementsOn): void {
  register(one.name ?? one.type, one, inThisProcess(one));
}

/** Lists the requirements on a plugin that apply, as steps of a test. */
export function listRequirements(
  one: RequirementsOn,
): [name: string, row: Row][] {
  return rowsOf(one, inThisProcess(one))
    .filter(({ reason }) => reason === undefined)
    .map(({ name, fn }) => [`${one.name ?? one.type}: ${name}`, fn]);
}

type TryRow = (
  row: typeof REQUIREMENTS[number],
) => ReturnType<typeof testRequirement>;

function inThisProcess(one: RequirementsOn): TryRow {
  const { type, keys = () => ({}), optional } = one;
  const profile = profileOf(one);
  /** By the way in which the rows are run. */
  const knownBy = new Map<Dispatch, Known>();
  return async (row) => {
    const plugin = await findPlugin(type) as Plugin;
    const known = knownBy.get(TestHosts.dispatch) ?? new Map();
    knownBy.set(TestHosts.dispatch, known);
    return await testRequirement(row, () => {
      const hosts = TestHosts.create();
      const own = {
        config: { ...profile.config, ...keys(hosts) },
        ...one.full && { full: one.full(hosts) },
      };
      return new Scene({
        subject: subjectOf(type, { ...profile, ...own }),
        place: hostsAsPlace(hosts, {}),
        way: new InProcessWay(plugin, hosts, optional),
        versions: plugin.versions,
        executable: type,
        known,
      });
    });
  };
}

/** Registers a row for each requirement on the executable of a plugin, as `cni conform` tries it. */
export function requirementsOnExecutable(one: RequirementsOn): void {
  const { type } = one;
  const needs = allOf(needsBin, needsOwnRoot, one.needs ?? needsRoot);
  const known: Known = new Map();
  register(
    `${type} by process`,
    { ...one, needs },
    (row) =>
      testRequirement(row, () =>
        new Scene({
          subject: subjectOf(type, profileOf(one)),
          place: new ThrowAwayNode(BIN),
          way: new ProcessWay(`${BIN}/${type}`),
          versions: SPEC_VERSIONS,
          executable: `${BIN}/${type}`,
          known,
        })),
  );
}

/** Their node has copies of the machine's directories, which are its root's. */
const needsOwnRoot = ignoreUnless(!isRootless, "needs root of the machine");

function profileOf({ type, profile, except }: RequirementsOn): Profile {
  const known = PROFILES[type];
  return {
    ...known,
    ...profile,
    except: { ...EXCEPT, ...known?.except, ...except },
  };
}

/** Registers rows; a requirement that does not apply is skipped with its reason. */
function register(
  name: string,
  one: RequirementsOn,
  tryRow: TryRow,
): void {
  const { needs = needsRoot, isNightly = false } = one;
  if (isNightly && !IS_ALL) {
    const skipped = ignoreUnless(false, "needs CNI_CONFORM=1");
    conformance(`requirements on ${name}`, { "all": () => {} }, skipped);
    return;
  }
  for (const { name: row, fn, reason } of rowsOf(one, tryRow)) {
    conformance(
      `requirements on ${name}`,
      { [row]: fn },
      allOf(needs, ignoreUnless(reason === undefined, reason ?? "")),
    );
  }
}

/** Lists the requirements on a plugin, and why some do not apply. */
function rowsOf(one: RequirementsOn, tryRow: TryRow): {
  readonly name: string;
  readonly fn: Row;
  readonly reason: string | undefined;
}[] {
  const { makes = [], withoutProtocol = false } = one;
  const { kind = "interface", config = {}, except = {} } = profileOf(one);
  const usesIpam = kind === "interface" && "ipam" in config;
  const about = { kind, usesIpam, versions: SPEC_VERSIONS };
  return REQUIREMENTS.filter((row) =>
    isAbout(row, about) && !(withoutProtocol && PROTOCOL.includes(row))
  ).map((row) => {
    const made = Object.entries(MADE)
      .find(([sort]) => row.id === `check-${sort}`);
    const isMade = made === undefined || makes.some((sort) => sort === made[0]);
    const reason = isMade ? except[row.id] : `ADD makes no ${made[1]}`;
    const fn: Row = async () => {
      const { outcome, why = "", shows = [] } = await tryRow(row);
      if (outcome === "kept") return;
      throw new AssertionError(`${outcome}: ${why}\n${shows.join("\n")}`);
    };
    return { name: `${row.id}: ${row.title}`, fn, reason };
  });
}
