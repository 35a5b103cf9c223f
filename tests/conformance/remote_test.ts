// deno-lint-ignore-file no-sync-fn-in-async-fn -- nothing else waits during these calls

/**
 * remote and contivk8s beside daemons that answer as they should, and as they
 * should not.
 *
 * Source: multus-cni pkg/server/api; contiv/netplugin mgmtfn/k8splugin.
 */

import { assert, assertEquals, assertMatch } from "@std/assert";
import type { Environment } from "../../base/process/environment.ts";
import { createInvoker } from "../../cni/invoke/in_process.ts";
import { OWN_NETNS } from "../../cni/call/own_netns.ts";
import { dispatch } from "../../cni/skel.ts";
import type { DispatchOutput } from "../../cni/call/context.ts";
import { findPlugin } from "../../plugins/registry.ts";
import { conformance, type Row } from "../_harness/conformance.ts";
import { canBeOtherUser } from "../_harness/other_user.ts";
import {
  leaveSocket,
  type Speak,
  stayOpen,
  UnixServer,
} from "../_harness/unix_server.ts";
import { expand } from "./rows.ts";
import { TRACE } from "./script_plugins.ts";

const COMMANDS = ["ADD", "CHECK", "GC", "DEL", "STATUS"] as const;
type Command = typeof COMMANDS[number];

const ENV = {
  CNI_CONTAINERID: "c1",
  CNI_NETNS: "/proc/4711/ns/net",
  CNI_IFNAME: "eth0",
  CNI_ARGS: "",
  CNI_PATH: "/opt/cni/bin",
  CNI_LOG_FILE: "stderr",
};
const POD_ARGS = "IgnoreUnknown=1;K8S_POD_NAMESPACE=ns;K8S_POD_NAME=p<1>;" +
  "K8S_POD_INFRA_CONTAINER_ID=c1";

async function run(
  command: string,
  config: Readonly<Record<string, unknown>>,
  env: Environment = {},
): Promise<DispatchOutput> {
  const whole = {
    cniVersion: "1.1.0",
    name: "net1",
    type: "remote",
    ...config,
  };
  const plugin = await findPlugin(whole.type);
  assert(plugin);
  const isOfGc = command === "GC";
  return await dispatch(plugin, {
    env: { ...ENV, ...env, CNI_COMMAND: command },
    stdin: () =>
      new TextEncoder().encode(JSON.stringify({
        ...whole,
        ...isOfGc && { "cni.dev/valid-attachments": [] },
      })),
    invoker: createInvoker(dispatch, findPlugin),
    hostNetns: OWN_NETNS,
  });
}

function answer(
  body: string,
  status = "200 OK",
  more: readonly string[] = [],
): string {
  const { length } = new TextEncoder().encode(body);
  const lines = [
    `HTTP/1.1 ${status}`,
    `Content-Length: ${length}`,
    ...more,
    "",
    body,
  ];
  return lines.join("\r\n");
}

const speaking = (text: string): Speak => ({ say }) => say(text);

const RESULT = {
  cniVersion: "1.0.0",
  interfaces: [{ name: "eth0", sandbox: "/n" }],
  ips: [{ address: "10.1.2.3/24", interface: 0 }],
};

/** A failure: what the daemon does, and the code of each command. */
type Failing = readonly [
  name: string,
  speak: Speak,
  codes: Readonly<Record<Command, number>>,
];

function codes(
  [ADD, CHECK, GC, DEL, STATUS]: readonly [
    number,
    number,
    number,
    number,
    number,
  ],
): Readonly<Record<Command, number>> {
  return { ADD, CHECK, GC, DEL, STATUS };
}

const LOST = codes([11, 11, 11, 11, 50]);
const UNUSABLE = codes([100, 100, 100, 100, 50]);
const HUGE = 5 * 1024 * 1024;

