import { assertEquals } from "@std/assert";
import { emptyResult } from "../../cni/result/result.ts";
import { testRows } from "../../tests/_harness/table.ts";
import { Cidr } from "../../net/cidr.ts";
import { type Forwarding, forwardingOf } from "./mapping.ts";

/** Returns what an attachment with 10.1.2.5 and one mapping wants. */
function wantedBy(
  hostPort: number,
  containerPort: number,
): Forwarding | undefined {
  const args = {
    containerId: "c1",
    netns: "/nowhere",
    ifName: "eth0",
    args: "",
    path: "",
    netnsOverride: false,
  };
  const portMappings = [{ hostPort, containerPort }];
  const config = { runtimeConfig: { portMappings } };
  const ips = [{ address: Cidr.parse("10.1.2.5/24") }];
  const result = { ...emptyResult(), ips };
  return forwardingOf({ config, network: "net1", args }, result);
}

testRows<[hostPort: number, containerPort: number]>(
  "forwardingOf() takes the first and the last port",
  [[1, 1], [65535, 65535]],
  ([hostPort, containerPort]) => {
    const [mapping] = wantedBy(hostPort, containerPort)?.mappings ?? [];
    assertEquals(mapping, {
      protocol: "tcp",
      hostPort,
      containerPort,
      hostIp: undefined,
    });
  },
  String,
);
