package setpoint_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/setpoint"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/testpki"
)

// authority is a CA with its certificate in a file.
type authority struct {
	*testpki.Authority
	tb   testing.TB
	file string
}

func newAuthority(tb testing.TB) *authority {
	tb.Helper()
	a := &authority{testpki.New("authority"), tb, filepath.Join(tb.TempDir(), "ca.pem")}
	fatal.If(tb, os.WriteFile(a.file, a.CertPEM(), 0o600))
	return a
}

// issue writes a certificate for those names and its key to files.
func (a *authority) issue(certFile, keyFile, owner string, names ...string) {
	a.tb.Helper()
	fatal.If(a.tb, a.Issue(owner, testpki.Names(names...)).Write(certFile, keyFile))
}

// serverConfig is the configuration of servers with those names; it asks for client certificates.
func (a *authority) serverConfig(owners chan<- string, names ...string) *tls.Config {
	own := a.Issue("server", testpki.Names(names...))
	return &tls.Config{
		Certificates: []tls.Certificate{own.TLS()}, NextProtos: []string{"h2"}, ClientCAs: a.Pool(), ClientAuth: tls.VerifyClientCertIfGiven,
		VerifyConnection: func(state tls.ConnectionState) error {
			owner := ""
			if len(state.PeerCertificates) > 0 {
				owner = state.PeerCertificates[0].Subject.CommonName
			}
			select {
			case owners <- owner:
			default:
			}
			return nil
		},
	}
}

// peerOf returns the address of the server that answers next.
func peerOf(tb testing.TB, client *setpoint.Client) string {
	tb.Helper()
	var p peer.Peer
	_, err := setpointv1.NewTargetServiceClient(client.Conn()).GetTarget(tb.Context(),
		&setpointv1.GetTargetRequest{Name: "clusters/demo/namespaces/b/targets/nothing"}, grpc.Peer(&p))
	wantCode(tb, err, codes.NotFound)
	return p.Addr.String()
}

func TestTLS(t *testing.T) {
	ca, other := newAuthority(t), newAuthority(t)
	dir := t.TempDir()
	ca.issue(dir+"/cert", dir+"/key", "first")
	for _, tt := range []struct {
		name    string
		names   []string // of the servers' certificate
		options []setpoint.Option
		code    codes.Code
		owner   string
	}{
		{"each address is held to its own name", []string{"i0.test", "i1.test"}, []setpoint.Option{setpoint.WithTLS(setpoint.TLS{CAFile: ca.file})}, codes.OK, ""},
		{"a certificate for another name is not taken", []string{"i7.test"}, []setpoint.Option{setpoint.WithTLS(setpoint.TLS{CAFile: ca.file})}, codes.Unavailable, ""},
		{"unless that name is wanted", []string{"i7.test"}, []setpoint.Option{setpoint.WithTLS(setpoint.TLS{CAFile: ca.file, ServerName: "i7.test"})}, codes.OK, ""},
		{"nor one by another authority", []string{"i0.test", "i1.test"}, []setpoint.Option{setpoint.WithTLS(setpoint.TLS{CAFile: other.file})}, codes.Unavailable, ""},
		{"nor one by an authority that the system does not know", []string{"i0.test", "i1.test"}, nil, codes.Unavailable, ""},
		{
			"the client shows its own", []string{"i0.test", "i1.test"},
			[]setpoint.Option{setpoint.WithTLS(setpoint.TLS{CAFile: ca.file, CertFile: dir + "/cert", KeyFile: dir + "/key"})}, codes.OK, "first",
		},
		{
			"a configuration of crypto/tls does too", []string{"i0.test", "i1.test"},
			[]setpoint.Option{setpoint.WithTLSConfig(&tls.Config{InsecureSkipVerify: true})}, codes.OK, "",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			owners := make(chan string, 1)
			f := startFleet(t, 2, func(f *fleet) { f.tls = ca.serverConfig(owners, tt.names...) })
			quick := setpoint.WithRetry(setpoint.Retry{BaseDelay: ms})
			for range 2 { // both of them
				_, err := f.client(append(tt.options, quick)...).Recommend(t.Context(), queue(web, 3, 50))
				wantCode(t, err, tt.code)
			}
			if tt.code == codes.OK {
				if got := <-owners; got != tt.owner {
					t.Errorf("the client is %q, want %q", got, tt.owner)
				}
			}
		})
	}
}

