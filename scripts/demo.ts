/**
 * `deno task demo`: builds the executables, and shows what they do.
 *
 * @module
 */

import { ensureCompiled } from "./compile.ts";
import { ROOT } from "./project.ts";
import { answerHelp } from "./command_line.ts";

answerHelp(
  `Build the executables and attach two containers to a network, in temporary network
namespaces. Needs root, or user namespaces.

Usage: deno task demo`,
);
console.error(
  "Building the executables, which takes minutes the first time ...",
);
await ensureCompiled();
const { code } = await new Deno.Command("sh", {
  args: [`${ROOT}scripts/demo.sh`],
  stdin: "null",
  stdout: "inherit",
  stderr: "inherit",
}).output();
Deno.exit(code);
