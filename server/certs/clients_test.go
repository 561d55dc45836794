package certs_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptrace"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	watched "github.com/setpoint-dev/setpoint/internal/files"
	"github.com/setpoint-dev/setpoint/internal/testpki"
	"github.com/setpoint-dev/setpoint/server"
	"github.com/setpoint-dev/setpoint/server/auth"
	"github.com/setpoint-dev/setpoint/server/auth/policy"
	"github.com/setpoint-dev/setpoint/server/certs"
	"github.com/setpoint-dev/setpoint/store/memory"
	"github.com/setpoint-dev/setpoint/test/testserver"
)

// guardedService serves with client certificates.
func guardedService(t *testing.T, source *certs.Source) (grpcAddress, restAddress string) {
	t.Helper()
	config, err := source.ServerConfig()
	fatal.If(t, err)
	authenticator, err := auth.New(auth.Options{Certificates: true, CertificateNames: []auth.NameKind{auth.CommonName}, Clients: source})
	fatal.If(t, err)
	t.Cleanup(authenticator.Close)
	engine := memory.New(memory.Options{})
	options := server.DefaultOptions()
	options.TLS = config
	options.Limits.Shedding.Off = true
	options.Access = &server.Access{Authenticator: authenticator, Policy: watched.Fixed(policy.Default(false))}
	s, err := server.New(engine, engine, options)
	fatal.If(t, err)
	return testserver.Serve(t, s)
}

// openConnections makes calls on connections of each kind, and returns "" for a successful
// call, else the error.
func openConnections(t *testing.T, source *certs.Source, config *tls.Config) map[string]func() string {
	t.Helper()
	grpcAddress, restAddress := guardedService(t, source)
	const parent = "clusters/-/namespaces/-"
	conn, err := grpc.NewClient("passthrough:///"+grpcAddress, grpc.WithTransportCredentials(credentials.NewTLS(config)))
	fatal.If(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	calls := map[string]func() string{
		"gRPC": func() string {
			_, err := setpointv1.NewTargetServiceClient(conn).ListTargets(t.Context(), &setpointv1.ListTargetsRequest{Parent: parent})
			if err != nil && status.Code(err) != codes.Unauthenticated {
				t.Errorf("gRPC: %v", err)
			}
			return status.Convert(err).Message()
		},
	}
	open := func() setpointv1.RecommendationService_StreamRecommendClient {
		stream, err := setpointv1.NewRecommendationServiceClient(conn).StreamRecommend(t.Context())
		fatal.If(t, err)
		return stream
	}
	stream := open()
	calls["a stream"] = func() string {
		if stream == nil {
			stream = open()
		}
		_ = stream.Send(&setpointv1.StreamRecommendRequest{Id: "1", Request: &setpointv1.RecommendRequest{}}) // Recv has the error
		answer, err := stream.Recv()
		if status.Code(err) == codes.Unauthenticated { // at its beginning
			stream = nil
			return status.Convert(err).Message()
		}
		fatal.If(t, err)
		if codes.Code(answer.GetError().GetCode()) == codes.InvalidArgument { // its caller may ask, if better
			return ""
		}
		stream = nil // it ends
		return answer.GetError().GetMessage()
	}
	for name, protocol := range map[string]string{"REST": "HTTP/1.1", "REST over HTTP/2": "HTTP/2.0"} {
		own := config.Clone()
		transport := &http.Transport{TLSClientConfig: own, ForceAttemptHTTP2: protocol == "HTTP/2.0"}
		t.Cleanup(transport.CloseIdleConnections)
		client := &http.Client{Transport: transport}
		begun := false
		calls[name] = func() string {
			reused := false
			ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) { reused = info.Reused }})
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+restAddress+"/v1/"+parent+"/targets", nil)
			fatal.If(t, err)
			resp, err := client.Do(req)
			fatal.If(t, err)
			defer func() { _ = resp.Body.Close() }()
			body, err := io.ReadAll(resp.Body)
			fatal.If(t, err)
			if resp.Proto != protocol || reused != begun {
				t.Errorf("%s: by %s, reused %v", name, resp.Proto, reused)
			}
			begun = true
			switch resp.StatusCode {
			case http.StatusOK:
				return ""
			case http.StatusUnauthorized:
			default:
				t.Errorf("%s: %s", name, resp.Status)
			}
			return string(body)
		}
	}
	return calls
}

