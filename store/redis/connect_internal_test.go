package redis

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/process"
	"github.com/setpoint-dev/setpoint/internal/testpki"
	"github.com/setpoint-dev/setpoint/store"
	"github.com/setpoint-dev/setpoint/store/redis/redistest"
)

// Of any kind of Redis no connection is used that a load balancer may have forgotten: AWS' does after 350 s.
func TestConnectionsThatWereIdleAreNotUsed(t *testing.T) {
	u := (&Options{Addresses: []string{"redis:6379"}, MasterName: "prod"}).universal()
	for kind, idle := range map[string]time.Duration{
		"server": u.Simple().ConnMaxIdleTime, "Sentinel": u.Failover().ConnMaxIdleTime, "Cluster": u.Cluster().ConnMaxIdleTime,
	} {
		if idle <= 0 || idle >= 350*time.Second {
			t.Errorf("%s: %s", kind, idle)
		}
	}
}

// A server that is not trusted is tried again at once if there are new secrets, and only then.
func TestAnUntrustedServerIsTriedAgainWithNewSecrets(t *testing.T) {
	t.Parallel()
	of := testpki.New("another CA")
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{of.Issue("server").TLS()}, MinVersion: tls.VersionTLS12})
	fatal.If(t, err)
	defer func() { _ = listener.Close() }()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				_ = conn.(*tls.Conn).HandshakeContext(context.Background())
				_ = conn.Close()
			}()
		}
	}()
	for name, news := range map[string]bool{"new secrets": true, "none": false} {
		trusted, looked := testpki.New("a CA").Pool(), 0
		o := Options{Timeout: time.Minute, Secrets: Secrets{
			TLS: func(host string) *tls.Config {
				return &tls.Config{RootCAs: trusted, ServerName: host, MinVersion: tls.VersionTLS12}
			},
			Renew: func(context.Context) bool {
				if looked++; news {
					trusted = of.Pool()
				}
				return news
			},
		}}
		conn, err := o.dialer()(t.Context(), "tcp", listener.Addr().String())
		if err == nil {
			_ = conn.Close()
		}
		var dial *net.OpError
		var authority x509.UnknownAuthorityError
		if looked != 1 || news != (err == nil) || !news && (!errors.As(err, &dial) || dial.Op != "dial" || !errors.As(err, &authority)) {
			t.Errorf("%s: looked %d times, %v", name, looked, err)
		}
	}
}

// Connections that Redis has closed meanwhile, as one that starts anew, cost no command, under TLS either.
func TestClosedConnectionsAreNotUsed(t *testing.T) {
	t.Parallel()
	const connections = 12
	secure := redistest.NewTLS(t)
	for name, config := range map[string]redistest.Config{"plain": {}, "TLS": {TLS: secure}} {
		server := redistest.Start(t, config)
		s := openOn(t, server.URL(), redistest.Prefix(t), func(o *Options) {
			o.TLS, o.PoolSize, o.BreakerPause = nil, connections, time.Hour
			if config.TLS != nil {
				o.TLS = secure.Config()
			}
		})
		admin := server.Client(t)
		remove := func() {
			if _, err := s.Delete(t.Context(), swapped); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		fatal.If(t, admin.Do(t.Context(), "client", "pause", 60_000, "write").Err())
		var removing sync.WaitGroup
		for range connections {
			removing.Go(remove)
		}
		for s.Stats().Connections < connections {
			time.Sleep(time.Millisecond)
		}
		fatal.If(t, admin.Do(t.Context(), "client", "unpause").Err())
		removing.Wait()
		fatal.If(t, admin.Do(t.Context(), "client", "kill", "type", "normal", "skipme", "yes").Err())
		remove()
		if trips := s.Stats().BreakerTrips; trips > 0 {
			t.Errorf("%s: the breaker opened %d times", name, trips)
		}
	}
}

// A command that is refused for its password is sent again at once if there is a new one, and only
// then. Nothing else here looks for it.
func TestARefusedPasswordIsTriedAgainWithNewSecrets(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Config{Directives: []string{"user default off", "user setpoint on >second ~* +@all"}})
	for name, news := range map[string]bool{"new secrets": true, "none": false} {
		var password atomic.Value
		var looked atomic.Int32
		password.Store("first")
		s := openOn(t, "redis://setpoint@"+server.Addr(), redistest.Prefix(t), func(o *Options) {
			o.Secrets = Secrets{
				Password: func() string { return password.Load().(string) },
				Renew: func(context.Context) bool {
					looked.Add(1)
					if news {
						password.Store("second")
					}
					return news
				},
			}
		})
		_, err := s.CompareAndSwap(t.Context(), store.Swap{Key: swapped, Value: []byte("value")})
		if looked.Load() != 1 || news != (err == nil) || !news && !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("%s: looked %d times, %v", name, looked.Load(), err)
		}
	}
}

// A URL that asks for TLS where there is none, or for none where there is, is told as that: of itself the
// one is a deadline and the other an end of file.
func TestAURLOfTheOtherKindIsTold(t *testing.T) {
	t.Parallel()
	plain := redistest.Start(t, redistest.Config{})
	secure := redistest.Start(t, redistest.Config{TLS: redistest.NewTLS(t)})
	for url, want := range map[string]string{
		"rediss://" + plain.Addr(): "no answer to the TLS handshake, as of a port without TLS, whose URL is redis://",
		"redis://" + secure.Addr(): "as one does at a port with TLS, whose URL is rediss://",
	} {
		o, err := ParseURL(url)
		fatal.If(t, err)
		o.Timeout = 200 * time.Millisecond
		s, err := New(o)
		fatal.If(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), process.Patience)
		err = s.Ping(ctx)
		cancel()
		if closed := s.Close(); closed != nil {
			t.Error(closed)
		}
		if err == nil || !errors.Is(err, store.ErrUnavailable) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", url, err)
		}
	}
}

// A server without the command AUTH, as one of which an operator has renamed it, quotes the password.
func TestErrorsDoNotQuoteThePassword(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	fatal.If(t, err)
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer func() { _ = conn.Close() }()
				commands := make([]byte, 64<<10)
				for {
					n, err := conn.Read(commands)
					if err != nil {
						return
					}
					for range bytes.Count(commands[:n], []byte("*")) {
						_, _ = fmt.Fprint(conn, "-ERR unknown command 'AUTH', with args beginning with: 'hunter2' \r\n")
					}
				}
			})
		}
	})
	s, err := New(Options{Addresses: []string{listener.Addr().String()}, Password: "hunter2"})
	fatal.If(t, err)
	defer func() { _ = s.Close(); _ = listener.Close(); serving.Wait() }()
	_, timeErr := s.Time(t.Context())
	for _, err := range []error{s.Ping(t.Context()), timeErr} {
		if err == nil || !strings.Contains(err.Error(), "unknown command") || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("got %v", err)
		}
		if !errors.Is(err, store.ErrUnavailable) {
			t.Errorf("%v is not that the store is away", err)
		}
	}
}
