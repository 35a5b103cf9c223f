import { assert, assertEquals } from "@std/assert";
import { readSubject } from "../../../daemon/server/call.ts";
import { multus } from "../plugin.ts";
import type { TranslatedCall } from "../../../daemon/server/call_socket.ts";
import { identifyShimCall, translateShimCall } from "./shim_call.ts";

const POD = "K8S_POD_NAMESPACE=default;K8S_POD_NAME=web";

function requestOf(
  args: string,
): Parameters<typeof translateShimCall>[0] {
  return {
    name: "multus-shim",
    env: {
      CNI_COMMAND: "ADD",
      CNI_CONTAINERID: "c",
      CNI_NETNS: "/n",
      CNI_IFNAME: "eth0",
      CNI_PATH: "/bin",
      CNI_ARGS: args,
    },
    stdin: new TextEncoder().encode(
      '{"cniVersion":"0.2.0","name":"n","type":"multus-shim"}',
    ),
  };
}

function translate(
  args: string,
  overlay = {},
): Promise<TranslatedCall | string | undefined> {
  return translateShimCall(requestOf(args), {
    lookup: () => Promise.resolve(multus),
    env: {},
    overlay: { cniVersion: "1.0.0", ...overlay },
    onStderr: () => {},
  });
}

Deno.test("translateShimCall() returns the output of a call that ran", async () => {
  const call = await translate(POD);
  if (typeof call !== "object") throw new Error(call);
  // 0.2.0 cannot express a result without addresses.
  const stdout = '{"cniVersion":"1.0.0","interfaces":[{"name":"eth0"}]}';
  const answer = await call.convert({ stdout, exitCode: 0 });
  assert("stdout" in answer);
  assertEquals(answer.exitCode, 1);
  assertEquals(JSON.parse(answer.stdout).code, 1);
});

Deno.test("translateShimCall() refuses all invalid calls with one message", async () => {
  for (const args of ["", "K8S_POD_NAME=web", "K8S_POD_NAME=web;own=a=b"]) {
    assertEquals(await translate(args), "invalid shim call");
  }
});

Deno.test("identifyShimCall() queues a call with the calls of multus", async () => {
  const overlay = { Name: "of the daemon" };
  const call = await translate(POD, overlay);
  if (typeof call !== "object") throw new Error(call);
  const identity = identifyShimCall(requestOf(""), overlay);
  assert(identity);
  const { attachment, queueKey } = readSubject(identity, false);
  const expected = readSubject(call, false);
  assertEquals([attachment, queueKey], [
    expected.attachment,
    expected.queueKey,
  ]);
  assertEquals(expected.network, "of the daemon");
  const other = { ...requestOf(POD), name: "multus" };
  assertEquals(identifyShimCall(other, overlay), undefined);
});