func TestAClientCertificateMayBeReplaced(t *testing.T) {
	ca := newAuthority(t)
	dir := t.TempDir()
	ca.issue(dir+"/cert", dir+"/key", "first")
	owners := make(chan string, 1)
	f := startFleet(t, 1, func(f *fleet) { f.tls = ca.serverConfig(owners, "i0.test") })
	client := f.client(patient, reconnecting, setpoint.WithTLS(setpoint.TLS{CAFile: ca.file, CertFile: dir + "/cert", KeyFile: dir + "/key", ServerName: "i0.test"}))
	for _, step := range []struct {
		owner string
		then  func()
	}{
		{"first", func() { ca.issue(dir+"/cert", dir+"/key", "second") }},
		{"second", func() { write(t, dir+"/key", "") }},
		{"second", func() { write(t, ca.file, "") }}, // what was read last stands
		{"second", func() {}},
	} {
		if _, err := client.Recommend(t.Context(), queue(web, 3, 50)); err != nil {
			t.Fatal(err)
		}
		if got := <-owners; got != step.owner {
			t.Errorf("the client is %q, want %q", got, step.owner)
		}
		f.kill(f.names[0]) // only a new connection shows the new one
		step.then()
		f.start(f.names[0])
	}
}

// authorizations is a fake that notes the tokens it gets.
func authorizations(tokens *[]string) *fake {
	return &fake{recommend: func(ctx context.Context, _ *fakeCall) (*setpointv1.RecommendResponse, error) {
		md, _ := metadata.FromIncomingContext(ctx)
		*tokens = append(*tokens, strings.Join(md.Get("authorization"), ","))
		return &setpointv1.RecommendResponse{}, nil
	}}
}

func TestTokens(t *testing.T) {
	var tokens []string
	ask := func(t *testing.T, client *setpoint.Client, want string) {
		t.Helper()
		tokens = nil
		if _, err := client.Recommend(t.Context(), queue(web, 3, 50)); err != nil {
			t.Fatal(err)
		}
		if len(tokens) != 1 || tokens[0] != want {
			t.Errorf("got the tokens %q, want %q", tokens, want)
		}
	}
	t.Run("none without one", func(t *testing.T) {
		ask(t, authorizations(&tokens).serve(t, two), "")
	})
	t.Run("one is sent with each call", func(t *testing.T) {
		client := authorizations(&tokens).serve(t, two, setpoint.WithToken("secret"), setpoint.WithTokenOverInsecure())
		ask(t, client, "Bearer secret")
		ask(t, client, "Bearer secret")
	})
	t.Run("a source is asked each time", func(t *testing.T) {
		n := 0
		source := setpoint.WithTokenSource(func(context.Context) (string, error) { n++; return strings.Repeat("x", n), nil })
		client := authorizations(&tokens).serve(t, two, source, setpoint.WithTokenOverInsecure())
		ask(t, client, "Bearer x")
		ask(t, client, "Bearer xx")
	})
	t.Run("a source that fails ends the call", func(t *testing.T) {
		source := setpoint.WithTokenSource(func(context.Context) (string, error) { return "", errors.New("locked") })
		_, err := authorizations(&tokens).serve(t, two, source, setpoint.WithTokenOverInsecure()).Recommend(t.Context(), queue(web, 3, 50))
		wantCode(t, err, codes.Unauthenticated)
	})
	t.Run("one that is empty, or that no header can hold, is told before it is sent", func(t *testing.T) {
		for _, token := range []string{"", "sec\nret", "secr\u00e9t", "secret\x7f"} {
			tokens = nil
			_, err := authorizations(&tokens).serve(t, two, setpoint.WithToken(token), setpoint.WithTokenOverInsecure()).Recommend(t.Context(), queue(web, 3, 50))
			wantCode(t, err, codes.Unauthenticated)
			if len(tokens) > 0 || strings.Contains(err.Error(), "sec") {
				t.Errorf("%q was sent, or quoted: %v", token, err)
			}
		}
	})
	t.Run("a file is read again when it changes", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "token")
		write := func(name, text string) {
			fatal.If(t, os.WriteFile(name, []byte(text), 0o600))
		}
		client := authorizations(&tokens).serve(t, two, setpoint.WithTokenFile(file), setpoint.WithTokenOverInsecure())
		_, err := client.Recommend(t.Context(), queue(web, 3, 50))
		wantCode(t, err, codes.Unauthenticated)
		write(file, " \n")
		_, err = client.Recommend(t.Context(), queue(web, 3, 50))
		wantCode(t, err, codes.Unauthenticated)
		write(file, "first\n")
		ask(t, client, "Bearer first")
		write(file+".new", "other\n")
		fatal.If(t, os.Rename(file+".new", file))
		ask(t, client, "Bearer other")
		write(file, "") // it is being written
		ask(t, client, "Bearer other")
		write(file, "longer")
		ask(t, client, "Bearer longer")
		fatal.If(t, os.Remove(file))
		ask(t, client, "Bearer longer")
	})
}

