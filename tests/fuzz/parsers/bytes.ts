/**
 * The parsers of bytes from the kernel, the kubelet and networks.
 *
 * @module
 */

import { newConnection } from "../../../ffi/conntrack/message.ts";
import { decodeDone, decodeError } from "../../../ffi/netlink/error.ts";
import {
  messageHeader,
  type MessageType,
  splitMessages,
} from "../../../ffi/netlink/message.ts";
import {
  addElements,
  addTable,
  appendRule,
  joinValues,
} from "../../../ffi/nftables/change.ts";
import {
  comparedValues,
  inputNameOf,
  masquerade,
  matchInputName,
  newSourceOf,
  verdictOf,
  xtablesComment,
  xtablesCommentOf,
} from "../../../ffi/nftables/expression.ts";
import {
  newChain,
  newElements,
  newRule as newFilterRule,
  newSet,
  newTable,
} from "../../../ffi/nftables/message.ts";
import { Rule } from "../../../ffi/nftables/mod.ts";
import { decodeRoutes } from "../../../ffi/rtnl/route_body.ts";
import { newRoute } from "../../../ffi/rtnl/route_message.ts";
import { routerOptionsIn } from "../../../ffi/rtnl/router_discovery.ts";
import {
  decodeDatagram,
  encodeDatagram,
} from "../../../ffi/socket/udp_frame.ts";
import { type Bytes, concat, type Fields } from "../../../net/bytes.ts";
import {
  decodeMessage,
  encodeMessage,
  MessageType as DhcpType,
} from "../../../net/dhcp/message.ts";
import { decodeMessage6 } from "../../../net/dhcp/message6.ts";
import {
  decodeAssociation,
  domainsIn,
  nameServersIn,
  statusIn,
} from "../../../net/dhcp/options6.ts";
import { OPTIONS, Options } from "../../../net/dhcp/options.ts";
import { decodeDomainNames } from "../../../net/domain_names.ts";
import { AddressError, Ip } from "../../../net/ip.ts";
import { Mac } from "../../../net/mac.ts";
import { RouterDns } from "../../../ipam/slaac/router_options.ts";
import {
  message,
  messages,
  text,
  texts,
} from "../../../plugins/multus/devices/protobuf.ts";
import {
  AnswerLost,
  BadAnswer,
} from "../../../plugins/remote/daemon_errors.ts";
import { decodeAnswer } from "../../../plugins/remote/http.ts";
import type { Rows } from "../../../ffi/netlink/attribute.ts";
import { decodeRequest } from "../../../daemon/wire/request.ts";
import { encodeRequest } from "../../_harness/call_format.ts";
import { listGolden, readGolden } from "../../_harness/golden_netlink.ts";
import { findMessageType } from "../../_harness/netlink_rendering.ts";
import { bytesParser, type Parser } from "./parser.ts";

/** The errors of the binary decoders: of their own, and of addresses. */
const MALFORMED = [RangeError, AddressError];

/** Lists what the kernel sent to iproute2. */
function listCaptured(): Bytes[] {
  return listGolden().flatMap((name) =>
    readGolden(name).messages
      .filter(({ direction }) => direction === "received")
      .map(({ bytes }) => Uint8Array.fromHex(bytes))
  );
}

/** Lists a parser for each kind of message that the kernel sent. */
function listRtnetlink(): Parser<Bytes>[] {
  const kinds = new Map<string, { type: AnyType; samples: Bytes[] }>();
  for (const bytes of listCaptured()) {
    for (const { type: number, body } of splitMessages(bytes)) {
      const type = findMessageType(number);
      if (type === undefined) continue;
      const kind = kinds.get(type.name) ?? { type, samples: [] };
      kinds.set(type.name, kind);
      kind.samples.push(body);
    }
  }
  return [...kinds.values()].map(({ type, samples }) =>
    bytesParser({
      name: `netlink ${type.name}`,
      samples,
      throws: MALFORMED,
      parse: (bytes) => type.decode(bytes),
    })
  );
}

type AnyType = MessageType<Fields, Rows>;

