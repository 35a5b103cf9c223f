import { assertEquals, assertStrictEquals } from "@std/assert";
import { KubeError } from "./kube_error.ts";
import { failure, noAnswer } from "./no_answer.ts";
import { eachRow } from "../tests/_harness/table.ts";

const REQUEST = { method: "GET", url: "https://10.0.0.1/api/v1/pods/x" };
const START = 'Get "https://10.0.0.1/api/v1/pods/x": ';

/** Builds an error like Deno's `fetch`. */
function fetchFailed(why: string): Error {
  const cause = new Error(
    `error sending request for url (${REQUEST.url}): client error ${why}`,
  );
  return new TypeError("fetch failed", { cause });
}

/** Builds an error like Node's HTTPS. */
function nodeFailed(code: string, message: string): Error {
  return Object.assign(new Error(message), { code });
}

Deno.test("noAnswer() describes failures in Go's words", async (t) => {
  const verify = "tls: failed to verify certificate: x509: certificate ";
  const refused = "dial tcp 10.0.0.1:443: connect: connection refused";
  const rows: readonly [Error, string, string][] = [
    [
      fetchFailed(
        "(Connect): tcp connect error: Connection refused (os error 111)",
      ),
      refused,
      "unsent refused",
    ],
    [
      nodeFailed("ECONNREFUSED", "connect ECONNREFUSED 10.0.0.1:443"),
      refused,
      "unsent refused",
    ],
    [
      fetchFailed(
        "(Connect): tcp connect error: No route to host (os error 113)",
      ),
      "dial tcp 10.0.0.1:443: connect: no route to host",
      "unsent",
    ],
    [
      fetchFailed(
        "(Connect): tcp connect error: Network is unreachable (os error 101)",
      ),
      "dial tcp 10.0.0.1:443: connect: network is unreachable",
      "unsent",
    ],
    [
      fetchFailed(
        "(Connect): dns error: failed to lookup address information: Name or service not known",
      ),
      "dial tcp: lookup 10.0.0.1: no such host",
      "unsent",
    ],
    [
      new Error("received fatal alert: CertificateRequired"),
      "remote error: tls: certificate required",
      "untrusted",
    ],
    [
      fetchFailed("(Connect): received fatal alert: HandshakeFailure"),
      "remote error: tls: handshake failure",
      "unsent untrusted",
    ],
    [
      fetchFailed("(Connect): received fatal alert: InternalError"),
      "received fatal alert: InternalError",
      "unsent",
    ],
    [
      fetchFailed("(Connect): invalid peer certificate: UnknownIssuer"),
      `${verify}signed by unknown authority`,
      "unsent untrusted",
    ],
    [
      nodeFailed(
        "SELF_SIGNED_CERT_IN_CHAIN",
        "self-signed certificate in certificate chain",
      ),
      `${verify}signed by unknown authority`,
      "unsent untrusted",
    ],
    [
      fetchFailed(
        '(Connect): invalid peer certificate: certificate not valid for name "10.0.0.1"; certificate is only valid for DnsName("a")',
      ),
      `${verify}is not valid for 10.0.0.1`,
      "unsent untrusted",
    ],
    [
      nodeFailed(
        "ERR_TLS_CERT_ALTNAME_INVALID",
        "Hostname/IP does not match certificate's altnames: Host: a.b. is not in the cert's altnames: DNS:c",
      ),
      `${verify}is not valid for a.b`,
      "unsent untrusted",
    ],
    [
      fetchFailed(
        "(Connect): invalid peer certificate: certificate expired: verification time 2 (UNIX), but certificate is not valid after 1 (1 seconds ago)",
      ),
      `${verify}has expired or is not yet valid`,
      "unsent untrusted",
    ],
    [
      fetchFailed(
        "(Connect): invalid peer certificate: Other(OtherError(UnsupportedCertVersion))",
      ),
      "tls: failed to verify certificate: Other(OtherError(UnsupportedCertVersion))",
      "unsent untrusted",
    ],
    [
      fetchFailed(
        "(Connect): received corrupt message of type InvalidContentType",
      ),
      "http: server gave HTTP response to HTTPS client",
      "unsent untrusted",
    ],
    [
      fetchFailed("(SendRequest): connection closed before message completed"),
      "EOF",
      "",
    ],
    [
      fetchFailed(
        "(SendRequest): connection error: Connection reset by peer (os error 104)",
      ),
      "EOF",
      "",
    ],
    [nodeFailed("ECONNRESET", "socket hang up"), "EOF", ""],
    [
      new TypeError("error reading a body from connection"),
      "unexpected EOF",
      "",
    ],
    [fetchFailed("(SendRequest): something new"), "something new", ""],
    [
      new TypeError("Fetch failed: Requests to port 6000 are blocked"),
      "Requests to port 6000 are blocked",
      "",
    ],
  ];
  await eachRow(t, rows, ([error, why, marks]) => {
    const failure = noAnswer(REQUEST, error, new AbortController().signal);
    const { status, message, isTimeout } = failure;
    const { isUnsent, isRefused, isUntrusted } = failure;
    assertEquals([status, isTimeout, message], [0, false, START + why]);
    const found = [
      ...isUnsent ? ["unsent"] : [],
      ...isRefused ? ["refused"] : [],
      ...isUntrusted ? ["untrusted"] : [],
    ];
    assertEquals(found.join(" "), marks);
  }, ([, why]) => why);
});

Deno.test("noAnswer() reports why a request was aborted", async (t) => {
  const late = new DOMException("", "TimeoutError");
  const rows = [
    [AbortSignal.abort(late), "context deadline exceeded", true],
    [AbortSignal.abort(), "context canceled", false],
  ] as const;
  await eachRow(t, rows, ([signal, why, isTimeout]) => {
    const error = noAnswer(REQUEST, signal.reason, signal);
    assertEquals([error.message, error.isTimeout, error.isUnsent], [
      START + why,
      isTimeout,
      false,
    ]);
  }, ([, why]) => why);
});

Deno.test("noAnswer() returns a KubeError unchanged", () => {
  const error = new KubeError("x", { status: 404 });
  assertStrictEquals(noAnswer(REQUEST, error, AbortSignal.abort()), error);
});

Deno.test("failure() names the request as Go does", () => {
  const { message } = failure({ method: "PATCH", url: "http://[::1]/x" }, "y");
  assertEquals(message, 'Patch "http://[::1]/x": y');
});
