/**
 * Attacks of the author of a NetworkAttachmentDefinition on a node.
 *
 * `docs/security.md` has these rows as a table.
 *
 * @module
 */

import type { JsonObject } from "../../cni/json/json.ts";

/** Where a definition tries it. */
export interface AttackPlace {
  /** A directory of the author: what is written to it, or run from it, is seen. */
  readonly directory: string;
  /** Of the node's plugins. */
  readonly kubeconfig: string;
}

/** A definition. */
export interface Attack {
  /** The attempt. */
  readonly title: string;
  /** The key that refusals name; undefined if it is allowed. */
  readonly key: string | undefined;
  /**
   * The outcome with Go multus and this project's plugins: done; refused by
   * a plugin; attached without what it tries; or the plugin is not installed.
   */
  readonly withGo: "done" | "refused" | "ignored" | "absent";
  /** The configuration, without cniVersion and name. */
  readonly conf: (place: AttackPlace) => JsonObject;
}

const RUN = ["sh", "-c", "touch ran"];
const SUBNET = "10.66.0.0/24";

const ipam = (keys: JsonObject): JsonObject => ({ type: "ptp", ipam: keys });
const hostLocal = (keys: JsonObject): JsonObject =>
  ipam({ type: "host-local", ranges: [[{ subnet: SUBNET }]], ...keys });
const whereabouts = (keys: JsonObject): JsonObject =>
  ipam({ type: "whereabouts", range: SUBNET, ...keys });
const attack = (
  title: string,
  key: string | undefined,
  withGo: Attack["withGo"],
  conf: Attack["conf"],
): Attack => ({ title, key, withGo, conf });

