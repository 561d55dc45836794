package signin

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"

	"go.uber.org/zap"
	"golang.org/x/oauth2"
	"golang.org/x/time/rate"

	"github.com/setpoint-dev/setpoint/server/apierror"
	"github.com/setpoint-dev/setpoint/server/auth"
	"github.com/setpoint-dev/setpoint/server/page"
)

// Paths of the service.
const (
	Home         = "/ui/"
	StartPath    = "/ui/sign-in"
	CallbackPath = "/ui/sign-in/callback"
	EndPath      = "/ui/sign-out"
)

const (
	// OwnPageHeader is a header that the page sends with each call.
	OwnPageHeader = "X-Setpoint-UI"
	// flowAge is how long a user may take at the issuer.
	flowAge = 10 * time.Minute
	// issuerTimeout limits requests to the issuer.
	issuerTimeout = 10 * time.Second
	// endpointsAge is how long the issuer's addresses are cached, and failureAge how long it is
	// not called again after a failure.
	endpointsAge = 10 * time.Minute
	failureAge   = 5 * time.Second
)

// Options are the settings of a SignIn.
type Options struct {
	// Issuer is the URL of an issuer that the Authenticator accepts. "": its only issuer.
	Issuer string
	// ClientID is the service's id at the issuer; one of the issuer's audiences.
	ClientID string
	// ClientSecret returns what authenticates the service now. Nil: the issuer requires nothing.
	ClientSecret func() string
	// RedirectURL is where the issuer sends browsers back to: the service's address, as
	// browsers see it, and CallbackPath.
	RedirectURL string
	// Scopes to request, including openid.
	Scopes []string
	// DisplayName is what users call the issuer, on the button: at most MaxDisplayName bytes. "": its host.
	DisplayName string
}

// MaxDisplayName limits a DisplayName, in bytes.
const MaxDisplayName = 64

// SignIn signs users in. It is safe for concurrent use.
type SignIn struct {
	options Options
	// secure: browsers use https.
	secure        bool
	authenticator *auth.Authenticator
	sealer        *sealer
	log           *zap.Logger
	// refusalLog limits the log lines of refusals.
	refusalLog rate.Sometimes
	exchanges  *exchanges
	// endpoints are the issuer's addresses.
	endpoints cached[auth.Endpoints]
}

// New returns a SignIn. The engine may implement store.Secrets. The error joins all errors of
// the options.
func New(o Options, authenticator *auth.Authenticator, engine any, log *zap.Logger) (*SignIn, error) {
	s := &SignIn{options: o, authenticator: authenticator, sealer: newSealer(engine), log: log, exchanges: newExchanges(), refusalLog: rate.Sometimes{Interval: time.Second}}
	issuers, audiences := authenticator.Issuers()
	var problems []error
	switch {
	case o.Issuer == "" && len(issuers) == 1:
		s.options.Issuer = issuers[0]
	case o.Issuer == "":
		problems = append(problems, fmt.Errorf("sign-in: name the issuer; accepted are %q", issuers))
	case !slices.Contains(issuers, o.Issuer):
		problems = append(problems, fmt.Errorf("sign-in: issuer %q is not accepted; accepted are %q", o.Issuer, issuers))
	}
	if accepted := audiences[s.options.Issuer]; accepted != nil && !slices.Contains(accepted, o.ClientID) {
		problems = append(problems, fmt.Errorf("sign-in: client id %q is not among the audiences of %s: its ID tokens would not be accepted", o.ClientID, s.options.Issuer))
	}
	secure, err := checkRedirectURL(o.RedirectURL)
	s.secure = secure
	if err != nil {
		problems = append(problems, err)
	}
	if len(o.DisplayName) > MaxDisplayName || strings.ContainsFunc(o.DisplayName, func(r rune) bool { return !unicode.IsPrint(r) }) {
		problems = append(problems, fmt.Errorf("sign-in: the display name %q must be printable and at most %d bytes", o.DisplayName, MaxDisplayName))
	}
	if !slices.Contains(o.Scopes, "openid") {
		problems = append(problems, errors.New("sign-in: the scopes must include openid"))
	}
	return s, errors.Join(problems...)
}

// checkRedirectURL returns whether browsers use https.
func checkRedirectURL(text string) (secure bool, err error) {
	u, err := url.Parse(text)
	switch {
	case err != nil, u.Host == "", u.User != nil, u.RawQuery != "", u.Fragment != "", !strings.HasSuffix(u.Path, CallbackPath): // a proxy may take away what is before it
		return false, fmt.Errorf("sign-in: the redirect URL %q must be the service's address and %s, as https://setpoint.example.com%s", text, CallbackPath, CallbackPath)
	case u.Scheme == "https":
		return true, nil
	case u.Scheme == "http" && auth.OnLoopback(u.Hostname()):
		return false, nil
	}
	return false, fmt.Errorf("sign-in: the redirect URL %q must be of https; http is for localhost only", text)
}