func TestTokensTravelOverTLS(t *testing.T) {
	ca := newAuthority(t)
	f := startFleet(t, 1, func(f *fleet) { f.tls = ca.serverConfig(nil, "i0.test") })
	client := f.client(setpoint.WithTLS(setpoint.TLS{CAFile: ca.file, ServerName: "i0.test"}), setpoint.WithToken("secret"))
	if _, err := client.Recommend(t.Context(), queue(web, 3, 50)); err != nil {
		t.Fatal(err)
	}
}

func TestSettingsThatCannotBe(t *testing.T) {
	dir := t.TempDir()
	fatal.If(t, os.WriteFile(dir+"/empty", nil, 0o600))
	for name, options := range map[string][]setpoint.Option{
		"a token without encryption":            {setpoint.WithInsecure(), setpoint.WithToken("secret")},
		"both with and without TLS":             {setpoint.WithInsecure(), setpoint.WithTLS(setpoint.TLS{})},
		"TLS twice":                             {setpoint.WithTLS(setpoint.TLS{}), setpoint.WithTLSConfig(&tls.Config{})},
		"authorities in a file that is missing": {setpoint.WithTLS(setpoint.TLS{CAFile: dir + "/missing"})},
		"authorities in a file without any":     {setpoint.WithTLS(setpoint.TLS{CAFile: dir + "/empty"})},
		"a certificate without its key":         {setpoint.WithTLS(setpoint.TLS{CertFile: dir + "/empty"})},
		"a certificate that is none":            {setpoint.WithTLS(setpoint.TLS{CertFile: dir + "/empty", KeyFile: dir + "/empty"})},
		"hedging without a delay":               {setpoint.WithInsecure(), setpoint.WithHedging(0, 2)},
		"hedging with one attempt":              {setpoint.WithInsecure(), setpoint.WithHedging(time.Second, 1)},
		"a delay below zero":                    {setpoint.WithInsecure(), setpoint.WithRetry(setpoint.Retry{BaseDelay: -1})},
		"batches of nothing":                    {setpoint.WithInsecure(), setpoint.WithMaxBatch(0)},
		"messages of nothing":                   {setpoint.WithInsecure(), setpoint.WithMaxMessageBytes(0, 1)},
	} {
		if client, err := setpoint.New("a:1", options...); err == nil {
			_ = client.Close()
			t.Errorf("%s: New takes it", name)
		}
	}
}

// What is no gRPC, or no answer, is told as that.
func TestOtherServersAreToldOf(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		serve func(net.Conn)
		want  string
	}{
		"HTTP/1": {func(c net.Conn) { _, _ = c.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n")) }, "this port speaks HTTP/1, not gRPC"},
		"hung":   {func(net.Conn) {}, "there was no answer within 5s"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			fatal.If(t, err)
			t.Cleanup(func() { _ = listener.Close() })
			go func() {
				for {
					c, err := listener.Accept()
					if err != nil {
						return
					}
					t.Cleanup(func() { _ = c.Close() })
					tt.serve(c)
				}
			}()
			client, err := setpoint.New(listener.Addr().String(), setpoint.WithTimeout(0))
			fatal.If(t, err)
			defer func() { _ = client.Close() }()
			_, err = setpointv1.NewTargetServiceClient(client.Conn()).ListTargets(t.Context(), &setpointv1.ListTargetsRequest{})
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
}
