/**
 * Why the daemon declines a call.
 *
 * @module
 */

/**
 * An operator's remedy for each reason. The reasons are labels of
 * `cni_daemon_not_mine_total`, so they never quote a call.
 */
export const DECLINE_REASONS = {
  "another build":
    "plugins and daemon are of different builds: restart the daemon, or install the plugins that belong to it",
  "another network namespace":
    "the runtime is not in the daemon's network namespace: run the daemon where the runtime runs",
  "another mount namespace":
    "the unit or the container of the runtime, or of the daemon, has mounts of its own (PrivateMounts=, PrivateTmp=, ProtectSystem= and others): run both in the host's mount namespace",
  "another root directory":
    "the runtime runs in a chroot, or the daemon does: run both in the same root directory",
  "another user namespace":
    "a rootless runtime needs a daemon in its own user namespace, with a socket of its own",
  "another umask":
    "give the units of the runtime and of the daemon the same UMask=",
  "another user": "run the daemon as the user that the runtime runs as",
  "missing capabilities":
    "the caller does not have CAP_SYS_ADMIN and CAP_NET_ADMIN, which the daemon has: give them to the runtime, or take the socket out of its reach",
  "unknown process":
    "the daemon cannot read /proc of the caller: it needs CAP_SYS_PTRACE and a /proc of the caller's PID namespace (in Kubernetes, hostPID)",
  "CNI_NETNS is another file":
    "the path in CNI_NETNS leads the caller and the daemon to different files: pass a path that does not depend on the process",
  "another working directory":
    "the configuration or the environment has a relative path: make it absolute",
  "no such plugin":
    "the executable's file name is not a plugin type: install it under the name of its plugin",
  "malformed request":
    "a different program, or a plugin of a much older build, uses the socket: install the plugins again",
  "call not prepared":
    "the daemon could not load the plugin of a call, or translate the call: its log names the cause",
  "request too long":
    "configuration and environment of a call are longer than 16 MiB: make them smaller",
  "request not arrived":
    "a process connected and did not send a whole call within 10 s: it was stopped, or it is not a plugin",
  "caller gone":
    "the daemon took more than a second, and the caller ran the call locally: the daemon was stopped, or the node is overloaded",
  "invalid shim call":
    "multus-shim was called without the variables of its command; its error names them",
  "failed DEL": "multus-shim runs the DEL locally; its error names the cause",
  "too many calls wait":
    "4096 calls wait: find calls that hang in the daemon's log, or raise --max-calls",
  "too many connections":
    "a process, or all processes together, keep too many idle connections: identify them with ss -xp, and raise LimitNOFILE= if it is low",
  "too many bytes of requests":
    "more than 64 MiB of requests are in memory: identify the processes that send them with ss -xp",
  "the daemon ends":
    "the daemon was stopped or replaced; no action is needed unless this continues",
} as const;

/** Why the daemon declines a call. */
export type DeclineReason = keyof typeof DECLINE_REASONS;
