//go:build unix

package redistest

import (
	"context"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/setpoint-dev/setpoint/internal/fatal"
)

// Config configures a test's servers. With the zero Config they persist nothing and
// require no password.
type Config struct {
	// Directives are lines of redis.conf, like "maxmemory 2mb" or "user app on >secret
	// ~app:* +@all". They override the package's own; port and bind belong to the
	// package.
	Directives []string
	// Password is that of the default user; empty: none needed.
	Password string
	// SentinelPassword is the same for the sentinels of StartSentinel.
	SentinelPassword string
	// TLS closes the plain port. All servers use the same files.
	TLS *TLS
	// Calm makes a Cluster or Sentinel regard a server as down after a minute, not a
	// second, so that a busy machine does not look like a failure while the test
	// expects none; see Hasten.
	Calm bool
}

// calmAfter is how long a server of a calm Config may be unresponsive.
const calmAfter = time.Minute

// Server is one Redis server. It keeps its address and its files when it restarts.
type Server struct {
	t  testing.TB
	in *instance
}

// Start starts a server, which stops with the test.
func Start(t testing.TB, cfg Config) *Server {
	t.Helper()
	Require(t)
	in, err := newInstance(spec{Config: cfg})
	fatal.If(t, err)
	return own(t, in)
}

// own returns the Server of an instance that stops with the test.
func own(t testing.TB, in *instance) *Server {
	t.Cleanup(in.remove)
	return borrow(t, in)
}

// borrow returns the Server of an instance that outlives the test.
func borrow(t testing.TB, in *instance) *Server {
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("log of redis-server %s:\n%s", in.addr(), in.log(0))
		}
	})
	return &Server{t: t, in: in}
}

// each makes Servers of instances, by own or borrow.
func each(t testing.TB, instances []*instance, server func(testing.TB, *instance) *Server) []*Server {
	servers := make([]*Server, len(instances))
	for i, in := range instances {
		servers[i] = server(t, in)
	}
	return servers
}

// Addr returns host and port.
func (s *Server) Addr() string { return s.in.addr() }

// URL returns the server's URL, with the Password, and rediss: with TLS.
func (s *Server) URL() string { return clientURL(s.in.Config, s) }

// clientURL returns a URL with the addresses of all servers.
func clientURL(cfg Config, servers ...*Server) string {
	u := url.URL{Scheme: "redis", Host: strings.Join(addrs(servers), ",")}
	if cfg.TLS != nil {
		u.Scheme = "rediss"
	}
	if cfg.Password != "" {
		u.User = url.UserPassword("", cfg.Password)
	}
	return u.String()
}

func addrs(servers []*Server) []string {
	list := make([]string, len(servers))
	for i, s := range servers {
		list[i] = s.Addr()
	}
	return list
}

// Client returns a client with all rights, whatever users and passwords the Config
// sets. It does not retry, and is closed when t ends.
func (s *Server) Client(t testing.TB) *redis.Client {
	t.Helper()
	client := redis.NewClient(s.in.options())
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Errorf("Close of the client of %s: %v", s.Addr(), err)
		}
	})
	return client
}

// Kill kills the server by SIGKILL, like a crash, and waits for its exit. It does
// nothing if the server is not running.
func (s *Server) Kill() { s.in.kill() }

// Stop stops the server by SHUTDOWN, which saves what the server is configured to save.
func (s *Server) Stop() {
	s.t.Helper()
	s.check(s.in.stop())
}

// Restart stops the server if it runs, and starts it at the same address. It returns
// once the server responds with its data loaded.
func (s *Server) Restart() {
	s.t.Helper()
	s.check(s.in.stop())
	s.check(s.in.start())
}

// Pause suspends the process: connections stay open but are not served. Kill, Stop and
// Restart work on a paused server.
func (s *Server) Pause() {
	s.t.Helper()
	s.check(s.in.pause())
}

// Resume ends a Pause.
func (s *Server) Resume() {
	s.t.Helper()
	s.check(s.in.resume())
}

// Dir returns the server's working directory, where its data files are.
func (s *Server) Dir() string { return s.in.dir }

// Pid returns the process ID, 0 if the server does not run.
func (s *Server) Pid() int { return s.in.pid() }

// role returns "master" or "slave", or "" if the server does not respond.
func (s *Server) role() string {
	s.t.Helper()
	if !s.in.answers() {
		return ""
	}
	client := redis.NewClient(s.in.options())
	defer client.Close()
	var role string
	// A server that a sentinel gives another role closes its connections.
	s.check(eventually(func(ctx context.Context) error {
		fields, err := info(ctx, client, "replication")
		role = fields["role"]
		return err
	}))
	return role
}

// withRole returns the servers that respond and report the role.
func withRole(servers []*Server, role string) []*Server {
	var found []*Server
	for _, s := range servers {
		if s.role() == role {
			found = append(found, s)
		}
	}
	return found
}

func (s *Server) check(err error) {
	s.t.Helper()
	fatal.If(s.t, err)
}