const FAILURES: readonly Failing[] = [
  ["closes early", () => {}, LOST],
  ["answers half a head", speaking("HTTP/1.1 200 OK\r\nContent-Le"), LOST],
  ["answers half a body", speaking(answer("{}").slice(0, -1)), LOST],
  [
    "answers half a chunk",
    speaking("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{"),
    LOST,
  ],
  ["is slow", stayOpen, LOST],
  [
    "announces a huge answer",
    speaking(`HTTP/1.1 200 OK\r\nContent-Length: ${HUGE}\r\n\r\n{`),
    UNUSABLE,
  ],
  [
    "sends a huge answer",
    speaking(`HTTP/1.1 200 OK\r\n\r\n${"x".repeat(HUGE)}`),
    UNUSABLE,
  ],
  ["does not speak HTTP", speaking("hello\r\n\r\n"), UNUSABLE],
  ["answers status 500 with text", speaking(answer("oh", "500 E")), UNUSABLE],
  ["answers status 403", speaking(answer("", "403 E")), UNUSABLE],
  [
    "answers what is not JSON",
    speaking(answer("no json")),
    codes([6, 6, 6, 6, 6]),
  ],
  ["answers an array", speaking(answer("[]")), codes([6, 6, 6, 6, 6])],
  ["answers nothing to ADD", speaking(answer("")), codes([999, 0, 0, 0, 0])],
  [
    "answers a result without a version",
    speaking(answer('{"Result":{}}')),
    codes([6, 0, 0, 0, 0]),
  ],
  [
    "answers a result with a wrong address",
    speaking(
      answer('{"Result":{"cniVersion":"1.0.0","ips":[{"address":"x"}]}}'),
    ),
    codes([6, 0, 0, 0, 0]),
  ],
  [
    "answers a result with an address of an interface that it does not list",
    speaking(
      answer(
        JSON.stringify({
          Result: {
            ...RESULT,
            ips: [{ address: "10.1.2.3/24", interface: 1 }],
          },
        }),
      ),
    ),
    codes([6, 0, 0, 0, 0]),
  ],
  [
    "answers a CNI error with status 200",
    speaking(answer('{"cniVersion":"1.0.0","code":7,"msg":"bad"}')),
    codes([7, 7, 7, 7, 7]),
  ],
  [
    "answers a CNI error of code 0",
    speaking(answer('{"code":0,"msg":"bad"}', "500 E")),
    UNUSABLE,
  ],
  [
    "answers a CNI error",
    speaking(answer('{"code":7,"msg":"bad","details":"why"}', "400 Bad")),
    codes([7, 7, 7, 7, 7]),
  ],
  [
    "does not know the container",
    speaking(answer('{"code":3,"msg":"unknown"}', "400 Bad")),
    codes([3, 3, 3, 0, 3]),
  ],
  ["has no such page", speaking(answer("", "404 E")), codes([100, 0, 0, 0, 0])],
];

/** Checks that a failure is one error document, and a success no document. */
function assertOutcome(
  command: Command,
  { exitCode, stdout, stderr }: DispatchOutput,
  code: number,
): void {
  if (code === 0) {
    assertEquals([command, exitCode, stdout], [command, 0, ""]);
    return;
  }
  const document = JSON.parse(stdout);
  assertEquals([command, exitCode, document.code], [command, 1, code], stdout);
  assert(document.msg.length > 5 || command !== "ADD" || code === 7, stdout);
  assertEquals(stderr.includes("at file:"), false);
}

const failing = ([name, speak, codes]: Failing): [string, Row] => [
  `a daemon that ${name} is one clear error, and no silent success`,
  async () => {
    await using daemon = new UnixServer(speak);
    for (const command of COMMANDS) {
      const config = {
        socket: daemon.path,
        ...speak === stayOpen && { timeoutSeconds: 0.05 },
      };
      const output = await run(command, config);
      assertOutcome(command, output, codes[command]);
    }
  },
];

