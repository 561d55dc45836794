// Package httpapi sends the requests of sources that speak HTTP, with their credentials and bounds.
package httpapi

import (
	"encoding/base64"
	"maps"
	"mime"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/setpoint-dev/setpoint/clients/samples/source"
	"github.com/setpoint-dev/setpoint/internal/bounded"
	"github.com/setpoint-dev/setpoint/internal/files"
	"github.com/setpoint-dev/setpoint/internal/typed"
)

// Server is the address of an HTTP API, with the settings of its requests. Proxies of the
// environment are not used.
type Server struct {
	// URL is where the API begins, such as https://prometheus:9090 or
	// https://mimir/prometheus. It has no user and password. A query, such as
	// ?partial_response=false, is sent each time. Required.
	URL string `json:"url"`
	// Headers are sent with each request, such as {X-Scope-OrgID: shop}. Not for
	// credentials: use HeaderFiles.
	Headers map[string]string `json:"headers,omitempty"`
	// HeaderFiles are headers whose values are in files, such as {X-API-Key:
	// /run/secrets/key}; read again when they change.
	HeaderFiles map[string]string `json:"headerFiles,omitempty"`
	// BearerTokenFile holds a token that is sent as Authorization; read again when it
	// changes.
	BearerTokenFile string `json:"bearerTokenFile,omitempty"`
	// BasicAuthFile holds user:password for Authorization; read again when it changes.
	BasicAuthFile string `json:"basicAuthFile,omitempty"`
	// InsecureCredentials lets credentials travel without TLS. Default: a source with
	// credentials needs an https URL.
	InsecureCredentials bool `json:"insecureCredentials,omitempty"`
	// TLS sets the CAs to trust and the client certificate. Default: the system's CAs, no
	// certificate.
	TLS *source.TLS `json:"tls,omitempty"`
}

// Problems returns the problems of the settings. It opens no file.
func (s *Server) Problems() typed.Problems {
	var p typed.Problems
	u := serverURL(&p, "url", s.URL)
	credentials := s.BearerTokenFile != "" || s.BasicAuthFile != "" || len(s.HeaderFiles) > 0 || s.TLS != nil && s.TLS.CertFile != ""
	if u != nil && u.Scheme == "http" {
		switch {
		case s.TLS != nil:
			p.Add("tls", "requires an https url, but this one is http")
		case credentials && !s.InsecureCredentials:
			p.Add("url", "is http, and credentials would travel in the clear: use https, or set insecureCredentials")
		}
	}
	if s.BearerTokenFile != "" && s.BasicAuthFile != "" {
		p.Add("basicAuthFile", "and bearerTokenFile exclude each other")
	}
	for _, name := range slices.Sorted(maps.Keys(s.Headers)) {
		header(&p, "headers", name, s.HeaderFiles)
		if textproto.CanonicalMIMEHeaderKey(name) == "Authorization" {
			p.Add("headers."+name, "would keep a credential in the configuration: use bearerTokenFile, basicAuthFile or headerFiles")
		}
		if strings.ContainsFunc(s.Headers[name], func(r rune) bool { return r < ' ' || r == 0x7f }) {
			p.Add("headers."+name, "must not contain control characters")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.HeaderFiles)) {
		header(&p, "headerFiles", name, nil)
		if s.HeaderFiles[name] == "" {
			p.Add("headerFiles."+name, "must name a file")
		}
		if textproto.CanonicalMIMEHeaderKey(name) == "Authorization" && (s.BearerTokenFile != "" || s.BasicAuthFile != "") {
			p.Add("headerFiles."+name, "and bearerTokenFile or basicAuthFile exclude each other")
		}
	}
	if s.TLS != nil {
		p.Under("tls", s.TLS.Problems())
	}
	return p
}

