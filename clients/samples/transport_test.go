package samples

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/testpages"
	"github.com/setpoint-dev/setpoint/store/redis/redistest"
)

// brief is a timeout that should expire.
const brief = 50 * time.Millisecond

func TestSourcesThatMisbehave(t *testing.T) {
	secret := "s3cret"
	for _, c := range []struct {
		name    string
		answer  http.HandlerFunc
		source  func(*Source)
		outcome Outcome
		text    string
	}{
		{"never answers", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
			func(s *Source) { s.Timeout = Duration(brief) }, Timeout, "within its timeout of 50ms"},
		{"answers without end, slowly", func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				if _, err := w.Write([]byte(" ")); err != nil {
					return
				}
				_ = http.NewResponseController(w).Flush()
				time.Sleep(time.Millisecond)
			}
		}, func(s *Source) { s.Timeout = Duration(brief) }, Timeout, "within its timeout"},
		{"answers without end, quickly", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			for r.Context().Err() == nil {
				if _, err := w.Write(bytes.Repeat([]byte(" "), 4096)); err != nil {
					return
				}
			}
		}, nil, Unusable, "larger than maxBytes"},
		{"answers little that is much when unpacked", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			_, _ = z.Write(bytes.Repeat([]byte(" "), 8<<20))
			_ = z.Close()
		}, nil, Unusable, "larger than maxBytes"},
		{"answers a page", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			_, _ = w.Write([]byte("<html>log in, " + secret + "</html>"))
		}, nil, Unusable, "text/html"},
		{"answers a broken content type", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json;;;=")
			_, _ = w.Write([]byte("{}"))
		}, nil, Unusable, "not JSON"},
		{"answers half", body(`{"status":"success","data":{"resultType":"vector","result":[{"metric":{"s3cret":"`), nil, Unusable, "of Prometheus' API"},
		{"closes in the middle", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Content-Length", "1000")
			_, _ = w.Write([]byte(`{"status":`))
			panic(http.ErrAbortHandler)
		}, nil, Unreachable, "the connection failed"},
		{"answers other JSON", body(`["s3cret"]`), nil, Unusable, "of Prometheus' API"},
		{"answers that it succeeded and nothing more", body(`{"status":"success"}`), nil, Unusable, "has no result"},
		{"answers 401", status(401, "text/plain", secret), nil, Refused, "401 Unauthorized: check the source's credentials"},
		{"answers 403", status(403, "text/plain", secret), nil, Refused, "403 Forbidden: check"},
		{"answers 404", status(404, "text/html", secret), nil, Refused, "404 Not Found: check url"},
		{"answers 429", status(429, "application/json", `"s3cret"`), nil, Refused, "429 Too Many Requests"},
		{"answers 500", status(500, "text/plain", secret), nil, Refused, "500 Internal Server Error"},
		{"answers 503", status(503, "application/json", `{"s3cret":1}`), nil, Refused, "503 Service Unavailable"},
		{"answers 400 that is not Prometheus'", status(400, "text/html", secret), nil, Refused, "it answered 400"},
		{"answers an error with 200", body(`{"status":"error","errorType":"internal","error":"out of memory"}`), nil, Refused, "out of memory"},
		{"redirects to another host", redirect("http://127.0.0.2:1/?token=s3cret"), nil, Refused, "redirects to http://127.0.0.2:1, which is not followed"},
		{"redirects to another scheme", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://"+r.Host+"/s3cret", http.StatusPermanentRedirect)
		}, nil, Refused, "redirects to https://127.0.0.1"},
		{"redirects for ever", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, r.URL.Path, http.StatusTemporaryRedirect)
		},
			nil, Refused, "more than 3 times"},
		{"redirects so that the query is lost", redirect("/elsewhere", http.StatusFound), nil, Refused, "drops the query"},
		{"sends endless headers", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Long", strings.Repeat("x", 1<<20))
		}, nil, Unreachable, "the connection failed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			prom := newFakeProm(t, c.answer)
			set := promSource(t, prom.URL, func(s *Source) {
				s.Prometheus.BearerTokenFile, s.Prometheus.InsecureCredentials = write(t, secret), true
				if c.source != nil {
					c.source(s)
				}
			})
			_, err := set.Samples(t.Context(), promQuery("up"))
			wantFailure(t, err, c.outcome, c.text)
			if strings.Contains(err.Error(), secret) {
				t.Errorf("the error quotes what it must not: %v", err)
			}
			if _, requests, _ := counted(set, OK); requests != 0 && c.name != "answers that it succeeded and nothing more" {
				t.Errorf("%v requests are counted as ok", requests)
			}
		})
	}
}

