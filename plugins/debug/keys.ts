/**
 * The keys of debug's configuration.
 *
 * @module
 */

import type { PluginKeys } from "../../metadata/plugin_keys.ts";
import example from "./example.json" with { type: "json" };

/** See {@linkcode PluginKeys}. */
export const keys: PluginKeys = {
  summary: "records the input of plugins and runs hooks in the sandbox",
  goPeer: "containernetworking/cni plugins/debug",
  text:
    "Records what the plugins of a list receive, and runs commands inside the sandbox. It changes nothing itself: it passes on the previous plugin's result.",
  example,
  keys: {
    "cniOutput": {
      text:
        "The file to append each call to. It is created with mode 0644; its directory must exist.",
      type: "string",
      default: "none",
      names: "path",
    },
    "addHooks": {
      text:
        "Commands to run in the sandbox's network namespace, each a program followed by its arguments.",
      type: "list of lists",
      default: "none",
      names: "program",
    },
    "delHooks": {
      text:
        "Commands to run in the sandbox's network namespace, each a program followed by its arguments.",
      type: "list of lists",
      default: "none",
      names: "program",
    },
    "checkHooks": {
      text:
        "Commands to run in the sandbox's network namespace, each a program followed by its arguments.",
      type: "list of lists",
      default: "none",
      names: "program",
    },
    "hookTimeoutSeconds": {
      text:
        "How long one hook may take. After that the hook and its children are killed.",
      type: "number",
      default: "30",
    },
  },
};
