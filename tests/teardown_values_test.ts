/**
 * DEL and GC with any value of any key: ADD would have refused a value that is
 * wrong, so there is nothing to undo, and nothing may end the rest.
 */

import { assertEquals } from "@std/assert";
import {
  isObject,
  type JsonObject,
  type JsonValue,
} from "../base/json/json.ts";
import { canBePlugin } from "../cni/invoke/find.ts";
import { METADATA } from "../plugins/lists/metadata.ts";
import { rootTest } from "../testing/capabilities.ts";
import { TestHosts } from "../testing/test_hosts.ts";
import { eachRow } from "./_harness/table.ts";

/** Values of all types, among them names that no file and no link can have. */
const VALUES: readonly JsonValue[] = [
  "",
  "a/b",
  "..",
  "a:b c",
  "x".repeat(5000),
  "💥",
  5,
  -1,
  1.5,
  1e300,
  true,
  null,
  [],
  [[]],
  [""],
  [{}],
  {},
  { a: "b" },
];

const COMMANDS = ["DEL", "GC"];

/** Plugins whose GC needs what another program of the node provides. */
const NEEDS_DAEMON: ReadonlySet<string> = new Set([
  "contivk8s",
  "flannel",
  "remote",
]);

const CNI_ARGS = ["a", "=", ";;", "IP=none;MAC=none", "IgnoreUnknown=2"];

/** Puts a value where a path such as `ranges[][].subnet` leads. */
function place(path: string, value: JsonValue): JsonObject {
  const [first = "", ...rest] = path.split(".");
  const name = first.replaceAll("[]", "");
  const inner = rest.length === 0 ? value : place(rest.join("."), value);
  const depth = (first.length - name.length) / 2;
  const wrapped = Array.from({ length: depth })
    .reduce<JsonValue>((all) => [all], inner);
  return { [name]: wrapped };
}

rootTest("DEL and GC succeed with any value of any key", async (t) => {
  // multus runs networks, and waits for one that is not ready.
  const plugins = [...METADATA.values()].filter(({ type }) =>
    type !== "multus"
  );
  await eachRow(t, plugins, async ({ type, kind, keys, ipam }) => {
    using hosts = TestHosts.create();
    const { keys: described = {} } = await keys();
    const paths = [
      ...Object.keys(described).map((path) =>
        kind === "ipam" ? `ipam.${path}` : path
      ),
      "prevResult",
      "runtimeConfig",
      "args",
      "capabilities",
      "dns",
      "ipam",
      ...ipam === undefined ? [] : ["ipam.type"],
    ];
    const failures: string[] = [];
    for (const path of new Set(paths)) {
      for (const value of VALUES) {
        const config = {
          cniVersion: "1.1.0",
          name: "teardown-values",
          type,
          ...place(path, value),
        };
        // With a result, ADD has run other plugins than the configuration has now.
        const isAdded = path === "prevResult" && isObject(value);
        if (type === "chain" && isAdded) continue;
        // A plugin that can be installed may only be missing now.
        if (/\btype$/.test(path) && canBePlugin(String(value))) continue;
        for (const command of NEEDS_DAEMON.has(type) ? ["DEL"] : COMMANDS) {
          const gc = { "cni.dev/valid-attachments": [] };
          const input = command === "GC" ? { ...config, ...gc } : config;
          const { exitCode, stdout } = await hosts.run(type, command, input);
          if (exitCode === 0) continue;
          const text = JSON.stringify(value)?.slice(0, 40);
          failures.push(`${command} ${path} ${text}: ${stdout}`);
        }
      }
    }
    for (const args of CNI_ARGS) {
      const env = { CNI_ARGS: args };
      const config = { cniVersion: "1.1.0", name: "teardown-values", type };
      const { exitCode, stdout } = await hosts.run(type, "DEL", config, {
        env,
      });
      if (exitCode !== 0) failures.push(`DEL CNI_ARGS=${args}: ${stdout}`);
    }
    assertEquals(failures, []);
  }, ({ type }) => type);
});
