/**
 * The parts of a kubeconfig that are read.
 *
 * Source: client-go tools/clientcmd/api/v1/types.go.
 *
 * @module
 */

import * as z from "zod/mini";
import { once, type SchemaOutput } from "../base/json/json.ts";

export type Kubeconfig = SchemaOutput<ReturnType<typeof kubeconfigSchema>>;
/** A `cluster`: an API server. */
export type ClusterEntry = SchemaOutput<ReturnType<typeof clusterSchema>>;
/** A `user`: the client's credentials. */
export type UserEntry = SchemaOutput<ReturnType<typeof userSchema>>;
/** An `exec`: a program that provides credentials. */
export type ExecEntry = SchemaOutput<ReturnType<typeof execSchema>>;

const text = once(() => z.optional(z.string()));
const flag = once(() => z.optional(z.boolean()));

const clusterSchema = once(() =>
  z.object({
    server: text(),
    "certificate-authority": text(),
    "certificate-authority-data": text(),
    "insecure-skip-tls-verify": flag(),
    "tls-server-name": text(),
    "proxy-url": text(),
    extensions: z.optional(z.array(
      z.object({ name: z.string(), extension: z.unknown() }),
    )),
  })
);

const execSchema = once(() =>
  z.object({
    apiVersion: text(),
    command: text(),
    args: z.optional(z.array(z.string())),
    env: z.optional(z.array(z.object({ name: z.string(), value: z.string() }))),
    installHint: text(),
    provideClusterInfo: flag(),
    interactiveMode: text(),
  })
);

const userSchema = once(() =>
  z.object({
    token: text(),
    tokenFile: text(),
    "client-certificate": text(),
    "client-certificate-data": text(),
    "client-key": text(),
    "client-key-data": text(),
    username: text(),
    password: text(),
    as: text(),
    "as-uid": text(),
    "as-groups": z.optional(z.array(z.string())),
    "as-user-extra": z.optional(z.record(z.string(), z.array(z.string()))),
    exec: z.optional(execSchema()),
    "auth-provider": z.optional(z.unknown()),
  })
);

export const kubeconfigSchema = once(() => {
  const named = { name: z.string() };
  const context = z.object({
    cluster: text(),
    user: text(),
    namespace: text(),
  });
  return z.object({
    "current-context": text(),
    contexts: z.optional(z.array(z.object({ ...named, context }))),
    clusters: z.optional(
      z.array(z.object({ ...named, cluster: clusterSchema() })),
    ),
    users: z.optional(z.array(z.object({ ...named, user: userSchema() }))),
  });
});
