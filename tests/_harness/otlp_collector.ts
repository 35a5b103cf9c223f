/**
 * A collector of OpenTelemetry: takes what OTLP/HTTP allows in JSON and nothing
 * else, and keeps the spans.
 *
 * @module
 */

import { isObject } from "../../base/json/json.ts";
import { inNetns, type NetNs } from "../../ffi/netns.ts";
import { eventually } from "./eventually.ts";

/** A span that has come. */
export interface Collected {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly name: string;
  readonly kind: number;
  readonly startMs: number;
  readonly endMs: number;
  readonly attributes: Readonly<Record<string, string>>;
  /** The message of a span that failed. */
  readonly error?: string;
  /** The resource's. */
  readonly service: string;
}

/** A request, as far as it matters. */
interface Received {
  /** Such as `POST /v1/traces HTTP/1.1`. */
  readonly line: string;
  readonly headers: Headers;
  readonly body: string;
}

/**
 * A collector in a namespace. It reads what has been sent also if the sender did
 * not wait for it, which servers of libraries do not.
 */
export class OtlpCollector implements AsyncDisposable {
  readonly spans: Collected[] = [];
  /** Why something that came is not OTLP. */
  readonly complaints: string[] = [];
  /** How to answer: at once, never, or with a failure. */
  mood: "well" | "silent" | "failing" = "well";
  /** How many requests have come. */
  requests = 0;
  readonly #listener: Deno.TcpListener;
  readonly #connections = new Set<Deno.TcpConn>();
  readonly #serving: Promise<void>;

  /** Listens at 127.0.0.1 of a namespace. */
  constructor(netns: NetNs) {
    const address = { hostname: "127.0.0.1", port: 0 };
    this.#listener = inNetns(netns, () => Deno.listen(address));
    this.#serving = this.#serve();
  }

