package admission_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/server/servertest"
)

// overHTTP2 has the client of a service speak HTTP/2.
func overHTTP2(tb testing.TB, s *servertest.Service, client *tls.Config) {
	s.URL = "https://" + s.HTTPAddress
	s.HTTP = &http.Client{Transport: &http.Transport{TLSClientConfig: client.Clone(), ForceAttemptHTTP2: true}}
	tb.Cleanup(s.HTTP.CloseIdleConnections)
	conn, err := grpc.NewClient("passthrough:///"+s.GRPCAddress, grpc.WithTransportCredentials(credentials.NewTLS(client.Clone())))
	fatal.If(tb, err)
	tb.Cleanup(func() { _ = conn.Close() })
	s.Conn, s.Recommendations, s.Targets = conn, setpointv1.NewRecommendationServiceClient(conn), setpointv1.NewTargetServiceClient(conn)
}

// deaf is an HTTP/2 connection that admits no byte of any response.
type deaf struct {
	net.Conn
	// streams is how many the server allows at once.
	streams uint32
	ended   chan error // how reading it ended
}

// askDeaf opens a connection and that many calls of a path.
func askDeaf(tb testing.TB, address string, client *tls.Config, calls int, method, path string) *deaf {
	tb.Helper()
	conn, err := tls.Dial("tcp", address, client)
	fatal.If(tb, err)
	d := &deaf{Conn: conn, ended: make(chan error, 1)}
	tb.Cleanup(func() { _ = conn.Close() })
	var out bytes.Buffer
	out.WriteString(http2.ClientPreface)
	framer := http2.NewFramer(&out, conn)
	_ = framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
	var block bytes.Buffer
	headers := hpack.NewEncoder(&block)
	for n := range calls {
		block.Reset()
		for _, h := range [][2]string{{":method", method}, {":scheme", "https"}, {":authority", "localhost"}, {":path", path}} {
			_ = headers.WriteField(hpack.HeaderField{Name: h[0], Value: h[1]})
		}
		_ = framer.WriteHeaders(http2.HeadersFrameParam{StreamID: uint32(2*n + 1), BlockFragment: block.Bytes(), EndStream: true, EndHeaders: true})
	}
	settled := make(chan struct{})
	go func() {
		settled := sync.OnceFunc(func() { close(settled) })
		defer settled()
		for {
			frame, err := framer.ReadFrame()
			if err != nil {
				d.ended <- err
				return
			}
			if settings, ok := frame.(*http2.SettingsFrame); ok && !settings.IsAck() {
				d.streams, _ = settings.Value(http2.SettingMaxConcurrentStreams)
				settled()
			}
		}
	}()
	<-settled
	_, _ = conn.Write(out.Bytes()) // it may have been closed
	return d
}

// deafRoutes are paths of everything that REST answers: pages, files, health, the contract.
var deafRoutes = []struct{ method, path string }{
	{"GET", "/"}, {"GET", "/ui/"}, {"GET", "/ui/assets/main-K2VQ7XWA.js"}, {"POST", "/ui/"}, {"GET", "/docs/"}, {"GET", "/openapi.json"},
	{"GET", "/healthz"}, {"GET", "/readyz"}, {"GET", "/v1/caller"}, {"GET", "/v1/nothing"}, {"GET", "/v1/" + servertest.Web + "/decisions"},
	{"POST", "/v1/" + servertest.Web + ":recommend"}, {"POST", "/v1/simulations:run"}, {"POST", "/v1/integrations/datadog/clusters/demo"},
}

// Responses that nobody takes are counted over HTTP/2 too, whatever was asked: beyond the bound the
// oldest connections with some are closed, and honest callers are served.
func TestUnreadRESTAnswersOverHTTP2AreFew(t *testing.T) {
	t.Parallel()
	secured, client := servertest.Secured(t)
	for _, route := range deafRoutes {
		if route.path == "/" {
			continue // a redirect has no body that would wait
		}
		t.Run(route.method+" "+strings.ReplaceAll(route.path, "/", "_"), func(t *testing.T) {
			t.Parallel()
			const most, each = 40, 20
			s := servertest.Start(t, servertest.WithPage, secured, func(su *servertest.Setup) { su.Options.MaxConnections = most })
			overHTTP2(t, s, client)
			s.Ask(t, http.MethodGet, "/v1/caller", nil).Expect(t, http.StatusOK) // its connection is known, as that of a page in use
			ended := make(chan error, 2*most/each)
			for range cap(ended) {
				d := askDeaf(t, s.HTTPAddress, client, each, route.method, route.path)
				go func() { ended <- <-d.ended }()
			}
			for range most / each { // the others are as many as may stay
				select {
				case err := <-ended:
					t.Log(err)
				case <-time.After(unreadEnd / 2): // before the time of unread answers is over
					t.Fatal("more calls than allowed wait to be read")
				}
			}
			s.Ask(t, http.MethodGet, "/ui/", nil).Expect(t, http.StatusOK)
		})
	}
}