// url checks an address. Errors don't quote it, because it may contain a password.
func serverURL(p *typed.Problems, field, text string) *url.URL {
	if text == "" {
		p.Add(field, "is required")
		return nil
	}
	u, err := url.Parse(text)
	switch {
	case err != nil:
		p.Add(field, "must be a URL: write https://host:port/path")
	case u.Scheme != "http" && u.Scheme != "https":
		p.Add(field, "must begin with https:// or http://")
	case u.User != nil:
		p.Add(field, "must not contain a user or password: use basicAuthFile")
	case u.Hostname() == "":
		p.Add(field, "has no host: write https://host:port/path")
	case u.Fragment != "" || u.Opaque != "":
		p.Add(field, "must end after the path or the query")
	case strings.Contains(u.Path, "/../") || strings.HasSuffix(u.Path, "/.."):
		p.Add(field, "must not contain ..")
	default:
		return u
	}
	return nil
}

// reserved are headers of the transport.
var reserved = []string{"Accept-Encoding", "Connection", "Content-Encoding", "Content-Length", "Content-Type", "Cookie2", "Expect", "Host", "Keep-Alive", "Te", "Trailer", "Transfer-Encoding", "Upgrade"}

func header(p *typed.Problems, field, name string, others map[string]string) {
	canonical := textproto.CanonicalMIMEHeaderKey(name)
	switch {
	case name == "" || strings.ContainsFunc(name, notInHeaderName):
		p.Add(field, "%q is not a header name", typed.Shorten(name, typed.MaxQuoted))
	case slices.Contains(reserved, canonical):
		p.Add(field+"."+name, "belongs to the transport")
	default:
		for other := range others {
			if textproto.CanonicalMIMEHeaderKey(other) == canonical {
				p.Add(field+"."+name, "is also in headerFiles")
			}
		}
	}
}

func notInHeaderName(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_'
}

// maxRedirects bounds the redirects of one request.
const maxRedirects = 3

// Client sends requests to one Server.
type Client struct {
	base        *http.Transport
	headers     http.Header
	headerFiles map[string]*source.SecretFile
	bearer      *source.SecretFile
	basic       *source.SecretFile
	maxBytes    int64
	client      *http.Client
}

// Do sends a request.
func (h *Client) Do(req *http.Request) (*http.Response, error) { return h.client.Do(req) }

// New returns the client of a server. It opens no connection.
func New(s *Server, o source.Bounds, log *zap.Logger, dial files.Dial) *Client {
	h := &Client{
		base: &http.Transport{
			// A request's context bounds all of it, so that no timeout is needed here.
			MaxConnsPerHost:        o.Concurrency,
			MaxIdleConnsPerHost:    o.Concurrency,
			IdleConnTimeout:        90 * time.Second,
			MaxResponseHeaderBytes: 64 << 10,
		},
		headers:     http.Header{"User-Agent": {"setpoint-samples"}, "Accept": {"application/json"}},
		headerFiles: map[string]*source.SecretFile{},
		maxBytes:    int64(o.MaxBytes),
	}
	// A connection being established may outlast its request.
	h.base.DialContext = dial.Within(o.Timeout)
	h.base.DialTLSContext = dial.TLS(s.tls().Config).Within(o.Timeout)
	for name, value := range s.Headers {
		h.headers.Set(name, value)
	}
	for name, file := range s.HeaderFiles {
		h.headerFiles[textproto.CanonicalMIMEHeaderKey(name)] = source.NewSecretFile("headerFiles."+name, file, log)
	}
	if s.BearerTokenFile != "" {
		h.bearer = source.NewSecretFile("bearerTokenFile", s.BearerTokenFile, log)
	}
	if s.BasicAuthFile != "" {
		h.basic = source.NewSecretFile("basicAuthFile", s.BasicAuthFile, log)
	}
	h.client = &http.Client{Transport: h, CheckRedirect: checkRedirect}
	return h
}

func (s *Server) tls() *source.TLS {
	if s.TLS != nil {
		return s.TLS
	}
	return &source.TLS{}
}

