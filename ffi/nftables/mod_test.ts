import { assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { Cidr } from "../../net/cidr.ts";
import { Ip, type IpFamily } from "../../net/ip.ts";
import { Mac } from "../../net/mac.ts";
import {
  allOf,
  hasCommand,
  ignoreUnless,
  type Needs,
  rootTest,
} from "../../testing/capabilities.ts";
import { execIn } from "../../testing/exec_in.ts";
import { needsInetRules } from "../../tests/_harness/rules.ts";
import { TestHosts } from "../../testing/test_hosts.ts";
import { NetlinkError } from "../netlink/error.ts";
import type { NetNs } from "../netns.ts";
import {
  addChain,
  addDormantTable,
  addElements,
  addNewElements,
  addSet,
  addTable,
  appendRule,
  type Change,
  delChainOf,
  delElementsOf,
  delRuleOf,
  delSetOf,
  delTableOf,
  flushChain,
  joinValues,
  prependRule,
  splitValues,
  type Table,
} from "./change.ts";
import {
  comparedValues,
  count,
  decide,
  decideByLinks,
  encodeName,
  type Expression,
  goTo,
  inputNameOf,
  jumpTo,
  masquerade,
  matchAddressIn,
  matchChangedDestination,
  matchEstablished,
  matchEthernetSource,
  matchFamily,
  matchInputIn,
  matchInputName,
  matchLinksIn,
  matchLocalDestination,
  matchNetwork,
  matchNetworkAndDestinationIn,
  newSourceOf,
  redirectBy,
  translateSource,
  verdictOf,
  VERDICTS,
  xtablesComment,
  xtablesCommentOf,
  xtablesMasquerade,
  xtablesTranslateSource,
} from "./expression.ts";
import { Nftables, type Rule } from "./mod.ts";

const TABLE: Table = { family: "inet", name: "test" };

const needsNft = ignoreUnless(hasCommand("nft"), "needs nft");

/** A temporary host with nf_tables opened in it. */
class Fixture implements Disposable {
  readonly #stack = new DisposableStack();
  readonly hosts: TestHosts = this.#stack.use(TestHosts.create());
  readonly nftables: Nftables = this.#stack.use(
    Nftables.open(this.hosts.host.path),
  );

  /** Runs `nft`, which shows the rules as operators see them. */
  nft(args: readonly string[], stdin = ""): string {
    return runTool(this.hosts.host, "nft", args, stdin);
  }

  [Symbol.dispose](): void {
    this.#stack.dispose();
  }
}

function runTool(
  netns: NetNs,
  path: string,
  args: readonly string[],
  stdin = "",
): string {
  const env = { PATH: "/usr/sbin:/usr/bin:/sbin:/bin" };
  const { code, stdout, stderr } = execIn(netns, { path, args, stdin, env });
  assertEquals(code, 0, stderr);
  return stdout;
}

/** Registers a test in a temporary host. */
function testInHost(
  name: string,
  run: (fixture: Fixture) => void,
  needs: Needs = allOf(),
): void {
  rootTest(name, needs, () => {
    using fixture = new Fixture();
    run(fixture);
  });
}

/** Registers a test with a table for IPv4 and IPv6. */
function testInInet(
  name: string,
  run: (fixture: Fixture) => void,
  ...needs: readonly Needs[]
): void {
  testInHost(name, run, allOf(needsInetRules, ...needs));
}

/** Adds the table with a base chain and a regular chain. */
const SKELETON: readonly Change[] = [
  addTable(TABLE, "a table"),
  addChain(TABLE, "post", { type: "nat", hook: "postrouting", priority: 100 }),
  addChain(TABLE, "net1"),
];

