/**
 * What removes orphans, for the node daemon. A module of its own: the build packs
 * it with the command lines, because no call of a plugin needs it.
 *
 * @module
 */

export { removeOrphans } from "../orphans/mod.ts";
