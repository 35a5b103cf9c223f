/**
 * HTTP requests about the daemon's own state.
 *
 * @module
 */

/** What the daemon says of itself. */
export interface State {
  /** Whether calls may come. */
  readonly isReady: () => boolean;
  /** Formats the metrics for Prometheus. */
  readonly metrics: () => string;
}

/** Answers `/metrics`, `/healthz` and `/readyz`; 404 to anything else. */
export function answerState(request: Request, state: State): Response {
  switch (new URL(request.url).pathname) {
    case "/metrics":
      return new Response(state.metrics(), {
        headers: { "content-type": "text/plain; version=0.0.4; charset=utf-8" },
      });
    case "/healthz":
      return new Response(null, { status: 200 });
    case "/readyz":
      return new Response(null, { status: state.isReady() ? 200 : 500 });
    default:
      return new Response(null, { status: 404 });
  }
}
