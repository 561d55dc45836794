package connection

import (
	"context"
	"errors"
	"net"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/serviceconfig"
	"google.golang.org/grpc/status"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/cmd/internal/cli"
	"github.com/setpoint-dev/setpoint/internal/fatal"
)

// Instances that come in the place of others are known long before gRPC's own 30 s have passed.
func TestInstancesAreLookedUpAgainSoon(t *testing.T) {
	t.Parallel()
	var last atomic.Uint32 // of the instance's address
	last.Store(1)
	seen := make(chan string, 100)
	r, err := resolver.Get("dns").Build(resolver.Target{URL: url.URL{Scheme: "dns", Host: answering(t, &last), Path: "/setpoint.test:9090"}},
		addresses(seen), resolver.BuildOptions{DisableServiceConfig: true})
	fatal.If(t, err)
	defer r.Close()
	began := time.Now()
	await(t, seen, "192.0.2.1:9090")
	last.Store(2)
	r.ResolveNow(resolver.ResolveNowOptions{}) // as after the end of a connection
	await(t, seen, "192.0.2.2:9090")
	if took := time.Since(began); took < lookUp {
		t.Errorf("the name was looked up again after %v already, want %v at least", took, lookUp)
	}
}

// await waits for an address, for less than gRPC's own interval.
func await(t *testing.T, seen <-chan string, want string) {
	t.Helper()
	for deadline := time.After(25 * time.Second); ; {
		select {
		case got := <-seen:
			if got == want {
				return
			}
		case <-deadline:
			t.Fatalf("%s is not known", want)
		}
	}
}

// answering serves DNS, for any name the address 192.0.2.LAST, and returns where.
func answering(t *testing.T, last *atomic.Uint32) string {
	t.Helper()
	conn, err := net.ListenPacket("udp4", "127.0.0.1:0")
	fatal.If(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	go func() {
		buffer := make([]byte, 4096)
		for {
			n, from, err := conn.ReadFrom(buffer)
			if errors.Is(err, net.ErrClosed) {
				return
			}
			var m dnsmessage.Message
			if err != nil || m.Unpack(buffer[:n]) != nil || len(m.Questions) != 1 {
				continue
			}
			m.Response, m.Additionals = true, nil
			if q := m.Questions[0]; q.Type == dnsmessage.TypeA {
				m.Answers = []dnsmessage.Resource{{
					Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, TTL: 1},
					Body:   &dnsmessage.AResource{A: [4]byte{192, 0, 2, byte(last.Load())}},
				}}
			}
			if answer, err := m.Pack(); err == nil {
				_, _ = conn.WriteTo(answer, from) // the resolver retries
			}
		}
	}()
	return conn.LocalAddr().String()
}

// addresses receives a resolver's results.
type addresses chan<- string

func (a addresses) UpdateState(s resolver.State) error {
	for _, e := range s.Endpoints {
		for _, address := range e.Addresses {
			a <- address.Addr
		}
	}
	for _, address := range s.Addresses {
		a <- address.Addr
	}
	return nil
}

func (addresses) ReportError(error)             {}
func (addresses) NewAddress([]resolver.Address) {}
func (addresses) ParseServiceConfig(string) *serviceconfig.ParseResult {
	return nil
}

// A URL is the user's error, which says what to write.
func TestAURLIsNoAddress(t *testing.T) {
	t.Parallel()
	_, err := (&Settings{Server: "a:9090,http://127.0.0.1:39090/"}).Dial()
	if cli.ExitCode(err) != cli.ExitUsage || !strings.Contains(err.Error(), "drop http://, and give the gRPC address, host:port, such as 127.0.0.1:39090") {
		t.Errorf("%v", err)
	}
	if _, err := (&Settings{Server: "https://setpoint:9090/%41%"}).Dial(); err == nil || !strings.HasSuffix(err.Error(), "such as setpoint:9090/%41%") {
		t.Errorf("with percent signs: %v", err)
	}
	for _, scheme := range []string{"grpc://", "tcp://", "HTTPS://"} {
		if _, err := (&Settings{Server: scheme + "setpoint:9090"}).Dial(); err == nil || !strings.Contains(err.Error(), "drop "+scheme+", and give") {
			t.Errorf("%s: %v", scheme, err)
		}
	}
}

// operations is a service that has no fleets yet, and may tell its version.
type operations struct {
	setpointv1.UnimplementedOperationsServiceServer
	versions []string
}

func (o operations) ListInstances(context.Context, *setpointv1.ListInstancesRequest) (*setpointv1.ListInstancesResponse, error) {
	if o.versions == nil {
		return nil, status.Error(codes.PermissionDenied, "operate")
	}
	all := &setpointv1.ListInstancesResponse{}
	for _, version := range o.versions {
		all.Instances = append(all.Instances, &setpointv1.Instance{Version: version})
	}
	return all, nil
}

// What a server lacks is told with its version, where it tells that.
func TestAnOlderServerIsToldWithItsVersion(t *testing.T) {
	t.Parallel()
	for want, versions := range map[string][]string{
		", the server v0.9.0 and v1.0.0 (":   {"v1.0.0", "v0.9.0", "v1.0.0"},
		"its metric setpoint_build_info and": nil,
	} {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		fatal.If(t, err)
		server := grpc.NewServer()
		setpointv1.RegisterOperationsServiceServer(server, operations{versions: versions})
		go func() { _ = server.Serve(listener) }()
		t.Cleanup(server.Stop)
		err = (&Settings{Server: listener.Addr().String()}).Call(func(conn grpc.ClientConnInterface) error {
			_, err := setpointv1.NewFleetServiceClient(conn).GetFleet(t.Context(), &setpointv1.GetFleetRequest{})
			return err
		})
		if got := cli.Failure(err); !strings.Contains(got, "unknown service setpoint.v1.FleetService; this program is "+cli.Version()) || !strings.Contains(got, want) {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
