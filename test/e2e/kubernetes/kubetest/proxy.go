//go:build linux

package kubetest

import (
	"crypto/tls"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/fatal"
)

// Proxy is a proxy before the API server that makes faults.
type Proxy struct {
	c      *Cluster
	server *httptest.Server
	next   *httputil.ReverseProxy

	mu    sync.Mutex
	fault Fault // guarded by mu; nil: none
	// seen counts the requests by method and path. Guarded by mu.
	seen map[string]int
}

// Fault makes a fault of a request; next is the API server. It may answer itself, and not call next.
type Fault func(w http.ResponseWriter, r *http.Request, next http.Handler)

// Proxy starts a proxy that ends with its test.
func (c *Cluster) Proxy(t testing.TB) *Proxy {
	t.Helper()
	server, err := url.Parse(c.URL())
	fatal.If(t, err)
	pair, err := tls.LoadX509KeyPair(c.files.path("server.crt"), c.files.path("server.key"))
	fatal.If(t, err)
	quiet := log.New(io.Discard, "", 0)
	p := &Proxy{c: c, seen: map[string]int{}}
	transport := c.http.Transport.(*http.Transport).Clone()
	transport.ForceAttemptHTTP2 = true
	p.next = &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(server) },
		Transport: transport, FlushInterval: -1, ErrorLog: quiet,
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	p.server = httptest.NewUnstartedServer(http.HandlerFunc(p.serve))
	p.server.TLS, p.server.EnableHTTP2, p.server.Config.ErrorLog = &tls.Config{Certificates: []tls.Certificate{pair}}, true, quiet
	p.server.StartTLS()
	t.Cleanup(func() {
		p.server.CloseClientConnections()
		p.server.Close()
		transport.CloseIdleConnections()
	})
	return p
}

func (p *Proxy) serve(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	fault := p.fault
	p.seen[r.Method+" "+r.URL.Path]++
	p.mu.Unlock()
	if fault != nil {
		fault(w, r, p.next)
		return
	}
	p.next.ServeHTTP(w, r)
}

// Faults makes a fault of each request from now on; nil: of none.
func (p *Proxy) Faults(fault Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault = fault
}

// Seen returns how often a request was made.
func (p *Proxy) Seen(methodAndPath string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seen[methodAndPath]
}

// Cut resets all connections; new ones are taken.
func (p *Proxy) Cut() { p.server.CloseClientConnections() }

// Behind returns the account with a kubeconfig that leads over the proxy.
func (p *Proxy) Behind(t testing.TB, a *Account) *Account {
	t.Helper()
	behind := *a
	var err error
	behind.Kubeconfig, err = p.c.files.kubeconfig(a.Namespace+"-"+a.Name+"-proxy", p.server.URL, a.Config.BearerToken)
	fatal.If(t, err)
	behind.Config, err = clientConfig(behind.Kubeconfig)
	fatal.If(t, err)
	return &behind
}
