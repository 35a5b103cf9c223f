/**
 * Looking for a link by its name.
 *
 * @module
 */

import { Rtnl } from "./mod.ts";

/**
 * Reports whether a namespace has a link of this name.
 *
 * @param netns Path of the namespace; one that cannot be opened has none
 */
export function hasLink(netns: string, name: string): boolean {
  try {
    using rtnl = Rtnl.open(netns);
    return rtnl.link.find(name) !== undefined;
  } catch {
    return false;
  }
}
