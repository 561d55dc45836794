// Who is signed in, and whether signing in is required.

import { useEffect, useState } from "preact/hooks";
import { ApiError, get, onUnauthenticated, request, setToken, token } from "./api/client";
import type { Caller } from "./api/types";
import { fleet } from "./fleet/store";

/** What the service says before anybody has signed in. */
export interface Config {
  version?: string;
  authentication?: boolean;
  signIn?: {
    token?: boolean;
    certificate?: boolean;
    oidc?: { issuer: string; path: string; endPath: string };
  };
}

export interface Session {
  /** undefined: not known (yet). */
  config: Config | undefined;
  /** The service refused to answer without credentials, or those it was given. */
  wanted: boolean;
  caller: Caller | undefined;
  /** Grows with each sign-in and sign-out: views begin anew. */
  generation: number;
}

let session: Session = { config: undefined, wanted: false, caller: undefined, generation: 0 };
const listeners = new Set<() => void>();

function change(part: Partial<Session>): void {
  session = { ...session, ...part };
  for (const f of listeners) f();
}

onUnauthenticated(() => {
  if (!session.wanted) change({ wanted: true, caller: undefined });
  void readConfig();
});

/** Reads how users may sign in, once. */
async function readConfig(): Promise<void> {
  if (session.config) return;
  try {
    change({ config: await get<Config>("/ui/config.json") });
  } catch {
    // A token can always be tried.
  }
}

/** Asks the service who it takes the user for. */
export async function whoAmI(): Promise<void> {
  try {
    const caller = await get<Caller>("/v1/caller");
    change({ caller });
    if (caller.name) void readConfig(); // for how to sign out
  } catch {
    // A refusal has requested a sign-in; the view that needs the response reports other
    // errors.
  }
}

/** Tries a token; throws what the service said of it. */
export async function signInWithToken(value: string): Promise<void> {
  const before = token();
  setToken(value);
  try {
    const caller = await get<Caller>("/v1/caller").catch((e: unknown) => {
      // A service without GetCaller still shows whether it admits a caller.
      if (e instanceof ApiError && (e.status === 404 || e.status === 501)) return undefined;
      throw e;
    });
    fleet.clear();
    change({ wanted: false, caller, generation: session.generation + 1 });
  } catch (e) {
    setToken(before);
    throw e;
  }
}

/** Forgets the token of this tab, or ends the session that the issuer's sign-in began. */
export async function signOut(): Promise<void> {
  const oidc = session.config?.signIn?.oidc;
  if (token()) setToken("");
  else if (oidc) await request("POST", oidc.endPath).catch(() => {});
  fleet.clear();
  change({ wanted: true, caller: undefined, generation: session.generation + 1 });
}

/** Whether there is anything to sign out of: a client certificate is the browser's. */
export const canSignOut = (s: Session): boolean => token() !== "" || (s.caller?.method === "oidc" && s.config?.signIn?.oidc !== undefined);

export function useSession(): Session {
  const [s, set] = useState(session);
  useEffect(() => {
    const f = () => set(session);
    listeners.add(f);
    f();
    return () => {
      listeners.delete(f);
    };
  }, []);
  return s;
}
