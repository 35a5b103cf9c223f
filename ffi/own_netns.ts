/**
 * The network namespace of a thread.
 *
 * @module
 */

/**
 * Path of the namespace that the calling thread is in. `/proc/self` would be the main
 * thread's, but test runners and workers run this code on other threads.
 */
export const OWN_NETNS = "/proc/thread-self/ns/net";