const away = (name: string, leave: (path: string) => void): [string, Row] => [
  `${name} is code 11; DEL goes on, unless it is strict; STATUS is code 50`,
  async () => {
    const directory = Deno.makeTempDirSync({ prefix: "cni-test-" });
    const config = { socket: `${directory}/s.sock`, readyTimeoutSeconds: 0 };
    leave(config.socket);
    for (const command of COMMANDS) {
      const code = { ADD: 11, CHECK: 11, GC: 11, DEL: 0, STATUS: 50 }[command];
      const output = await run(command, config);
      assertOutcome(command, output, code);
      if (command === "DEL") assertMatch(output.stderr, /is unreachable/);
    }
    const strict = await run("DEL", { ...config, delPolicy: "strict" });
    assertOutcome("DEL", strict, 11);
    Deno.removeSync(directory, { recursive: true });
  },
];

/** Runs a command of contiv beside a daemon; answers the request and the output. */
async function contiv(
  command: string,
  reply: string,
  { config = {}, env = {} }: {
    readonly config?: Readonly<Record<string, unknown>>;
    readonly env?: Environment;
  } = {},
): Promise<{ request: string; requests: string[]; output: DispatchOutput }> {
  await using daemon = new UnixServer(speaking(reply));
  const output = await run(command, {
    cniVersion: "0.3.1",
    type: "contivk8s",
    socket: daemon.path,
    ...config,
  }, { CNI_ARGS: POD_ARGS, ...env });
  return {
    request: daemon.requests[0] ?? "",
    requests: daemon.requests,
    output,
  };
}

const BODY = '{"K8S_POD_NAME":"p\\u003c1\\u003e","K8S_POD_NAMESPACE":"ns",' +
  '"K8S_POD_INFRA_CONTAINER_ID":"c1","CNI_NETNS":"/proc/4711/ns/net",' +
  '"CNI_IFNAME":"eth0"}';

