/**
 * Validation: whether a network's plugins exist and support its version.
 *
 * @module
 */

import {
  CniError,
  describeError,
  ErrorCode,
  toCniError,
} from "../base/error.ts";
import {
  askForVersions,
  type VersionInfo,
} from "../cni/invoke/version_probe.ts";
import { DEFAULT_VERSION } from "../cni/version.ts";
import { listCapabilities, type Network } from "./conf.ts";
import type { OperationOptions, Tools } from "./operation.ts";

/**
 * Asks a plugin for the versions that it supports.
 *
 * @throws {CniError} The plugin's error, or why it could not be run
 */
export async function probePlugin(
  { context, pluginDirs }: Tools,
  type: string,
  { signal }: OperationOptions,
): Promise<VersionInfo> {
  const { env, invoker } = context;
  return await askForVersions(
    env,
    pluginDirs.join(":"),
    (question) => invoker.invoke({ ...context, type, ...question, signal }),
  );
}

/**
 * Checks that every plugin of a network exists and supports its version.
 *
 * Source: containernetworking/cni libcni/api.go `ValidateNetworkList`.
 *
 * @returns The capabilities that the plugins declare, without duplicates
 * @throws {CniError} With all failures in one text, `[first second]`, and the
 *   code of the first specific one
 */
export async function validateNetwork(
  tools: Tools,
  { cniVersion, plugins }: Network,
  options: OperationOptions,
): Promise<string[]> {
  const failures: unknown[] = [];
  for (const { type } of plugins) {
    try {
      await validatePlugin(tools, type, cniVersion, options);
    } catch (error) {
      failures.push(error);
    }
  }
  if (failures.length > 0) throw joinFailures(failures);
  return listCapabilities(plugins);
}

function joinFailures(failures: readonly unknown[]): CniError {
  const { code } = toCniError(new AggregateError(failures));
  return new CniError(code, `[${failures.map(describeError).join(" ")}]`);
}

/**
 * Checks that a plugin exists and supports a version.
 *
 * @throws {CniError} If it does not
 */
export async function validatePlugin(
  tools: Tools,
  type: string,
  cniVersion: string,
  options: OperationOptions,
): Promise<void> {
  const { supportedVersions } = await probePlugin(tools, type, options);
  const version = cniVersion || DEFAULT_VERSION;
  if (supportedVersions.includes(version)) return;
  throw new CniError(
    ErrorCode.IncompatibleVersion,
    `plugin ${type} does not support config version ${JSON.stringify(version)}`,
  );
}
