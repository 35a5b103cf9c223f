/**
 * `cni validate`: checks a network's configuration against its plugins.
 *
 * @module
 */

import { ErrorCode, toCniError } from "../../cni/error.ts";
import { listCapabilities } from "../../cni/libcni/conf.ts";
import type { NetworkConfList } from "../../cni/libcni/mod.ts";
import { unfoldChains } from "../chain_form.ts";
import type { Output } from "../../tool/command.ts";
import type { CniCall } from "../flags.ts";
import { formatFailureText } from "../../tool/failure.ts";
import { createRuntime, getNetwork, readFolders } from "../network.ts";
import { showControls, type Style } from "../../tool/style.ts";
import { errorAt, type Problem } from "../validation/problem.ts";
import type { Validation } from "../validation/validate.ts";

/** Lists problems. Fails on errors, and on warnings with `--strict`. */
export async function validate(call: CniCall): Promise<Output> {
  const [network = ""] = call.args;
  try {
    const { pluginDirs, ...folders } = readFolders(call);
    const list = getNetwork({ pluginDirs, ...folders }, network);
    const { validateNetwork } = await import("../validation/validate.ts");
    // The plugins' log is not needed, because their errors are shown.
    const quiet = { env: call.env, onStderr(): void {} };
    const runtime = createRuntime(quiet, { pluginDirs, ...folders });
    const { signal } = call;
    const validator = { runtime, pluginDirs, signal };
    return report(call, await validateNetwork(list, validator), list);
  } catch (error) {
    const { code } = toCniError(error);
    const isMalformed = code === ErrorCode.DecodingFailure ||
      code === ErrorCode.InvalidNetworkConfig;
    if (!isMalformed) throw error;
    const problems = [errorAt([], formatFailureText(error))];
    return report(call, { problems, notChecked: [] });
  }
}

/** @param list Undefined if it cannot be read */
function report(
  call: CniCall,
  { problems, notChecked }: Validation,
  list?: NetworkConfList,
): Output {
  const plugins = list === undefined ? [] : unfoldChains(list.plugins);
  const capabilities = listCapabilities(plugins);
  const types = plugins.map(({ type }) => type);
  const hasErrors = problems.some(({ severity }) => severity === "error");
  const isValid = !hasErrors &&
    (problems.length === 0 || !call.flags.strict);
  const name = list?.name ?? call.args[0] ?? "";
  const verdict = (style: Style): string => {
    const word = isValid ? style.green("valid") : style.red("not valid");
    return `${showControls(name)} is ${word}` + formatList(": ", types) +
      formatList("; declares ", capabilities) +
      formatList("; keys not checked: ", notChecked);
  };
  return {
    json: {
      network: name,
      cniVersion: list?.cniVersion ?? null,
      valid: isValid,
      problems,
      plugins: types,
      capabilities,
      notChecked,
    },
    text: (style) =>
      [
        ...problems.map((problem) => format(problem, style)),
        verdict(style),
      ].join("\n"),
    exitCode: isValid ? 0 : 1,
  };
}

function formatList(label: string, words: readonly string[]): string {
  return words.length === 0 ? "" : showControls(label + words.join(", "));
}

function format({ severity, path, message }: Problem, style: Style): string {
  const mark = severity === "error" ? style.red : style.yellow;
  const where = path === "" ? "" : `${path}: `;
  return `${mark(severity)}: ${showControls(where + message)}`;
}
