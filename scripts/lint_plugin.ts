/**
 * The project's own lint rules: ARCHITECTURE.md, made executable.
 *
 * `deno lint` loads this file (see deno.json). To silence a rule for one line,
 * write `// deno-lint-ignore cni/<rule> -- <why>` above it.
 *
 * @module
 */

import { changeChecked } from "./lint/change_checked.ts";
import { errorMessage } from "./lint/error_message.ts";
import { foldedKeys } from "./lint/folded_keys.ts";
import { kernelIsSync } from "./lint/kernel_is_sync.ts";
import { layers } from "./lint/layers.ts";
import { netlinkDeclared } from "./lint/netlink_declared.ts";
import { noAmbient } from "./lint/no_ambient.ts";
import { retiredWords } from "./lint/retired_words.ts";

const plugin: Deno.lint.Plugin = {
  name: "cni",
  rules: {
    "change-checked": changeChecked,
    "error-message": errorMessage,
    "folded-keys": foldedKeys,
    "kernel-is-sync": kernelIsSync,
    "layers": layers,
    "netlink-declared": netlinkDeclared,
    "no-ambient": noAmbient,
    "retired-words": retiredWords,
  },
};

export default plugin;
