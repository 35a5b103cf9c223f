import { assert, assertEquals, assertThrows } from "@std/assert";
import { testRows } from "../../tests/_harness/table.ts";
import { readOtelSettings } from "./otel_settings.ts";

const AT = { OTEL_EXPORTER_OTLP_ENDPOINT: "http://127.0.0.1:4318" };

testRows<[name: string, env: Record<string, string>]>(
  "readOtelSettings(): no spans",
  [
    ["no address", {}],
    ["an empty address", { OTEL_EXPORTER_OTLP_ENDPOINT: " " }],
    ["turned off", { ...AT, OTEL_SDK_DISABLED: "TRUE" }],
    ["no exporter", { ...AT, OTEL_TRACES_EXPORTER: "none" }],
    ["another exporter", { ...AT, OTEL_TRACES_EXPORTER: "zipkin" }],
  ],
  ([, env]) => assertEquals(readOtelSettings(env), undefined),
);

testRows<[name: string, env: Record<string, string>, url: string]>(
  "readOtelSettings(): where spans go",
  [
    ["a base", AT, "http://127.0.0.1:4318/v1/traces"],
    [
      "a base with a path",
      { OTEL_EXPORTER_OTLP_ENDPOINT: "https://c.example/otlp/" },
      "https://c.example/otlp/v1/traces",
    ],
    [
      "an address for traces, as it is",
      { ...AT, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: "http://c.example/spans" },
      "http://c.example/spans",
    ],
    [
      "one of several exporters",
      { ...AT, OTEL_TRACES_EXPORTER: "console,otlp" },
      "http://127.0.0.1:4318/v1/traces",
    ],
  ],
  ([, env, url]) => assertEquals(readOtelSettings(env)?.url.href, url),
);

testRows<[name: string, env: Record<string, string>, message: string]>(
  "readOtelSettings() refuses",
  [
    ["gRPC", { ...AT, OTEL_EXPORTER_OTLP_PROTOCOL: "grpc" }, "over HTTP only"],
    ["no URL", { OTEL_EXPORTER_OTLP_ENDPOINT: "127.0.0.1:4318" }, "not the"],
    ["no pair", { ...AT, OTEL_EXPORTER_OTLP_HEADERS: "token" }, "NAME=VALUE"],
    ["a percent sign", { ...AT, OTEL_EXPORTER_OTLP_HEADERS: "a=%x" }, "%x"],
    ["a sampler", { ...AT, OTEL_TRACES_SAMPLER: "jaeger_remote" }, "jaeger"],
    [
      "a ratio",
      {
        ...AT,
        OTEL_TRACES_SAMPLER: "traceidratio",
        OTEL_TRACES_SAMPLER_ARG: "2",
      },
      "0 to 1",
    ],
  ],
  ([, env, message]) => {
    assertThrows(() => readOtelSettings(env), Error, message);
  },
);

Deno.test("readOtelSettings() reads headers, resource and limits", () => {
  const settings = readOtelSettings({
    ...AT,
    OTEL_EXPORTER_OTLP_HEADERS: "authorization=Basic%20abc, x = y ",
    OTEL_RESOURCE_ATTRIBUTES: "service.name=other,k8s.node.name=node1",
    OTEL_SERVICE_NAME: "plugins",
    OTEL_EXPORTER_OTLP_TRACES_TIMEOUT: "300",
    OTEL_BSP_MAX_QUEUE_SIZE: "none",
  });
  assertEquals(settings?.headers, { authorization: "Basic abc", x: "y" });
  assertEquals(settings?.resource, {
    "service.name": "plugins",
    "k8s.node.name": "node1",
  });
  assertEquals([settings?.timeoutMs, settings?.maxQueue], [300, 2048]);
});

const LOW = "0".repeat(19) + "0000000000001", HIGH = "f".repeat(32);
const YES = { traceId: LOW, spanId: "1", isSampled: true, state: "" };
const NO = { ...YES, isSampled: false };

testRows<[
  sampler: string,
  expected: readonly [none: string, parentYes: boolean, parentNo: boolean],
]>(
  "readOtelSettings(): a sampler decides",
  [
    ["", ["both", true, false]],
    ["always_on", ["both", true, true]],
    ["always_off", ["none", false, false]],
    ["traceidratio", ["low", true, true]],
    ["parentbased_always_on", ["both", true, false]],
    ["parentbased_always_off", ["none", true, false]],
    ["parentbased_traceidratio", ["low", true, false]],
  ],
  ([sampler, [none, parentYes, parentNo]]) => {
    const argument = { OTEL_TRACES_SAMPLER_ARG: "0.5" };
    const env = { ...AT, ...argument, OTEL_TRACES_SAMPLER: sampler };
    const settings = readOtelSettings(env);
    assert(settings !== undefined);
    const { isSampled } = settings;
    assertEquals(isSampled(undefined, LOW), none !== "none");
    assertEquals(isSampled(undefined, HIGH), none === "both");
    assertEquals([isSampled(YES, LOW), isSampled(NO, LOW)], [
      parentYes,
      parentNo,
    ]);
  },
);