// What is revoked ends with the next call on connections that are open, of each kind.
func TestRevokedOnOpenConnections(t *testing.T) {
	t.Parallel()
	ca, old, other := testpki.New("ca"), testpki.New("clients"), testpki.New("others")
	f := newFiles(t)
	f.writePair(ca.Issue("server"))
	f.write(f.ca, old.CertPEM())
	tomorrow := time.Now().Add(24 * time.Hour)
	f.write(f.crl, old.Revoke(tomorrow))
	o := f.options(certs.Require)
	o.CRLFile = f.crl
	source := newSource(t, o)
	mine := old.Issue("mine")
	calls := openConnections(t, source, client(ca, mine))
	expect := func(when string, refused bool) {
		t.Helper()
		for name, call := range calls {
			message := call()
			if (message != "") != refused || refused && !strings.Contains(message, "no longer valid") {
				t.Errorf("%s, over %s: %q", when, name, message)
			}
		}
	}
	expect("at first", false)
	expect("again", false)
	f.write(f.crl, old.Revoke(tomorrow, old.Issue("another")))
	check(t, source)
	expect("another's is revoked", false)
	f.write(f.crl, old.Revoke(tomorrow, mine))
	check(t, source)
	expect("revoked", true)
	f.write(f.crl, old.Revoke(tomorrow))
	check(t, source)
	expect("no longer revoked", false)
	f.write(f.crl)
	f.write(f.crl, other.Revoke(tomorrow))
	f.write(f.ca, other.CertPEM())
	check(t, source)
	expect("its CA is gone", true)
	f.write(f.ca, other.CertPEM(), old.CertPEM())
	check(t, source)
	expect("its CA is back", false)
}

// A CA whose certificate is replaced by one of the same name and key is the same.
func TestRenewedCAOnOpenConnections(t *testing.T) {
	t.Parallel()
	ca, clients := testpki.New("ca"), testpki.New("clients")
	f := newFiles(t)
	f.writePair(ca.Issue("server"))
	f.write(f.ca, clients.CertPEM())
	source := newSource(t, f.options(certs.Require))
	calls := openConnections(t, source, client(ca, clients.Issue("mine")))
	for name, call := range calls {
		if message := call(); message != "" {
			t.Errorf("at first, over %s: %s", name, message)
		}
	}
	renewed := renew(t, clients)
	if block, _ := pem.Decode(renewed); block == nil || string(block.Bytes) == string(clients.Leaf.Raw) {
		t.Fatal("it is the same certificate")
	}
	f.write(f.ca, renewed)
	check(t, source)
	for range 2 {
		for name, call := range calls {
			if message := call(); message != "" {
				t.Errorf("with its CA renewed, over %s: %s", name, message)
			}
		}
	}
}

// A CA that is renewed by a machine whose clock is ahead counts when its time has come, on open connections, too.
func TestACARenewedAheadOfItsTime(t *testing.T) {
	t.Parallel()
	ca, clients := testpki.New("ca"), testpki.New("clients")
	f := newFiles(t)
	f.writePair(ca.Issue("server"))
	f.write(f.ca, clients.CertPEM())
	now := time.Now()
	o := f.options(certs.Require)
	o.Clock = func() time.Time { return now }
	source := newSource(t, o)
	state := serverState(t, source, client(ca, clients.Issue("mine")))
	f.write(f.ca, renew(t, clients, func(c *x509.Certificate) { c.NotBefore = now.Add(time.Minute) }))
	check(t, source)
	if source.CheckClient(state) == nil {
		t.Error("a CA counts before its time")
	}
	now = now.Add(time.Minute)
	fatal.If(t, source.CheckClient(state))
}

func TestCheckingAClientTakesNoMemory(t *testing.T) {
	ca, clients := testpki.New("ca"), testpki.New("clients")
	f := newFiles(t)
	f.writePair(ca.Issue("server"))
	f.write(f.ca, clients.CertPEM())
	mine := clients.Issue("mine")
	f.write(f.crl, clients.Revoke(time.Now().Add(time.Hour), clients.Issue("another")))
	o := f.options(certs.Require)
	o.CRLFile = f.crl
	source := newSource(t, o)
	state := serverState(t, source, client(ca, mine))
	fatal.If(t, source.CheckClient(state))
	if n := testing.AllocsPerRun(100, func() { _ = source.CheckClient(state) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
