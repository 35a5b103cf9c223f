/**
 * Spans of a process that ends soon: a plugin that runs its call itself, or a
 * command of `cni`. They are posted as it exits.
 *
 * @module
 */

import type { Environment } from "../../base/process/environment.ts";
import { exchange } from "../../ffi/socket/tcp.ts";
import { Ip } from "../../net/ip.ts";
import {
  describeSubject,
  type Loaders,
  traceLocks,
  tracePlugins,
} from "./plugin_calls.ts";
import { traceNetlink } from "./netlink_calls.ts";
import { encodeSpans, type Span } from "./span.ts";
import { type OtelSettings, readOtelSettings } from "./otel_settings.ts";
import { tracePrograms } from "./deno_calls.ts";
import { SpanRecorder } from "./span_recorder.ts";

/** Most spans of a process. */
const MAX_SPANS = 1000;

/** Time limit of the post at the exit of this process, in ms. */
const GRACE_MS = 50;

/**
 * Starts to make spans of this process, if the environment names their destination. It
 * never fails and prints nothing: what cannot be posted is lost.
 *
 * @param program What the process runs
 * @param loaders The registry of plugins
 */
export async function startSpans(
  program: string,
  env: Environment,
  loaders: Readonly<Loaders>,
): Promise<void> {
  const settings = readIfValid(env);
  if (settings === undefined) return;
  const spans: Span[] = [];
  let dropped = 0;
  const recorder = await SpanRecorder.create(settings, (span) => {
    if (spans.length < MAX_SPANS) spans.push(span);
    else dropped++;
  });
  const root = recorder.beginCall(env, describeSubject(program, env), 0);
  recorder.setRoot(root);
  tracePlugins(recorder, loaders as Loaders);
  tracePrograms(recorder);
  traceLocks(recorder);
  traceNetlink(recorder);
  const exit = Deno.exit;
  Deno.exit = (code = Number(Deno.exitCode)): never => {
    const error = code === 0 ? {} : { error: new Error(`exit status ${code}`) };
    root.end({ ...error, ...dropped > 0 && { more: { dropped } } });
    post(spans, settings);
    return exit(code);
  };
}

function readIfValid(env: Environment): OtelSettings | undefined {
  try {
    const settings = readOtelSettings(env);
    return settings && findAddress(settings.url) ? settings : undefined;
  } catch {
    return undefined;
  }
}

/** Returns the address of a URL without TLS; undefined if it would have to be resolved. */
function findAddress({ protocol, hostname }: URL): Ip | undefined {
  if (protocol !== "http:") return undefined;
  if (hostname === "localhost") return Ip.parse("127.0.0.1");
  try {
    return Ip.parse(hostname.replace(/^\[(.*)\]$/, "$1"));
  } catch {
    return undefined;
  }
}

function post(
  spans: readonly Span[],
  { url, headers, resource, timeoutMs }: OtelSettings,
): void {
  const address = findAddress(url);
  if (spans.length === 0 || address === undefined) return;
  const body = encodeSpans(spans, resource);
  const lines = {
    host: url.host,
    "content-type": "application/json",
    "content-length": String(body.length),
    connection: "close",
    ...headers,
  };
  const head = [
    `POST ${url.pathname}${url.search} HTTP/1.1`,
    ...Object.entries(lines).map(([name, value]) => `${name}: ${value}`),
    "\r\n",
  ].join("\r\n");
  const request = concat(new TextEncoder().encode(head), body);
  const limitMs = Math.min(GRACE_MS, timeoutMs);
  try {
    exchange({ address, port: Number(url.port || 80), limitMs }, request);
  } catch {
    // Nobody listens, or not in time.
  }
}

function concat(
  first: Uint8Array,
  second: Uint8Array,
): Uint8Array<ArrayBuffer> {
  const whole = new Uint8Array(first.length + second.length);
  whole.set(first);
  whole.set(second, first.length);
  return whole;
}