const TABLE = { family: "inet", name: "fuzz" } as const;

function listNftables(): Parser<Bytes>[] {
  const table = addTable(TABLE, "comment").body;
  const elements = addElements(TABLE, "ports", [{
    key: joinValues(new Uint8Array([6]), new Uint8Array([0, 80])),
    data: new Uint8Array([10, 1, 0, 2]),
    comment: "net: pods, id: c1",
  }]).body;
  const rule = appendRule(TABLE, {
    chain: "chain",
    expressions: [
      ...matchInputName("eth0"),
      xtablesComment("name: pods"),
      masquerade(),
    ],
    comment: "net: pods",
  }).body;
  const kinds = [
    [newTable, table],
    [newChain, table],
    [newSet, table],
    [newElements, elements],
    [newFilterRule, rule],
  ] as unknown as [AnyType, Bytes][];
  // An nfgenmsg comes before a rule's attributes.
  const attributes = rule.subarray(4);
  return [
    ...kinds.map(([type, sample]) =>
      bytesParser({
        name: `netlink ${type.name}`,
        samples: [sample],
        throws: MALFORMED,
        parse: (bytes) => type.decode(bytes),
      })
    ),
    bytesParser({
      name: "answer of remote's daemon",
      samples: [
        'HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n{"Result":{}}',
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" +
        '7;x=y\r\n{"Resul\r\n6\r\nt":{}}\r\n0\r\n\r\n',
        "HTTP/1.0 500 Error\r\n\r\nno",
      ].map((text) => new TextEncoder().encode(text)),
      throws: [AnswerLost, BadAnswer],
      parse: decodeAnswer,
    }),
    bytesParser({
      name: "expressions of nftables",
      samples: [new Uint8Array(attributes)],
      throws: MALFORMED,
      parse: (bytes) => {
        const rule = new Rule(bytes);
        const { expressions } = rule;
        return [
          [rule.handle, rule.comment, rule.mentions("id")],
          [newSourceOf(expressions), verdictOf(expressions)],
          [comparedValues(expressions), inputNameOf(expressions)],
          xtablesCommentOf(expressions),
        ];
      },
    }),
  ];
}

function listOtherNetlink(): Parser<Bytes>[] {
  const golden = listCaptured();
  const bodies = golden.flatMap((bytes) =>
    splitMessages(bytes).map(({ body }) => body)
  );
  const routes = golden.flatMap((bytes) =>
    splitMessages(bytes).filter(({ type }) => type === newRoute.type)
      .map(({ body }) => body)
  );
  return [
    bytesParser({
      name: "datagram of netlink",
      samples: golden,
      throws: MALFORMED,
      parse: splitMessages,
    }),
    bytesParser({
      name: "verdict of netlink",
      samples: [new Uint8Array(messageHeader.size + 4), ...bodies.slice(0, 3)],
      throws: MALFORMED,
      parse: (body) => {
        const reply = { length: 0, type: 2, flags: 0x300, sequence: 1, body };
        return [decodeError(reply), decodeDone(reply)];
      },
    }),
    bytesParser({
      name: "routes of netlink",
      samples: routes,
      throws: MALFORMED,
      parse: (bytes) => decodeRoutes(newRoute.decode(bytes)),
    }),
    bytesParser({
      name: "connection of conntrack",
      samples: bodies.slice(0, 8),
      throws: MALFORMED,
      parse: (bytes) => newConnection.decode(bytes),
    }),
  ];
}

const MAC = Mac.parse("02:00:00:00:00:01");