// unreadEnd is how long the server waits for a caller to take the end of a response.
const unreadEnd = 10 * time.Second

// Who does not take even the end of a short response loses the connection soon.
func TestTheEndOfAShortAnswerIsNotWaitedForLong(t *testing.T) {
	t.Parallel()
	secured, client := servertest.Secured(t)
	s := servertest.Start(t, servertest.WithPage, secured)
	for _, path := range []string{"/healthz", "/ui/", "/v1/caller"} {
		t.Run(strings.ReplaceAll(path, "/", "_"), func(t *testing.T) {
			t.Parallel()
			d := askDeaf(t, s.HTTPAddress, client, 3, http.MethodGet, path)
			select {
			case err := <-d.ended:
				if errors.Is(err, os.ErrDeadlineExceeded) {
					t.Error(err)
				}
			case <-time.After(4 * unreadEnd): // the server's own limit is a minute
				t.Error("the connection is still open")
			}
		})
	}
}

// A connection over HTTP/2 has few calls at once, and every client finds its way nevertheless: the
// page with all its files, and a hundred watchers.
func TestHonestUseOverHTTP2(t *testing.T) {
	t.Parallel()
	secured, client := servertest.Secured(t)
	s := servertest.Start(t, servertest.WithPage, secured, func(su *servertest.Setup) { su.Options.WatchHeartbeat = 100 * time.Millisecond })
	overHTTP2(t, s, client)
	if d := askDeaf(t, s.HTTPAddress, client, 0, "", ""); d.streams == 0 || d.streams > 64 {
		t.Errorf("a connection may have %d calls at once", d.streams)
	}
	ctx, end := context.WithCancel(t.Context())
	defer end()
	var watching sync.WaitGroup
	seen := make(chan error, 100)
	for range cap(seen) {
		watching.Go(func() {
			seen <- func() error {
				req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+"/v1/clusters/-/namespaces/-/targets/-/decisions:watch", nil)
				if err != nil {
					return err
				}
				resp, err := s.HTTP.Do(req)
				if err != nil {
					return err
				}
				defer func() { _ = resp.Body.Close() }()
				if resp.ProtoMajor != 2 || resp.StatusCode != http.StatusOK {
					return fmt.Errorf("HTTP/%d, %s", resp.ProtoMajor, resp.Status)
				}
				_, err = io.ReadFull(resp.Body, make([]byte, 200)) // some heartbeats
				return err
			}()
			<-ctx.Done()
		})
	}
	for range cap(seen) {
		if err := <-seen; err != nil {
			t.Error(err)
		}
	}
	var loading sync.WaitGroup
	for range 30 {
		loading.Go(func() {
			for _, path := range []string{"/ui/", "/ui/assets/main-K2VQ7XWA.js", "/openapi.json", "/v1/caller"} {
				resp, err := s.HTTP.Get(s.URL + path)
				if err != nil {
					t.Error(err)
					return
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
				if resp.StatusCode != http.StatusOK || resp.ProtoMajor != 2 {
					t.Errorf("%s: %s over %s", path, resp.Status, resp.Proto)
				}
			}
		})
	}
	loading.Wait()
	end()
	watching.Wait()
}

// Responses of exempt calls that nobody reads are counted with all others: beyond the bound the
// connection with the most is closed.
func TestUnreadAnswersOfExemptCallsAreCounted(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	// A file with all that it imports takes some 90 kB.
	whole := &reflectionv1.ServerReflectionRequest{MessageRequest: &reflectionv1.ServerReflectionRequest_FileByFilename{FileByFilename: "setpoint/v1/recommendation_service.proto"}}
	closed := make(chan struct{}, 16)
	for range cap(closed) {
		conn := s.Dial(t, grpc.WithInitialWindowSize(64<<10), grpc.WithInitialConnWindowSize(64<<10))
		for range 60 {
			stream, err := reflectionv1.NewServerReflectionClient(conn).ServerReflectionInfo(t.Context())
			fatal.If(t, err)
			for range 4 {
				_ = stream.Send(whole)
			}
		}
		go func() {
			if conn.WaitForStateChange(t.Context(), connectivity.Ready) {
				closed <- struct{}{}
			}
		}()
	}
	select {
	case <-closed:
	case <-time.After(time.Minute):
		t.Error("no connection was closed, however much of it is not read")
	}
	s.Recommend(t, servertest.WebRequest(t))
}
