/**
 * Masquerading on kernels that lack something, simulated by refusals at the
 * netlink boundary.
 */

import { assertEquals, assertMatch } from "@std/assert";
import { NetlinkError } from "../../../../ffi/netlink/error.ts";
import type { EncodedRequest } from "../../../../ffi/netlink/request.ts";
import { NetlinkSocket } from "../../../../ffi/netlink/socket.ts";
import { rootTest } from "../../../../testing/capabilities.ts";
import { dualStack } from "../../../../tests/_harness/dual_stack.ts";
import { intercept } from "../../../../testing/fault_injector.ts";
import { MasqueradeScene } from "../../../../tests/_harness/masquerade_scene.ts";
import { OUTSIDE, reached } from "../../../../tests/_harness/outside.ts";
import { PluginScene } from "../../../../tests/_harness/plugin_scene.ts";
import { needsRuleTools, rulesOf } from "../../../../tests/_harness/rules.ts";

const ENOENT = 2;
/** Source: include/uapi/linux/netfilter.h `NFPROTO_INET`. */
const INET = 1;

type IsRefused = (request: EncodedRequest) => boolean;

/** Linux before 5.2. */
const inetNat: IsRefused = ({ name, body }) =>
  name === "NFT_MSG_NEWCHAIN" && body[0] === INET;
/** A kernel without nft_compat. */
const compat: IsRefused = ({ name, body }) =>
  name === "NFT_MSG_NEWRULE" &&
  new TextDecoder("latin1").decode(body).includes("match\0");

/** Makes the kernel refuse some changes. */
function refuse(refused: readonly IsRefused[]): Disposable {
  const stack = new DisposableStack();
  stack.defer(intercept(
    NetlinkSocket.prototype,
    "requestAll",
    ([requests], work) => {
      const found = (requests as EncodedRequest[])
        .find((request) => refused.some((isRefused) => isRefused(request)));
      if (found === undefined) return work();
      throw new NetlinkError(found.name, ENOENT, {});
    },
  ));
  return stack;
}

const ROWS: readonly [
  name: string,
  backend: string | undefined,
  refused: readonly IsRefused[],
  outcome: RegExp,
][] = [
  ["Linux 5.1", undefined, [inetNat], /^-A CNI-/m],
  ["Linux 5.1", "iptables", [inetNat], /^-A CNI-/m],
  ["no nft_compat", undefined, [compat], /chain masq_checks/],
  ["no nft_compat", "nftables", [compat], /chain masq_checks/],
];

const LACKING: readonly [
  name: string,
  backend: string | undefined,
  refused: readonly IsRefused[],
  reason: RegExp,
][] = [
  ["Linux 5.1", "nftables", [inetNat], /NFT_MSG_NEWCHAIN/],
  ["no nft_compat", "iptables", [compat], /NFT_MSG_NEWRULE/],
  [
    "neither",
    undefined,
    [inetNat, compat],
    /NFT_MSG_NEWRULE.*; .*NFT_MSG_NEWCHAIN/,
  ],
];

for (const [name, backend, refused, outcome] of ROWS) {
  rootTest(
    `ptp masquerades: ${name}, ${backend ?? "no backend named"}`,
    needsRuleTools,
    async () => {
      using scene = new MasqueradeScene("ptp", dualStack, backend);
      using _refusal = refuse(refused);
      await scene.succeed("STATUS");
      const { json: prevResult } = await scene.succeed("ADD");
      assertEquals(reached(scene.hosts.sandbox), OUTSIDE);
      assertMatch(scene.rules, outcome);
      await scene.succeed("CHECK", { prevResult });
      await scene.succeed("DEL", { prevResult });
      assertEquals(scene.rules, "");
    },
  );
}

for (const [name, backend, refused, reason] of LACKING) {
  rootTest(
    `ptp fails if it cannot masquerade: ${name}, ${
      backend ?? "no backend named"
    }`,
    needsRuleTools,
    async () => {
      using scene = new PluginScene(
        "ptp",
        (hosts) => dualStack(hosts, { ipMasq: true, ipMasqBackend: backend }),
      );
      const before = scene.state;
      using _refusal = refuse(refused);
      for (const [command, code] of [["STATUS", 50], ["ADD", 999]] as const) {
        const { json } = await scene.run(command);
        assertEquals(json.code, code);
        assertMatch(json.details, reason);
      }
      assertEquals(scene.state, before);
      assertEquals(rulesOf(scene.hosts.host), []);
    },
  );
}