  /** The variables of those that are to send their spans here. */
  get env(): Record<string, string> {
    const { port } = this.#listener.addr;
    return {
      OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${port}`,
      OTEL_BSP_SCHEDULE_DELAY: "50",
    };
  }

  async #serve(): Promise<void> {
    const serving: Promise<void>[] = [];
    for await (const connection of this.#listener) {
      this.#connections.add(connection);
      serving.push(this.#converse(connection));
    }
    await Promise.all(serving);
  }

  async #converse(connection: Deno.TcpConn): Promise<void> {
    try {
      for await (const request of readRequests(connection)) {
        this.requests++;
        if (this.mood === "silent") continue;
        const status = this.mood === "failing" ? 503 : this.#take(request);
        const head = [
          `HTTP/1.1 ${status} ${status}`,
          "content-type: application/json",
          "content-length: 2",
        ];
        const answer = [...head, "", "{}"].join("\r\n");
        await connection.write(new TextEncoder().encode(answer));
      }
    } catch {
      // The other end was killed, or this one closes.
    } finally {
      this.#connections.delete(connection);
      close(connection);
    }
  }

  /** Returns the status. */
  #take({ line, headers, body }: Received): number {
    try {
      check(line === "POST /v1/traces HTTP/1.1", line);
      check(headers.get("content-type") === "application/json", "content type");
      this.spans.push(...readRequest(JSON.parse(body)));
      return 200;
    } catch (error) {
      this.complaints.push(`${error} in ${body}`);
      return 400;
    }
  }

  /** Waits until a trace has a span of this name; returns its spans. */
  async trace(traceId: string, name: string): Promise<Collected[]> {
    const list = (): Collected[] =>
      this.spans.filter((span) => span.traceId === traceId);
    await eventually(
      `the trace has "${name}"`,
      () => list().some((span) => span.name === name),
      () => `${this.complaints} ${list().map((span) => span.name)}`,
    );
    return list();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    close(this.#listener);
    for (const connection of this.#connections) close(connection);
    await this.#serving;
  }
}

function close(what: { close(): void }): void {
  try {
    what.close();
  } catch {
    // It is closed.
  }
}

/** Reads requests whose length is said. */
async function* readRequests(
  connection: Deno.TcpConn,
): AsyncGenerator<Received> {
  const END = "\r\n\r\n";
  // A character for each byte.
  let text = "";
  for await (const chunk of connection.readable) {
    for (const byte of chunk) text += String.fromCharCode(byte);
    const end = text.indexOf(END);
    if (end === -1) continue;
    const [line = "", ...rest] = text.slice(0, end).split("\r\n");
    const headers = new Headers(
      rest.map((header): [string, string] => {
        const at = header.indexOf(":");
        return [header.slice(0, at), header.slice(at + 1).trim()];
      }),
    );
    const length = Number(headers.get("content-length"));
    const body = text.slice(end + END.length, end + END.length + length);
    if (body.length < length) continue;
    text = text.slice(end + END.length + length);
    const bytes = Uint8Array.from(body, (one) => one.charCodeAt(0));
    yield { line, headers, body: new TextDecoder().decode(bytes) };
  }
}

function check(condition: boolean, what: string): asserts condition {
  if (!condition) throw new Error(`wrong ${what}`);
}

type Reader<T> = (value: unknown, what: string) => T;

/** Reads an object that has these keys and no others; those with `?` may be absent. */
function readKeys(
  value: unknown,
  keys: readonly string[],
  what: string,
): Record<string, unknown> {
  check(isObject(value), what);
  const known = keys.map((key) => key.replace("?", ""));
  for (const key of Object.keys(value)) {
    check(known.includes(key), `key ${what}.${key}`);
  }
  for (const key of keys) {
    check(key.endsWith("?") || Object.hasOwn(value, key), `${what}: no ${key}`);
  }
  return value;
}

function listOf<T>(read: Reader<T>): Reader<T[]> {
  return (value, what) => {
    check(Array.isArray(value), what);
    return value.map((one) => read(one, what));
  };
}

function textOf(pattern: RegExp): Reader<string> {
  return (value, what) => {
    check(typeof value === "string" && pattern.test(value), `${what} ${value}`);
    return value;
  };
}

const readText = textOf(/^[^]*$/), readTime = textOf(/^[1-9]\d{18}$/);
const readTraceId = textOf(/^(?!0+$)[0-9a-f]{32}$/);
const readSpanId = textOf(/^(?!0+$)[0-9a-f]{16}$/);

/** Source: opentelemetry-proto, collector/trace/v1, trace/v1, common/v1. */
function readRequest(value: unknown): Collected[] {
  const { resourceSpans } = readKeys(value, ["resourceSpans"], "request");
  return listOf((one) => {
    const { resource, scopeSpans } = readKeys(
      one,
      ["resource", "scopeSpans"],
      "resourceSpans",
    );
    const { attributes } = readKeys(resource, ["attributes"], "resource");
    const service = readAttributes(attributes)["service.name"] ?? "";
    check(service !== "", "service.name");
    return listOf((one) => {
      const { scope, spans } = readKeys(one, ["scope", "spans"], "scopeSpans");
      const { name } = readKeys(scope, ["name", "version"], "scope");
      readText(name, "scope");
      return listOf((span) => readSpan(span, service))(spans, "spans");
    })(scopeSpans, "scopeSpans").flat();
  })(resourceSpans, "resourceSpans").flat();
}

const SPAN_KEYS = [
  ...["traceId", "spanId", "parentSpanId?", "traceState?", "flags", "name"],
  ...["kind", "startTimeUnixNano", "endTimeUnixNano", "attributes", "status?"],
];

function readSpan(value: unknown, service: string): Collected {
  const span = readKeys(value, SPAN_KEYS, "span");
  const { parentSpanId, kind, status } = span;
  check([1, 2, 3].includes(Number(kind)), "kind");
  check(span["flags"] === 1, "flags");
  const toMs = (key: string): number =>
    Number(BigInt(readTime(span[key], key)) / 1000n) / 1000;
  const error = status === undefined
    ? undefined
    : readKeys(status, ["code", "message"], "status");
  check(error === undefined || error["code"] === 2, "status");
  const [startMs, endMs] = ["startTimeUnixNano", "endTimeUnixNano"].map(toMs);
  check(startMs !== undefined && endMs !== undefined, "times");
  check(startMs <= endMs, "order of times");
  const name = readText(span["name"], "name");
  check(name !== "" && !/\d/.test(name), `name ${name}: it must be one of few`);
  return {
    traceId: readTraceId(span["traceId"], "traceId"),
    spanId: readSpanId(span["spanId"], "spanId"),
    ...parentSpanId !== undefined &&
      { parentSpanId: readSpanId(parentSpanId, "parentSpanId") },
    name,
    kind: Number(kind),
    startMs,
    endMs,
    attributes: readAttributes(span["attributes"]),
    ...error && { error: readText(error["message"], "message") },
    service,
  };
}

function readAttributes(value: unknown): Record<string, string> {
  const pairs = listOf((one) => {
    const { key, value } = readKeys(one, ["key", "value"], "attribute");
    const values = Object.entries(
      readKeys(
        value,
        ["stringValue?", "intValue?", "boolValue?", "doubleValue?"],
        "value",
      ),
    );
    const [[type, inner] = []] = values;
    check(values.length === 1, `value of ${key}`);
    const types: Record<string, string> = {
      stringValue: "string",
      intValue: "string",
      boolValue: "boolean",
      doubleValue: "number",
    };
    const found: string = typeof inner;
    check(found === types[type ?? ""], `value of ${key}`);
    return [readText(key, "key"), String(inner)] as const;
  })(value, "attributes");
  check(new Set(pairs.map(([key]) => key)).size === pairs.length, "attributes");
  return Object.fromEntries(pairs);
}