// What stands between may quote the request in its errors and warnings: those reach everybody who sees the workload's status.
func TestCredentialsThatAreQuotedAreNotTold(t *testing.T) {
	token, pair, key := write(t, "a-token"), write(t, "ann:a-password"), write(t, "a-key-of-an-api")
	for name, source := range map[string]func(*Source){
		"bearer": func(s *Source) { s.Prometheus.BearerTokenFile = token },
		"basic":  func(s *Source) { s.Prometheus.BasicAuthFile = pair },
		"header": func(s *Source) { s.Prometheus.HeaderFiles = map[string]string{"X-Key": key} },
	} {
		for kind, answer := range map[string]string{
			"error":   `{"status":"error","errorType":"bad_data","error":%q}`,
			"warning": `{"status":"success","warnings":[%q],"data":{"resultType":"vector","result":[]}}`,
		} {
			prom := newFakeProm(t, func(w http.ResponseWriter, r *http.Request) {
				_, password, _ := r.BasicAuth()
				sent := fmt.Sprintf("sent %s %s %s", r.Header.Get("Authorization"), password, r.Header.Get("X-Key"))
				w.Header().Set("Content-Type", "application/json")
				_, _ = fmt.Fprintf(w, answer, sent)
			})
			set := promSource(t, prom.URL, source, func(s *Source) { s.Prometheus.InsecureCredentials = true })
			_, err := set.Samples(t.Context(), promQuery("up"))
			if err == nil || !strings.Contains(err.Error(), "sent ") || !strings.Contains(err.Error(), "…") {
				t.Fatalf("%s, %s: got %v", name, kind, err)
			}
			for _, secret := range []string{"a-token", "a-password", base64.StdEncoding.EncodeToString([]byte("ann:a-password")), "a-key-of-an-api"} {
				if strings.Contains(err.Error(), secret) {
					t.Errorf("%s, %s: it tells %s: %v", name, kind, secret, err)
				}
			}
		}
	}
}

func status(code int, contentType, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(code)
		_, _ = io.WriteString(w, text)
	}
}

func redirect(to string, code ...int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, to, append(code, http.StatusTemporaryRedirect)[0])
	}
}

func TestRedirectsWithinTheOriginAreFollowed(t *testing.T) {
	prom := newFakeProm(t, func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.URL.Path, "/new") {
			http.Redirect(w, r, "/new"+r.URL.Path, http.StatusPermanentRedirect)
			return
		}
		vectorOf(series("1"))(w, r)
	})
	if got, err := promSource(t, prom.URL).Samples(t.Context(), promQuery("up")); err != nil || len(got) != 1 {
		t.Fatalf("got %v, %v", got, err)
	}
	if asked := prom.asked(); asked[len(asked)-1] != "up" {
		t.Errorf("the query was lost: %q", asked)
	}
}

func TestCredentialsStayWithTheOrigin(t *testing.T) {
	elsewhere := newFakeProm(t, vectorOf(series("1")))
	prom := newFakeProm(t, redirect(elsewhere.URL))
	set := promSource(t, prom.URL, func(s *Source) {
		s.Prometheus.BearerTokenFile, s.Prometheus.InsecureCredentials = write(t, "s3cret"), true
	})
	_, err := set.Samples(t.Context(), promQuery("up"))
	wantFailure(t, err, Refused, "not followed")
	if n := len(elsewhere.asked()); n != 0 {
		t.Errorf("the other host was asked %d times", n)
	}
}

// raw is a listener whose connections a test serves.
func raw(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	fatal.If(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			serve(conn)
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-done
	})
	return l.Addr().String()
}