conformance("remote", {
  ...expand(FAILURES, failing),
  ...expand(
    [
      ["a socket that does not exist", (): void => {}],
      ["a socket on which nobody listens", leaveSocket],
    ] as const,
    ([name, leave]) => away(name, leave),
  ),

  "ADD sends environment and configuration, and converts the result":
    async () => {
      for (const body of [{ Result: RESULT }, { result: RESULT }, RESULT]) {
        await using daemon = new UnixServer(
          speaking(answer(JSON.stringify(body))),
        );
        const config = { cniVersion: "0.4.0", socket: daemon.path, key: "<>" };
        const { stdout } = await run("ADD", config, {
          ...TRACE,
          HOME: "/root",
        });
        const result = JSON.parse(stdout);
        assertEquals(result.cniVersion, "0.4.0");
        assertEquals(result.ips[0].version, "4");
        const [head = "", sent = ""] = (daemon.requests[0] ?? "")
          .split("\r\n\r\n");
        assertMatch(head, /^POST \/cni HTTP\/1.1\r\nHost: dummy\r\n/);
        const { env, config: base64 } = JSON.parse(sent);
        assertEquals(env, { ...ENV, CNI_COMMAND: "ADD", ...TRACE });
        const stdin = new TextDecoder().decode(Uint8Array.fromBase64(base64));
        assertEquals(JSON.parse(stdin).key, "<>");
      }
    },
  "envAll sends the whole environment; headers and basePath are added":
    async () => {
      await using daemon = new UnixServer(speaking(answer("")));
      await run("CHECK", {
        socket: daemon.path,
        envAll: true,
        headers: { "X-Node": "n1" },
        basePath: "/v1/",
      }, { HOME: "/root" });
      const [request = ""] = daemon.requests;
      assertMatch(request, /^POST \/v1\/cni HTTP/);
      assertMatch(request, /\r\nX-Node: n1\r\n/);
      assertMatch(request, /"HOME":"\/root"/);
    },
  "an answer in chunks is joined": async () => {
    const body = JSON.stringify({ Result: RESULT });
    const chunks = [body.slice(0, 7), body.slice(7)]
      .map((text) => `${text.length.toString(16)};x=y\r\n${text}\r\n`).join("");
    await using daemon = new UnixServer(
      speaking(
        `HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n${chunks}0\r\n\r\n`,
      ),
    );
    const { exitCode } = await run("ADD", { socket: daemon.path });
    assertEquals(exitCode, 0);
  },
  "a result that cannot be used is undone by DEL": async () => {
    await using daemon = new UnixServer(speaking(answer("no json")));
    await run("ADD", { socket: daemon.path });
    const commands = daemon.requests.map((request) =>
      /"CNI_COMMAND":"(\w+)"/.exec(request)?.[1]
    );
    assertEquals(commands, ["ADD", "DEL"]);
  },
  "a failure that the daemon reports is not undone": async () => {
    await using daemon = new UnixServer(
      speaking(answer('{"code":999,"msg":"it is attached"}', "400 Bad")),
    );
    await run("ADD", { socket: daemon.path });
    assertEquals(daemon.requests.length, 1);
  },
  "nothing is sent twice, whatever happened": async () => {
    for (const speak of [(): void => {}, speaking("HTTP/1.1 200 OK\r\n")]) {
      await using daemon = new UnixServer(speak);
      for (const command of COMMANDS) {
        await run(command, { socket: daemon.path });
      }
      assertEquals(daemon.requests.length, COMMANDS.length);
    }
  },
  "ADD waits for a daemon that does not listen yet": async () => {
    await using daemon = new UnixServer(
      speaking(answer(JSON.stringify(RESULT))),
    );
    const late = `${daemon.path}.late`;
    const running = run("ADD", {
      socket: late,
      pollMillis: 5,
      readyTimeoutSeconds: 30,
    });
    // By now it has tried, and waits.
    await run("VERSION", {});
    Deno.renameSync(daemon.path, late);
    const { exitCode, stdout } = await running;
    Deno.renameSync(late, daemon.path);
    assertEquals(exitCode, 0, stdout);
  },
  "DEL fails if the daemon listens and accepts no connection": async () => {
    const directory = Deno.makeTempDirSync();
    const path = `${directory}/s.sock`;
    using stack = new DisposableStack();
    stack.defer(() => Deno.removeSync(directory, { recursive: true }));
    stack.use(Deno.listen({ transport: "unix", path }));
    const fill = async (): Promise<never> => {
      for (;;) stack.use(await Deno.connect({ transport: "unix", path }));
    };
    await fill().catch(() => {});
    const config = { socket: path, timeoutSeconds: 0.05, pollMillis: 5 };
    const { exitCode, stdout } = await run("DEL", config);
    assertEquals([exitCode, JSON.parse(stdout).code], [1, 11], stdout);
    assertMatch(stdout, /accepts no connection/);
  },
  "STATUS asks whether a daemon without STATUS is ready": async () => {
    for (const [ready, code] of [["200 OK", 0], ["500 E", 50]] as const) {
      await using daemon = new UnixServer(({ request, say }) =>
        say(answer("", request.startsWith("GET /readyz ") ? ready : "501 E"))
      );
      assertOutcome(
        "STATUS",
        await run("STATUS", { socket: daemon.path }),
        code,
      );
    }
  },
  "a socket of another user is refused, and so is a file": async () => {
    await using daemon = new UnixServer(speaking(answer("")));
    const directory = Deno.makeTempDirSync({ prefix: "cni-test-" });
    const file = `${directory}/file`;
    Deno.writeTextFileSync(file, "");
    const config = { socket: file, delPolicy: "strict" };
    assertOutcome("DEL", await run("DEL", config), 100);
    assertOutcome("ADD", await run("ADD", config), 100);
    if (canBeOtherUser) {
      Deno.chownSync(daemon.path, 65534, 65534);
      assertOutcome("ADD", await run("ADD", { socket: daemon.path }), 100);
      Deno.chownSync(daemon.path, 0, 0);
      Deno.chmodSync(daemon.path.replace(/\/[^/]*$/, ""), 0o777);
      assertOutcome("ADD", await run("ADD", { socket: daemon.path }), 100);
      assertEquals(daemon.requests, []);
    }
    Deno.removeSync(directory, { recursive: true });
  },
  "keys that cannot be meant are code 7": async () => {
    for (
      const config of [
        { socket: "tcp://127.0.0.1:1" },
        { socket: "relative.sock" },
        { protocol: "grpc" },
        { timeoutSeconds: 220 },
        { timeoutSeconds: { ADD: 0 } },
        { headers: { "X-A": "a\r\nX-B: b" } },
        { headers: { "X:": "a" } },
        { basePath: "/a b" },
        { basePath: "/a\r\nX-B: b" },
      ]
    ) {
      assertOutcome("ADD", await run("ADD", config), 7);
    }
  },
  "VERSION needs no daemon": async () => {
    for (const type of ["remote", "contivk8s"]) {
      const { stdout } = await run("VERSION", { type });
      assertEquals(JSON.parse(stdout).supportedVersions.length, 7);
    }
  },

  "contiv: ADD sends the pod's names, byte for byte": async () => {
    const { request, output } = await contiv(
      "ADD",
      answer('{"endpointid":"c1","ipaddress":"10.1.2.3/24","ipv6address":""}'),
    );
    assertEquals(
      request,
      "POST /ContivCNI.AddPod HTTP/1.1\r\nHost: localhost\r\n" +
        `Content-Type: application/json\r\nContent-Length: ${BODY.length}\r\n` +
        `Connection: close\r\n\r\n${BODY}`,
    );
    assertEquals(JSON.parse(output.stdout), {
      cniVersion: "0.3.1",
      ips: [{ version: "4", address: "10.1.2.3/24" }],
      dns: {},
    });
  },
  "contiv: DEL sends the same to its own page": async () => {
    const { request, output } = await contiv("DEL", answer("{}"));
    assertMatch(request, /^POST \/ContivCNI\.DelPod HTTP\/1\.1\r\n/);
    assertEquals(request.split("\r\n\r\n")[1], BODY);
    assertEquals([output.exitCode, output.stdout], [0, ""]);
  },
  "contiv: DEL is sent after a reboot, which leaves a plain file of the namespace":
    async () => {
      const directory = Deno.makeTempDirSync({ prefix: "cni-test-" });
      const left = `${directory}/cni-left`;
      Deno.writeTextFileSync(left, "");
      for (const path of [left, `${directory}/deleted`]) {
        const { requests, output } = await contiv("DEL", answer("{}"), {
          env: { CNI_NETNS: path },
        });
        assertOutcome("DEL", output, 0);
        assertEquals(requests.length, 1, path);
      }
      Deno.removeSync(directory, { recursive: true });
    },
  "contiv: both families are in the result": async () => {
    const { output } = await contiv(
      "ADD",
      answer('{"result":0,"ipaddress":"10.1.2.3/24","ipv6address":"fd::3/64"}'),
      { config: { interfaces: true, cniVersion: "1.0.0" } },
    );
    const { ips, interfaces } = JSON.parse(output.stdout);
    assertEquals(ips, [
      { address: "10.1.2.3/24", interface: 0 },
      { address: "fd::3/64", interface: 0 },
    ]);
    assertEquals(interfaces, [{ name: "eth0", sandbox: ENV.CNI_NETNS }]);
  },
  "contiv: the result of the plugin before stays": async () => {
    const { output } = await contiv(
      "ADD",
      answer('{"ipaddress":"10.1.2.3/24"}'),
      {
        config: {
          cniVersion: "1.0.0",
          type: "remote",
          protocol: "contiv",
          prevResult: RESULT,
        },
      },
    );
    const { ips, interfaces } = JSON.parse(output.stdout);
    assertEquals(ips.map(({ interface: at }: { interface: number }) => at), [
      0,
      1,
    ]);
    assertEquals(interfaces.length, 2);
  },
  "contiv: values with = and quotes in CNI_ARGS do not break the request":
    async () => {
      const { request } = await contiv("DEL", answer("{}"), {
        env: { CNI_ARGS: 'K8S_POD_NAME=a"b;K8S_POD_NAMESPACE=ns' },
      });
      const body = JSON.parse(request.split("\r\n\r\n")[1] ?? "");
      assertEquals(body["K8S_POD_NAME"], 'a"b');
      assertEquals(body["K8S_POD_INFRA_CONTAINER_ID"], "c1");
    },
  ...expand<[string, string, number, RegExp, string | undefined]>([
    [
      "a failure with its text",
      answer('{"result":3,"errmsg":"AddPod","errinfo":"Err: x"}', "500 E"),
      3,
      /^Contiv:AddPod$/,
      "Err: x",
    ],
    [
      "a result other than 0",
      answer('{"result":2}'),
      2,
      /^Contiv:the daemon reports failure 2$/,
      '{"result":2}',
    ],
    ["an undecodable request", answer("{}", "500 E"), 100, /status 500/, "{}"],
    [
      "status 404",
      answer("", "404 E"),
      100,
      /^Contiv:page not found$/,
      "/ContivCNI.AddPod",
    ],
    [
      "status 403",
      answer("", "403 E"),
      100,
      /^Contiv:access denied$/,
      undefined,
    ],
    ["status 502", answer("proxy", "502 E"), 100, /status 502$/, "proxy"],
    ["no address", answer("{}"), 6, /no address$/, undefined],
    [
      "a bad address",
      answer('{"ipaddress":"10.1.2.3"}'),
      6,
      /"10\.1\.2\.3", which is not an address/,
      undefined,
    ],
    ["no JSON", answer("ok"), 6, /not a JSON object/, "ok"],
    [
      "a wrong type",
      answer('{"ipaddress":1}'),
      6,
      /the expected form/,
      undefined,
    ],
  ], ([name, reply, code, msg, details]) => [
    `contiv: ${name} is one error of ADD`,
    async () => {
      const { output } = await contiv("ADD", reply);
      const document = JSON.parse(output.stdout);
      assertEquals([output.exitCode, document.code], [1, code], output.stdout);
      assertMatch(document.msg, msg);
      if (details !== undefined) assertEquals(document.details, details);
    },
  ]),
  "contiv: an answer that cannot be used ends the endpoint": async () => {
    for (const body of ['{"ipaddress":"x"}', '{"ipaddress":7}', "[]", "{"]) {
      const { requests } = await contiv("ADD", answer(body));
      const paths = requests.map((request) => request.split(" ")[1]);
      assertEquals(paths, ["/ContivCNI.AddPod", "/ContivCNI.DelPod"], body);
    }
  },
  "contiv: DEL logs failures, and reports them if it is strict": async () => {
    const reply = answer('{"result":1,"errmsg":"DelPod"}', "500 E");
    const lenient = await contiv("DEL", reply);
    assertOutcome("DEL", lenient.output, 0);
    assertMatch(lenient.output.stderr, /DelPod/);
    const strict = await contiv("DEL", reply, {
      config: { delPolicy: "strict" },
    });
    assertOutcome("DEL", strict.output, 1);
  },
  "contiv: CHECK and GC ask nobody, STATUS only whether anybody listens":
    async () => {
      const config = { cniVersion: "1.1.0" };
      for (const command of ["CHECK", "GC", "STATUS"] as const) {
        const { output, requests } = await contiv(
          command,
          answer("", "404 E"),
          { config },
        );
        assertOutcome(command, output, 0);
        assertEquals(requests.length, command === "STATUS" ? 1 : 0);
      }
      const away = { type: "contivk8s", socket: "/nonexistent/s.sock" };
      assertOutcome("STATUS", await run("STATUS", away), 50);
    },
});
