/**
 * `multus install`: installs the files that multus needs on a node, and
 * restores them when they change.
 *
 * @module
 */

import { dirname } from "@std/path/posix";
import { createLog, type Log, type LogFields } from "../../../base/log/log.ts";
import { pluginNames, programNames } from "../../registry.ts";
import type {
  CommandCall,
  Output,
} from "../../../base/command_line/command.ts";
import { GivenConfiguration, MadeConfiguration } from "./configuration.ts";
import { Credentials } from "./credentials.ts";
import { Executable } from "./executable.ts";
import {
  type InstallFlags,
  type InstallOptions,
  readInstallOptions,
} from "./options.ts";
import { requireDirectory } from "./placed_file.ts";
import { type InstallStep, InstallSteps, watch } from "./steps.ts";

/**
 * Runs the command.
 *
 * @throws {CniError} If the command line is invalid; without watching, also on any
 * other failure
 */
export async function install(
  call: CommandCall<InstallFlags>,
): Promise<Output> {
  const { signal, onStderr } = call;
  const knownNames = [...pluginNames, ...programNames];
  const options = readInstallOptions(call, { pluginNames, knownNames });
  const log = createTimedLog(onStderr);
  const configuration = openConfiguration(options, log);
  const steps = new InstallSteps(listSteps(options, configuration, log), log);
  if (!options.isWatching) {
    await steps.runOnce(options.timeoutMs, signal);
    return DONE;
  }
  log.info("watching");
  await watch(listDirectories(options), () => steps.run(), { log, signal });
  if (options.cleansUp) removeConfiguration(configuration);
  log.info("ended", { reason: signal.reason?.message });
  return DONE;
}

const DONE: Output = { json: {}, text: "" };

type Configuration = MadeConfiguration | GivenConfiguration;

function openConfiguration(
  { configuration }: InstallOptions,
  log: Log,
): Configuration | undefined {
  if (configuration === undefined) return undefined;
  return "source" in configuration
    ? new GivenConfiguration(configuration, log)
    : new MadeConfiguration(configuration, log);
}

/**
 * Lists the steps. The configuration comes last, because runtimes call the plugin
 * that it names.
 */
function listSteps(
  options: InstallOptions,
  configuration: Configuration | undefined,
  log: Log,
): InstallStep[] {
  const steps: InstallStep[] = [];
  if (options.executable !== undefined) {
    const executable = new Executable(options.executable, log);
    steps.push({ name: "executable", ensure: () => executable.ensure() });
  }
  const credentials = new Credentials(options.credentials, log);
  const confDir = dirname(options.credentials.directory);
  steps.push({
    name: "credentials",
    ensure(): void {
      requireDirectory(confDir);
      credentials.ensure();
    },
  });
  if (configuration !== undefined) {
    steps.push(describeConfiguration(configuration, options));
  }
  return steps;
}

function describeConfiguration(
  configuration: Configuration,
  { skipsConfigWatch }: InstallOptions,
): InstallStep {
  let isDone = false;
  return {
    name: "configuration",
    ensure(): void {
      if (isDone && skipsConfigWatch) return;
      configuration.ensure();
      isDone = true;
    },
  };
}

/** Lists the directories to watch for changes. */
function listDirectories(options: InstallOptions): string[] {
  const { executable, credentials, configuration } = options;
  const directories = [credentials.serviceAccount, credentials.directory];
  if (executable !== undefined) {
    directories.push(executable.directory, dirname(executable.source));
  }
  if (configuration === undefined) return directories;
  const source = "source" in configuration
    ? dirname(configuration.source)
    : configuration.masterDirectory;
  return [...directories, configuration.directory, source];
}

function removeConfiguration(configuration: Configuration | undefined): void {
  if (configuration instanceof MadeConfiguration) configuration.remove();
}

/** Creates a log with timestamps, because not every log collector adds them. */
function createTimedLog(write: (line: string) => void): Log {
  const line =
    (level: keyof Log) => (message: string, fields?: LogFields): void =>
      createLog({ time: new Date().toISOString() }, write)[level](
        message,
        fields,
      );
  return {
    debug: line("debug"),
    info: line("info"),
    warn: line("warn"),
    error: line("error"),
  };
}