func TestTLSThatDoesNotCome(t *testing.T) {
	files := redistest.NewTLS(t)
	pair, err := tls.LoadX509KeyPair(files.ServerCertFile, files.ServerKeyFile)
	fatal.If(t, err)
	discard := func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }
	for _, c := range []struct {
		name    string
		serve   func(net.Conn)
		tls     TLS
		timeout time.Duration
		outcome Outcome
		text    string
	}{
		{"silence", discard, TLS{CAFile: files.CAFile}, brief, Timeout, "within its timeout"},
		{"plain HTTP", func(c net.Conn) { _, _ = io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\n") }, TLS{CAFile: files.CAFile}, patience, Unreachable, "does not speak TLS"},
		{"the end after the first bytes", func(c net.Conn) { _, _ = c.Read(make([]byte, 1)) }, TLS{CAFile: files.CAFile}, patience, Unreachable, "the connection failed"},
		{"another authority", func(c net.Conn) {
			_ = tls.Server(c, &tls.Config{Certificates: []tls.Certificate{pair}}).Handshake()
		}, TLS{}, patience, Unreachable, "not trusted"},
		{"another name", func(c net.Conn) {
			_ = tls.Server(c, &tls.Config{Certificates: []tls.Certificate{pair}}).Handshake()
		}, TLS{CAFile: files.CAFile, ServerName: "prom.example"}, patience, Unreachable, "not trusted"},
		{"no authority's file", discard, TLS{CAFile: "/nowhere/ca.crt"}, patience, Unprepared, "tls.caFile can't be read"},
		{"a key as authority", discard, TLS{CAFile: files.ServerKeyFile}, patience, Unprepared, "must be certificates in PEM"},
		{"no certificate's file", discard, TLS{CertFile: "/nowhere/c", KeyFile: "/nowhere/k"}, patience, Unprepared, "tls.certFile"},
	} {
		t.Run(c.name, func(t *testing.T) {
			set := promSource(t, "https://"+raw(t, c.serve), func(s *Source) {
				s.Prometheus.TLS, s.Timeout = &c.tls, Duration(min(c.timeout, maxTimeout))
			})
			_, err := set.Samples(t.Context(), promQuery("up"))
			wantFailure(t, err, c.outcome, c.text)
		})
	}
}

func TestMutualTLSWithCertificatesThatAreReplaced(t *testing.T) {
	files := redistest.NewTLS(t)
	server := newTLSProm(t, files)
	ca, cert, key := write(t, ""), write(t, ""), write(t, "")
	set := promSource(t, server, func(s *Source) {
		s.Prometheus.TLS = &TLS{CAFile: ca, CertFile: cert, KeyFile: key}
	})
	_, err := set.Samples(t.Context(), promQuery("up"))
	wantFailure(t, err, Unprepared, "tls.caFile")
	for name, from := range map[string]string{ca: files.CAFile, cert: files.ClientCertFile, key: files.ClientKeyFile} {
		text := testpages.Read(t, from)
		rewrite(t, name, text)
	}
	if _, err := set.Samples(t.Context(), promQuery("up")); err != nil {
		t.Fatalf("with the files in place: %v", err)
	}
	bare := promSource(t, server, func(s *Source) { s.Prometheus.TLS = &TLS{CAFile: files.CAFile} })
	_, err = bare.Samples(t.Context(), promQuery("up"))
	wantFailure(t, err, Unreachable, "")
}

// newTLSProm is a Prometheus that demands a client certificate.
func newTLSProm(t *testing.T, files *redistest.TLS) string {
	t.Helper()
	config := files.Config()
	pair, err := tls.LoadX509KeyPair(files.ServerCertFile, files.ServerKeyFile)
	fatal.If(t, err)
	f := httptest.NewUnstartedServer(vectorOf(series("1")))
	f.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: config.RootCAs, ClientAuth: tls.RequireAndVerifyClientCert}
	f.Config.ErrorLog = discardLog
	f.StartTLS()
	t.Cleanup(f.Close)
	return f.URL
}

func TestNoServerListens(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	fatal.If(t, err)
	_ = l.Close()
	_, err = promSource(t, "http://"+l.Addr().String()).Samples(t.Context(), promQuery("up"))
	wantFailure(t, err, Unreachable, "connection refused")
}

func TestASlowSourceTakesARoundOneTimeout(t *testing.T) {
	release := make(chan struct{})
	prom := newFakeProm(t, func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
	})
	defer close(release)
	set := promSource(t, prom.URL, func(s *Source) { s.Timeout, s.Concurrency = Duration(brief), 1 })
	errs := make(chan error, 3)
	for i := range 3 {
		go func() {
			_, err := set.Samples(t.Context(), promQuery(strings.Repeat("x", i+1)))
			errs <- err
		}()
	}
	for range 3 {
		var e *Error
		// Which of them had their turn is chance.
		if err := <-errs; !errors.As(err, &e) || e.Outcome != Timeout && e.Outcome != Busy {
			t.Errorf("got %v", err)
		}
	}
}

func TestQueriesThatWaitTooLongReportABusySource(t *testing.T) {
	prom := newFakeProm(t, vectorOf(series("1")))
	set := promSource(t, prom.URL, func(s *Source) { s.Timeout, s.Concurrency = Duration(brief), 1 })
	source := set.sources["prom"]
	source.turns <- struct{}{} // another query's, which never ends
	_, err := set.Samples(t.Context(), promQuery("up"))
	wantFailure(t, err, Busy, "its 1 concurrent requests")
	<-source.turns
}

func TestWhoLeavesIsNotKept(t *testing.T) {
	prom := newFakeProm(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	set := promSource(t, prom.URL)
	ctx, cancel := context.WithCancel(t.Context())
	errs := make(chan error, 1)
	go func() {
		_, err := set.Samples(ctx, promQuery("up"))
		errs <- err
	}()
	eventually(t, "it is asked", func() bool { return len(prom.asked()) == 1 })
	cancel()
	wantFailure(t, <-errs, Cancelled, "cancelled")
	eventually(t, "the request is counted as cancelled", func() bool { _, requests, _ := counted(set, Cancelled); return requests == 1 })
}
