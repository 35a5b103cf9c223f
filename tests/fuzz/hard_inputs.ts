/**
 * Configurations that are known to be hard: those that once had an answer that
 * was none, and those that suggest themselves. Every plugin is given them by
 * every command before anything random is tried.
 *
 * @module
 */

import { COMMANDS } from "../../cni/call/args.ts";
import { pluginNames } from "../../plugins/registry.ts";
import { type FuzzInput, showBytes } from "./input.ts";

const ENV = {
  CNI_CONTAINERID: "c",
  CNI_NETNS: "@sandbox",
  CNI_IFNAME: "eth0",
  CNI_PATH: "@path",
};

const IPAM = { type: "host-local", dataDir: "leases", subnet: "10.1.2.0/24" };

/** A good configuration with some keys changed. */
function configWith(keys: object, version = "1.1.0"): string {
  return JSON.stringify({
    cniVersion: version,
    name: "net1",
    type: "plugin",
    ipam: IPAM,
    // flannel's: whether others can read /var/lib/cni differs between machines.
    dataDir: "@path/saved",
    ...keys,
  });
}

/** A good configuration with one key in the text that no value could be. */
function textWith(key: string, text: string): string {
  return configWith({}).replace(/\}$/, () => `,"${key}":${text}}`);
}

function nested(open: string, close: string, depth = 20_000): string {
  return `${open.repeat(depth)}1${close.repeat(depth)}`;
}

const LISTS = nested("[", "]"), OBJECTS = nested('{"a":', "}");
/** As deep as a configuration may be, with room for what is around it. */
const DEEP_OBJECTS = nested('{"a":', "}", 990);

/** Configurations by what is hard about them. */
const CONFIGS: Readonly<Record<string, string>> = {
  "nothing": "",
  "white space": " \n",
  "null": "null",
  "a list": "[]",
  "a byte order mark": `\u00ef\u00bb\u00bf${configWith({})}`,
  "a NUL behind it": `${configWith({})}\0`,
  "two documents": configWith({}).repeat(2),
  "lists in lists, and no end": "[".repeat(20_000),
  "lists in lists": textWith("x", LISTS),
  "objects in objects": textWith("x", OBJECTS),
  "lists in lists in ipam": textWith("ipam", LISTS),
  "objects in objects in prevResult": textWith("prevResult", OBJECTS),
  "a prevResult that hands on objects in objects": textWith(
    "prevResult",
    `{"ips":[{"address":"10.1.2.3/24"}],"x":${OBJECTS}}`,
  ),
  "as many objects in objects as may be": textWith("x", DEEP_OBJECTS),
  "a prevResult with as many objects in objects as may be": textWith(
    "prevResult",
    `{"ips":[{"address":"10.1.2.3/24"}],"x":${DEEP_OBJECTS}}`,
  ),
  "keys of JavaScript's own": textWith(
    "__proto__",
    '{"constructor":{"prototype":1},"toString":1,"hasOwnProperty":1}',
  ),
  "a number beyond all numbers": textWith("mtu", "1e400"),
  "a number that loses digits": textWith("mtu", "9007199254740993"),
  "a long text": configWith({ x: "x".repeat(2 ** 18) }),
  "ten thousand keys": configWith(
    Object.fromEntries(Array.from({ length: 10_000 }, (_, i) => [`k${i}`, i])),
  ),
  "half a character": configWith({ x: "\ud800", ipam: { type: "\ud800" } }),
  "a NUL in a path": configWith({
    cniOutput: "a\0b",
    ipam: { ...IPAM, dataDir: "a\0b", resolvConf: "a\0b" },
  }),
  "an IPAM plugin outside": configWith({ ipam: { type: "../../bin/true" } }),
  "an IPAM plugin that is a directory": configWith({ ipam: { type: ".." } }),
  "the largest networks": configWith({
    ipam: {
      ...IPAM,
      ranges: [[{ subnet: "0.0.0.0/0" }], [{ subnet: "::/0" }]],
    },
  }),
  "the smallest networks": configWith({
    ipam: { ...IPAM, subnet: "10.1.2.3/32", ranges: [[{ subnet: "::1/128" }]] },
  }),
  "an interface that the result does not have": configWith({
    prevResult: { ips: [{ address: "10.1.2.3/24", interface: -1 }] },
  }),
  "interfaces without names": configWith({
    prevResult: { interfaces: [{}, { name: "" }], ips: [] },
  }),
  "a null in every list": configWith({
    prevResult: { interfaces: [null], ips: [null], routes: [null] },
    "cni.dev/valid-attachments": [null],
    runtimeConfig: { ips: [null], ipRanges: [null], portMappings: [null] },
  }),
  "invalid plugins": configWith({ plugins: [null, {}, 5, []] }),
  "chains in chains": textWith(
    "plugins",
    `${'[{"type":"chain","plugins":'.repeat(50)}[]${"}]".repeat(50)}`,
  ),
  "chains in chains, and no end": textWith(
    "plugins",
    `${'[{"type":"chain","plugins":'.repeat(5000)}[]${"}]".repeat(5000)}`,
  ),
  "a prevResult of another family": configWith({
    prevResult: { cniVersion: "0.2.0", ip4: { ip: "10.1.2.3/24" } },
  }),
  "a prevResult without addresses in 0.2.0": configWith(
    { prevResult: { cniVersion: "0.2.0" } },
    "0.2.0",
  ),
  "valid attachments of null": configWith({
    "cni.dev/valid-attachments": null,
  }),
};