// Issuer is the issuer's URL.
func (s *SignIn) Issuer() string { return s.options.Issuer }

// flow is the state of one sign-in, as stored in its cookie.
type flow struct {
	State, Nonce, Verifier, To string
	Began                      time.Time
}

// Start sends the browser to the issuer. The parameter to is the path of the page to return
// to.
func (s *SignIn) Start(w http.ResponseWriter, r *http.Request) {
	begin(w)
	endpoints, err := s.find(r.Context())
	if err != nil {
		s.refuse(w, r, http.StatusServiceUnavailable, "The identity provider can't be reached now. Try again later.", err)
		return
	}
	f := flow{State: random(), Nonce: random(), Verifier: oauth2.GenerateVerifier(), To: ownPath(r.URL.Query().Get("to")), Began: time.Now()}
	sealed, err := s.sealFlow(r.Context(), &f)
	if err == nil && len(sealed) > pieceBytes { // browsers would not keep the cookie
		f.To = Home
		sealed, err = s.sealFlow(r.Context(), &f)
	}
	if err != nil {
		s.refuse(w, r, http.StatusServiceUnavailable, storeAway, err)
		return
	}
	// Lax, because the response comes from another site.
	http.SetCookie(w, s.cookie(flowCookie, sealed, http.SameSiteLaxMode, flowAge))
	to := s.config(endpoints).AuthCodeURL(f.State, oauth2.S256ChallengeOption(f.Verifier), oauth2.SetAuthURLParam("nonce", f.Nonce))
	http.Redirect(w, r, to, http.StatusFound)
}

func (s *SignIn) sealFlow(ctx context.Context, f *flow) (string, error) {
	plain, err := json.Marshal(f)
	if err != nil {
		return "", err
	}
	return s.sealer.seal(ctx, forFlow, plain)
}

// storeAway is what users read while cookies can't be sealed or opened.
const storeAway = "The service can't reach its store now. Try again later."

// Callback handles the issuer's response, and starts a session.
func (s *SignIn) Callback(w http.ResponseWriter, r *http.Request) {
	begin(w)
	f, err := s.flowOf(r)
	if errors.Is(err, errNoKey) {
		s.refuse(w, r, http.StatusServiceUnavailable, storeAway, err)
		return
	}
	if !errors.Is(err, errOtherSignIn) { // the cookie's own may be answered yet, such as one of another tab
		// Whatever the result, the response is valid once.
		http.SetCookie(w, s.cookie(flowCookie, "", http.SameSiteLaxMode, 0))
	}
	if err != nil {
		s.refuse(w, r, http.StatusBadRequest, "This sign-in was started in another browser, before a later one in this browser, or more than ten minutes ago. Start again.", err)
		return
	}
	if !s.exchanges.use(f.State) {
		s.refuse(w, r, http.StatusBadRequest, "This sign-in was answered before. Start again.", errors.New("the state was used before"))
		return
	}
	raw, identity, status, err := s.exchange(r, f)
	if err != nil {
		message := "The identity provider's answer is not accepted."
		switch {
		case errors.Is(err, errBusy):
			message = "Too many users sign in now. Try again in some seconds."
		case errors.Is(err, errRefused):
			message = "The identity provider did not sign you in."
		case status == http.StatusForbidden:
			message = "The service does not accept what the identity provider says of you. Its log says why."
		case status == http.StatusServiceUnavailable:
			message = "The identity provider can't be reached now. Try again later."
		}
		s.refuse(w, r, status, message, err)
		return
	}
	sealed, err := s.sealer.seal(r.Context(), forSession, []byte(raw))
	if err != nil {
		s.refuse(w, r, http.StatusServiceUnavailable, storeAway, err)
		return
	}
	if !s.setSession(w, sealed, time.Until(identity.Expires)) {
		s.refuse(w, r, http.StatusBadRequest, "The identity provider's token is too large for a cookie: it must contain fewer groups.", errors.New("ID token of "+fmt.Sprint(len(raw))+" bytes"))
		return
	}
	s.log.Info("signed in", zap.String("identity", identity.Name))
	w.Header().Set("Location", relative(r, f.To))
	w.WriteHeader(http.StatusFound)
}

// End ends the session, if our own page requests it.
func (s *SignIn) End(w http.ResponseWriter, r *http.Request) {
	begin(w)
	if !OwnPage(r) {
		s.refuse(w, r, http.StatusForbidden, "Only the service's own page may sign out.", errors.New("not the page's call"))
		return
	}
	s.setSession(w, "", 0)
	w.WriteHeader(http.StatusNoContent)
}

