//go:build linux

package ui

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	cdppage "github.com/chromedp/cdproto/page"
	"google.golang.org/grpc"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/server/signin"
	"github.com/setpoint-dev/setpoint/server/signin/signintest"
	"github.com/setpoint-dev/setpoint/store/redis/redistest"
	"github.com/setpoint-dev/setpoint/test/e2e/service"
)

// withIssuer starts a service whose users sign in with the issuer, and may read everything.
func withIssuer(t *testing.T, issuer *signintest.Issuer) *siteOf {
	t.Helper()
	file := func(name, text string) string {
		path := filepath.Join(t.TempDir(), name)
		fatal.If(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	s := site(t, "--auth-oidc-file="+file("oidc.yaml", issuer.File()),
		"--policy-file="+file("policy.yaml", `grants: [{groups: ["oidc:corp:sre"], clusters: ["*"], verbs: ["*"]}]`),
		"--ui-oidc-client-id="+signintest.ClientID, "--ui-oidc-client-secret-file="+file("secret", signintest.ClientSecret+"\n"),
		"--ui-oidc-redirect-url=http://"+service.RESTAddress+signin.CallbackPath, "--ui-oidc-scopes=openid,groups")
	issuer.LeadsTo(s.origin + signin.CallbackPath)
	return s
}

// whoCalls is the service's view of the page's user, requested as by the page.
const whoCalls = `fetch("/v1/caller", {headers: {"X-Setpoint-UI": "1"}}).then(r => r.ok ? r.json().then(c => c.name) : String(r.status))`

// refusedFirst is the browser's message about a call before signing in.
const refusedFirst = `status of 401`

func TestSigningInWithAnIssuer(t *testing.T) {
	issuer := signintest.Start(t)
	s := withIssuer(t, issuer)
	p := s.blank(t)
	p.expects(refusedFirst)
	p.mayAsk(issuer.URL)
	const place = "/ui/operations#what-was-typed" // of a link to the playground, which no server is told of
	p.goTo(place)
	p.waitText("Sign in")
	p.accessible()
	if got := eval[string](p, whoCalls); got != "401" {
		t.Errorf("before: %s", got)
	}
	p.click(`a[data-leaves]`)
	p.wait("back at the place", `location.pathname + location.hash === "`+place+`"`)
	if got := eval[string](p, whoCalls); got != "oidc:corp:alice" {
		t.Errorf("signed in as %s", got)
	}
	if got := eval[string](p, "document.cookie"); got != "" {
		t.Errorf("scripts can read %q", got)
	}
	if got := eval[string](p, `fetch("/v1/caller").then(r => String(r.status))`); got != "401" {
		t.Errorf("a call without the page's header: %s", got)
	}
	// A page of another origin, the issuer's own, has the same browser ask: its cookies don't help.
	p.expects("favicon.ico", "CORS policy", "net::ERR_FAILED", "status of 401", "status of 405", "status of 403")
	p.run(navigate(issuer.URL + "/keys"))
	for what, call := range map[string]string{
		"with cookies": `fetch("` + s.origin + `/v1/caller", {credentials: "include"}).then(r => String(r.status), () => "hidden")`,
		"as the page":  `fetch("` + s.origin + `/v1/caller", {credentials: "include", headers: {"X-Setpoint-UI": "1"}}).then(r => String(r.status), () => "hidden")`,
	} {
		p.mayAsk(s.origin)
		if got := eval[string](p, call); got != "hidden" {
			t.Errorf("another origin %s: %s", what, got)
		}
	}
	p.goTo("/ui/")
	if got := eval[string](p, `fetch("`+signin.EndPath+`", {method: "POST", headers: {"X-Setpoint-UI": "1"}}).then(r => String(r.status))`); got != "204" {
		t.Errorf("signing out: %s", got)
	}
	if got := eval[string](p, whoCalls); got != "401" {
		t.Errorf("signed out, and still %s", got)
	}
	if refusals := issuer.Refusals(); len(refusals) > 0 {
		t.Errorf("the issuer refused %q", refusals)
	}
}

// A session that ends while the page is open leads to the sign-in, not to an empty page, and who signs in in another tab is
// signed in here, too, once this one is seen.
func TestASessionThatEnds(t *testing.T) {
	issuer := signintest.Start(t)
	issuer.Lifetime(15 * time.Second)
	s := withIssuer(t, issuer)
	p := s.blank(t)
	p.expects(refusedFirst)
	p.mayAsk(issuer.URL)
	p.goTo(signin.StartPath + "?to=/ui/operations")
	p.waitText("Operations")
	p.waitText("Sign in to")
	p.waitText("Your session has ended")
	issuer.Lifetime(time.Hour)
	eval[int](p, `(window.open("`+signin.StartPath+`?to=/ui/operations"), 0)`)
	eval[string](p, `(async () => {
		for (;;) {
			const who = await `+whoCalls+`;
			if (who !== "401") return who;
			await new Promise((resolve) => setTimeout(resolve, 200));
		}
	})()`)
	command(p, cdppage.BringToFront, cdp.Empty{})
	p.waitText("instance serves")
}

// The page recovers by itself after an outage of the service; with Redis nothing is forgotten,
// including the position of its watch.
func TestThePageComesBackAfterARestart(t *testing.T) {
	s := site(t, "--redis="+redistest.Start(t, redistest.Config{}).URL(), "--redis-key-prefix="+redistest.Prefix(t))
	s.feed(t, 3, "")
	p := s.blank(t)
	p.expects("net::ERR_", "status of 50[0-9]")
	p.goTo("/ui/")
	p.waitText("web-00")
	target := s.blank(t)
	target.expects("net::ERR_", "status of 50[0-9]")
	target.goTo(webPage)
	target.wait("a stream", `document.querySelector(".live.is-live") !== null`)
	s.Stop()
	target.waitText("Reconnecting…")
	s.Restart()
	if _, err := s.Recommendations().Recommend(t.Context(), request("after-the-restart", "queue", 42), grpc.WaitForReady(true)); err != nil {
		t.Fatal(err)
	}
	p.waitText("after-the-restart")
	target.wait("its stream again", `document.querySelector(".live.is-live") !== null`)
}
