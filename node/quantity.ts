/**
 * Kubernetes quantities: `10M`, `1.5Gi`, `1e6`.
 *
 * @module
 */

import { CniError, ErrorCode } from "../base/error.ts";

/** Source: k8s.io/apimachinery pkg/api/resource/suffix.go. */
const POWERS_OF_TEN: Readonly<Record<string, number>> = {
  n: -9,
  u: -6,
  m: -3,
  "": 0,
  k: 3,
  M: 6,
  G: 9,
  T: 12,
  P: 15,
  E: 18,
};

const POWERS_OF_TWO: Readonly<Record<string, number>> = {
  Ki: 10,
  Mi: 20,
  Gi: 30,
  Ti: 40,
  Pi: 50,
  Ei: 60,
};

/** The message of Kubernetes for an invalid quantity. */
const GRAMMAR =
  "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";

/**
 * Parses a quantity, rounded up to an integer.
 *
 * Source: k8s.io/apimachinery pkg/api/resource/quantity.go `ParseQuantity` and
 * `Quantity.Value`.
 *
 * @throws {CniError} 7 if it is invalid
 */
export function parseQuantity(text: string): bigint {
  const [, sign = "", whole = "", fraction = "", suffix = ""] =
    /^([+-]?)(\d*)(?:\.(\d*))?([A-Za-z]*(?:[eE][+-]?\d+)?)$/.exec(text) ?? [];
  const scale = findScale(suffix);
  if (scale === undefined || whole + fraction === "") throw malformed();
  const digits = BigInt(`${sign === "-" ? "-" : ""}${whole}${fraction}`);
  const exponent = scale.ten - fraction.length;
  const numerator = (digits << BigInt(scale.two)) *
    10n ** BigInt(Math.max(exponent, 0));
  return divideUp(numerator, 10n ** BigInt(Math.max(-exponent, 0)));
}

function malformed(): CniError {
  return new CniError(ErrorCode.InvalidNetworkConfig, GRAMMAR);
}

/** The multiplier of a suffix. */
interface Scale {
  /** Exponent of ten. */
  readonly ten: number;
  /** Exponent of two. */
  readonly two: number;
}

/** Larger exponents saturate: int64 has 19 digits. */
const LARGEST_EXPONENT = 100;

function findScale(suffix: string): Scale | undefined {
  const ten = POWERS_OF_TEN[suffix];
  if (ten !== undefined) return { ten, two: 0 };
  const two = POWERS_OF_TWO[suffix];
  if (two !== undefined) return { ten: 0, two };
  if (!/^[eE][+-]?\d+$/.test(suffix)) return undefined;
  const exponent = Number(suffix.slice(1));
  const limit = Math.min(Math.abs(exponent), LARGEST_EXPONENT);
  return { ten: Math.sign(exponent) * limit, two: 0 };
}

function divideUp(numerator: bigint, denominator: bigint): bigint {
  const quotient = numerator / denominator;
  return numerator > quotient * denominator ? quotient + 1n : quotient;
}