function listDhcp(): Parser<Bytes>[] {
  const address = new Uint8Array([10, 1, 0, 2]);
  const reply = encodeMessage({
    type: DhcpType.Ack,
    transaction: 1,
    mac: MAC,
    wantsBroadcast: false,
    options: new Map([
      [1, new Uint8Array([255, 255, 255, 0])],
      [3, address],
      [6, new Uint8Array([...address, ...address])],
      [33, new Uint8Array([...address, ...address])],
      [51, new Uint8Array([0, 0, 14, 16])],
      [52, new Uint8Array([3])],
      [54, address],
      [119, new Uint8Array([1, 97, 1, 98, 0, 1, 99, 192, 2])],
      [121, new Uint8Array([24, 10, 2, 0, ...address])],
    ]),
  });
  reply[0] = 2;
  const endpoint = { mac: MAC, ip: Ip.parse("10.1.0.1"), port: 67 };
  const frame = encodeDatagram({
    source: endpoint,
    destination: { ...endpoint, port: 68 },
    payload: reply,
  });
  return [
    bytesParser({
      name: "reply of a DHCP server",
      samples: [reply],
      parse: (bytes) => {
        const options = decodeMessage(bytes, MAC)?.options;
        if (options === undefined) return;
        for (const name of Object.keys(OPTIONS)) {
          options.get(name as keyof typeof OPTIONS);
        }
        Options.fromJSON(options.toJSON());
      },
    }),
    bytesParser({
      name: "reply of a DHCPv6 server",
      samples: [Uint8Array.fromHex(
        "07123456" + "000100040004aabb" + "000200040003aabb" +
          "00030028" + "00000007" + "0000003200000050" +
          "00050018" + "20010db8000100000000000000000100" +
          "0000003c00000078" + "000d000200000018000401610000",
      )],
      parse: (bytes) => {
        const clientId = Uint8Array.fromHex("0004aabb");
        const options = decodeMessage6(bytes, clientId)?.options ?? [];
        for (const [, value] of options) decodeAssociation(value);
        statusIn(options);
        nameServersIn(options);
        domainsIn(options);
      },
    }),
    bytesParser({
      name: "frame of UDP",
      samples: [frame],
      parse: (bytes) => {
        decodeDatagram(bytes, true);
        decodeDatagram(bytes, false);
      },
    }),
  ];
}

function listRouters(): Parser<Bytes>[] {
  const server = "20010db8000000000000000000000053";
  const option = Uint8Array.fromHex(`1903000000000e10${server}`);
  const header = Uint8Array.fromHex("0a0018000200000086000000" + "00000000");
  return [
    bytesParser({
      name: "option of a router advertisement",
      samples: [
        option,
        Uint8Array.fromHex("1f02000000000e10" + "0161016200000000"),
      ],
      parse: (bytes) => new RouterDns().take(bytes),
    }),
    bytesParser({
      name: "option of a router from the kernel",
      samples: [concat([header, option])],
      parse: (body) => routerOptionsIn({ type: 68, body }, 2),
    }),
    bytesParser({
      name: "names of domains",
      samples: [Uint8Array.fromHex("01610162000163" + "0000")],
      parse: decodeDomainNames,
    }),
  ];
}

function listProtobuf(): Parser<Bytes> {
  const part = message({ name: text(1), ids: texts(2) });
  const whole = message({ name: text(1), parts: messages(3, part) });
  return bytesParser({
    name: "answer of the kubelet",
    samples: [whole.encode({
      name: "web",
      parts: [{ name: "a", ids: ["1", "2"] }, { name: "b", ids: [] }],
    })],
    throws: [RangeError],
    parse: (bytes) => whole.decode(bytes),
  });
}

/** Requests of the node daemon's own protocol. */
function listDaemon(): Parser<Bytes> {
  const request = encodeRequest({
    build: "b",
    name: "/opt/cni/bin/ptp",
    env: { CNI_COMMAND: "ADD", CNI_CONTAINERID: "c1", CNI_IFNAME: "eth0" },
    stdin: new TextEncoder().encode('{"cniVersion":"1.0.0","name":"pods"}'),
  });
  return bytesParser({
    name: "call of the daemon",
    samples: [request],
    throws: [Error],
    parse: decodeRequest,
  });
}

/** Lists the parsers. */
export function listByteParsers(): Parser<Bytes>[] {
  return [
    ...listRtnetlink(),
    ...listNftables(),
    ...listOtherNetlink(),
    ...listDhcp(),
    ...listRouters(),
    listProtobuf(),
    listDaemon(),
  ];
}
