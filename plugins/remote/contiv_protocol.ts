/**
 * contivk8s' protocol: a request for ADD and a request for DEL, with the pod's names.
 *
 * Source: contiv/netplugin mgmtfn/k8splugin.
 *
 * @module
 */

import { loadArgs } from "../../cni/call/args.ts";
import { CniError, ErrorCode } from "../../base/error.ts";
import {
  emptyResult,
  type IpConfig,
  type Result,
} from "../../cni/result/result.ts";
import { Cidr } from "../../net/cidr.ts";
import { parseObject } from "../../base/json/parse_object.ts";
import type { RemoteCall } from "./call.ts";
import { startOf } from "./cni_protocol.ts";
import { holdNetns } from "./held_netns.ts";
import { OWN_CODE, UnusableResult } from "./daemon_errors.ts";
import { type HttpAnswer } from "./http.ts";
import { escapeAsGo } from "../../base/json/json_bytes.ts";

const ADD_POD = "/ContivCNI.AddPod", DEL_POD = "/ContivCNI.DelPod";

/** The response's body. */
interface Answer {
  readonly result: number;
  readonly addresses: readonly string[];
  readonly message: string;
  readonly details: string;
}

/** Creates the pod's endpoint. */
export async function add(call: RemoteCall): Promise<Result> {
  const { addresses } = await post(call, ADD_POD);
  try {
    if (addresses.length === 0) {
      throw failure(
        ErrorCode.DecodingFailure,
        "the daemon returned no address",
      );
    }
    return merge(call, addresses.map(parseAddress));
  } catch (cause) {
    throw new UnusableResult("the result cannot be used", { cause });
  }
}

/** Deletes the pod's endpoint. */
export async function del(call: RemoteCall): Promise<void> {
  await post(call, DEL_POD);
}

/** Checks that the daemon listens, whatever its response, because it has no status. */
export async function status(call: RemoteCall): Promise<void> {
  await call.request({
    method: "GET",
    path: "/",
    host: "localhost",
    body: "",
  });
}

async function post(call: RemoteCall, path: string): Promise<Answer> {
  using netns = holdNetns(call);
  const answer = await call.request({
    method: "POST",
    path,
    host: "localhost",
    body: encodeBody(call, netns.path),
  });
  return readAnswer(call, path, answer);
}

const text = (value: string): string => value;

/** Encodes the names in the daemon's order, without empty names. */
function encodeBody(call: RemoteCall, netns: string): string {
  const { args: cniArgs, containerId, ifName } = call.args;
  const known = loadArgs<Record<string, string>>(
    `IgnoreUnknown=1;${cniArgs}`.replace(/;+$/, ""),
    {
      K8S_POD_NAME: text,
      K8S_POD_NAMESPACE: text,
      K8S_POD_INFRA_CONTAINER_ID: text,
    },
  );
  const body = {
    K8S_POD_NAME: known["K8S_POD_NAME"],
    K8S_POD_NAMESPACE: known["K8S_POD_NAMESPACE"],
    // Without this, the daemon could not delete the endpoint.
    K8S_POD_INFRA_CONTAINER_ID: known["K8S_POD_INFRA_CONTAINER_ID"] ??
      containerId,
    CNI_NETNS: netns,
    CNI_IFNAME: ifName,
  };
  const given = Object.entries(body).filter(([, value]) => value);
  return escapeAsGo(JSON.stringify(Object.fromEntries(given)));
}

/**
 * @throws {CniError} With the daemon's code, or 100
 * @throws {UnusableResult} If ADD succeeded without a readable response
 */
function readAnswer(
  call: RemoteCall,
  path: string,
  { status, body }: HttpAnswer,
): Answer {
  if (status === 404) {
    throw failure(OWN_CODE, "page not found", { details: call.path(path) });
  }
  if (status === 403) throw failure(OWN_CODE, "access denied");
  const document = parseObject(body);
  const answer = document && decodeAnswer(document);
  if (status === 200 && answer === undefined) {
    const error = failure(
      ErrorCode.DecodingFailure,
      "the daemon's answer is not a JSON object of the expected form",
      { details: startOf(body) },
    );
    // The daemon might have completed the command.
    throw path === ADD_POD
      ? new UnusableResult("the answer cannot be used", { cause: error })
      : error;
  }
  if (status === 200 && answer?.result === 0) return answer;
  const code = answer?.result || OWN_CODE;
  if (answer !== undefined && answer.message !== "") {
    throw failure(code, answer.message, { details: answer.details });
  }
  throw failure(
    code,
    status === 200
      ? `the daemon reports failure ${code}`
      : `the daemon answered with status ${status}`,
    { details: answer?.details || startOf(body) },
  );
}

function decodeAnswer(
  document: Record<string, unknown>,
): Answer | undefined {
  const { result = 0, errmsg = "", errinfo = "" } = document;
  const { ipaddress = "", ipv6address = "" } = document;
  const texts = [ipaddress, ipv6address, errmsg, errinfo];
  const isWhole = Number.isSafeInteger(result) && Number(result) >= 0 &&
    texts.every((value) => typeof value === "string");
  if (!isWhole) return undefined;
  return {
    result: Number(result),
    addresses: [ipaddress, ipv6address].map(String)
      .filter((address) => address !== ""),
    message: String(errmsg),
    details: String(errinfo),
  };
}

function parseAddress(text: string): Cidr {
  try {
    return Cidr.parse(text);
  } catch (cause) {
    throw failure(
      ErrorCode.DecodingFailure,
      `the daemon returned "${text}", which is not an address with a prefix length`,
      { cause },
    );
  }
}

/** Adds the endpoint's addresses to the previous plugin's result. */
function merge(call: RemoteCall, addresses: readonly Cidr[]): Result {
  const before = call.prevResult() ?? emptyResult();
  const { ifName: name, netns: sandbox } = call.args;
  const index = before.interfaces.length;
  const ips = addresses.map((address): IpConfig => ({
    address,
    ...call.interfaces && { interface: index },
  }));
  return {
    ...before,
    interfaces: call.interfaces
      ? [...before.interfaces, { name, sandbox }]
      : before.interfaces,
    ips: [...before.ips, ...ips],
  };
}

/** Creates an error in contivk8s' form. */
function failure(
  code: number,
  message: string,
  more: { readonly details?: string; readonly cause?: unknown } = {},
): CniError {
  return new CniError(code, `Contiv:${message}`, more);
}
