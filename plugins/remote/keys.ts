/**
 * The keys of remote's configuration.
 *
 * @module
 */

import type { PluginKeys } from "../../metadata/plugin_keys.ts";
import example from "./example.json" with { type: "json" };

/** See {@linkcode PluginKeys}. */
export const keys: PluginKeys = {
  summary: "delegates attachment to a third-party daemon",
  text:
    "Delegates the attachment to a daemon on the node. Every command is an HTTP request on a unix socket. Use it for network agents that keep their state in one long-lived process.",
  example,
  keys: {
    "socket": {
      text:
        "The daemon's socket, an absolute path. As contivk8s: `/run/contiv/contiv-cni.sock`.",
      type: "string",
      default: "`/run/cni-remote/cni.sock`",
      names: "socket",
    },
    "protocol": {
      text: "`cni` or `contiv`. As contivk8s: `contiv`.",
      type: "string",
      default: "`cni`",
    },
    "basePath": {
      text: "Prefix of the requests' paths, such as `/v1`.",
      type: "string",
      default: "none",
      names: "request",
    },
    "timeoutSeconds": {
      text:
        'Time limit of a call, or of each command: `{"ADD": 60, "DEL": 20}`. At most 219.',
      type: "number, object",
      default: "ADD, GC 55; DEL, CHECK 30; STATUS 10",
    },
    "readyTimeoutSeconds": {
      text:
        "How long to wait for a daemon that does not listen, within the time limit. Set it if the daemon's socket is missing while it restarts. STATUS never waits.",
      type: "number",
      default: "0",
    },
    "pollMillis": {
      text: "Time between two attempts to connect.",
      type: "number",
      default: "100",
    },
    "headers": {
      text: "Further headers of requests.",
      type: "object",
      default: "none",
      names: "request",
    },
    "envAll": {
      text:
        "Sends the whole environment, instead of `CNI_*`, `TRACEPARENT`, `TRACESTATE` and `BAGGAGE`.",
      type: "boolean",
      default: "`false`",
      names: "request",
    },
    "delPolicy": {
      text: "`strict`: DEL fails if the daemon is unreachable.",
      type: "string",
      default: "`besteffort`",
    },
    "netnsMode": {
      text:
        "contiv: `proc` sends the namespace as `/proc/PID/ns/net`, for which a process runs in it during the call; `path` sends its path.",
      type: "string",
      default: "`proc`",
    },
    "interfaces": {
      text: "contiv: lists the container's interface in the result.",
      type: "boolean",
      default: "`true`; as contivk8s `false`",
    },
  },
};