// checkRedirect allows redirects within the origin only: each request carries the credentials,
// which another origin must not get.
func checkRedirect(req *http.Request, via []*http.Request) error {
	from := via[len(via)-1].URL
	switch {
	case req.URL.Scheme != from.Scheme || req.URL.Host != from.Host:
		return source.Failed(source.Refused, "it redirects to %s://%s, which is not followed: if that is the source, name it in url",
			typed.Shorten(req.URL.Scheme, typed.MaxQuoted), typed.Shorten(req.URL.Host, typed.MaxQuoted))
	case len(via) > maxRedirects:
		return source.Failed(source.Refused, "it redirects more than %d times", maxRedirects)
	case req.Method != via[0].Method:
		return source.Failed(source.Refused, "its redirect drops the query: set url to the target of the redirect")
	}
	return nil
}

var errTooLarge = source.Failed(source.Unusable, "the answer is larger than maxBytes: request less, or raise maxBytes")

// RoundTrip implements http.RoundTripper: it adds headers and credentials, and bounds the
// answer.
func (h *Client) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	maps.Copy(req.Header, h.headers)
	if err := h.authorize(req.Header); err != nil {
		if req.Body != nil {
			_ = req.Body.Close()
		}
		return nil, err
	}
	resp, err := h.base.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode/100 == 2 && !isJSON(resp.Header.Get("Content-Type")) {
		_ = resp.Body.Close()
		return nil, source.Failed(source.Unusable, "the answer is %s, not JSON: does url lead to a page for people, or to a login?",
			typed.Shorten(resp.Header.Get("Content-Type"), typed.MaxQuoted))
	}
	resp.Body = bounded.Body(resp.Body, h.maxBytes, errTooLarge)
	return resp, nil
}

// authorize adds credentials.
func (h *Client) authorize(header http.Header) error {
	for name, file := range h.headerFiles {
		value, err := file.Read()
		if err != nil {
			return err
		}
		header.Set(name, value)
	}
	switch {
	case h.bearer != nil:
		token, err := h.bearer.Read()
		if err != nil {
			return err
		}
		header.Set("Authorization", "Bearer "+token)
	case h.basic != nil:
		pair, err := h.basic.Read()
		if err != nil {
			return err
		}
		if !strings.Contains(pair, ":") {
			return source.Failed(source.Unprepared, "basicAuthFile must contain user:password")
		}
		header.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(pair)))
	}
	return nil
}

// leastSecret is the length from which on a value is taken for a secret, not for a tenant's id.
const leastSecret = 6

// Discreet returns what the server said without the credentials that it gets, which a proxy may quote.
func (h *Client) Discreet(said string) string {
	sent := http.Header{}
	if h.authorize(sent) != nil {
		return ""
	}
	for _, values := range sent {
		_, credential, _ := strings.Cut(values[0], " ")
		secrets := []string{values[0], credential}
		if pair, err := base64.StdEncoding.DecodeString(credential); err == nil && h.basic != nil {
			_, password, _ := strings.Cut(string(pair), ":")
			secrets = append(secrets, password)
		}
		for _, secret := range secrets {
			if len(secret) >= leastSecret {
				said = strings.ReplaceAll(said, secret, "…")
			}
		}
	}
	return said
}

// isJSON reports whether a content type may be JSON. Some servers send plain text, or none.
func isJSON(contentType string) bool {
	if contentType == "" {
		return true
	}
	media, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		return false
	}
	return media == "application/json" || media == "text/json" || media == "text/plain" || strings.HasSuffix(media, "+json")
}

// Close closes idle connections.
func (h *Client) Close() { h.base.CloseIdleConnections() }

// StatusFailure is the error for an unsuccessful status. It does not quote the body.
func StatusFailure(status int) error {
	hint := ""
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden:
		hint = ": check the source's credentials"
	case http.StatusNotFound:
		hint = ": check url and path"
	case http.StatusTooManyRequests:
		hint = ": its rate limit is exceeded"
	}
	return source.Failed(source.Refused, "it answered %d %s%s", status, http.StatusText(status), hint)
}
