/**
 * Problems between networks: ranges that overlap, and names that repeat.
 *
 * @module
 */

import type { Problem } from "../../cni/tools/problem.ts";
import { keyWarningAt, warningAt } from "../../cni/tools/problem.ts";
import type { NetworkRange, Validation } from "./validate.ts";

/** A validated configuration. */
export interface Neighbor {
  /** Its file, and the object inside it. */
  readonly label: string;
  readonly file: string;
  readonly validation: Validation;
}

/**
 * Lists what a network has in common with others, but should not.
 *
 * @param others Other networks of the node, in search order
 */
export function checkNeighbors(
  network: Neighbor,
  others: readonly Neighbor[],
): Problem[] {
  const { list, ranges } = network.validation;
  if (list === undefined) return [];
  return others.flatMap((other) => {
    const { list: theirs, ranges: taken } = other.validation;
    if (theirs === undefined) return [];
    if (theirs.name === list.name) {
      const isInSameFolder = folderOf(other.file) === folderOf(network.file) &&
        other.file !== network.file && isConfFile(other.file) &&
        isConfFile(network.file);
      // The file that comes first is used.
      return isInSameFolder && other.file < network.file
        ? [
          keyWarningAt(
            ["name"],
            `not used: ${other.label} has this name too, and comes first`,
          ),
        ]
        : [];
    }
    return ranges.flatMap((range) => {
      const clash = taken.find((given) => overlaps(range, given));
      return clash === undefined ? [] : [
        warningAt(
          range.place,
          `${range.subnet} overlaps ${clash.subnet} of network ` +
            `"${theirs.name}" in ${other.label}`,
        ),
      ];
    });
  });
}

function isConfFile(file: string): boolean {
  return /\.(conflist|conf|json)$/.test(file);
}

function folderOf(file: string): string {
  return file.slice(0, file.lastIndexOf("/") + 1);
}

/**
 * Reports whether two networks would give the same address to two containers.
 * On interfaces of different masters or VLANs that does no harm.
 */
function overlaps(one: NetworkRange, other: NetworkRange): boolean {
  const isApart = one.segment !== "" && other.segment !== "" &&
    one.segment !== other.segment;
  return !isApart && one.subnet.family === other.subnet.family &&
    one.start.compare(other.end) <= 0 && other.start.compare(one.end) <= 0;
}
