/**
 * What is wrong with what the other end of a connection says.
 *
 * @module
 */

/** Why a stream or a connection ends. Source: RFC 9113 section 7. */
export const ErrorCode = {
  noError: 0x0,
  protocolError: 0x1,
  internalError: 0x2,
  flowControlError: 0x3,
  streamClosed: 0x5,
  frameSizeError: 0x6,
  cancel: 0x8,
  compressionError: 0x9,
} as const;

/** An offence that ends the connection. */
export class Http2Error extends Error {
  /** Names the class in texts. */
  override readonly name = "Http2Error";
  /** What the other end is told. */
  readonly code: number;

  /** Makes one. */
  constructor(kind: keyof typeof ErrorCode, message: string) {
    super(message);
    this.code = ErrorCode[kind];
  }
}
