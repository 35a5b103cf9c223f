/**
 * The programs of this project, as executables.
 *
 * @module
 */

import { pluginNames, programNames } from "../../plugins/registry.ts";

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
