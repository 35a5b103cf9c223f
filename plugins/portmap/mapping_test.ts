import { assertEquals, assertThrows } from "@std/assert";
import { CniError } from "../../base/error.ts";
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

testRows<[hostPort: number, containerPort: number, message: string]>(
  "forwardingOf() refuses ports that no packet has",
  [
    [0, 80, "Invalid host port number: 0"],
    [65536, 80, "Invalid host port number: 65536"],
    [-1, 80, "Invalid host port number: -1"],
    [8080, 0, "Invalid container port number: 0"],
    [8080, 65536, "Invalid container port number: 65536"],
  ],
  ([hostPort, containerPort, message]) => {
    const error = assertThrows(
      () => wantedBy(hostPort, containerPort),
      CniError,
      message,
    );
    assertEquals(error.code, 7);
  },
  String,
);