/** Expressions, and their form in `nft`. */
const RULES: readonly [words: string, expressions: readonly Expression[]][] = [
  ["meta nfproto ipv4 return", [...matchFamily(4), decide("return")]],
  ["meta nfproto ipv6 accept", [...matchFamily(6), decide("accept")]],
  ['iifname "veth0123abcd" drop', [
    ...matchInputName("veth0123abcd"),
    decide("drop"),
  ]],
  ["ip daddr != 10.1.2.0/24 masquerade", [
    ...matchFamily(4),
    ...matchNetwork("destination", "!=", Cidr.parse("10.1.2.0/24")),
    masquerade(),
  ]],
  ["ip saddr 10.1.2.5 goto net1", [
    ...matchFamily(4),
    ...matchNetwork("source", "==", Cidr.parse("10.1.2.5/32")),
    goTo("net1"),
  ]],
  ["ip saddr 10.1.2.0/23 jump net1", [
    ...matchFamily(4),
    ...matchNetwork("source", "==", Cidr.parse("10.1.3.9/23")),
    jumpTo("net1"),
  ]],
  ["ip6 daddr ff00::/8 return", [
    ...matchFamily(6),
    ...matchNetwork("destination", "==", Cidr.parse("ff00::/8")),
    decide("return"),
  ]],
  ["ip6 saddr != 2001:db8:1::/66 masquerade", [
    ...matchFamily(6),
    ...matchNetwork("source", "!=", Cidr.parse("2001:db8:1::5/66")),
    masquerade(),
  ]],
];

testInInet(
  "Nftables.commit() adds what nft adds for the same words",
  (fixture) => {
    fixture.nftables.commit([
      ...SKELETON,
      ...RULES.map(([, expressions], index) =>
        appendRule(TABLE, { chain: "post", expressions, comment: `${index}` })
      ),
    ]);
    const rules = RULES.map(([words], index) => `${words} comment "${index}"`);
    fixture.nft(
      ["-f", "-"],
      `table inet twin {
    comment "a table"
    chain net1 {}
    chain post {
      type nat hook postrouting priority 100;
      ${rules.join("\n")}
    }
  }`,
    );
    const list = (table: string): string[] =>
      fixture.nft(["--debug=netlink", "list", "table", "inet", table])
        .replaceAll(/\binet (test|twin)\b/g, "inet TABLE").split("\n")
        .filter((line) => !/^\s*$/.test(line)).sort();
    assertEquals(list("test"), list("twin"));
  },
  needsNft,
);

testInInet(
  "Nftables.commit() adds sets and maps, and rules that look in them",
  (fixture) => {
    const { nftables } = fixture;
    const own = (name: string): Uint8Array<ArrayBuffer> =>
      new Uint8Array([...encodeName(name), ...encodeName(name)]);
    const addresses = ["10.1.2.5", "10.1.2.6"].map((text, index) => ({
      key: new Uint8Array(Ip.parse(text).toBytes()),
      comment: `element ${index}`,
    }));
    const pair = { key: own("cni0"), verdict: VERDICTS.drop, comment: "" };
    nftables.commit([
      addTable(TABLE),
      addSet(TABLE, { name: "four", key: "ipv4_addr" }),
      addSet(TABLE, { name: "six", key: "ipv6_addr" }),
      addSet(TABLE, { name: "links", key: "ifname" }),
      addSet(TABLE, {
        name: "pairs",
        key: "ifname . ifname",
        isVerdictMap: true,
      }),
      addElements(TABLE, "four", addresses),
      addElements(TABLE, "links", [{ key: encodeName("br0"), comment: "" }]),
      addElements(TABLE, "pairs", [pair]),
      addChain(TABLE, "forward", {
        type: "filter",
        hook: "forward",
        priority: 0,
      }),
      ...[
        decideByLinks("pairs"),
        [...matchLinksIn("links"), decide("drop")],
        [
          ...matchFamily(4),
          ...matchAddressIn("source", 4, "four"),
          decide("accept"),
        ],
        [
          ...matchFamily(6),
          ...matchAddressIn("destination", 6, "six"),
          ...matchEstablished(),
          decide("accept"),
        ],
      ].map((expressions) =>
        appendRule(TABLE, { chain: "forward", expressions })
      ),
    ]);
    fixture.nft(
      ["-f", "-"],
      `table inet twin {
    set four {
      type ipv4_addr
      elements = { 10.1.2.5 comment "element 0", 10.1.2.6 comment "element 1" }
    }
    set six { type ipv6_addr; }
    set links { type ifname; elements = { "br0" }; }
    map pairs {
      type ifname . ifname : verdict
      elements = { "cni0" . "cni0" : drop }
    }
    chain forward {
      type filter hook forward priority 0;
      iifname . oifname vmap @pairs
      iifname @links oifname @links drop
      ip saddr @four accept
      ip6 daddr @six ct state established,related accept
    }
  }`,
    );
    const list = (...options: string[]): string[] =>
      ["test", "twin"].map((table) =>
        fixture.nft([...options, "list", "table", "inet", table])
          .replaceAll(/\b(test|twin)\b/g, "TABLE")
      );
    for (const options of [[], ["--debug=netlink"]]) {
      const [ours, twins] = list(...options);
      assertEquals(ours?.split("\n").sort(), twins?.split("\n").sort());
    }
    const sorted = nftables.listElements(TABLE, "four")
      .sort((one, other) => one.comment < other.comment ? -1 : 1);
    assertEquals(
      sorted,
      addresses.map((one) => ({
        ...one,
        verdict: undefined,
      })),
    );
    assertEquals(nftables.listElements(TABLE, "pairs"), [pair]);
    nftables.commit([delElementsOf(TABLE, "four", addresses.slice(0, 1))]);
    assertEquals(nftables.listElements(TABLE, "four").length, 1);
    assertEquals(nftables.listElements(TABLE, "none"), []);
  },
  needsNft,
);

