import { assert, assertEquals } from "@std/assert";
import { getConnections, newConnection } from "../../ffi/conntrack/message.ts";
import { Conntrack } from "../../ffi/conntrack/mod.ts";
import type { RawMessage } from "../../ffi/netlink/message.ts";
import { observeNetlink } from "../../ffi/netlink/observer.ts";
import { Ip } from "../../net/ip.ts";
import { rootTest } from "../../testing/capabilities.ts";
import { runIn } from "../../testing/ip_json.ts";
import { TestHosts } from "../../testing/test_hosts.ts";
import { needsInetRules } from "../../tests/_harness/rules.ts";
import { eachRow } from "../../tests/_harness/table.ts";
import { type ChangedPorts, deleteConnections } from "./connections.ts";
import type { ForwardedPort } from "./mapping.ts";

/** Connections to the host's other ports. */
const OTHERS = 40;

/** A host that tracks connections to forwarded ports. */
class Scene implements Disposable {
  readonly hosts = TestHosts.create();

  constructor() {
    runIn(
      this.hosts.host,
      "sh",
      "-ec",
      `ip link set lo up; ip address add 192.0.2.1/24 dev lo
       track() {
         conntrack -I -p $1 -t 100 $4 -s 192.0.2.2 -d 192.0.2.1 \
           --sport 4000 --dport $2 -g $3:53
       }
       for port in $(seq 6000 ${6000 + OTHERS - 1}); do
         track udp $port 10.1.2.9
       done
       for port in 5353 5354 5355; do track udp $port 10.1.2.5; done
       track tcp 5353 10.1.2.5 "--state ESTABLISHED"`,
    );
  }

  /** Deletes connections. */
  change(ports: Partial<ChangedPorts>): void {
    const log = {
      warn: (text: string, details: unknown): never => {
        throw new Error(`${text} ${JSON.stringify(details)}`);
      },
    };
    deleteConnections(
      { hostNetns: this.hosts.host.path, log: log as never },
      { added: [], gone: [], kept: [], ...ports },
    );
  }

  /** The ports of all connections that are tracked, but for the other ports. */
  tracked(): string[] {
    using conntrack = Conntrack.open(this.hosts.host.path);
    const all = conntrack.list();
    const isOther = (port = 0): boolean => port >= 6000;
    assertEquals(
      all.filter(({ original }) => isOther(original.destinationPort)).length,
      OTHERS,
    );
    return all.filter(({ original }) => !isOther(original.destinationPort))
      .map(({ protocol, original }) =>
        `${protocol} ${original.destinationPort}`
      ).sort();
  }

  [Symbol.dispose](): void {
    this.hosts[Symbol.dispose]();
  }
}

function portOf(
  protocol: ForwardedPort["protocol"],
  hostPort: number,
  target = "10.1.2.5",
): ForwardedPort {
  const ip = Ip.parse(target);
  return { protocol, hostPort, hostIp: undefined, target: ip, targetPort: 53 };
}

/** Has the kernel list all connections, as before Linux 5.8. */
function ignoreFilters(): () => void {
  const { encode } = getConnections;
  getConnections.encode = ({ header }) => encode({ header });
  return () => {
    getConnections.encode = encode;
  };
}

rootTest(
  "deleteConnections() reads connections of its own ports only",
  needsInetRules,
  async (t) => {
    const rows: [name: string, ports: Partial<ChangedPorts>, left: string[]][] =
      [
        [
          "two ports that are no longer forwarded",
          { gone: [portOf("udp", 5353), portOf("udp", 5354)] },
          ["17 5355", "6 5353"],
        ],
        [
          "ports of two protocols",
          { gone: [portOf("udp", 5353), portOf("tcp", 5353)] },
          ["17 5354", "17 5355"],
        ],
        [
          "two ports of a new container",
          {
            added: [
              portOf("udp", 5353, "10.1.2.6"),
              portOf("udp", 5355, "10.1.2.6"),
            ],
          },
          ["17 5354", "6 5353"],
        ],
        [
          "more ports than the kernel is asked about one by one",
          {
            gone: Array.from(
              { length: 200 },
              (_, at) => portOf("udp", 5300 + at),
            ),
          },
          ["6 5353"],
        ],
      ];
    for (const kernel of ["", ", on an old kernel"]) {
      await eachRow(t, rows, ([, ports, left]) => {
        using scene = new Scene();
        let received = 0, dumps = 0;
        using stack = new DisposableStack();
        if (kernel) stack.defer(ignoreFilters());
        observeNetlink(({ isDump, requests: [request] }, work) => {
          const result = work();
          if (isDump && request?.name === getConnections.name) {
            dumps++;
            received += (result as RawMessage[])
              .filter(({ type }) => type === newConnection.type).length;
          }
          return result;
        });
        try {
          scene.change(ports);
        } finally {
          observeNetlink(undefined);
        }
        stack.dispose();
        assertEquals(scene.tracked(), left);
        const deleted = 4 - left.length;
        assertEquals(received, deleted);
        assert(dumps <= (kernel ? 1 : 2), `${dumps}`);
      }, ([name]) => name + kernel);
    }
  },
);
