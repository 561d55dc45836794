package setpoint_test

import (
	"context"
	"os"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/setpoint"
	"github.com/setpoint-dev/setpoint/internal/fatal"
)

const newToken = "sp_of-the-client-rotated-6789abcdefghijklmn"

func (g *guarded) reloads(t *testing.T) {
	t.Helper()
	fatal.If(t, g.reload())
}

// A token is replaced as the documents say, under a stream that is open with the old one.
func TestAStreamOutlivesTheTokenItWasOpenedWith(t *testing.T) {
	t.Parallel()
	g := startGuarded(t, 1)
	var token atomic.Value
	token.Store(goodToken)
	client := g.client(t, false, setpoint.WithTokenSource(func(context.Context) (string, error) { return token.Load().(string), nil }))
	stream := client.Stream(0)
	ask := func(want codes.Code) {
		t.Helper()
		_, err := stream.Recommend(t.Context(), queue(web, 3, 50))
		wantCode(t, err, want)
	}
	ask(codes.OK)
	write(t, g.tokensFile, "tokens:\n"+entry("client", goodToken)+entry("client", newToken))
	g.reloads(t)
	token.Store(newToken)
	ask(codes.OK)
	write(t, g.tokensFile, "tokens:\n"+entry("client", newToken))
	g.reloads(t)
	ask(codes.OK)
	if got := g.recorded(client, web); got != 3 {
		t.Errorf("%d recommendations are recorded, want 3", got)
	}
	write(t, g.tokensFile, "tokens:\n"+entry("reader", lessToken))
	g.reloads(t)
	ask(codes.Unauthenticated)
	ask(codes.Unauthenticated)
	write(t, g.tokensFile, "tokens:\n"+entry("client", newToken))
	g.reloads(t)
	ask(codes.OK)
}

// A CA of clients' certificates is replaced under open connections: a new one shows the new
// certificate.
func TestAConnectionIsReplacedWithItsCertificate(t *testing.T) {
	t.Parallel()
	for name, begin := range map[string]func(*testing.T, *setpoint.Client) (ask func() error){
		"a call": func(t *testing.T, c *setpoint.Client) func() error {
			return func() error {
				_, err := c.Recommend(t.Context(), queue(web, 3, 50))
				return err
			}
		},
		"a stream": func(t *testing.T, c *setpoint.Client) func() error {
			stream := c.Stream(0)
			return func() error {
				_, err := stream.Recommend(t.Context(), queue(web, 3, 50))
				return err
			}
		},
		"a watch": func(t *testing.T, c *setpoint.Client) func() error {
			return func() error {
				for _, err := range c.WatchDecisions(t.Context(), &setpointv1.WatchDecisionsRequest{Parent: "clusters/demo/namespaces/-/targets/-"}, nil) {
					return err
				}
				return nil
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := startGuarded(t, 1)
			ask := begin(t, g.client(t, true))
			wantCode(t, ask(), codes.OK)
			other := newAuthority(t)
			write(t, g.clientsFile, string(other.CertPEM()))
			g.reloads(t)
			wantCode(t, ask(), codes.Unauthenticated) // it still has the old one
			other.issue(g.certFile, g.keyFile, "client")
			wantCode(t, ask(), codes.OK)
		})
	}
}

// A server that takes a token once, and then never again, does not get a storm of streams.
func TestRefusedCredentialsOpenFewStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s script
		refused := func(stream recommendStream) error {
			req, err := stream.Recv()
			if err != nil {
				return err
			}
			no := status.New(codes.Unauthenticated, "no").Proto()
			if err := stream.Send(&setpointv1.StreamRecommendResponse{Id: req.GetId(), Result: &setpointv1.StreamRecommendResponse_Error{Error: no}}); err != nil {
				return err
			}
			return echo(stream)
		}
		client := s.play(func(stream recommendStream) error {
			req, err := stream.Recv()
			if err != nil {
				return err
			}
			if err := stream.Send(answerTo(req)); err != nil {
				return err
			}
			return refused(stream)
		}, refused).serve(t, two)
		stream := client.Stream(0)
		wantAnswers(t, ask(t, stream, 1))
		for range 3 {
			_, err := stream.Recommend(t.Context(), queue(web, 1, 50))
			wantCode(t, err, codes.Unauthenticated)
			time.Sleep(time.Second)
		}
		if len(s.streams) != 4 { // one more for each request: the first was sent twice
			t.Errorf("streams began at %v, want 4", s.streams)
		}
	})
}

// The CAs to trust are those in the file when a connection is made.
func TestTheCAFileMayBeReplaced(t *testing.T) {
	t.Parallel()
	ca, other := newAuthority(t), newAuthority(t)
	f := startFleet(t, 1, func(f *fleet) { f.tls = ca.serverConfig(nil, "i0.test") })
	client := f.client(patient, reconnecting, setpoint.WithTLS(setpoint.TLS{CAFile: ca.file, ServerName: "i0.test"}))
	ask := func() error {
		_, err := client.Recommend(t.Context(), queue(web, 3, 50))
		return err
	}
	wantCode(t, ask(), codes.OK)
	f.kill(f.names[0])
	f.tls = other.serverConfig(nil, "i0.test")
	fatal.If(t, os.WriteFile(ca.file, other.CertPEM(), 0o600))
	f.start(f.names[0])
	wantCode(t, ask(), codes.OK)
}