testInHost(
  "Nftables.commit() adds rules for frames in tables of bridges",
  (fixture) => {
    const table: Table = { family: "bridge", name: "nat" };
    fixture.nftables.commit([
      addTable(table),
      addChain(table, "pre", {
        type: "filter",
        hook: "prerouting",
        priority: -300,
      }),
      appendRule(table, {
        chain: "pre",
        expressions: [
          ...matchEthernetSource(Mac.parse("0a:58:0a:01:02:03")),
          decide("return"),
        ],
      }),
    ]);
    const listed = fixture.nft(["list", "table", "bridge", "nat"]);
    assertStringIncludes(listed, "ether saddr 0a:58:0a:01:02:03 return");
    assertStringIncludes(listed, "hook prerouting priority dstnat");
  },
  needsNft,
);

const OUTBOUND: Readonly<Record<IpFamily, string>> = {
  4: "192.0.2.9",
  6: "2001:db8:ff::9",
};

/** Rules as iptables writes them, with a comment before the verdict. */
const IPTABLES_RULES: readonly [
  family: IpFamily,
  words: string,
  expressions: readonly Expression[],
  decision: Expression,
][] = ([
  [4, "-d 10.1.2.0/24", ["destination", "==", "10.1.2.0/24"]],
  [4, "-s 10.1.2.5/32", ["source", "==", "10.1.2.5/32"]],
  [4, "! -d 224.0.0.0/4", ["destination", "!=", "224.0.0.0/4"]],
  [6, "-d 2001:db8:1::/64", ["destination", "==", "2001:db8:1::/64"]],
  [6, "-s 2001:db8:1::5/128", ["source", "==", "2001:db8:1::5/128"]],
  [6, "! -d ff00::/8", ["destination", "!=", "ff00::/8"]],
] as const).flatMap(([family, words, [field, operator, cidr]]) => {
  const match = matchNetwork(field, operator, Cidr.parse(cidr));
  return [
    [family, `${words} -j ACCEPT`, match, decide("accept")],
    [family, `${words} -j OTHER`, match, jumpTo("OTHER")],
    [family, `${words} -j MASQUERADE`, match, xtablesMasquerade(family)],
    [
      family,
      `${words} -j SNAT --to-source ${OUTBOUND[family]}`,
      match,
      xtablesTranslateSource(Ip.parse(OUTBOUND[family])),
    ],
  ] as const;
});

