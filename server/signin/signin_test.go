package signin_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/setpoint-dev/setpoint/internal/files"
	"github.com/setpoint-dev/setpoint/server"
	"github.com/setpoint-dev/setpoint/server/auth"
	"github.com/setpoint-dev/setpoint/server/auth/policy"
	"github.com/setpoint-dev/setpoint/server/servertest"
	"github.com/setpoint-dev/setpoint/server/signin"
	"github.com/setpoint-dev/setpoint/server/signin/signintest"
	"github.com/setpoint-dev/setpoint/store"
)

func TestMain(m *testing.M) { servertest.Main(m) }

// accepting returns an authenticator of the issuer's tokens.
func accepting(t *testing.T, issuer *signintest.Issuer) *auth.Authenticator {
	t.Helper()
	file := filepath.Join(t.TempDir(), "oidc.yaml")
	if err := os.WriteFile(file, []byte(issuer.File()), 0o600); err != nil {
		t.Fatal(err)
	}
	authenticator, err := auth.New(auth.Options{OIDCFile: file, Files: files.Options{Interval: -1}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(authenticator.Close)
	return authenticator
}

// withSignIn starts a service whose users sign in with the issuer.
func withSignIn(t *testing.T, issuer *signintest.Issuer, changes ...func(*servertest.Setup)) *servertest.Service {
	t.Helper()
	authenticator := accepting(t, issuer)
	p, err := policy.Parse("policy.yaml", []byte(`grants: [{groups: ["oidc:corp:sre"], clusters: [demo], verbs: [read]}]`))
	if err != nil {
		t.Fatal(err)
	}
	// The service's address is known only when it listens, so the test chooses it
	// first.
	s := servertest.Start(t, append([]func(*servertest.Setup){servertest.WithPage, func(su *servertest.Setup) {
		su.Options.Access = &server.Access{Authenticator: authenticator, Policy: files.Fixed(p)}
		su.Options.SignIn = &signin.Options{ClientID: signintest.ClientID, ClientSecret: func() string { return signintest.ClientSecret }, RedirectURL: "http://127.0.0.1:1" + signin.CallbackPath, Scopes: []string{"openid", "groups"}}
	}}, changes...)...)
	issuer.LeadsTo("http://127.0.0.1:1" + signin.CallbackPath)
	return s
}

// userAgent is a browser, as far as the service can tell.
type userAgent struct {
	t *testing.T
	s *servertest.Service
	c *http.Client
}

func browser(t *testing.T, s *servertest.Service) *userAgent {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &userAgent{t, s, &http.Client{Transport: s.HTTP.Transport, Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

// get requests an address, with headers in pairs.
func (u *userAgent) ask(method, address string, headers ...string) *http.Response {
	u.t.Helper()
	// The issuer leads back to where the service would be; it is elsewhere.
	address = strings.Replace(address, "http://127.0.0.1:1/", u.s.URL+"/", 1)
	if strings.HasPrefix(address, "/") {
		address = u.s.URL + address
	}
	r, err := http.NewRequestWithContext(u.t.Context(), method, address, http.NoBody)
	if err != nil {
		u.t.Fatal(err)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	answer, err := u.c.Do(r)
	if err != nil {
		u.t.Fatal(err)
	}
	u.t.Cleanup(func() { _ = answer.Body.Close() })
	return answer
}

// toIssuer begins to sign in and returns the address that the issuer leads back to.
func (u *userAgent) toIssuer(to string) string {
	u.t.Helper()
	begun := u.ask(http.MethodGet, signin.StartPath+"?to="+url.QueryEscape(to))
	if begun.StatusCode != http.StatusFound {
		u.t.Fatalf("sign-in begins with %s", begun.Status)
	}
	answered := u.ask(http.MethodGet, begun.Header.Get("Location"))
	if answered.StatusCode != http.StatusFound {
		u.t.Fatalf("the issuer answers %s", answered.Status)
	}
	return answered.Header.Get("Location")
}

// ledTo returns where a browser goes from an answer of the service: relative to what it asked for, so that a proxy may
// show all of the service below a path.
func ledTo(t *testing.T, answer *http.Response) string {
	t.Helper()
	location := answer.Header.Get("Location")
	if !strings.HasPrefix(location, "../../ui/") {
		t.Fatalf("leads to %q", location)
	}
	to, err := answer.Location()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimPrefix(to.String(), to.Scheme+"://"+to.Host)
}

// page makes a call as our own page does; whoAmI returns the caller.
func (u *userAgent) page(method, path string) *http.Response {
	u.t.Helper()
	return u.ask(method, path, "Sec-Fetch-Site", "same-origin", signin.OwnPageHeader, "1")
}

func (u *userAgent) wantCaller(name string) {
	u.t.Helper()
	answer := u.page(http.MethodGet, "/v1/caller")
	var caller struct{ Name string }
	if answer.StatusCode == http.StatusOK {
		if err := json.NewDecoder(answer.Body).Decode(&caller); err != nil {
			u.t.Fatal(err)
		}
	}
	if want := map[bool]int{true: http.StatusUnauthorized, false: http.StatusOK}[name == ""]; answer.StatusCode != want || caller.Name != name {
		u.t.Errorf("the caller is %q (%s), want %q", caller.Name, answer.Status, name)
	}
}

func TestSigningInAndOut(t *testing.T) {
	t.Parallel()
	issuer := signintest.Start(t)
	u := browser(t, withSignIn(t, issuer))
	u.wantCaller("")
	back := u.ask(http.MethodGet, u.toIssuer("/ui/clusters/demo/namespaces/shop/targets/web?range=1h#top"))
	if to := ledTo(t, back); back.StatusCode != http.StatusFound || to != "/ui/clusters/demo/namespaces/shop/targets/web?range=1h#top" {
		t.Errorf("led to %q with %s", to, back.Status)
	}
	for _, c := range back.Cookies() {
		if !c.HttpOnly || c.Path != "/" || c.Domain != "" {
			t.Errorf("the cookie %s can be read by scripts, or goes elsewhere", c.Name)
		}
		if strings.Contains(c.Name, "session") && (c.SameSite != http.SameSiteStrictMode || c.MaxAge > 3600 || strings.Contains(c.Value, ".")) {
			t.Errorf("the cookie %s: %v", c.Name, c)
		}
	}
	u.wantCaller("oidc:corp:alice")
	if got := u.page(http.MethodGet, "/v1/clusters/demo/namespaces/-/targets").StatusCode; got != http.StatusOK {
		t.Errorf("what the policy allows is answered with %d", got)
	}
	if got := u.page(http.MethodGet, "/v1/clusters/prod/namespaces/-/targets").StatusCode; got != http.StatusForbidden {
		t.Errorf("what the policy does not allow is answered with %d", got)
	}
	if got := u.ask(http.MethodPost, signin.EndPath, "Sec-Fetch-Site", "same-origin").StatusCode; got != http.StatusForbidden {
		t.Errorf("another's page signs out: %d", got)
	}
	u.wantCaller("oidc:corp:alice")
	if got := u.page(http.MethodPost, signin.EndPath).StatusCode; got != http.StatusNoContent {
		t.Errorf("sign-out is answered with %d", got)
	}
	u.wantCaller("")
	if refusals := issuer.Refusals(); len(refusals) > 0 {
		t.Errorf("the issuer refused: %q", refusals)
	}
}

// A session counts only if the browser and the page both say that our page makes the
// call.
func TestASessionIsOfOurOwnPageOnly(t *testing.T) {
	t.Parallel()
	issuer := signintest.Start(t)
	u := browser(t, withSignIn(t, issuer))
	u.ask(http.MethodGet, u.toIssuer("/ui/"))
	u.wantCaller("oidc:corp:alice")
	for name, headers := range map[string][]string{
		"a program":                 {},
		"a link, or a form":         {"Sec-Fetch-Site", "same-origin"},
		"an address that was typed": {"Sec-Fetch-Site", "none", signin.OwnPageHeader, "1"},
		"an old browser":            {signin.OwnPageHeader, "1"},
		"another value":             {"Sec-Fetch-Site", "same-origin", signin.OwnPageHeader, "true"},
	} {
		if got := u.ask(http.MethodGet, "/v1/caller", headers...).StatusCode; got != http.StatusUnauthorized {
			t.Errorf("%s: %d, want 401", name, got)
		}
	}
	for _, site := range []string{"same-site", "cross-site"} {
		if got := u.ask(http.MethodGet, "/v1/caller", "Sec-Fetch-Site", site, signin.OwnPageHeader, "1").StatusCode; got != http.StatusForbidden {
			t.Errorf("a %s page: %d, want 403", site, got)
		}
	}
	// What is in the cookie is no bearer token.
	address, err := url.Parse(u.s.URL)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range u.c.Jar.Cookies(address) {
		if got := browser(t, u.s).ask(http.MethodGet, "/v1/caller", "Authorization", "Bearer "+c.Value).StatusCode; got != http.StatusUnauthorized {
			t.Errorf("the cookie %s as a token: %d, want 401", c.Name, got)
		}
	}
}

func TestAnswersThatAreNotAccepted(t *testing.T) {
	t.Parallel()
	claim := func(name string, value any) func(*signintest.Issuer) {
		return func(i *signintest.Issuer) { i.Claims(func(claims map[string]any) { claims[name] = value }) }
	}
	answer := func(change func(url.Values)) func(*signintest.Issuer) {
		return func(i *signintest.Issuer) { i.Answer(change) }
	}
	for _, tt := range []struct {
		name   string
		change func(*signintest.Issuer)
		code   int
	}{
		{"another state", answer(func(v url.Values) { v.Set("state", strings.Repeat("x", 52)) }), 400},
		{"no state", answer(func(v url.Values) { v.Del("state") }), 400},
		{"two states", answer(func(v url.Values) { v.Add("state", v.Get("state")) }), 400},
		{"another issuer (mix-up)", answer(func(v url.Values) { v.Set("iss", "https://evil.example") }), 400},
		{"no issuer, where it names itself", answer(func(v url.Values) { v.Del("iss") }), 400},
		{"no code", answer(func(v url.Values) { v.Del("code") }), 400},
		{"another code", answer(func(v url.Values) { v.Set("code", "another") }), 403},
		{"a refusal", answer(func(v url.Values) { v.Set("error", "access_denied<script>") }), 403},
		{"another nonce", claim("nonce", "another"), 403},
		{"no nonce", claim("nonce", nil), 403},
		{"a token of another issuer", claim("iss", "https://evil.example"), 403},
		{"a token for another client", claim("aud", "other"), 403},
		{"a token for two, given to another", claim("aud", []string{signintest.ClientID, "other"}), 403},
		{"a token given to another", claim("azp", "other"), 403},
		{"a nonce by a like name", func(i *signintest.Issuer) {
			i.Claims(func(claims map[string]any) { claims["Nonce"] = claims["nonce"]; delete(claims, "nonce") })
		}, 403},
		{"a token that has expired", claim("exp", time.Now().Add(-time.Minute).Unix()), 403},
		{"a token without a name", claim("sub", ""), 403},
		{"an issuer that is down", func(i *signintest.Issuer) { i.Down(true) }, 503},
		{"an issuer whose keys were never there", nil, 503},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			issuer := signintest.Start(t)
			if tt.change == nil {
				issuer.Keyless()
			}
			u := browser(t, withSignIn(t, issuer))
			if tt.change != nil {
				tt.change(issuer)
			}
			refused := u.ask(http.MethodGet, u.toIssuer("/ui/"))
			if refused.StatusCode != tt.code || !strings.HasPrefix(refused.Header.Get("Content-Type"), "text/html") || refused.Header.Get("Content-Security-Policy") == "" {
				t.Errorf("answered with %s, want %d", refused.Status, tt.code)
			}
			// A token that the service refuses, as by another clock, is not the issuer's refusal.
			if says, err := io.ReadAll(refused.Body); tt.code == http.StatusForbidden && bytes.Contains(says, []byte("did not sign you in")) != slices.Contains([]string{"a refusal", "another code"}, tt.name) {
				t.Errorf("the user reads %s, %v", says, err)
			}
			u.wantCaller("")
		})
	}
}

// Names of claims are case-sensitive (RFC 7519, 10.1.1): others of an issuer's own are none of ours.
func TestClaimsOfLikeNamesAreOthers(t *testing.T) {
	t.Parallel()
	issuer := signintest.Start(t)
	u := browser(t, withSignIn(t, issuer))
	issuer.Claims(func(claims map[string]any) {
		claims["AZP"], claims["iſs"], claims["Aud"] = "other", 7, map[string]any{}
	})
	if got := u.ask(http.MethodGet, u.toIssuer("/ui/")); got.StatusCode != http.StatusFound {
		t.Errorf("answered with %s", got.Status)
	}
	u.wantCaller("oidc:corp:alice")
}

// Where to go back to never keeps a user from signing in: what no cookie has room for leads to the page.
func TestALongWayBack(t *testing.T) {
	t.Parallel()
	issuer := signintest.Start(t)
	u := browser(t, withSignIn(t, issuer))
	for to, want := range map[string]string{
		"/ui/" + strings.Repeat("x", 2000):                "/ui/" + strings.Repeat("x", 2000),
		"/ui/?" + strings.Repeat("a&", 900):               "/ui/",
		"/ui/" + strings.Repeat("ü", 900):                 "/ui/",
		"/ui/clusters/ü?" + strings.Repeat("range=1&", 9): "/ui/clusters/%C3%BC?" + strings.Repeat("range=1&", 9),
	} {
		begun := u.ask(http.MethodGet, signin.StartPath+"?to="+url.QueryEscape(to))
		for _, c := range begun.Cookies() {
			if n := len(c.Name) + len(c.Value); n > 3900 {
				t.Errorf("%.20s…: a cookie of %d bytes", to, n)
			}
		}
		if got := ledTo(t, u.ask(http.MethodGet, u.ask(http.MethodGet, begun.Header.Get("Location")).Header.Get("Location"))); got != want {
			t.Errorf("%.20s… leads to %q, want %q", to, got, want)
		}
	}
}

// agreed is an engine whose instances share a secret; with an empty one it can't be reached.
type agreed struct {
	store.Engine
	secret []byte
}

func (a agreed) Secret(context.Context, string, []byte) ([]byte, error) {
	if len(a.secret) == 0 {
		return nil, store.ErrUnavailable
	}
	return a.secret, nil
}

// A sign-in may begin, end and be used at different instances, if they share a store.
func TestAnyInstanceTakesASession(t *testing.T) {
	t.Parallel()
	issuer := signintest.Start(t)
	on := func(secret string) func(*servertest.Setup) {
		return func(su *servertest.Setup) { su.Engine = agreed{su.Store, []byte(secret)} }
	}
	a, b, stranger, away := withSignIn(t, issuer, on("one")), withSignIn(t, issuer, on("one")), withSignIn(t, issuer, on("another")), withSignIn(t, issuer, on(""))
	u := browser(t, a)
	// Cookies know no ports, so the jar serves all three.
	back := u.toIssuer("/ui/")
	u.s = away
	if got := u.ask(http.MethodGet, back).StatusCode; got != http.StatusServiceUnavailable {
		t.Errorf("the answer while the store can't be reached: %d, want 503", got)
	}
	u.s = b
	if got := u.ask(http.MethodGet, back).StatusCode; got != http.StatusFound {
		t.Errorf("the answer at another instance: %d", got)
	}
	u.wantCaller("oidc:corp:alice")
	u.s = a
	u.wantCaller("oidc:corp:alice")
	u.s = stranger
	u.wantCaller("")
	// To a page that hears that nobody is signed in, the session has ended.
	u.s = away
	if got := u.page(http.MethodGet, "/v1/caller").StatusCode; got != http.StatusServiceUnavailable {
		t.Errorf("a session while the store can't be reached: %d, want 503", got)
	}
}

// Of an answer only its own browser can make a session, and only once.
func TestAnAnswerCountsOnceInItsOwnBrowser(t *testing.T) {
	t.Parallel()
	issuer := signintest.Start(t)
	s := withSignIn(t, issuer)
	victim, attacker := browser(t, s), browser(t, s)
	// The attacker's answer in the victim's browser would sign the victim in as the attacker.
	planted := attacker.toIssuer("/ui/")
	if got := victim.ask(http.MethodGet, planted).StatusCode; got != http.StatusBadRequest {
		t.Errorf("another browser's answer: %d", got)
	}
	victim.toIssuer("/ui/") // also while it has a sign-in of its own
	if got := victim.ask(http.MethodGet, planted).StatusCode; got != http.StatusBadRequest {
		t.Errorf("another browser's answer during a sign-in: %d", got)
	}
	victim.wantCaller("")
	// It does not end the victim's own.
	own := victim.toIssuer("/ui/")
	victim.ask(http.MethodGet, planted)
	if got := victim.ask(http.MethodGet, own).StatusCode; got != http.StatusFound {
		t.Errorf("the own answer after another browser's: %d", got)
	}
	victim.wantCaller("oidc:corp:alice")
	// A replay, with the cookie as it was.
	address, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	back := attacker.toIssuer("/ui/")
	cookies := attacker.c.Jar.Cookies(address)
	if got := attacker.ask(http.MethodGet, back).StatusCode; got != http.StatusFound {
		t.Fatalf("the answer: %d", got)
	}
	if got := attacker.ask(http.MethodGet, back).StatusCode; got != http.StatusBadRequest {
		t.Errorf("the answer again: %d", got)
	}
	thief := browser(t, s)
	thief.c.Jar.SetCookies(address, cookies)
	if got, asked := thief.ask(http.MethodGet, back).StatusCode, issuer.Exchanges(); got != http.StatusBadRequest || asked != 2 {
		t.Errorf("the answer again with its cookie: %d; the issuer was asked %d times", got, asked)
	}
	thief.wantCaller("")
}

// Sessions of several tabs end together, so a user may begin to sign in with each: the last one counts, whichever is
// answered first.
func TestTheLastSignInOfSeveralTabsCounts(t *testing.T) {
	t.Parallel()
	u := browser(t, withSignIn(t, signintest.Start(t)))
	first, last := u.toIssuer("/ui/"), u.toIssuer("/ui/clusters")
	if got := u.ask(http.MethodGet, first).StatusCode; got != http.StatusBadRequest {
		t.Errorf("the answer to the first: %d", got)
	}
	if to := ledTo(t, u.ask(http.MethodGet, last)); to != "/ui/clusters" {
		t.Errorf("the answer to the last leads to %q", to)
	}
	u.wantCaller("oidc:corp:alice")
}

// Nobody is led to another site by way of ours.
func TestSignInLeadsNowhereElse(t *testing.T) {
	t.Parallel()
	issuer := signintest.Start(t)
	u := browser(t, withSignIn(t, issuer))
	for _, to := range []string{
		"", "https://evil.example/ui/", "//evil.example/ui/", "/\\evil.example", "/ui/../\\evil.example", "/v1/caller", "/ui", "javascript:alert(1)",
		"/ui/\r\nLocation: https://evil.example", "/ui/sign-out", "/ui/sign-in?to=/ui/", "/ui/%2e%2e/docs/", "\t//evil.example", "http:/ui/", "/ui/" + strings.Repeat("x", 4000),
	} {
		if got := ledTo(t, u.ask(http.MethodGet, u.toIssuer(to))); got != "/ui/" {
			t.Errorf("%q leads to %q, want /ui/", to, got)
		}
	}
}

func TestASessionEndsWithItsToken(t *testing.T) {
	t.Parallel()
	issuer := signintest.Start(t)
	u := browser(t, withSignIn(t, issuer))
	issuer.Lifetime(2 * time.Second) // and a second for clocks
	u.ask(http.MethodGet, u.toIssuer("/ui/"))
	for until := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		if u.page(http.MethodGet, "/v1/caller").StatusCode == http.StatusUnauthorized {
			break
		}
		if time.Now().After(until) {
			t.Fatal("the session goes on")
		}
	}
}

// A token with many groups takes more than one cookie; one that fits no cookies is refused.
func TestLargeSessions(t *testing.T) {
	t.Parallel()
	issuer := signintest.Start(t)
	u := browser(t, withSignIn(t, issuer))
	groups := func(n int) {
		issuer.Claims(func(claims map[string]any) {
			all := []string{"sre"}
			for range n {
				all = append(all, strings.Repeat("g", 100))
			}
			claims["groups"] = all
		})
	}
	groups(40)
	u.ask(http.MethodGet, u.toIssuer("/ui/"))
	u.wantCaller("oidc:corp:alice")
	groups(0)
	u.ask(http.MethodGet, u.toIssuer("/ui/")) // leaves nothing of the longer one
	u.wantCaller("oidc:corp:alice")
	groups(80)
	if got := u.ask(http.MethodGet, u.toIssuer("/ui/")).StatusCode; got != http.StatusBadRequest {
		t.Errorf("too large a token: %d", got)
	}
}

func TestWhatThePageIsToldBeforeSignIn(t *testing.T) {
	t.Parallel()
	issuer := signintest.Start(t)
	for _, tt := range []struct {
		name string
		s    *servertest.Service
		want string
	}{
		{"no authentication", servertest.Start(t, servertest.WithPage), `{"version":"dev","authentication":false,"signIn":{"anonymous":false,"token":false,"certificate":false}}`},
		{"tokens", servertest.Guarded(t, servertest.WithPage), `{"version":"dev","authentication":true,"signIn":{"anonymous":false,"token":true,"certificate":false}}`},
		{"an issuer", withSignIn(t, issuer), `{"version":"dev","authentication":true,"signIn":{"anonymous":false,"token":true,"certificate":false,"oidc":{"issuer":"` + issuer.URL + `","path":"/ui/sign-in","endPath":"/ui/sign-out"}}}`},
		{"an issuer with a name", withSignIn(t, issuer, func(su *servertest.Setup) { su.Options.SignIn.DisplayName = "Okta <b>" }), `{"version":"dev","authentication":true,"signIn":{"anonymous":false,"token":true,"certificate":false,"oidc":{"issuer":"` + issuer.URL + `","name":"Okta \u003cb\u003e","path":"/ui/sign-in","endPath":"/ui/sign-out"}}}`},
	} {
		a := tt.s.Ask(t, http.MethodGet, "/ui/config.json", nil)
		if a.Code != http.StatusOK || string(a.Raw) != tt.want || a.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %d %s, want %s", tt.name, a.Code, a.Raw, tt.want)
		}
	}
}

func TestSignInOptions(t *testing.T) {
	t.Parallel()
	issuer := signintest.Start(t)
	authenticator := accepting(t, issuer)
	right := signin.Options{ClientID: signintest.ClientID, RedirectURL: "https://setpoint.example" + signin.CallbackPath, Scopes: []string{"openid"}}
	for _, tt := range []struct {
		name, problem string
		change        func(*signin.Options)
	}{
		{"what is right", "", func(*signin.Options) {}},
		{"the issuer by its name", "", func(o *signin.Options) { o.Issuer = issuer.URL }},
		{"loopback in the clear", "", func(o *signin.Options) { o.RedirectURL = "http://localhost:8080" + signin.CallbackPath }},
		{"another issuer", "is not accepted", func(o *signin.Options) { o.Issuer = "https://evil.example" }},
		{"a client that is no audience", "not among the audiences", func(o *signin.Options) { o.ClientID = "stranger" }},
		{"in the clear", "must be of https", func(o *signin.Options) { o.RedirectURL = "http://setpoint.example" + signin.CallbackPath }},
		{"another path", "must be the service's address", func(o *signin.Options) { o.RedirectURL = "https://setpoint.example/" }},
		{"no openid", "openid", func(o *signin.Options) { o.Scopes = []string{"email"} }},
	} {
		o := right
		tt.change(&o)
		_, err := signin.New(o, authenticator, nil, zap.NewNop())
		if tt.problem == "" && err != nil || tt.problem != "" && (err == nil || !strings.Contains(err.Error(), tt.problem)) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.problem)
		}
	}
}

func TestDisplayNamesAreBounded(t *testing.T) {
	t.Parallel()
	issuer := signintest.Start(t)
	for name, wrong := range map[string]bool{"": false, "Okta – Müller & Co.": false, "a\nb": true, "\u202eatkO": true, strings.Repeat("x", signin.MaxDisplayName): false, strings.Repeat("x", signin.MaxDisplayName+1): true} {
		_, err := signin.New(signin.Options{ClientID: signintest.ClientID, RedirectURL: "http://127.0.0.1:1" + signin.CallbackPath, Scopes: []string{"openid"}, DisplayName: name}, accepting(t, issuer), nil, zap.NewNop())
		if (err != nil) != wrong {
			t.Errorf("%q: %v", name, err)
		}
	}
}
