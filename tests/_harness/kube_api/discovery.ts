/**
 * The discovery documents of an API server.
 *
 * @module
 */

import { apiVersionOf, type Resource, resources } from "./objects.ts";

const VERBS = ["create", "delete", "get", "list", "patch", "update", "watch"];

/** Finds the document at a path without a resource; text or an object. */
export function findInformation(path: string): unknown {
  if (["/healthz", "/livez", "/readyz"].includes(path)) return "ok";
  if (path === "/version") return version;
  const groups = new Set(Object.values(resources).map(apiVersionOf));
  if (path === "/api") return { kind: "APIVersions", versions: ["v1"] };
  if (path === "/apis") return groupList([...groups]);
  const [, , groupVersion = ""] = /^\/(apis|api)\/(.+)$/.exec(path) ?? [];
  return groups.has(groupVersion) ? resourceList(groupVersion) : undefined;
}

const version = {
  major: "1",
  minor: "34",
  gitVersion: "v1.34.0",
  gitCommit: "0000000000000000000000000000000000000000",
  gitTreeState: "clean",
  buildDate: "2025-08-27T00:00:00Z",
  goVersion: "go1.24.6",
  compiler: "gc",
  platform: "linux/amd64",
};

function groupList(groupVersions: readonly string[]): unknown {
  const groups = groupVersions.filter((text) => text.includes("/")).map(
    (groupVersion) => {
      const [name, version] = groupVersion.split("/");
      const only = { groupVersion, version };
      return { name, versions: [only], preferredVersion: only };
    },
  );
  return { kind: "APIGroupList", apiVersion: "v1", groups };
}

function resourceList(groupVersion: string): unknown {
  const served = Object.values(resources).filter((resource) =>
    apiVersionOf(resource) === groupVersion
  );
  return {
    kind: "APIResourceList",
    apiVersion: "v1",
    groupVersion,
    resources: served.flatMap(describe),
  };
}

function describe(
  { name, kind, shortNames, isNamespaced, hasStatus }: Resource,
): unknown[] {
  const facts = { kind, namespaced: isNamespaced, singularName: "" };
  const status = { ...facts, name: `${name}/status`, verbs: VERBS };
  return [
    {
      ...facts,
      name,
      shortNames,
      singularName: kind.toLowerCase(),
      verbs: VERBS,
    },
    ...(hasStatus ? [status] : []),
  ];
}
