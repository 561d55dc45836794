// Resource names.

export interface Name {
  cluster: string;
  namespace: string;
  target: string;
}

/** What ends the names of shadows at the service. */
export const shadowSuffix = ".-shadow";

/** The segments of clusters/…/namespaces/…/targets/…. */
export function parseName(name: string): Name {
  const s = name.split("/");
  return { cluster: s[1] ?? "", namespace: s[3] ?? "", target: s[5] ?? name };
}

/** What is searched of a name, in lower case, also as the commands write it: "prod-eu/shop/web". */
export function searched(name: string): string {
  const { cluster, namespace, target } = parseName(name);
  return `${cluster}/${namespace}/${target} ${name}`.toLowerCase();
}
