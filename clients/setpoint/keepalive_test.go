package setpoint_test

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/test/bufconn"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/setpoint"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/server"
	"github.com/setpoint-dev/setpoint/store/memory"
)

// inMemory is a listener whose connections seem to come from elsewhere, so that a real server
// treats them as callers'. It counts them.
type inMemory struct {
	*bufconn.Listener
	conns atomic.Int32
}

func (l *inMemory) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.conns.Add(1)
	return fromElsewhere{conn}, nil
}

type fromElsewhere struct{ net.Conn }

func (fromElsewhere) RemoteAddr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 7} }

// A stream that is silent for hours survives: the server allows the client's default pings.
func TestKeepaliveIsWhatTheServerAllows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		options := server.DefaultOptions()
		options.MaxConnectionAge = 0 // connections stay
		engine := memory.New(memory.Options{})
		s, err := server.New(engine, engine, options)
		fatal.If(t, err)
		grpcListener, restListener := &inMemory{Listener: bufconn.Listen(1 << 20)}, bufconn.Listen(1<<10)
		ctx, stop := context.WithCancel(t.Context())
		served := make(chan error, 1)
		go func() { served <- s.Serve(ctx, grpcListener, restListener) }()
		var all directory
		all.set("a:1", grpcListener.DialContext)
		client := all.client(t, []string{"a:1"}, setpoint.WithInsecure())
		stream := client.Stream(0)
		for range 2 {
			if _, err := stream.Recommend(t.Context(), queue(web, 3, 50)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(3 * time.Hour)
		}
		if got := grpcListener.conns.Load(); got != 1 {
			t.Errorf("%d connections were needed, want 1", got)
		}
		_ = client.Close()
		stop()
		if err := <-served; err != nil && !errors.Is(err, net.ErrClosed) {
			t.Errorf("Serve: %v", err)
		}
		_ = engine.Close()
	})
}

// A server with gRPC's default enforcement closes the connection because of the client's pings,
// and every call on it, which proves the test above; WithKeepalive is for it.
func TestKeepaliveThatIsNotAllowed(t *testing.T) {
	for name, tt := range map[string]struct {
		options []setpoint.Option
		want    int32
	}{
		"by default":                 {nil, 2},
		"pings as rare as it allows": {[]setpoint.Option{setpoint.WithKeepalive(keepalive.ClientParameters{Time: 6 * time.Minute, Timeout: time.Minute})}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var streams atomic.Int32
				f := &fake{strict: true, stream: func(stream setpointv1.RecommendationService_StreamRecommendServer) error {
					streams.Add(1)
					return echo(stream)
				}}
				s := f.serve(t, []string{"a:1"}, tt.options...).Stream(0)
				for range 2 {
					if _, err := s.Recommend(t.Context(), queue(web, 3, 50)); err != nil {
						t.Fatal(err)
					}
					time.Sleep(3 * time.Hour)
				}
				if got := streams.Load(); got != tt.want {
					t.Errorf("%d streams were needed, want %d", got, tt.want)
				}
			})
		})
	}
}
