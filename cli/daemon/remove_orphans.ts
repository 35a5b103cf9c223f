/**
 * The removal of orphans, for the node daemon. The build packs this module with the
 * command lines, because no call of a plugin needs it.
 *
 * @module
 */

export { removeOrphans } from "../orphans/mod.ts";