testInInet(
  "Nftables.commit() adds what iptables adds for the same words",
  (fixture) => {
    const { nftables, hosts: { host, sandbox } } = fixture;
    const base = {
      type: "nat",
      hook: "postrouting",
      priority: 100,
    } as const;
    const tables = [[4, "ip", "iptables"], [6, "ip6", "ip6tables"]] as const;
    for (const [family, name, program] of tables) {
      const table: Table = { family: name, name: "nat" };
      const rules = IPTABLES_RULES.filter(([one]) => one === family);
      nftables.commit([
        addTable(table),
        addChain(table, "POSTROUTING", base),
        addChain(table, "OTHER"),
        ...rules.map(([, , match, decision]) =>
          appendRule(table, {
            chain: "POSTROUTING",
            expressions: [
              ...match,
              xtablesComment('a "b"'),
              count(),
              decision,
            ],
          })
        ),
      ]);
      const stdin = [
        "*nat",
        "-N OTHER",
        ...rules.map(([, words]) =>
          `-A POSTROUTING -m comment --comment "a \\"b\\"" ${words}`
        ),
        "COMMIT\n",
      ].join("\n");
      runTool(sandbox, `${program}-nft-restore`, ["--noflush"], stdin);
      const lists = [host, sandbox].map((netns) =>
        [
          runTool(netns, `${program}-nft-save`, ["-t", "nat"])
            .replaceAll(/^#.*/gm, ""),
          // Without the handles, which depend on the order of additions.
          runTool(netns, "nft", ["--debug=netlink", "list", "ruleset"])
            .replaceAll(/^(ip6? nat \S+) .*/gm, "$1"),
        ].map((text) => text.split("\n").sort())
      );
      assertEquals(lists[0], lists[1]);
    }
  },
  allOf(needsNft, ignoreUnless(hasCommand("iptables-nft"), "needs iptables")),
);

testInInet("Nftables.tryOut() changes nothing", ({ nftables }) => {
  const before = nftables.generation();
  nftables.tryOut(SKELETON);
  nftables.tryOut([addDormantTable(TABLE), ...SKELETON.slice(1)]);
  const error = assertThrows(
    () =>
      nftables.tryOut([...SKELETON, delChainOf(TABLE, "none"), ...SKELETON]),
    NetlinkError,
  );
  assertEquals(error.errno, "ENOENT");
  const unknown = { type: "route", hook: "input", priority: 0 } as const;
  const refused = assertThrows(
    () => nftables.tryOut([addTable(TABLE), addChain(TABLE, "x", unknown)]),
    NetlinkError,
  );
  assertEquals(refused.errno, "EOPNOTSUPP");
  assertEquals(nftables.generation(), before);
  assertEquals(nftables.listChains(TABLE), []);
});

testInInet("Nftables.listChains() lists one table only", ({ nftables }) => {
  const base = { type: "nat", hook: "postrouting", priority: 1 } as const;
  nftables.commit([
    ...SKELETON,
    addChain(TABLE, "late", { ...base, comment: "ours" }),
    addTable({ ...TABLE, name: "other" }),
    addChain({ ...TABLE, name: "other" }, "elsewhere"),
  ]);
  assertEquals(nftables.listChains(TABLE), [
    { name: "post", comment: "", isBase: true },
    { name: "net1", comment: "", isBase: false },
    { name: "late", comment: "ours", isBase: true },
  ]);
});

testInInet("Nftables describes rules", ({ nftables }) => {
  const table: Table = { family: "ip", name: "nat" };
  const rules: readonly (readonly Expression[])[] = [
    [xtablesComment("é".repeat(127)), count(), jumpTo("net1")],
    [xtablesComment("two"), xtablesMasquerade(4)],
    [masquerade()],
    translateSource(Ip.parse("192.0.2.9")),
    [xtablesTranslateSource(Ip.parse("192.0.2.9"))],
    [decide("accept")],
  ];
  nftables.commit([
    addTable(table),
    addChain(table, "post", {
      type: "nat",
      hook: "postrouting",
      priority: 100,
    }),
    addChain(table, "net1"),
    ...rules.toReversed().map((expressions) =>
      prependRule(table, { chain: "post", expressions })
    ),
  ]);
  const listed = nftables.listRules(table, "post");
  const tell = ({ expressions }: Rule): unknown[] => [
    xtablesCommentOf(expressions),
    newSourceOf(expressions)?.toHex(),
    verdictOf(expressions)?.chain,
    verdictOf(expressions) !== undefined,
  ];
  assertEquals(listed.map(tell), [
    ["é".repeat(127), undefined, "net1", true],
    ["two", "", undefined, false],
    ["", "", undefined, false],
    ["", "c0000209", undefined, false],
    ["", "c0000209", undefined, false],
    ["", undefined, undefined, true],
  ]);
  assertEquals(
    listed.map((rule) => rule.mentions("net1")),
    [true, false, false, false, false, false],
  );
  assertThrows(() => xtablesComment("é".repeat(128)), RangeError, "256 bytes");
});

testInInet("Nftables.commit() makes all changes or none", ({ nftables }) => {
  const before = nftables.generation();
  const error = assertThrows(
    () => nftables.commit([...SKELETON, delChainOf(TABLE, "none")]),
    NetlinkError,
  );
  assertEquals(error.request, "NFT_MSG_DELCHAIN");
  assertEquals(error.errno, "ENOENT");
  assertEquals(nftables.generation(), before);
  const missing = assertThrows(
    () => nftables.commit([delTableOf(TABLE)]),
    NetlinkError,
  );
  assertEquals([missing.errno, missing.attribute], ["ENOENT", "name"]);
});

testInInet(
  "Nftables.commit() refuses when something was committed since",
  ({ nftables }) => {
    const before = nftables.generation();
    nftables.commit(SKELETON);
    const error = assertThrows(
      () => nftables.commit([addChain(TABLE, "late")], before),
      NetlinkError,
    );
    assertEquals(error.errno, "ERESTART");
    nftables.commit([addChain(TABLE, "late")], nftables.generation());
  },
);

testInInet("Nftables lists and deletes rules", ({ nftables }) => {
  const rule = (comment: string): Change =>
    appendRule(TABLE, {
      chain: "net1",
      expressions: [decide("return")],
      comment,
    });
  nftables.commit([...SKELETON, rule("a"), rule("b"), rule("c")]);
  const [, second] = nftables.listRules(TABLE, "net1");
  assertEquals(second?.comment, "b");
  nftables.commit([delRuleOf(TABLE, "net1", second?.handle ?? 0n)]);
  assertEquals(comments(nftables), ["a", "c"]);
  const busy = assertThrows(
    () => nftables.commit([appendJump("net1"), delChainOf(TABLE, "net1")]),
    NetlinkError,
  );
  assertEquals(busy.errno, "EBUSY");
  nftables.commit([flushChain(TABLE, "net1")]);
  assertEquals(comments(nftables), []);
  nftables.commit([delChainOf(TABLE, "net1")]);
  nftables.commit([delTableOf(TABLE)]);
});

testInInet("Nftables.hasChain() finds chains", ({ nftables }) => {
  nftables.commit(SKELETON);
  assertEquals(nftables.hasChain(TABLE, "net1"), true);
  assertEquals(nftables.hasChain(TABLE, "net2"), false);
  assertEquals(nftables.hasChain({ ...TABLE, family: "ip" }, "net1"), false);
});

testInHost(
  "Nftables finds nothing if the table does not exist",
  ({ nftables }) => {
    assertEquals(nftables.hasChain(TABLE, "net1"), false);
    assertEquals(nftables.listRules(TABLE, "net1"), []);
  },
);

/** Adds a rule that jumps to a chain, so that the chain cannot be deleted. */
function appendJump(chain: string): Change {
  return appendRule(TABLE, { chain: "post", expressions: [jumpTo(chain)] });
}

function comments(nftables: Nftables): string[] {
  return nftables.listRules(TABLE, "net1").map(({ comment }) => comment);
}

testInHost("Nftables.listRules() tells what rules compare with", (fixture) => {
  const { nftables } = fixture;
  const table: Table = { family: "bridge", name: "test" };
  const mac = Mac.parse("c2:11:22:33:44:55");
  const rules = [
    [...matchInputName("veth0"), ...matchEthernetSource(mac), decide("drop")],
    [decide("accept")],
  ];
  nftables.commit([
    addTable(table),
    addChain(table, "one"),
    ...rules.map((expressions) =>
      appendRule(table, { chain: "one", expressions })
    ),
  ]);
  const [first, second] = nftables.listRules(table, "one")
    .map(({ expressions }) => expressions);
  assertEquals(inputNameOf(first ?? []), "veth0");
  assertEquals(comparedValues(first ?? [])[1]?.toHex(), mac.hex);
  assertEquals(inputNameOf(second ?? []), "");
  assertEquals(comparedValues(second ?? []), []);
});

/** Maps of ports, as the plugin portmap has them. */
const PORT_MAPS: readonly Change[] = ([[4, "ipv4_addr"], [
  6,
  "ipv6_addr",
]] as const).flatMap(([family, address]) => [
  addSet(TABLE, {
    name: `ports${family}`,
    key: "inet_proto . inet_service",
    data: `${address} . inet_service`,
  }),
  addSet(TABLE, {
    name: `addressed${family}`,
    key: `${address} . inet_proto . inet_service`,
    data: `${address} . inet_service`,
  }),
  addSet(TABLE, { name: `pairs${family}`, key: `${address} . ${address}` }),
  ...[false, true].map((byAddress) =>
    appendRule(TABLE, {
      chain: "net1",
      expressions: [
        ...matchFamily(family),
        ...redirectBy(`${byAddress ? "addressed" : "ports"}${family}`, family, {
          byAddress,
        }),
      ],
    })
  ),
  ...[24, family === 4 ? 32 : 128, 0].map((prefixLength) =>
    appendRule(TABLE, {
      chain: "post",
      expressions: [
        ...matchChangedDestination(),
        ...matchFamily(family),
        ...matchNetworkAndDestinationIn(
          `pairs${family}`,
          family,
          prefixLength,
        ),
        masquerade(),
      ],
    })
  ),
]);

/** Encodes a protocol, a port or an address as part of a key. */
const bytesOf = (...bytes: number[]): Uint8Array<ArrayBuffer> =>
  Uint8Array.from(bytes);

testInInet("Nftables.commit() adds the maps and rules of ports", (fixture) => {
  const key = joinValues(bytesOf(6), bytesOf(0x1f, 0x90));
  const address = bytesOf(10, 1, 2, 3);
  const data = joinValues(address, bytesOf(0, 80));
  fixture.nftables.commit([
    ...SKELETON,
    addSet(TABLE, { name: "links", key: "ifname" }),
    addChain(TABLE, "early", {
      type: "filter",
      hook: "prerouting",
      priority: -300,
    }),
    appendRule(TABLE, {
      chain: "early",
      expressions: [...matchInputIn("links"), decide("drop")],
    }),
    appendRule(TABLE, {
      chain: "early",
      expressions: [...matchLocalDestination(), decide("accept")],
    }),
    ...PORT_MAPS,
    addNewElements(TABLE, "ports4", [{ key, data, comment: "one" }]),
    addNewElements(TABLE, "addressed4", [
      { key: joinValues(address, key), data, comment: "", label: "two" },
    ]),
    addNewElements(TABLE, "links", [{
      key: encodeName("cni0"),
      comment: "three",
      label: "four",
    }]),
  ]);
  const words = (family: 4 | 6): { net: string; post: string } => {
    const ip = family === 4 ? "ip" : "ip6", proto = `ipv${family}`;
    const dnat = `meta nfproto ${proto} dnat ${ip} to`;
    const masks = family === 4
      ? ["saddr & 255.255.255.0", "saddr", "saddr & 0.0.0.0"]
      : ["saddr & ffff:ff00::", "saddr", "saddr & ::"];
    return {
      net: `${dnat} meta l4proto . th dport map @ports${family}
      ${dnat} ${ip} daddr . meta l4proto . th dport map @addressed${family}`,
      post: masks.map((source) =>
        `ct status dnat meta nfproto ${proto} ${ip} ${source} . ${ip} daddr @pairs${family} masquerade`
      ).join("\n"),
    };
  };
  const maps = ([[4, "ipv4_addr"], [6, "ipv6_addr"]] as const).map((
    [family, address],
  ) => `
    map ports${family} {
      type inet_proto . inet_service : ${address} . inet_service
      ${
    family === 4
      ? 'elements = { tcp . 8080 comment "one" : 10.1.2.3 . 80 }'
      : ""
  }
    }
    map addressed${family} {
      type ${address} . inet_proto . inet_service : ${address} . inet_service
      ${
    family === 4 ? "elements = { 10.1.2.3 . tcp . 8080 : 10.1.2.3 . 80 }" : ""
  }
    }
    set pairs${family} { type ${address} . ${address}; }`);
  fixture.nft(
    ["-f", "-"],
    `table inet twin {
    comment "a table"
    set links { type ifname; elements = { "cni0" comment "three" } }
    ${maps.join("")}
    chain net1 { ${words(4).net}
      ${words(6).net}
    }
    chain post { type nat hook postrouting priority 100;
      ${words(4).post}
      ${words(6).post}
    }
    chain early { type filter hook prerouting priority -300;
      iifname @links drop
      fib daddr type local accept
    }
  }`,
  );
  const list = (table: string, ...flags: string[]): string[] =>
    fixture.nft([...flags, "list", "table", "inet", table])
      .replaceAll(/\binet (test|twin)\b/g, "inet TABLE")
      .replaceAll(/ +userdata = .*/g, "").split("\n")
      .filter((line) => !/^(\s*|inet TABLE .*)$/.test(line)).sort();
  assertEquals(
    list("test", "--debug=netlink"),
    list("twin", "--debug=netlink"),
  );
  const { nftables } = fixture;
  assertEquals(
    nftables.listElements(TABLE, "addressed4"),
    [
      { key: joinValues(address, key), data, comment: "", label: "two" },
    ].map((one) => ({ verdict: undefined, ...one })),
  );
  assertEquals(
    splitValues(
      joinValues(address, key),
      "ipv4_addr . inet_proto . inet_service",
    ),
    [address, bytesOf(6), bytesOf(0x1f, 0x90)],
  );
  assertEquals(nftables.listElements(TABLE, "links")[0]?.label, "four");
  assertEquals(
    nftables.listSets(TABLE).sort(),
    [4, 6].flatMap((n) => [`addressed${n}`, `pairs${n}`, `ports${n}`])
      .concat("links").sort(),
  );
  const twice = assertThrows(
    () =>
      nftables.commit([
        addNewElements(TABLE, "ports4", [{ key, data, comment: "again" }]),
      ]),
    NetlinkError,
  );
  assertEquals(twice.errno, "EEXIST");
}, needsNft);

testInInet("Nftables lists every one of 3000 elements", ({ nftables }) => {
  const set = { name: "many", key: "inet_proto . inet_service" } as const;
  nftables.commit([...SKELETON, addSet(TABLE, set)]);
  const elements = Array.from({ length: 3000 }, (_, at) => ({
    key: joinValues(bytesOf(6), bytesOf(at >> 8, at & 0xff)),
    comment: `c${at}`,
  }));
  for (let start = 0; start < elements.length; start += 500) {
    const group = elements.slice(start, start + 500);
    nftables.commit([addNewElements(TABLE, "many", group)]);
  }
  const listed = nftables.listElements(TABLE, "many")
    .map(({ comment }) => comment);
  assertEquals(new Set(listed), new Set(elements.map((one) => one.comment)));
  const text = (words: string): ReturnType<typeof bytesOf> =>
    new TextEncoder().encode(words);
  const find = (...parts: ReturnType<typeof bytesOf>[]): unknown => {
    const found = nftables.findElements(TABLE, "many", parts);
    return [
      found.elements.map(({ comment }) => comment).sort(),
      found.hasOthers,
    ];
  };
  assertEquals(find(text("c2999"), elements[1234]?.key ?? bytesOf()), [
    ["c1234", "c2999"],
    true,
  ]);
  assertEquals(find(text("none")), [[], true]);
  assertEquals(find(), [[], true]);
  const every = find(text("c"));
  assertEquals(every, [elements.map(({ comment }) => comment).sort(), false]);
  nftables.commit([delElementsOf(TABLE, "many", elements.slice(0, 500))]);
  assertEquals(nftables.listElements(TABLE, "many").length, 2500);
  nftables.commit([delSetOf(TABLE, "many")]);
  assertEquals(nftables.listSets(TABLE), []);
});

testInHost(
  "Nftables.keepOpen() has the next call use the same socket",
  ({ hosts }) => {
    const { host: { path } } = hosts;
    const open = (): number => [...Deno.readDirSync("/proc/self/fd")].length;
    const before = open();
    {
      using _kept = Nftables.keepOpen(path);
      for (let use = 0; use < 3; use++) {
        using nftables = Nftables.open(path);
        // Refusals leave answers to the rest of the batch.
        assertThrows(
          () =>
            nftables.commit([
              delTableOf(TABLE),
              ...Array.from({ length: 500 }, () => delTableOf(TABLE)),
            ]),
          NetlinkError,
        );
        nftables.commit([addTable(TABLE), delTableOf(TABLE)]);
        assertEquals(nftables.hasTable(TABLE), false);
      }
      assertEquals(open(), before + 1);
      {
        using first = Nftables.open(path);
        using second = Nftables.open(path);
        assertEquals(first.generation(), second.generation());
        assertEquals(open(), before + 2);
      }
      assertEquals(open(), before + 2);
    }
    assertEquals(open(), before);
  },
);