function showUtf8(text: string): string {
  // What is not ASCII but below U+0100 stands for a byte already.
  const isBytes = /^[\0-\u00ff]*$/.test(text);
  return isBytes ? text : showBytes(new TextEncoder().encode(text));
}

/**
 * Calls by what is hard about them, as a failure of the fuzz shows them. What is
 * left out is good, and tried for every plugin and every command.
 */
const CALLS: Readonly<Record<string, Partial<FuzzInput>>> = {
  "the host as its sandbox": { env: { CNI_NETNS: "@host" } },
  "the host as its sandbox, by leave": {
    env: { CNI_NETNS: "@host", CNI_NETNS_OVERRIDE: "1" },
  },
  "a namespace of another kind": { env: { CNI_NETNS: "/proc/self/ns/mnt" } },
  "a device as its namespace": { env: { CNI_NETNS: "/dev/null" } },
  "a directory as its namespace": { env: { CNI_NETNS: "/" } },
  "a NUL in its namespace": { env: { CNI_NETNS: "/a\0b" } },
  "the loopback as its interface": { env: { CNI_IFNAME: "lo" } },
  "invalid arguments": { env: { CNI_ARGS: ";=;" } },
  "directories of invalid plugins": {
    env: { CNI_PATH: "::\0:/dev/null" },
  },
  ...Object.fromEntries(
    Object.entries(CONFIGS)
      .map(([name, config]) => [name, { stdin: showUtf8(config) }]),
  ),
};

/** Lists the calls, each with a name. */
export function listHardInputs(): [name: string, input: FuzzInput][] {
  return Object.entries(CALLS).flatMap(([name, call]) => {
    const plugins = call.plugin ? [call.plugin] : pluginNames;
    const command = call.env?.["CNI_COMMAND"];
    return plugins.flatMap((plugin) =>
      (command ? [command] : COMMANDS)
        .map((command): [string, FuzzInput] => [
          `${plugin} ${command}: ${name}`,
          complete({ ...call, plugin }, command),
        ])
    );
  });
}

function complete(
  { plugin = "", env, stdin = configWith({}), delegation = "done" }: Partial<
    FuzzInput
  >,
  command: string,
): FuzzInput {
  return {
    plugin,
    env: { ...ENV, ...env, CNI_COMMAND: command },
    stdin,
    delegation,
  };
}
