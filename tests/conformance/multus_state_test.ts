/**
 * What multus remembers, tells its delegates and logs: the rows of the list
 * that are about its state, by their numbers.
 */

import { assert, assertEquals, assertThrows } from "@std/assert";
import { join } from "@std/path/posix";
import { CniError } from "../../base/error.ts";
import type { JsonObject } from "../../base/json/json.ts";
import { checkInterfaceNames } from "../../plugins/multus/permit/interface_names.ts";
import { OperationLog } from "../../plugins/multus/operations/operation_log.ts";
import { ScratchCache } from "../../plugins/multus/records/scratch_cache.ts";
import {
  delegateArgs,
  runtimeConfOf,
} from "../../plugins/multus/model/attachment.ts";
import { parseK8sArgs } from "../../plugins/multus/model/k8s_args.ts";
import {
  type AttachmentRequest,
  type Delegate,
  loadDelegate,
} from "../../plugins/multus/model/delegate.ts";
import { conformance } from "../_harness/conformance.ts";

const NOBODY = parseK8sArgs("");
const ARGS = {
  containerId: "123456789",
  netns: "/run/netns/a",
  ifName: "eth0",
  args: "",
  path: "/opt/cni/bin",
  netnsOverride: false,
};
const PORT_MAPPINGS: JsonObject = {
  portMappings: [{ hostPort: 8080, containerPort: 80, protocol: "tcp" }],
};
const REQUEST: AttachmentRequest = {
  ifName: "test-if1",
  mac: "c2:11:22:33:44:77",
  infinibandGuid: "24:8a:07:03:00:8d:ae:2e",
  ips: ["10.1.2.1/24", "10.1.2.2"],
  bandwidth: { ingressRate: 100, egressRate: 200 },
  portMappings: [{ hostPort: 9090, containerPort: 90 }],
};

function encode(text: string): Uint8Array {
  return new TextEncoder().encode(text);
}

function delegate(
  config: JsonObject,
  request: AttachmentRequest = {},
): Delegate {
  return loadDelegate(encode(JSON.stringify(config)), { request });
}

const WEAVE = { name: "weave1", cniVersion: "0.2.0", type: "weave-net" };
const OTHER = { name: "other1", cniVersion: "0.2.0", type: "other-plugin" };

/** Lists CNI_ARGS of a delegate as its plugin reads them. */
function formatArgs(text: string): string {
  return delegateArgs(parseK8sArgs(text), text, {})
    .map(([key, value]) => `${key}=${value}`).join(";");
}

function capabilitiesOf(
  index: number,
  capabilityArgs: JsonObject,
): JsonObject | undefined {
  const delegates = [delegate(WEAVE, REQUEST), delegate(OTHER, REQUEST)];
  const source = { delegates, index, args: ARGS, k8s: NOBODY, capabilityArgs };
  return runtimeConfOf(source).capabilityArgs;
}

const LOG = {
  logLevel: "error",
  logToStderr: false,
  logOptions: {
    maxAgeDays: 5,
    maxSizeMegabytes: 100,
    maxBackups: 5,
    compress: true,
  },
};

/** A directory of multus' own, which is removed in the end. */
class Directory implements Disposable {
  readonly path: string = Deno.makeTempDirSync({ prefix: "multus-state-" });
  readonly scratch: ScratchCache = new ScratchCache(this.path);

  [Symbol.dispose](): void {
    Deno.removeSync(this.path, { recursive: true });
  }
}