/** The rows. */
export const ATTACKS: readonly Attack[] = [
  attack(
    "run a program by `multus` in `ipam`",
    "binDir",
    "done",
    (place) => ({
      type: "bridge",
      bridge: "br-evil",
      binDir: place.directory,
      delegates: [{ name: "z", type: "evil" }],
      ipam: { type: "multus" },
    }),
  ),
  attack(
    "run a program by `multus` in a list",
    "itself",
    "done",
    (place) => ({
      plugins: [{ type: "passthru" }, {
        type: "multus",
        delegates: [{ name: "z", type: "evil" }],
        BinDir: place.directory,
      }],
    }),
  ),
  attack(
    "run a program by hooks of `debug`",
    "type",
    "refused",
    ({ directory }) => ({
      type: "debug",
      addHooks: [[...RUN.slice(0, 2), `touch ${directory}/ran`]],
    }),
  ),
  attack(
    "run a program by `debug` in `ipam`",
    "ipam.type",
    "refused",
    ({ directory }) =>
      ipam({ type: "debug", addHooks: [["touch", `${directory}/ran`]] }),
  ),
  attack(
    "run a program by `debug` in flannel's `delegate`",
    "delegate.type",
    "refused",
    ({ directory }) => ({
      type: "flannel",
      delegate: { type: "debug", addHooks: [["touch", `${directory}/ran`]] },
    }),
  ),
  attack(
    "run a program by `debug` in `chain`",
    "type",
    "refused",
    ({ directory }) => ({
      type: "chain",
      plugins: [{ type: "debug", addHooks: [["touch", `${directory}/ran`]] }],
    }),
  ),
  attack(
    "run a program by another case of `type`",
    "plugins[0].TYPE",
    "ignored",
    ({ directory }) => ({
      plugins: [{
        ...hostLocal({}),
        TYPE: "debug",
        addHooks: [["touch", `${directory}/ran`]],
      }],
    }),
  ),
  attack(
    "run a program by a key of another project's plugin",
    "steps[0].type",
    "ignored",
    ({ directory }) => ({
      ...hostLocal({}),
      steps: [{ type: "debug", addHooks: [["touch", `${directory}/ran`]] }],
    }),
  ),
  attack(
    "run commands of `nft` by conditions of `portmap`",
    "plugins[1].conditionsV4",
    "refused",
    ({ directory }) => ({
      plugins: [hostLocal({}), {
        type: "portmap",
        backend: "nftables",
        conditionsV4: [`\ninclude "${directory}/secret"`],
        runtimeConfig: {
          portMappings: [{
            hostPort: 8080,
            containerPort: 80,
            protocol: "tcp",
          }],
        },
      }],
    }),
  ),
  attack("run `cni` as a plugin", "type", "refused", () => ({ type: "cni" })),
  attack(
    "write a file by `cniOutput` of `debug`",
    "type",
    "refused",
    ({ directory }) => ({
      type: "debug",
      cniOutput: `${directory}/written`,
    }),
  ),
  attack(
    "write files by `dataDir` of `host-local`",
    "ipam.dataDir",
    "done",
    ({ directory }) => hostLocal({ dataDir: `${directory}/written` }),
  ),
  attack(
    "write files by `dataDir` in capitals",
    "ipam.DATADIR",
    "done",
    ({ directory }) => hostLocal({ DATADIR: `${directory}/written` }),
  ),
  attack(
    "write files by `dataDir` of `tuning`",
    "plugins[1].dataDir",
    "done",
    ({ directory }) => ({
      plugins: [hostLocal({}), {
        type: "tuning",
        mtu: 1400,
        dataDir: `${directory}/written`,
      }],
    }),
  ),
  attack(
    "write files by `dataDir` of `flannel`",
    "dataDir",
    "done",
    ({ directory }) => ({
      type: "flannel",
      dataDir: `${directory}/written`,
    }),
  ),
  attack(
    "write files by `dataDir` of `whereabouts`",
    "ipam.dataDir",
    "done",
    ({ directory, kubeconfig }) =>
      whereabouts({
        dataDir: `${directory}/written`,
        kubernetes: { kubeconfig },
      }),
  ),
  attack(
    "write a log by `log_file`",
    "ipam.log_file",
    "ignored",
    ({ directory, kubeconfig }) =>
      whereabouts({
        log_file: `${directory}/written`,
        kubernetes: { kubeconfig },
      }),
  ),
  attack("write a log by `logFile`", "logFile", "ignored", ({ directory }) => ({
    ...hostLocal({}),
    logFile: `${directory}/written`,
  })),
  attack(
    "write device information by `CNIDeviceInfoFile`",
    "runtimeConfig.CNIDeviceInfoFile",
    "ignored",
    ({ directory }) => ({
      ...hostLocal({}),
      runtimeConfig: { CNIDeviceInfoFile: `${directory}/written` },
    }),
  ),
  attack(
    "write a file by the test double `noop`",
    "type",
    "absent",
    ({ directory }) => ({
      type: "noop",
      debugFile: `${directory}/written`,
    }),
  ),
  attack(
    "read a file by `configuration_path`",
    "ipam.configuration_path",
    "done",
    ({ directory }) =>
      whereabouts({ configuration_path: `${directory}/secret` }),
  ),
  attack(
    "read a file by `kubeconfig`",
    "ipam.kubernetes.kubeconfig",
    "done",
    ({ directory }) =>
      whereabouts({ kubernetes: { kubeconfig: `${directory}/secret` } }),
  ),
  attack(
    "read a file by `resolvConf`",
    "ipam.resolvConf",
    "done",
    ({ directory }) => hostLocal({ resolvConf: `${directory}/secret` }),
  ),
  attack(
    "read a file by `subnetFile`",
    "subnetFile",
    "done",
    ({ directory }) => ({
      type: "flannel",
      subnetFile: `${directory}/secret`,
    }),
  ),
  attack(
    "send credentials to another API server",
    "ipam.kubernetes.k8s_api_root",
    "ignored",
    ({ kubeconfig }) =>
      whereabouts({
        kubernetes: { k8s_api_root: "https://192.0.2.1", kubeconfig },
      }),
  ),
  attack("reach a socket by `remote`", "type", "done", ({ directory }) => ({
    type: "remote",
    socket: `${directory}/evil.sock`,
    basePath: "/v1",
    envAll: true,
  })),
  attack("reach a socket by `contivk8s`", "type", "done", ({ directory }) => ({
    type: "contivk8s",
    socket: `${directory}/evil.sock`,
  })),
  attack(
    "reach a socket by `daemonSocket`",
    "daemonSocket",
    "done",
    ({ directory }) => ({
      ...hostLocal({}),
      daemonSocket: `${directory}/evil.sock`,
    }),
  ),
  attack(
    "reach a socket by `daemonSocket` of an IPAM plugin",
    "ipam.daemonSocket",
    "ignored",
    ({ directory }) => hostLocal({ daemonSocket: `${directory}/evil.sock` }),
  ),
  attack(
    "write a log by a key that is not known",
    "log-file",
    "ignored",
    ({ directory }) => ({
      ...hostLocal({}),
      "log-file": `${directory}/written`,
    }),
  ),
  attack(
    "reach a socket by a key that is not known",
    "ipam.event_address",
    "ignored",
    ({ directory }) => hostLocal({ event_address: `${directory}/evil.sock` }),
  ),
  attack(
    "reach a socket by `daemonSocketPath` of `dhcp`",
    "ipam.daemonSocketPath",
    "done",
    ({ directory }) =>
      ipam({ type: "dhcp", daemonSocketPath: `${directory}/evil.sock` }),
  ),
  attack("take a link of the node by `host-device`", undefined, "done", () => ({
    type: "host-device",
    device: "wire0",
  })),
  attack("join a bridge of the node", undefined, "done", () => ({
    type: "bridge",
    bridge: "br-blue",
  })),
];
