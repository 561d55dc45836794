// Who is signed in, and whether somebody has to.

import { useEffect, useState } from "preact/hooks";
import { ApiError, get, onUnauthenticated, setToken, token } from "./api/client";
import type { Caller } from "./api/types";
import { fleet } from "./fleet/store";

export interface Session {
  /** The service refused to answer without credentials, or those it was given. */
  wanted: boolean;
  caller: Caller | undefined;
  /** Grows with each sign-in and sign-out: views begin anew. */
  generation: number;
}

let session: Session = { wanted: false, caller: undefined, generation: 0 };
const listeners = new Set<() => void>();

function change(part: Partial<Session>): void {
  session = { ...session, ...part };
  for (const f of listeners) f();
}

onUnauthenticated(() => {
  if (!session.wanted) change({ wanted: true, caller: undefined });
});

/** Asks the service who it takes the user for. */
export async function whoAmI(): Promise<void> {
  try {
    change({ caller: await get<Caller>("/v1/caller") });
  } catch {
    // A refusal has asked for a sign-in; anything else is told by the view that needs it.
  }
}

/** Tries a token; throws what the service said of it. */
export async function signInWithToken(value: string): Promise<void> {
  const before = token();
  setToken(value);
  try {
    const caller = await get<Caller>("/v1/caller").catch((e: unknown) => {
      // A service that does not tell who calls still knows whether it lets one in.
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

/** Forgets the token of this tab. */
export function signOut(): void {
  setToken("");
  fleet.clear();
  change({ wanted: true, caller: undefined, generation: session.generation + 1 });
}

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
