package server

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/setpoint-dev/setpoint/server/calls"
)

// ports are those that are served, for callers of one who meant the other; 0: unknown. They are set
// before the server listens.
type ports struct{ grpc, rest int }

func portOf(address net.Addr) int {
	if tcp, ok := address.(*net.TCPAddr); ok {
		return tcp.Port
	}
	return 0
}

// takenForREST is the error of a REST call at the port of gRPC.
func (p *ports) takenForREST() error {
	return wrongPort(codes.InvalidArgument, "gRPC", "REST", p.rest, "rest-address")
}

// takenForGRPC is the error of a gRPC call at the port of REST.
func (p *ports) takenForGRPC() error {
	return wrongPort(codes.Unimplemented, "REST", "gRPC", p.grpc, "grpc-address")
}

func wrongPort(code codes.Code, here, there string, port int, flag string) error {
	where := "another port"
	if port != 0 {
		where = "port " + strconv.Itoa(port)
	}
	return status.Errorf(code, "this is the port of %s; %s is served at %s (--%s)", here, there, where, flag)
}

// refuseGRPC tells callers of gRPC which port is theirs. Without TLS they reach this only where the
// server takes HTTP/2 in plain text.
func (s *Server) refuseGRPC(next http.Handler) http.Handler {
	const grpcType = "application/grpc"
	refuse := s.observer.REST(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := s.ports.takenForGRPC()
		calls.NoteRESTError(r.Context(), err)
		w.Header().Set("Content-Type", grpcType)
		w.Header().Set("Grpc-Status", strconv.Itoa(int(status.Code(err))))
		w.Header().Set("Grpc-Message", status.Convert(err).Message())
	}))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor == 2 && strings.HasPrefix(r.Header.Get("Content-Type"), grpcType) {
			refuse.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// opened is a connection of which the first bytes were read already.
type opened struct {
	net.Conn
	first []byte
}

// Read implements net.Conn.
func (o *opened) Read(b []byte) (int, error) {
	if len(o.first) == 0 {
		return o.Conn.Read(b)
	}
	n := copy(b, o.first)
	o.first = o.first[n:]
	return n, nil
}

// mostOfHTTP1 is how much of a REST call is read at the port of gRPC, in bytes.
const mostOfHTTP1 = 16 << 10

var errHTTP1 = errors.New("the client speaks HTTP/1.1")

// open reads how a client of gRPC begins, before the server writes: a client of REST, which could
// not read that, is told which port is its own. The handshake's deadline bounds it.
func (p *ports) open(conn net.Conn) (net.Conn, error) {
	first := make([]byte, 3) // of PRI * HTTP/2.0, or of a method
	if _, err := io.ReadFull(conn, first); err != nil {
		return nil, err
	}
	o := &opened{conn, first}
	switch string(first) {
	case "GET", "POS", "PUT", "DEL", "HEA", "PAT", "OPT":
	default:
		return o, nil
	}
	r, err := http.ReadRequest(bufio.NewReader(io.LimitReader(o, mostOfHTTP1)))
	if err != nil {
		return nil, err
	}
	// To close a connection with bytes that nobody has read loses the answer.
	_, _ = io.Copy(io.Discard, r.Body)
	body, err := protojson.Marshal(status.Convert(p.takenForREST()).Proto())
	if err == nil {
		_, err = fmt.Fprintf(o, "HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	}
	return nil, errors.Join(errHTTP1, err)
}
