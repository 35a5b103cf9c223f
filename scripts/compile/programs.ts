/**
 * The programs of this project, as executables.
 *
 * @module
 */

import { pluginNames, programNames } from "../../plugins/registry.ts";
import { findChangeTime, ROOT } from "./project.ts";

/** Something to make an executable of. */
export interface Program {
  /** Name of the executable. */
  readonly name: string;
  /** The module to start with, absolute or from the project's root. */
  readonly entry: string;
  /** More names for the same executable. */
  readonly links: readonly string[];
  /** Whether it has a node daemon run its calls. */
  readonly handsOver?: boolean;
}

/**
 * What the executable is called as on nodes. It can also be noop, a plugin for
 * tests, if somebody makes that link.
 */
const allNames: readonly string[] = [...pluginNames, ...programNames]
  .filter((name) => name !== "noop");

/** All plugins in one executable. */
export const multiCall: Program = {
  name: "cni",
  entry: "main.ts",
  links: allNames.filter((name) => name !== "cni"),
  handsOver: true,
};

/** The tool as a separate executable. */
export const tool: Program = {
  name: "cni",
  entry: "cli/main.ts",
  links: ["cnitool"],
};

/**
 * Lists each plugin as a separate program.
 *
 * @throws {Error} If there is no such plugin
 */
export async function listSinglePrograms(
  names: readonly string[] = pluginNames,
): Promise<Program[]> {
  const programs: Program[] = [];
  for (const name of names) {
    const entry = await getEntry(name);
    programs.push({ name, entry, links: [], handsOver: true });
  }
  return programs;
}

/** Returns the `main.ts` of a plugin; the bundler writes a missing one. */
async function getEntry(plugin: string): Promise<string> {
  const directory = plugin.replaceAll("-", "_");
  const directories = ["plugins", "ipam", "cli"].map((layer) =>
    `${layer}/${directory}`
  );
  for (const module of ["main.ts", "plugin.ts"]) {
    for (const path of directories) {
      const time = await findChangeTime(`${ROOT}${path}/${module}`);
      if (time !== undefined) return `${path}/main.ts`;
    }
  }
  throw new Error(
    `Cannot compile plugin "${plugin}": there is no ${
      directories.join(" and no ")
    }`,
  );
}
