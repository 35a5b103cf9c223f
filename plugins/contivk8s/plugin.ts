/**
 * contivk8s: the plugin remote, under the name and with the defaults of contiv's
 * plugin.
 *
 * It keeps nothing itself: DEL leaves what the daemon leaves.
 *
 * @module
 */

export { contivk8s } from "../remote/plugin.ts";
