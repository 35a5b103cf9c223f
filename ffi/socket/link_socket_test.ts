/** Sockets on a link whose frames come faster than they are read. */

import { assert } from "@std/assert";
import { rootTest } from "../../testing/capabilities.ts";
import { runIn } from "../../testing/ip_json.ts";
import { TestHosts } from "../../testing/test_hosts.ts";
import { Ip } from "../../net/ip.ts";
import { Mac } from "../../net/mac.ts";
import { MOST_DATAGRAMS } from "../libc.ts";
import type { NetNs } from "../netns.ts";
import { Rtnl } from "../rtnl/mod.ts";
import { ArpSocket } from "./arp_socket.ts";
import { PacketSocket } from "./packet_socket.ts";
import { SolicitationSocket } from "./solicitation_socket.ts";

const V4 = Ip.parse("192.0.2.1"), V6 = Ip.parse("2001:db8::1");

interface End {
  readonly index: number;
  readonly mac: Mac;
}

/** One look of a socket at one end, and what sends a frame from the other end. */
interface Flood extends Disposable {
  look(): Iterable<unknown>;
  send(): void;
}

const FLOODS: Readonly<
  Record<string, (netns: NetNs, end: End, other: End) => Flood>
> = {
  ArpSocket(netns, end, other): Flood {
    using stack = new DisposableStack();
    const socket = stack.use(new ArpSocket(netns, end));
    const sender = stack.use(new ArpSocket(netns, other));
    return keep(stack, () => socket.receiveClaims(), () => sender.ask(V4));
  },
  SolicitationSocket(netns, end, other): Flood {
    using stack = new DisposableStack();
    const socket = stack.use(new SolicitationSocket(netns, end));
    const sender = stack.use(new SolicitationSocket(netns, other));
    return keep(stack, () => socket.receiveClaims(), () => sender.ask(V6));
  },
  PacketSocket(netns, end, other): Flood {
    using stack = new DisposableStack();
    const port = 68;
    const open = ({ index: ifindex }: End): PacketSocket =>
      stack.use(PacketSocket.open(netns, { ifindex, port }));
    const socket = open(end), sender = open(other);
    return keep(stack, () => socket.receive(), () =>
      sender.send({
        source: { mac: other.mac, ip: V4, port: 67 },
        destination: { mac: end.mac, ip: V4, port },
        payload: new Uint8Array(8),
      }));
  },
};

function keep(
  stack: DisposableStack,
  look: Flood["look"],
  send: Flood["send"],
): Flood {
  const kept = stack.move();
  return { look, send, [Symbol.dispose]: () => kept.dispose() };
}

for (const [name, open] of Object.entries(FLOODS)) {
  rootTest(`one look of ${name} ends, however fast frames come`, () => {
    using hosts = TestHosts.create();
    const netns = hosts.sandbox;
    const ip = (...args: string[]): void => void runIn(netns, "ip", ...args);
    ip("link", "add", "v0", "type", "veth", "peer", "name", "v1");
    for (const link of ["v0", "v1"]) ip("link", "set", link, "up");
    using rtnl = Rtnl.open(netns.path);
    const endOf = (link: string): End => {
      const { index, mac } = rtnl.link.get(link);
      assert(mac !== undefined);
      return { index, mac };
    };
    using flood = open(netns, endOf("v0"), endOf("v1"));
    for (let sent = 0; sent < 50; sent++) flood.send();
    for (let looks = 0; looks < 2; looks++) {
      let count = 0;
      for (const _ of flood.look()) {
        flood.send();
        count++;
        assert(count <= MOST_DATAGRAMS, "the look does not end");
      }
      assert(count > 0, "nothing arrived");
    }
  });
}
