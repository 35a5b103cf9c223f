/**
 * Unary gRPC calls over a unix socket.
 *
 * Source: https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md.
 *
 * @module
 */

import { type Bytes, concat, u32be, u8 } from "../../../net/bytes.ts";
import { formatAbort } from "../../../base/deadline.ts";

/** Names of the status codes. Source: google.golang.org/grpc codes/codes.go. */
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

/** The status of a call. */
export type GrpcStatus = typeof STATUSES[number];

/** The server returned a status instead of a message. */
export class GrpcError extends Error {
  /** The class's name in error texts. */
  override readonly name = "GrpcError";
  /** Any status except `OK`. */
  readonly status: GrpcStatus;

  /** Builds an error from a status, with Go's text. */
  constructor(status: GrpcStatus, description: string) {
    super(`rpc error: code = ${status} desc = ${description}`);
    this.status = status;
  }
}

/**
 * The host of the URL. The connection uses the socket, but Deno treats the socket
 * as a proxy, so NO_PROXY applies, and its `*` matches every host that is not an
 * address. Hence an unused address, from the discard prefix.
 *
 * Source: RFC 6666.
 */
const HOST = "[100::]";

/** Size limit of a message: 16 MiB, like the reference's. */
const MESSAGE_LIMIT = 16 * 2 ** 20;
/** Size of a message's prefix: the compressed flag and the length. */
const PREFIX_LENGTH = u8.size + u32be.size;

/**
 * Calls the methods of a server. Messages of more than 16 MiB are refused.
 *
 * `fetch` hides trailers, so the status is read from the headers, where servers put
 * it if there is no message; a message means success.
 */
export class GrpcClient implements Disposable {
  readonly #http: Deno.HttpClient;

  /** Creates a client; the first call connects. */
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
   * @returns The response's message
   * @throws {GrpcError} If the response has a status instead
   * @throws {RangeError} If the response is badly framed
   * @throws {Error} If the response is missing or incomplete
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

/** Removes the noise from errors of `fetch`. */
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

/** Reads the status of the call from the response's headers. */
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

/** Decodes percent-encoding; malformed text is returned unchanged. */
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
  try {
    for await (const chunk of body ?? []) {
      length += chunk.length;
      if (length > PREFIX_LENGTH + MESSAGE_LIMIT) throw tooLarge(length);
      chunks.push(chunk);
    }
  } catch (error) {
    // The server has exited or reset the stream; the error's text does not
    // distinguish the two.
    throw error instanceof TypeError ? cutOff() : error;
  }
  return concat(chunks);
}

function unframe(body: Bytes): Bytes {
  const message = body.subarray(PREFIX_LENGTH);
  if (body.length < PREFIX_LENGTH) throw cutOff();
  const length = u32be.decode(body.subarray(u8.size));
  if (u8.decode(body) !== 0) {
    throw new RangeError("Cannot read a compressed message");
  }
  if (length > MESSAGE_LIMIT) throw tooLarge(length);
  if (message.length < length) throw cutOff();
  if (message.length > length) {
    throw new RangeError(
      `Cannot read ${message.length - length} bytes after the message`,
    );
  }
  return message;
}

function tooLarge(length: number): RangeError {
  return new RangeError(`Cannot read a message of ${length} bytes`);
}

/** Builds the error for a lost connection. */
function cutOff(): Error {
  return new Error("The answer is truncated");
}
