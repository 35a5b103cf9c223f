/**
 * The protocol of plugin and daemon: the Kubernetes API with additional headers.
 *
 * @module
 */

/** File name of the socket. */
export const SOCKET_NAME = "api.sock";

/**
 * Header of a response: its source, `cache`, `api` or `queue`. Without it, the
 * response is the daemon's own error.
 */
export const ORIGIN = "multus-origin";

/** Header of a GET of a pod: the UID that a cached pod must have. */
export const POD_UID = "multus-pod-uid";

/** Header of a GET that accepts a cached object. Source: RFC 9111 5.2.1.2. */
export const MAY_BE_REMEMBERED = ["cache-control", "max-stale"] as const;

/** Path of the daemon's health check. */
export const HEALTH_PATH = "/healthz";
