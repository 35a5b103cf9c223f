// deno-lint-ignore-file no-console -- its output is what it is for
/**
 * A program that sends a forged answer to the netlink socket of another process
 * in its network namespace: `forge_answers.ts PORT...`.
 *
 * It claims that loopback has the address 8.8.8.8/32, in the answers to the
 * first requests that a socket sends. It prints a line for each port: "sent",
 * or the errno.
 *
 * @module
 */

import { type Bytes, concat, struct, u16, u32 } from "../../../net/bytes.ts";
import { SyscallError } from "../../errno.ts";
import * as libc from "../../libc.ts";
import { encodeMessage, Flag } from "../message.ts";
import { newAddress } from "../../rtnl/address_message.ts";
import { AF_INET } from "../../rtnl/constants.ts";
import { Ip } from "../../../net/ip.ts";

const AF_NETLINK = 16, SOCK_RAW = 3, NETLINK_ROUTE = 0, NLMSG_DONE = 3;
const socketAddress = struct({
  family: u16,
  padding: u16,
  portId: u32,
  groups: u32,
});

function forge(): Bytes {
  const local = Ip.parse("8.8.8.8");
  const body = newAddress.encode({
    header: { family: AF_INET, prefixLength: 32, ifindex: 1 },
    attributes: { local, address: local },
  });
  const answers = Array.from({ length: 10 }, (_, index) =>
    concat([
      encodeMessage(newAddress.type, Flag.Multi, index + 1, body),
      encodeMessage(NLMSG_DONE, Flag.Multi, index + 1, new Uint8Array(4)),
    ]));
  return concat(answers);
}

function sendTo(portId: number): string {
  const fd = libc.socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE);
  try {
    libc.connect(fd, socketAddress.encode({ family: AF_NETLINK, portId }));
    libc.send(fd, forge(), 0);
    return "sent";
  } catch (error) {
    if (error instanceof SyscallError) return error.errno;
    throw error;
  } finally {
    libc.close(fd);
  }
}

if (import.meta.main) {
  for (const port of Deno.args) console.log(sendTo(Number(port)));
}
