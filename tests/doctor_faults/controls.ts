/**
 * What a node's network is for, one use each: it works on a node without faults,
 * and shows that a fault stops something.
 *
 * @module
 */

import { SyscallError } from "../../ffi/errno.ts";
import { waitReadable } from "../../ffi/libc.ts";
import { inNetns, NetNs } from "../../ffi/netns.ts";
import { exchange, TcpSocket } from "../../ffi/socket/tcp.ts";
import { UdpSocket } from "../../ffi/socket/udp_socket.ts";
import type { NodeReader } from "../../cli/node/node_reader.ts";
import { parseNetworkConfList, type RuntimeConf } from "../../libcni/mod.ts";
import { Ip } from "../../net/ip.ts";
import {
  CACHE,
  DB,
  type FaultNode,
  NODE,
  type Place,
  SINK_BYTES,
  SINK_PORT,
  WEB,
} from "./fault_node.ts";

/** What an operator asks `cni doctor` about: the flags. */
export interface Question {
  /** The pod that loses packets. */
  readonly pod: string;
  /** The other end, optionally with a port. */
  readonly to?: string;
  /** Who sends, if it is not the pod. */
  readonly from?: string;
}

/** One use of the network. */
export interface Control {
  /** In words, such as `db pings 10.2.0.3`. */
  readonly text: string;
  /** Undefined where no packet is lost. */
  readonly asks?: Question;
  /** Whether it is a call, which needs no packet. */
  readonly isCall?: boolean;
  /** Tries it once. */
  readonly works: (node: FaultNode, limitMs: number) => Promise<boolean>;
}

/** The pods that have a name on the node, with the addresses at which others ask them. */
const PODS: ReadonlyMap<Place, string> = new Map([
  ["web", WEB],
  ["db", DB],
  ["cache", CACHE],
  ["shop", NODE],
]);

function ask(from: Place, to: string, port?: number): Pick<Control, "asks"> {
  if (PODS.has(from)) {
    const host = to.includes(":") && port !== undefined ? `[${to}]` : to;
    const full = port === undefined ? host : `${host}:${port}`;
    return { asks: { pod: `default/${from}`, to: full } };
  }
  const [asked] = [...PODS].find(([, address]) => address === to) ?? [];
  if (asked === undefined) return {};
  const pod = `default/${asked}`;
  // Ports of the host are tried by themselves.
  if (from !== "node") return { asks: { pod } };
  return {
    asks: { pod, from, ...port !== undefined && { to: `:${port}` } },
  };
}

/** A ping. */
export function ping(from: Place, to: string): Control {
  return {
    text: `${from} pings ${to}`,
    ...ask(from, to),
    works: (node, limitMs) => {
      const wait = ["-W", String(limitMs / 1000)];
      const { success } = inNetns(
        node.at(from),
        () =>
          new Deno.Command("ping", {
            args: ["-n", "-q", "-c", "1", ...wait, to],
            stdout: "null",
            stderr: "null",
          }).outputSync(),
      );
      return Promise.resolve(success);
    },
  };
}

/** How often to look whether a connection is made, in ms. */
const LOOK_MS = 5;

/** A TCP connection. */
export function tcp(from: Place, to: string, port = 80): Control {
  return {
    text: `${from} connects to ${to}, TCP port ${port}`,
    ...ask(from, to, port),
    works: async (node, limitMs) => {
      const end = performance.now() + limitMs;
      try {
        using socket = new TcpSocket(node.at(from), Ip.parse(to), port);
        while (!socket.isConnected()) {
          if (performance.now() > end) return false;
          await waitReadable(socket.fd, LOOK_MS);
        }
        return true;
      } catch (error) {
        if (error instanceof SyscallError) return false;
        throw error;
      }
    },
  };
}

/** Bytes that are sent by TCP in whole packets, and confirmed. */
export function upload(from: Place, to: string): Control {
  return {
    text: `${from} sends ${SINK_BYTES} bytes to ${to}`,
    ...ask(from, to),
    works: (node, limitMs) => {
      try {
        const address = Ip.parse(to);
        inNetns(node.at(from), () =>
          exchange(
            { address, port: SINK_PORT, limitMs },
            new Uint8Array(SINK_BYTES),
          ));
        return Promise.resolve(true);
      } catch (error) {
        if (error instanceof SyscallError) return Promise.resolve(false);
        throw error;
      }
    },
  };
}

/** A question for `. IN NS`. Source: RFC 1035, section 4.1. */
const QUESTION = new Uint8Array(
  [7, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 1],
);

/** A question to a name server. */
export function dns(from: Place, server: string): Control {
  return {
    text: `${from} asks the name server ${server}`,
    ...ask(from, server, 53),
    works: async (node, limitMs) => {
      try {
        using socket = new UdpSocket(node.at(from), Ip.parse(server), 53);
        socket.send(QUESTION);
        await waitReadable(socket.fd, limitMs);
        return socket.receive() !== undefined;
      } catch (error) {
        if (error instanceof SyscallError) return false;
        throw error;
      }
    },
  };
}

/** The temporary container. */
export const BRIEF = "f0f0f0f0f0f0f0f0";

/** Never the machine's own log. */
const ENV = { PATH: "/usr/sbin:/usr/bin:/sbin:/bin", CNI_LOG_FILE: "stderr" };

/** ADD of a temporary container, and its DEL. */
export function add(file = "30-more"): Control {
  return {
    text: `ADD of "${file.replace(/^\d+-/, "")}"`,
    isCall: true,
    works: async ({ scene }) => {
      using netns = NetNs.create();
      using node = scene.node({ env: ENV });
      const conf = { containerId: BRIEF, netns: netns.path, ifName: "eth0" };
      // Whatever it is: a runtime would not start the container.
      return await attachAndDetach(
        node,
        `${scene.confDir}/${file}.conflist`,
        conf,
      )
        .then(() => true, () => false);
    },
  };
}

async function attachAndDetach(
  { runtime }: NodeReader,
  path: string,
  conf: RuntimeConf,
): Promise<void> {
  const list = parseNetworkConfList(await Deno.readFile(path));
  await runtime.addNetworkListOrUndo(list, conf);
  await runtime.delNetworkList(list, conf);
}

/** DEL of the temporary container after its namespace was deleted. */
export function del(file = "30-more"): Control {
  return {
    text: `DEL of "${file.replace(/^\d+-/, "")}"`,
    isCall: true,
    works: async ({ scene }) => {
      using node = scene.node({ env: ENV });
      const path = `${scene.confDir}/${file}.conflist`;
      const list = parseNetworkConfList(await Deno.readFile(path));
      const conf = { containerId: BRIEF, netns: "", ifName: "eth0" };
      return await node.runtime.delNetworkList(list, conf)
        .then(() => true, () => false);
    },
  };
}
