package server

import (
	"crypto/tls"
	"io"
	stdlog "log"
	"math"
	"net"
	"net/http"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"

	"github.com/setpoint-dev/setpoint/internal/errorlog"
	"github.com/setpoint-dev/setpoint/server/connections"
	"github.com/setpoint-dev/setpoint/server/unfinished"
)

// edgeCredentials secure connections, if TLS is configured, and count the frames on them.
type edgeCredentials struct {
	credentials.TransportCredentials
	ports *ports
	// failed logs handshakes that fail, as an http.Server does.
	failed *stdlog.Logger
}

func newEdgeCredentials(config *tls.Config, p *ports, failed *stdlog.Logger) credentials.TransportCredentials {
	if config == nil {
		return edgeCredentials{insecure.NewCredentials(), p, failed}
	}
	config = config.Clone()
	// Clients of REST get through the handshake, to be told which port is theirs.
	config.NextProtos = []string{"h2", "http/1.1"}
	return edgeCredentials{credentials.NewTLS(config), p, failed}
}

// ServerHandshake implements credentials.TransportCredentials.
func (c edgeCredentials) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	clear, info, err := c.TransportCredentials.ServerHandshake(conn)
	if err != nil {
		c.failed.Printf("%s of gRPC from %s: %v", errorlog.Handshake, conn.RemoteAddr(), err)
	} else {
		clear, err = c.ports.open(clear)
	}
	if counted := unfinished.ConnOf(conn.RemoteAddr()); counted != nil && err == nil {
		clear = counted.Frames(clear)
	}
	return clear, info, err
}

// Clone implements credentials.TransportCredentials.
func (c edgeCredentials) Clone() credentials.TransportCredentials {
	return edgeCredentials{c.TransportCredentials.Clone(), c.ports, c.failed}
}

// serveREST serves REST, with TLS if configured.
func (s *Server) serveREST(listener net.Listener) error {
	if access := s.options.Access; s.options.TLS == nil && (access == nil || access.Authenticator.AllowsAnonymous()) {
		// Otherwise a browser finds no certificate for the name, or has no credentials.
		s.http.Handler = connections.GuardHost(listener.Addr(), s.options.AllowedHosts, s.http.Handler, s.observer.REST(http.HandlerFunc(refuseHost)))
	}
	if s.options.TLS == nil {
		return s.http.Serve(listener)
	}
	return s.http.ServeTLS(listener, "", "")
}

// restTimeout limits a REST call with its body and its answer, but for streams: longer than the server's own limit of the call,
// which is to be answered. The end of ReadTimeout counts as the caller's leaving.
func restTimeout(own time.Duration) time.Duration { return max(time.Minute, own+10*time.Second) }

// Keepalive of gRPC connections.
const (
	// handshakeTimeout limits the HTTP/2 handshake of a new connection.
	handshakeTimeout = 10 * time.Second
	// pingAfter is how long a connection may be silent before it is pinged, and pingTimeout
	// how long the peer has to respond.
	pingAfter   = time.Minute
	pingTimeout = 20 * time.Second
	// leastPingInterval is the minimum time between two pings of a client, even without calls.
	leastPingInterval = 10 * time.Second
	// idleTimeout is when a connection without calls is closed.
	idleTimeout = 15 * time.Minute
)

// grpcWorkers is how many goroutines of gRPC serve one call after the other. A new goroutine for
// each call starts with a small stack, and growing it takes longer than the decision.
const grpcWorkers = 128

// idleWorkers limits the workers that wait for a message of a stream: about as many as there are swaps
// that return from the store together. The collector shrinks the stacks of those that wait for long.
const idleWorkers = 256

// connectionOptions limit what a gRPC connection may use.
func connectionOptions(o *Options) []grpc.ServerOption {
	parameters := keepalive.ServerParameters{
		MaxConnectionIdle: idleTimeout, Time: pingAfter, Timeout: pingTimeout,
		MaxConnectionAge: o.MaxConnectionAge, MaxConnectionAgeGrace: o.ConnectionGrace,
	}
	options := []grpc.ServerOption{
		grpc.NumStreamWorkers(grpcWorkers),
		grpc.ConnectionTimeout(handshakeTimeout),
		grpc.KeepaliveParams(parameters),
		grpc.RPCDecompressor(noCompression{}), //nolint:staticcheck // A registered one is the whole process's, and libraries register theirs.
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: leastPingInterval, PermitWithoutStream: true}),
	}
	if n := o.MaxCallsPerConnection; n > 0 && n <= math.MaxUint32 {
		options = append(options, grpc.MaxConcurrentStreams(uint32(n)))
	}
	if n := o.MaxHeaderBytes; n > 0 && n <= math.MaxUint32 {
		options = append(options, grpc.MaxHeaderListSize(uint32(n)))
	}
	return options
}

// noCompression refuses gzip, which a library of this process registers: what a message expands to
// is held by none of the bounds on what is received, and 15 kB become 15 MiB.
type noCompression struct{}

// Type implements grpc.Decompressor.
func (noCompression) Type() string { return "gzip" }

// Do implements grpc.Decompressor. What it returns is no message of any type, so the caller learns of its own fault: an error
// would be one of the service to gRPC, which sends it itself.
func (noCompression) Do(io.Reader) ([]byte, error) { return []byte{0xff}, nil }