// Authorization returns the Authorization header of a session; nil: there is no session, or
// the request is not from our own page. The error is one of the API: nobody knows now whether
// there is a session.
func (s *SignIn) Authorization(r *http.Request) ([]string, error) {
	if !OwnPage(r) {
		return nil, nil
	}
	sealed := s.session(r)
	if sealed == "" {
		return nil, nil
	}
	token, err := s.sealer.open(r.Context(), forSession, sealed)
	switch {
	case errors.Is(err, errNoKey):
		return nil, apierror.OfStore(r.Context(), "", err)
	case err != nil:
		s.log.Debug("a session could not be opened", zap.Error(err))
		return nil, nil // as if the session had ended
	}
	return []string{"Bearer " + string(token)}, nil
}

// OwnPage reports whether a request comes from a page of the service itself: browsers say
// so, and the page's header can't be sent by a link, a form or, without our permission, a
// script of another site.
func OwnPage(r *http.Request) bool {
	return r.Header.Get("Sec-Fetch-Site") == "same-origin" && r.Header.Get(OwnPageHeader) == "1"
}

// errRefused: the issuer itself refuses the user, or the code.
var errRefused = errors.New("the issuer refused")

var errOtherSignIn = errors.New("the response belongs to another sign-in (state)")

// flowOf returns the sign-in that a response belongs to.
func (s *SignIn) flowOf(r *http.Request) (f flow, err error) {
	c, err := r.Cookie(s.name(flowCookie))
	if err != nil {
		return flow{}, errors.New("no cookie of a sign-in")
	}
	plain, err := s.sealer.open(r.Context(), forFlow, c.Value)
	if err != nil {
		return flow{}, err
	}
	if err := json.Unmarshal(plain, &f); err != nil {
		return flow{}, err
	}
	if age := time.Since(f.Began); age < -time.Minute || age > flowAge {
		return flow{}, errors.New("the sign-in was started too long ago")
	}
	if state := r.URL.Query()["state"]; len(state) != 1 || subtle.ConstantTimeCompare([]byte(state[0]), []byte(f.State)) != 1 {
		return flow{}, errOtherSignIn
	}
	return f, nil
}

// exchange exchanges the code for an ID token, and checks that.
func (s *SignIn) exchange(r *http.Request, f flow) (raw string, identity *auth.Identity, status int, err error) {
	query := r.URL.Query()
	endpoints, err := s.find(r.Context())
	if err != nil {
		return "", nil, http.StatusServiceUnavailable, err
	}
	// RFC 9207: otherwise the response could be from another issuer, which would get
	// the code.
	if from := query["iss"]; len(from) > 1 || len(from) == 1 && from[0] != s.options.Issuer || endpoints.NamesItself && len(from) == 0 {
		return "", nil, http.StatusBadRequest, errors.New("the response is from another issuer (iss)")
	}
	if refusal := query.Get("error"); refusal != "" {
		return "", nil, http.StatusForbidden, fmt.Errorf("%w: it responded %q", errRefused, clip(refusal))
	}
	code := query["code"]
	if len(code) != 1 || code[0] == "" {
		return "", nil, http.StatusBadRequest, errors.New("the response has no code")
	}
	leave, err := s.exchanges.enter(r)
	if err != nil {
		return "", nil, http.StatusServiceUnavailable, err
	}
	defer func() { leave(err != nil) }()
	ctx, cancel := context.WithTimeout(r.Context(), issuerTimeout)
	defer cancel()
	client, err := endpoints.Client()
	if err != nil {
		return "", nil, http.StatusServiceUnavailable, err
	}
	token, err := s.config(endpoints).Exchange(context.WithValue(ctx, oauth2.HTTPClient, client), code[0], oauth2.VerifierOption(f.Verifier))
	if err != nil {
		if refused, ok := errors.AsType[*oauth2.RetrieveError](err); ok && refused.Response.StatusCode < 500 {
			return "", nil, http.StatusForbidden, fmt.Errorf("%w: of the code it says %q", errRefused, clip(refused.ErrorCode))
		}
		return "", nil, http.StatusServiceUnavailable, fmt.Errorf("the issuer: %s", clip(err.Error()))
	}
	raw, _ = token.Extra("id_token").(string)
	if raw == "" {
		return "", nil, http.StatusBadRequest, errors.New("the issuer's response has no id_token")
	}
	identity, err = s.authenticator.Authenticate(ctx, auth.Credentials{Authorization: []string{"Bearer " + raw}})
	if refused, ok := errors.AsType[*auth.Error](err); ok && refused.Unavailable() {
		return "", nil, http.StatusServiceUnavailable, err
	}
	if err != nil {
		return "", nil, http.StatusForbidden, err
	}
	if err := s.checkClaims(raw, f.Nonce); err != nil {
		return "", nil, http.StatusForbidden, err
	}
	return raw, identity, 0, nil
}

// audience is a string or a list of strings.
type audience []string

