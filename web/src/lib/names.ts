// Resource names.

export interface Name {
  cluster: string;
  namespace: string;
  target: string;
}

/** The segments of clusters/…/namespaces/…/targets/…. */
export function parseName(name: string): Name {
  const s = name.split("/");
  return { cluster: s[1] ?? "", namespace: s[3] ?? "", target: s[5] ?? name };
}