conformance("multus state", {
  "13 a delegate gets container, namespace, name, ports": () => {
    const delegates = [delegate(WEAVE)];
    const source = { delegates, index: 0, args: ARGS, k8s: NOBODY };
    const conf = runtimeConfOf({ ...source, capabilityArgs: PORT_MAPPINGS });
    const { containerId, netns, ifName } = ARGS;
    assertEquals([conf.containerId, conf.netns, conf.ifName], [
      containerId,
      netns,
      ifName,
    ]);
    assertEquals(conf.capabilityArgs, PORT_MAPPINGS);
  },
  "14 five keys come first, then others, = in values": () => {
    const text = "IgnoreUnknown=true;K8S_POD_NAMESPACE=a;K8S_POD_NAME=b;" +
      "K8S_POD_INFRA_CONTAINER_ID=c;K8S_POD_UID=d;BLAHBLAH=foo=bar";
    const args = delegateArgs(NOBODY, text, {});
    assertEquals(
      args.map(([key, value]) => `${key}=${value}`).join(";"),
      text,
    );
    assertEquals(args[5], ["BLAHBLAH", "foo=bar"]);
  },
  "17 requests are not offered to the master": () => {
    assertEquals(capabilitiesOf(0, PORT_MAPPINGS), PORT_MAPPINGS);
  },
  "17 requests are offered to the others, and change nothing": () => {
    const offer = structuredClone(PORT_MAPPINGS);
    assertEquals(capabilitiesOf(1, offer), {
      portMappings: [{ hostPort: 9090, containerPort: 90 }],
      bandwidth: { ingressRate: 100, egressRate: 200 },
      ips: ["10.1.2.1/24", "10.1.2.2"],
      mac: "c2:11:22:33:44:77",
      infinibandGUID: "24:8a:07:03:00:8d:ae:2e",
    });
    assertEquals(offer, PORT_MAPPINGS);
  },
  "26 nothing can be remembered without a directory": () => {
    const scratch = new ScratchCache("");
    const write = (): void => scratch.write("123456789", [delegate(WEAVE)]);
    assertEquals(assertThrows(write, CniError).code, 5);
  },
  "29 a missing namespace has the reference's message": () => {
    const netns = "/nonexistent";
    const check = (): void =>
      checkInterfaceNames([delegate(WEAVE)], { ...ARGS, netns });
    assertThrows(
      check,
      CniError,
      'DelegateAdd: cannot set "weave-net" interface name to "eth0": ' +
        "validateIfName: no net namespace /nonexistent found: ",
    );
  },
  "37 CNI_ARGS of a delegate end with the pod's UID": () => {
    const text = "IgnoreUnknown=1;K8S_POD_NAMESPACE=test;K8S_POD_NAME=web-0;" +
      "K8S_POD_INFRA_CONTAINER_ID=;K8S_POD_UID=4f3f";
    const expected = "IgnoreUnknown=true;K8S_POD_NAMESPACE=test;" +
      "K8S_POD_NAME=web-0;K8S_POD_INFRA_CONTAINER_ID=;K8S_POD_UID=4f3f";
    assertEquals(formatArgs(text), expected);
  },
  "37 CNI_ARGS of a delegate have an empty UID if none is given": () => {
    const text = "K8S_POD_NAMESPACE=test;K8S_POD_NAME=web-0";
    const expected = `IgnoreUnknown=true;${text};` +
      "K8S_POD_INFRA_CONTAINER_ID=;K8S_POD_UID=";
    assertEquals(formatArgs(text), expected);
  },
  "39 what was remembered is read again": () => {
    using directory = new Directory();
    const { bandwidth: _, portMappings: __, ...kept } = REQUEST;
    const { scratch } = directory;
    scratch.write("123456789", [delegate(WEAVE), delegate(OTHER, REQUEST)]);
    assert(Deno.statSync(join(directory.path, "123456789")).isFile);
    // The format has no place for the two.
    const expected = [delegate(WEAVE), delegate(OTHER, kept)];
    assertEquals(scratch.read("123456789"), expected);
  },
  "55 CNI_ARGS without = are refused": () => {
    assertThrows(
      () => parseK8sArgs("K8S_POD_NAME:test"),
      CniError,
      "ARGS: invalid pair",
    );
  },
  "83 the log has a level, a file and stderr": () => {
    using directory = new Directory();
    const logFile = join(directory.path, "multus.log");
    const stderr: string[] = [];
    const log = new OperationLog(
      { ...LOG, logFile, logLevel: "Verbose", logToStderr: true },
      (line) => stderr.push(line),
    );
    log.verbose("told");
    log.debug("not told");
    assertEquals(stderr.length, 1);
    assertEquals(Deno.readTextFileSync(logFile), stderr.join(""));
  },
  "83 an invalid level is ignored": () => {
    const stderr: string[] = [];
    const config = { ...LOG, logLevel: "XXX", logToStderr: true };
    const log = new OperationLog(config, (line) => stderr.push(line));
    log.error("told");
    log.verbose("not told");
    assertEquals(stderr.length, 2);
  },
});
