/**
 * Faults of the configuration directory.
 *
 * @module
 */

import {
  conf,
  type Fault,
  mode,
  network,
  OLD,
  plugin,
  remove,
  withPtp,
} from "../fault.ts";

/** Faults of the configuration directory. */
export const CONFIGURATIONS_FAULTS: readonly Fault[] = [
  {
    name: "an earlier file is broken",
    checks: ["conf-unusable"],
    message: /05-x.conflist" cannot be used: .*unexpected end at line 1/,
    seed: conf("05-x.conflist", "{"),
  },
  {
    name: "a pipe that nobody writes to",
    checks: ["conf-unusable"],
    message: /05-x.conf" cannot be read: .*not a file/,
    seed: (scene) => {
      const path = scene.writeConf("05-x.conf", "");
      Deno.removeSync(path);
      new Deno.Command("mkfifo", { args: [path] }).outputSync();
      return () => Deno.removeSync(path);
    },
  },
  {
    name: "a chain with something else than plugins",
    checks: ["conf-unusable"],
    message: /30-more.conflist" cannot be used: /,
    seed: network({ type: "chain", plugins: [5] }),
  },
  {
    name: "two files with one name",
    checks: ["conf-same-name"],
    message: /"30-pods.conflist" is not used: "10-pods.conflist"/,
    seed: (scene) => {
      const { plugins } = scene.readNetwork("10-pods");
      const path = scene.writeNetwork("30-pods", plugins);
      return () => {
        for (const one of [path, `${path}.unused`]) remove(one);
      };
    },
    follow: true,
  },
  {
    name: "a value of the wrong type",
    checks: ["conf-invalid"],
    message: /30-more.conflist": plugins\[0\].mtu: /,
    seed: network({ type: "bridge", mtu: "abc" }),
  },
  {
    name: "a condition of the other family",
    checks: ["conf-invalid"],
    message: /plugins\[1\].conditionsV4\[2\]: "fd00::\/8" is for IPv6 packets/,
    seed: withPtp({
      type: "portmap",
      capabilities: { portMappings: true },
      conditionsV4: ["!", "-s", "fd00::/8"],
    }),
  },
  {
    name: "debug writes where runtimes read",
    checks: ["conf-invalid", "not-ready"],
    message: /plugins\[1\].cniOutput: runtimes read each file of /,
    seed: withPtp({ type: "debug", cniOutput: "/etc/cni/net.d/00-debug.conf" }),
  },
  {
    name: "a misspelt key",
    checks: ["conf-doubtful"],
    message: /did you mean "isGateway"/,
    seed: network({ type: "bridge", isGatway: true }),
  },
  {
    name: "no network",
    checks: ["no-network"],
    message: /has no usable network configuration/,
    seed: () => () => {},
    options: ({ hosts, cacheDir, proc }) => ({
      directories: { pluginDirs: [hosts.path], confDir: proc, cacheDir },
    }),
  },
  {
    name: "a configuration in YAML, and another network becomes the default",
    checks: ["conf-ignored"],
    message: /00-first.conflist.yaml" is not read: /,
    seed: conf(
      "00-first.conflist.yaml",
      "name: first\nplugins:\n- type: ptp\n",
    ),
  },
  {
    name: "a configuration whose name ends in .txt",
    checks: ["conf-ignored"],
    message: /30-more.conflist.txt" is not read: /,
    seed: conf("30-more.conflist.txt", '{ "type": "ptp" }'),
  },
  {
    name: "a dangling link in the configuration directory",
    checks: ["conf-unusable"],
    message: /05-x.conflist" cannot be read: /,
    seed: ({ confDir }) => {
      Deno.symlinkSync("/nonexistent", `${confDir}/05-x.conflist`);
      return () => Deno.removeSync(`${confDir}/05-x.conflist`);
    },
  },
  {
    name: "a list without plugins",
    checks: ["conf-unusable"],
    message: /05-x.conflist" cannot be used: /,
    seed: conf(
      "05-x.conflist",
      '{"cniVersion":"1.1.0","name":"x","plugins":[]}',
    ),
  },
  {
    name: "debug that the node does not ask for",
    checks: ["not-ready"],
    message: /"x" is not ready: Refused "cniOutput": no file in /,
    seed: (scene) => {
      // The plugin looks below /etc/cni or NETCONFPATH, which is elsewhere.
      const path = scene.writeNetwork("05-x", [
        { type: "debug", cniOutput: "/nonexistent/of-doctor-test" },
      ]);
      return () => Deno.removeSync(path);
    },
  },
  {
    name: "a name that runtimes refuse",
    checks: ["conf-unusable"],
    message: /05-x.conflist" cannot be used: /,
    seed: conf(
      "05-x.conflist",
      '{"cniVersion":"1.0.0","name":"a/b","plugins":[{"type":"ptp"}]}',
    ),
  },
  {
    name: "a version that no plugin supports",
    checks: ["conf-invalid", "not-ready", "conf-doubtful"],
    message: /30-more.conflist": .*9\.9\.9/,
    seed: network({ type: "bridge" }, { cniVersion: "9.9.9" }),
  },
  {
    name: "a plugin that does not support the network's version",
    checks: ["conf-invalid"],
    message: /30-more.conflist": .*1\.1\.0/,
    seed: plugin("old", OLD),
  },
  {
    name: "a world-writable configuration",
    checks: ["conf-writable"],
    message: /any user can write to ".*20-lan.conflist"/,
    seed: mode(({ confDir }) => `${confDir}/20-lan.conflist`, 0o666),
    follow: true,
  },
  {
    name: "a world-writable configuration directory",
    checks: ["conf-writable"],
    message: /any user can write to ".*net.d"/,
    seed: mode(({ confDir }) => confDir, 0o777),
    follow: true,
  },
];
