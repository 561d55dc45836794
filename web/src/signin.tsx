import { useEffect, useRef, useState } from "preact/hooks";
import { asError } from "@setpoint-dev/client/json";
import { get } from "./api/client";
import { base, keepPlace, root } from "./router";
import { retry, signInWithToken, useSession } from "./session";

/** The host of a URL, or the text where it is none. */
function host(url: string): string {
  try {
    return new URL(url).host;
  } catch {
    return url;
  }
}

export function SignIn() {
  const [value, set] = useState("");
  const [busy, setBusy] = useState(false);
  const [refused, setRefused] = useState("");
  const { config, ended } = useSession();
  const how = config?.signIn;
  const byToken = how === undefined || how.token === true;
  const input = useRef<HTMLInputElement>(null);
  useEffect(() => {
    input.current?.focus();
    // Somebody may have signed in meanwhile, in another tab.
    const look = () => {
      if (document.visibilityState === "visible") get("/v1/caller").then(retry, () => {});
    };
    document.addEventListener("visibilitychange", look);
    return () => document.removeEventListener("visibilitychange", look);
  }, []);
  const submit = async (e: Event) => {
    e.preventDefault();
    const token = value.trim().replace(/^Bearer\s+/i, "");
    if (!token || busy) return;
    setBusy(true);
    setRefused("");
    try {
      await signInWithToken(token);
    } catch (error) {
      const { code, problem } = asError(error);
      setRefused(code === "UNAUTHENTICATED" ? "The service does not know this token, or it has expired." : problem);
      input.current?.select();
    } finally {
      setBusy(false);
    }
  };
  return (
    <div class="signin">
      <form class="card" onSubmit={submit}>
        <img src={`${base}favicon.svg`} alt="" width="40" height="40" />
        <h1>Sign in to Setpoint</h1>
        {ended && <p class="ended" role="status">Your session has ended. Sign in again to go on where you were.</p>}
        {how?.oidc && (
          <>
            <a class="button primary" data-leaves onClick={keepPlace} href={`${root}${how.oidc.path.slice(1)}?to=${encodeURIComponent(location.pathname.slice(root.length - 1) + location.search)}`}>Sign in with {how.oidc.name || host(how.oidc.issuer)}</a>
            {byToken && <p class="or"><span>or with a token</span></p>}
          </>
        )}
        {byToken && (
          <>
        <label for="token">Token</label>
        <input
          id="token"
          ref={input}
          type="password"
          autocomplete="off"
          spellcheck={false}
          value={value}
          maxLength={16384}
          aria-invalid={refused !== ""}
          aria-describedby="token-help"
          onInput={(e) => set(e.currentTarget.value)}
        />
        {refused && <p class="refused" role="alert">{refused}</p>}
        <button class={how?.oidc ? "button" : "button primary"} disabled={busy || value.trim() === ""}>{busy ? "Signing in…" : "Sign in"}</button>
        <p id="token-help" class="muted small">
          A token of the service's tokens file (<code>setpoint token</code> makes one), or an ID token of your identity provider. It stays in this tab, and
          is forgotten when you close it.
        </p>
          </>
        )}
        {how?.certificate && <p class="muted small">The service also takes client certificates: install yours in the browser, and load the page again.</p>}
        {how && !how.oidc && !how.token && !how.certificate && <p class="muted">The service offers no way to sign in here. Ask its operator.</p>}
        {how && !how.oidc && !byToken && <button class="button" type="button" onClick={retry}>Try again</button>}
      </form>
    </div>
  );
}
