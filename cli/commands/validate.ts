/**
 * `cni validate`: checks a network's configuration against its plugins.
 *
 * @module
 */

import { unfoldChains } from "../chain_form.ts";
import type { CommandCall, Output } from "../command.ts";
import { createRuntime, getNetwork, readFolders } from "../network.ts";

/** Asks every plugin for its versions. */
export async function validate(call: CommandCall): Promise<Output> {
  const [network = ""] = call.args;
  const folders = readFolders(call);
  const written = getNetwork(folders, network);
  // Nobody but a chain asks for the plugins in it.
  const list = { ...written, plugins: unfoldChains(written.plugins) };
  const runtime = createRuntime(call, folders);
  const { signal } = call;
  const capabilities = await runtime.validateNetworkList(list, { signal });
  const { name, cniVersion } = list;
  const plugins = list.plugins.map(({ type }) => type);
  const wants = capabilities.length === 0
    ? ""
    : `; wants ${capabilities.join(", ")}`;
  return {
    json: { network: name, cniVersion, plugins, capabilities },
    text: `${name} is valid: ${plugins.join(", ")}${wants}`,
  };
}
