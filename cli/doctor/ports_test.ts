import { assertEquals } from "@std/assert";
import { testRows } from "../../tests/_harness/table.ts";
import type { NodeAttachment } from "../node/node_attachments.ts";
import type { NodeReader } from "../node/node_reader.ts";
import { PORT_CHECKS } from "./ports.ts";

/** Builds an attachment with addresses of both families. */
function attachment(pod: string, mapping: object): NodeAttachment {
  return {
    kind: "cniCacheV1",
    pod: `default/${pod}`,
    containerId: pod,
    network: "pods",
    ifName: "eth0",
    netns: `/nowhere/${pod}`,
    capabilityArgs: { portMappings: [mapping] },
    result: {
      cniVersion: "1.1.0",
      ips: [{ address: "10.1.0.2/24" }, { address: "fd00::2/64" }],
    },
  } as unknown as NodeAttachment;
}

const PORT = { hostPort: 8080, containerPort: 80 };

testRows<[one: object, other: object, findings: number]>(
  "port-twice finds a port that two containers have, once",
  [
    [PORT, { ...PORT, containerPort: 81 }, 1],
    // containerd's spelling
    [PORT, { HostPort: 8080, ContainerPort: 80 }, 1],
    [{ ...PORT, hostIP: "0.0.0.0" }, { ...PORT, hostIP: "::" }, 0],
    [PORT, { ...PORT, hostIP: "::" }, 1],
  ],
  async ([one, other, findings]) => {
    const liveAttachments = [attachment("web", one), attachment("db", other)];
    const node = { liveAttachments } as unknown as NodeReader;
    const found = await Promise.all(
      PORT_CHECKS.map(({ run }) => run(node)),
    );
    assertEquals(found.flat().length, findings);
  },
  JSON.stringify,
);
