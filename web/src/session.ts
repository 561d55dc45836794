// Who is signed in, and whether signing in is required.

import { useEffect, useState } from "preact/hooks";
import { asError, type CallerJson as Caller } from "@setpoint-dev/client/json";
import { get, onUnauthenticated, post, setToken, token } from "./api/client";
import { targets } from "./targets/store";

/** What the service says before anybody has signed in. */
export interface Config {
  version?: string;
  authentication?: boolean;
  /** Where else targets are shown, as templates. */
  links?: { name: string; url: string }[];
  signIn?: {
    token?: boolean;
    certificate?: boolean;
    oidc?: { issuer: string; name?: string; path: string; endPath: string };
  };
}

export interface Session {
  /** undefined: not known (yet). */
  config: Config | undefined;
  /** The service refused to answer without credentials, or those it was given. */
  wanted: boolean;
  /** There was a session, and it has ended by itself. */
  ended: boolean;
  caller: Caller | undefined;
  /** Grows with each sign-in and sign-out: views begin anew. */
  generation: number;
}

let session: Session = { config: undefined, wanted: false, ended: false, caller: undefined, generation: 0 };
const listeners = new Set<() => void>();

function change(part: Partial<Session>): void {
  session = { ...session, ...part };
  for (const f of listeners) f();
}

onUnauthenticated(() => {
  if (!session.wanted) {
    change({ wanted: true, ended: Boolean(session.caller?.name) || token() !== "", caller: undefined });
    targets.clear(); // which would go on asking
  }
  void readConfig();
});

/** After how long what could not be read is asked for again, ms: nothing else asks for it. */
const again = 5000;
/** Answers that would be the same again. A token can always be tried. */
const final = ["UNAUTHENTICATED", "PERMISSION_DENIED", "UNIMPLEMENTED", "NOT_FOUND"];

/** Reads a path until there is an answer, or nobody wants it any more; undefined: it is refused. */
async function read<T>(path: string, wanted: () => boolean): Promise<T | undefined> {
  while (wanted()) {
    try {
      return await get<T>(path);
    } catch (e) {
      if (final.includes(asError(e).code)) return undefined;
    }
    await new Promise((resolve) => setTimeout(resolve, again));
  }
  return undefined;
}

/** Reads how users may sign in and out, and links, once. */
const readConfig = (): Promise<void> => (configured ??= read<Config>("/ui/config.json", () => true).then((config) => change({ config })));
let configured: Promise<void> | undefined;

/** Asks the service who it takes the user for; whoever has signed in or out meanwhile is somebody else. */
export async function whoAmI(): Promise<void> {
  const { generation } = session;
  const same = () => generation === session.generation;
  const caller = await read<Caller>("/v1/caller", same);
  if (!caller) return; // a refusal has requested a sign-in
  if (same()) change({ caller });
  void readConfig();
}

/** Tries a token; throws what the service said of it. */
export async function signInWithToken(value: string): Promise<void> {
  const before = token();
  setToken(value);
  try {
    const caller = await get<Caller>("/v1/caller").catch((e: unknown) => {
      // A service without GetCaller still shows whether it admits a caller.
      if (asError(e).code === "UNIMPLEMENTED") return undefined;
      throw e;
    });
    targets.clear();
    change({ wanted: false, ended: false, caller, generation: session.generation + 1 });
  } catch (e) {
    setToken(before);
    throw e;
  }
}

/** Asks again without a sign-in: what refused may have been something in front of the service, for a while. */
export function retry(): void {
  change({ wanted: false, ended: false, generation: session.generation + 1 });
}

/** Forgets the token of this tab, or ends the session that the issuer's sign-in began; throws where only the service could end it, and did not. */
export async function signOut(): Promise<void> {
  const oidc = session.config?.signIn?.oidc;
  if (token()) setToken("");
  else if (oidc) await post(oidc.endPath);
  targets.clear();
  change({ wanted: true, ended: false, caller: undefined, generation: session.generation + 1 });
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