// UnmarshalJSON implements json.Unmarshaler.
func (a *audience) UnmarshalJSON(data []byte) error {
	var one string
	if json.Unmarshal(data, &one) == nil {
		*a = audience{one}
		return nil
	}
	return json.Unmarshal(data, (*[]string)(a))
}

// checkClaims checks the claims of an ID token beyond those of all JWTs: that it is from this
// issuer, for this client and for this sign-in. Its signature was already verified.
func (s *SignIn) checkClaims(raw, nonce string) error {
	parts := strings.Split(raw, ".")
	if len(parts) != 3 {
		return errors.New("the ID token is not a JWT")
	}
	data, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return errors.New("the ID token can't be read")
	}
	var claims struct {
		Issuer, Party, Nonce string
		Audience             audience
	}
	var named map[string]json.RawMessage // names are case-sensitive, which those of a struct are not
	unread := json.Unmarshal(data, &named) != nil
	for name, into := range map[string]any{"iss": &claims.Issuer, "aud": &claims.Audience, "azp": &claims.Party, "nonce": &claims.Nonce} {
		value, there := named[name]
		unread = unread || there && json.Unmarshal(value, into) != nil
	}
	if unread {
		return errors.New("the ID token can't be read")
	}
	switch {
	case claims.Issuer != s.options.Issuer:
		return errors.New("the ID token is from another issuer")
	case !slices.Contains(claims.Audience, s.options.ClientID):
		return errors.New("the ID token is for another client (aud)")
	case claims.Party != "" && claims.Party != s.options.ClientID, claims.Party == "" && len(claims.Audience) > 1:
		return errors.New("the ID token was issued to another client (azp)")
	case subtle.ConstantTimeCompare([]byte(claims.Nonce), []byte(nonce)) != 1:
		return errors.New("the ID token belongs to another sign-in (nonce)")
	}
	return nil
}

// find returns the issuer's addresses.
func (s *SignIn) find(ctx context.Context) (auth.Endpoints, error) {
	return s.endpoints.get(ctx, endpointsAge, failureAge, issuerTimeout, func(ctx context.Context, _ auth.Endpoints) (auth.Endpoints, error) {
		return s.authenticator.Endpoints(ctx, s.options.Issuer)
	})
}

func (s *SignIn) config(e auth.Endpoints) *oauth2.Config {
	style, secret := oauth2.AuthStyleInHeader, ""
	if s.options.ClientSecret != nil {
		secret = s.options.ClientSecret()
	}
	if secret == "" || e.SecretInForm {
		style = oauth2.AuthStyleInParams
	}
	return &oauth2.Config{
		ClientID: s.options.ClientID, ClientSecret: secret, RedirectURL: s.options.RedirectURL, Scopes: s.options.Scopes,
		Endpoint: oauth2.Endpoint{AuthURL: e.Authorization, TokenURL: e.Token, AuthStyle: style},
	}
}

// ownPath returns a path of the page, Home for anything else: redirects never lead to another
// site.
func ownPath(to string) string {
	u, err := url.Parse(to)
	if err != nil || u.IsAbs() || u.Host != "" || u.User != nil || !strings.HasPrefix(u.Path, Home) ||
		strings.HasPrefix(u.Path, StartPath) || strings.HasPrefix(u.Path, EndPath) || strings.ContainsAny(to, "\\\r\n\t") || strings.Contains(u.Path, "..") {
		return Home
	}
	if u.Fragment != "" {
		return u.RequestURI() + "#" + u.EscapedFragment()
	}
	return u.RequestURI()
}

// relative returns a path of the service relative to the asked one: a proxy may take away what is before both.
func relative(r *http.Request, to string) string {
	return strings.Repeat("../", strings.Count(r.URL.Path, "/")-1) + strings.TrimPrefix(to, "/")
}

func random() string { return rand.Text() + rand.Text() }

// begin sets the headers of all responses.
func begin(w http.ResponseWriter) {
	page.SetHeaders(w.Header(), page.Policy)
	w.Header().Set("Cache-Control", "no-store")
}

// refuse tells the user what went wrong, and logs why.
func (s *SignIn) refuse(w http.ResponseWriter, r *http.Request, status int, message string, err error) {
	// Anyone can cause this line as often as they like.
	s.refusalLog.Do(func() {
		s.log.Warn("sign-in refused", zap.String("path", r.URL.Path), zap.Int("httpCode", status), zap.Error(err))
	})
	if status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "5")
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\"><meta name=\"color-scheme\" content=\"dark light\"><title>Setpoint: sign-in</title></head>"+
		"<body><main><h1>Not signed in</h1><p>%s</p><p><a href=\"%s\">Back to the page</a></p></main></body></html>\n", html.EscapeString(message), relative(r, Home))
}

const maxClip = 200

func clip(text string) string { return strings.ToValidUTF8(text[:min(len(text), maxClip)], "") }
