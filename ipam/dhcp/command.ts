/**
 * The command `dhcp daemon`. Runtimes call `dhcp` without arguments.
 *
 * Importing this module runs the command.
 *
 * @module
 */

import { createLog } from "../../base/log/log.ts";
import { CniError, ErrorCode } from "../../base/error.ts";
import { DEFAULT_DHCP_SOCKET } from "./ask.ts";
import {
  type CommandCall,
  type FlagTable,
  type FlagValues,
  type Output,
  type Program,
  readTimeLimit,
} from "../../base/command_line/command.ts";
import { formatDuration } from "../../base/duration.ts";
import { BUILT_IN_COMMANDS } from "../../base/command_line/built_in_commands.ts";
import { runProgram } from "../../base/command_line/run.ts";
import { refuse } from "../../base/command_line/usage_error.ts";
import { ServiceManager } from "../../base/service/notify.ts";
import { removePidFile, writePidFile } from "../../base/service/pid_file.ts";
import { exitInWrongNetns } from "../../base/service/wrong_netns.ts";
import { DEFAULT_TIMING } from "./client.ts";
import { runDhcp } from "./daemon.ts";

/** Flags and defaults of the Go plugin. */
const FLAGS = {
  "pidfile": {
    default: "",
    value: "FILE",
    summary: "write the process ID to this file",
  },
  "hostprefix": {
    default: "",
    value: "DIRECTORY",
    summary: "prefix of the paths of the socket and of namespaces",
  },
  "socketpath": {
    default: DEFAULT_DHCP_SOCKET,
    value: "FILE",
    summary: "path of the socket; the leases are in the directory next to it",
  },
  "broadcast": { summary: "ask servers to answer with broadcasts" },
  "timeout": {
    default: formatDuration(DEFAULT_TIMING.timeoutMs),
    value: "TIME",
    summary: "time limit of one attempt to get a lease",
  },
  "resendmax": {
    default: formatDuration(DEFAULT_TIMING.resendMaxMs),
    value: "TIME",
    summary: "longest pause between two attempts",
  },
  "resendtimeout": {
    default: formatDuration(DEFAULT_TIMING.resendTimeoutMs),
    value: "TIME",
    summary: "time limit of ADD",
  },
} as const satisfies FlagTable;

async function daemon(
  call: CommandCall<FlagValues<typeof FLAGS>>,
): Promise<Output> {
  const { flags, env, signal, onStderr } = call;
  const { socketpath: socket } = flags;
  if (!socket.startsWith("/")) {
    const problem = `-socketpath must be an absolute path, not "${socket}"`;
    throw refuse(call.command, problem);
  }
  exitInWrongNetns(onStderr);
  const log = createLog({}, onStderr);
  const options = {
    socket,
    hostPrefix: flags.hostprefix,
    broadcast: flags.broadcast,
    timeoutMs: readTimeLimit(call, "timeout"),
    resendMaxMs: readTimeLimit(call, "resendmax"),
    resendTimeoutMs: readTimeLimit(call, "resendtimeout"),
    inherited: inheritedSocket(env),
    log,
    signal,
    onReady: () => new ServiceManager(env, log).notify("READY=1"),
  };
  writePidFile(flags.pidfile);
  try {
    await runDhcp(options);
  } finally {
    removePidFile(flags.pidfile);
  }
  return { json: {}, text: "" };
}

/** The first descriptor of a service manager. Source: sd_listen_fds(3). */
const FIRST_INHERITED = 3;

/**
 * Returns the socket that the service manager has opened, if any.
 *
 * @throws {CniError} 4 if there are several
 */
function inheritedSocket(
  { LISTEN_PID, LISTEN_FDS }: Readonly<Record<string, string>>,
): number | undefined {
  if (LISTEN_PID !== `${Deno.pid}` || !Number(LISTEN_FDS)) return undefined;
  if (LISTEN_FDS === "1") return FIRST_INHERITED;
  throw new CniError(
    ErrorCode.InvalidEnvironment,
    `Too many (${LISTEN_FDS}) FDs passed through socket activation`,
  );
}

const dhcp: Program = {
  name: "dhcp",
  about:
    "A CNI plugin that gets addresses from DHCP servers. Runtimes call it " +
    "without arguments.",
  hasGoFlags: true,
  rows: [
    {
      name: "daemon",
      summary: "Get and renew leases for the plugin",
      flags: FLAGS,
      isService: true,
      load: () => Promise.resolve(daemon),
    },
    ...BUILT_IN_COMMANDS,
  ],
};

runProgram(dhcp);
