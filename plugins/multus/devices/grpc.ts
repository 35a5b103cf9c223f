/**
 * Unary calls of gRPC over a unix socket.
 *
 * Source: https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md.
 *
 * @module
 */

import { formatAbort } from "../../../cni/deadline.ts";
import type { Bytes } from "../../../ffi/libc.ts";
import { concat, u32be, u8 } from "../../../ffi/netlink/struct.ts";

/** By their codes. Source: google.golang.org/grpc codes/codes.go. */
const STATUSES = [
  "OK",
  "Canceled",
  "Unknown",
  "InvalidArgument",
  "DeadlineExceeded",
  "NotFound",
  "AlreadyExists",
  "PermissionDenied",
  "ResourceExhausted",
  "FailedPrecondition",
  "Aborted",
  "OutOfRange",
  "Unimplemented",
  "Internal",
  "Unavailable",
  "DataLoss",
  "Unauthenticated",
] as const;

/** How a call ended. */
export type GrpcStatus = typeof STATUSES[number];

/** What the other side answered instead of a message. */
export class GrpcError extends Error {
  /** Names the class in texts. */
  override readonly name = "GrpcError";
  /** Anything but `OK`. */
  readonly status: GrpcStatus;

  /** Makes an error of a status, worded as Go's. */
  constructor(status: GrpcStatus, description: string) {
    super(`rpc error: code = ${status} desc = ${description}`);
    this.status = status;
  }
}

/**
 * The host of the URL, which is in no other use: the connection goes to the
 * socket. But NO_PROXY applies to the socket too, for Deno counts it among the
 * proxies, and its `*` takes in every host that is not an address. So this is
 * an address, and one that is nobody's: that of the discard prefix.
 *
 * Source: RFC 6666.
 */
const HOST = "[100::]";

/** The largest message taken: 16 MiB, as the reference allows it. */
const MESSAGE_LIMIT = 16 * 2 ** 20;
/** A message begins with whether it is compressed, and its length. */
const PREFIX_LENGTH = u8.size + u32be.size;

/**
 * Calls the methods of a server. Messages of more than 16 MiB are refused.
 *
 * The status of a call is read from the headers only, since `fetch` hides the
 * trailers. It is there whenever there is no message, in the short form of an
 * answer that all servers use; and when there is a message, it is success.
 */
export class GrpcClient implements Disposable {
  readonly #http: Deno.HttpClient;

  /** Makes a client; it connects with the first call. */
  constructor(socketPath: string) {
    this.#http = Deno.createHttpClient({
      proxy: { transport: "unix", path: socketPath },
      http1: false,
      http2: true,
    });
  }

  /**
   * Calls a method.
   *
   * @param method As `/package.Service/Method`
   * @returns The message of the answer
   * @throws {GrpcError} If the answer has a status instead
   * @throws {RangeError} If the answer is not framed as it should be
   * @throws {Error} If there is no answer, or only a part of it
   */
  async call(
    method: string,
    message: Bytes,
    signal: AbortSignal,
  ): Promise<Bytes> {
    try {
      const response = await fetch(`http://${HOST}${method}`, {
        method: "POST",
        headers: { "content-type": "application/grpc", te: "trailers" },
        body: frame(message),
        client: this.#http,
        signal,
      });
      return await readMessage(response);
    } catch (error) {
      throw signal.aborted ? new Error(formatAbort(signal)) : explain(error);
    }
  }

  /** Closes the connection. */
  [Symbol.dispose](): void {
    this.#http.close();
  }
}

/** Takes what `fetch` says in vain off its errors. */
function explain(error: unknown): unknown {
  const cause = error instanceof TypeError ? error.cause : undefined;
  if (!(cause instanceof Error)) return error;
  return new Error(
    cause.message.replace(/^error sending request for url \(\S+\): /, ""),
  );
}

function frame(message: Bytes): Bytes {
  return concat([u8.encode(0), u32be.encode(message.length), message]);
}

async function readMessage(response: Response): Promise<Bytes> {
  const status = findStatus(response);
  if (status !== undefined) {
    await response.body?.cancel();
    throw status;
  }
  const body = await readBody(response);
  if (body.length === 0) {
    throw new GrpcError("Unknown", "there is no message");
  }
  return unframe(body);
}

/** Finds out what an answer says of the call before there is a message. */
function findStatus({ status, headers }: Response): GrpcError | undefined {
  const code = headers.get("grpc-status");
  if (code !== null && code !== "0") {
    const description = decodeDescription(headers.get("grpc-message") ?? "");
    return new GrpcError(STATUSES[Number(code)] ?? "Unknown", description);
  }
  const type = headers.get("content-type") ?? "";
  if (status === 200 && type.startsWith("application/grpc")) return undefined;
  // Source: grpc doc/http-grpc-status-mapping.md.
  return new GrpcError(
    [429, 502, 503, 504].includes(status) ? "Unavailable" : "Unknown",
    `HTTP status ${status}, content-type "${type}"`,
  );
}

/** Decodes what is percent-encoded; what is so wrongly stays as it is. */
function decodeDescription(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

async function readBody({ body }: Response): Promise<Bytes> {
  const chunks: Bytes[] = [];
  let length = 0;
  for await (const chunk of body ?? []) {
    length += chunk.length;
    if (length > PREFIX_LENGTH + MESSAGE_LIMIT) throw tooLarge(length);
    chunks.push(chunk);
  }
  return concat(chunks);
}

function unframe(body: Bytes): Bytes {
  const message = body.subarray(PREFIX_LENGTH);
  if (body.length < PREFIX_LENGTH) throw cutOff();
  const length = u32be.decode(body.subarray(u8.size));
  if (u8.decode(body) !== 0) {
    throw new RangeError("Cannot take a compressed message");
  }
  if (length > MESSAGE_LIMIT) throw tooLarge(length);
  if (message.length < length) throw cutOff();
  if (message.length > length) {
    throw new RangeError(
      `Cannot take ${message.length - length} bytes after the message`,
    );
  }
  return message;
}

function tooLarge(length: number): RangeError {
  return new RangeError(`Cannot take a message of ${length} bytes`);
}

/** Makes the error of a connection that was lost. */
function cutOff(): Error {
  return new Error("The answer ends too early");
}
