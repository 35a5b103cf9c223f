import { assertEquals, assertThrows } from "@std/assert";
import { ignoreUnless } from "../../testing/capabilities.ts";
import { AttachmentCache } from "../../libcni/cache.ts";
import { CniError } from "../../base/error.ts";
import type { AttachmentId } from "../config/types.ts";
import {
  attachmentsNamed,
  configOfGc,
  listValidAttachments,
} from "./valid_attachments.ts";

/** Fills the cache of a plugin that is a runtime: container `c1` in `pods` and `blue`. */
function withCache(run: (directory: string) => void): void {
  const directory = Deno.makeTempDirSync({ prefix: "cni-test-" });
  try {
    const cache = new AttachmentCache(directory);
    for (const [network, ifName] of [["pods", "eth0"], ["blue", "net1"]]) {
      cache.writeAttachment({
        network: network ?? "",
        containerId: "c1",
        ifName: ifName ?? "",
        netns: "/run/netns/c1",
        config: new TextEncoder().encode("{}"),
        cniArgs: [],
        capabilityArgs: {},
      }, {});
    }
    run(directory);
  } finally {
    Deno.removeSync(directory, { recursive: true });
  }
}

const VALID = "cni.dev/valid-attachments";
const OF_MULTUS = { containerId: "c1", ifName: "eth0" };

Deno.test("an empty list keeps what multus has attached to the network", () => {
  withCache((directory) => {
    for (const list of [[], null]) {
      assertEquals(
        listValidAttachments({ [VALID]: list }, "pods", directory),
        [OF_MULTUS],
      );
    }
    assertEquals(listValidAttachments({ [VALID]: [] }, "red", directory), []);
  });
});

Deno.test("the runtime's attachments come first, and each once", () => {
  withCache((directory) => {
    const list = [
      { containerID: "c2", ifname: "eth0" },
      { containerID: "c1", ifname: "eth0" },
    ];
    assertEquals(listValidAttachments({ [VALID]: list }, "pods", directory), [
      { containerId: "c2", ifName: "eth0" },
      OF_MULTUS,
    ]);
  });
});

Deno.test("an IPAM plugin gets the list with what multus has attached", () => {
  withCache((directory) => {
    const configOf = (text: string): string => {
      const document = JSON.parse(text);
      const valid = listValidAttachments(document, "pods", directory) ?? [];
      const bytes = new TextEncoder().encode(text);
      return new TextDecoder().decode(configOfGc({ bytes, document }, valid));
    };
    const c1 = '[{"containerID":"c1","ifname":"eth0"}]';
    const whole = `{"cni.dev/attachments":${c1},"${VALID}":${c1},"mtu":1400}`;
    for (
      const text of [
        `{ "${VALID}": [], "mtu": 1400 }`,
        `{ "${VALID}": null, "mtu": 1400 }`,
        `{ "CNI.dev/Valid-Attachments": null, "mtu": 1400 }`,
      ]
    ) {
      assertEquals(configOf(text), whole);
    }
    const complete = `{ "mtu": 1400, "${VALID}": ${c1} }`;
    assertEquals(configOf(complete), complete);
  });
});

Deno.test("without a list, nothing is known", () => {
  withCache((directory) =>
    assertEquals(listValidAttachments({}, "pods", directory), undefined)
  );
});

Deno.test("a file that cannot be read keeps everything that its name may belong to", () => {
  withCache((directory) => {
    const path = `${directory}/results/pods-c1-eth0`;
    const whole = Deno.readTextFileSync(path);
    for (const torn of [whole.slice(0, whole.length / 2), "", "\0\0"]) {
      Deno.writeTextFileSync(path, torn);
      const unreadable: string[] = [];
      const list = (network: string): readonly AttachmentId[] | undefined =>
        listValidAttachments(
          { [VALID]: [] },
          network,
          directory,
          (one) => unreadable.push(one),
        );
      assertEquals(list("pods"), [OF_MULTUS]);
      assertEquals(list("red"), []);
      assertEquals(unreadable, [path]);
      // The runtime knows: multus, or the plugin that runs this IPAM plugin.
      const { containerId: containerID, ifName: ifname } = OF_MULTUS;
      listValidAttachments(
        { [VALID]: [{ containerID, ifname }] },
        "pods",
        directory,
        (one) => unreadable.push(one),
      );
      assertEquals(unreadable, [path]);
    }
  });
  assertEquals(attachmentsNamed("a-b-c-d", "a"), [
    { containerId: "b", ifName: "c-d" },
    { containerId: "b-c", ifName: "d" },
  ]);
});

Deno.test("GC fails if what multus has attached cannot be read", () => {
  const file = Deno.makeTempFileSync({ prefix: "cni-test-" });
  try {
    assertThrows(
      () => listValidAttachments({ [VALID]: [] }, "pods", file),
      CniError,
    );
  } finally {
    Deno.removeSync(file);
  }
});

const isOrdinaryUser = ignoreUnless(Deno.uid() !== 0, "needs no root");

Deno.test({
  name: "multus of another user has nothing of this one's" +
    isOrdinaryUser.suffix,
  ignore: isOrdinaryUser.ignore,
  fn: () => {
    // Of root alone, as its directory of multus is.
    assertEquals(listValidAttachments({ [VALID]: [] }, "pods", "/root"), []);
    withCache((directory) => {
      const results = `${directory}/results`;
      Deno.chmodSync(results, 0);
      const error = assertThrows(
        () => listValidAttachments({ [VALID]: [] }, "pods", directory),
        CniError,
      );
      assertEquals(error.code, 5);
      Deno.chmodSync(results, 0o700);
    });
  },
});
