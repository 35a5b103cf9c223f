/**
 * What the plugin and the daemon say to each other beside the Kubernetes API,
 * whose paths and objects they use.
 *
 * @module
 */

/** Name of the socket in its folder. */
export const SOCKET_NAME = "api.sock";

/**
 * Header of an answer: where it is from, `cache`, `api` or `queue`. One without
 * it is the daemon's own, which has no answer then.
 */
export const ORIGIN = "multus-origin";

/** Header of a GET of a pod: the UID without which what is remembered is of no use. */
export const POD_UID = "multus-pod-uid";

/** Header of a GET that may be answered with what is remembered. Source: RFC 9111 5.2.1.2. */
export const MAY_BE_REMEMBERED = ["cache-control", "max-stale"] as const;

/** What answers that the daemon runs. */
export const HEALTH_PATH = "/healthz";
