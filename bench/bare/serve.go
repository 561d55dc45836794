package bare

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/redis/go-redis/v9"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
)

// Config is what to serve.
type Config struct {
	// Answer is an encoded RecommendResponse.
	Answer []byte
	// Redis is the address of the server to write to; empty: none.
	Redis string
	// ValueBytes is how many bytes are written for each request.
	ValueBytes int
}

// Addresses are the addresses of the servers.
type Addresses struct{ GRPC, REST string }

// collectorPercent is the service's setting for a small heap.
const collectorPercent = 1000

// Serve reads a Config from in, writes Addresses to out, both as JSON, and serves until
// the context ends.
func Serve(ctx context.Context, in io.Reader, out io.Writer) error {
	debug.SetGCPercent(collectorPercent)
	var config Config
	if err := json.NewDecoder(in).Decode(&config); err != nil {
		return err
	}
	s, err := newService(ctx, config)
	if err != nil {
		return err
	}
	rpc, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	rest, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := grpc.NewServer(grpc.MaxRecvMsgSize(16 << 20))
	setpointv1.RegisterRecommendationServiceServer(server, s)
	pages := &http.Server{Handler: s, ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = pages.Serve(rest) }()
	go func() {
		<-ctx.Done()
		server.Stop()
		_ = pages.Close()
	}()
	if err := json.NewEncoder(out).Encode(Addresses{rpc.Addr().String(), rest.Addr().String()}); err != nil {
		return err
	}
	return server.Serve(rpc)
}

func newService(ctx context.Context, config Config) (*service, error) {
	s := &service{answer: &setpointv1.RecommendResponse{}, script: redis.NewScript(Script), value: make([]byte, config.ValueBytes)}
	if err := proto.Unmarshal(config.Answer, s.answer); err != nil {
		return nil, err
	}
	if config.Redis != "" {
		s.redis = redis.NewClient(&redis.Options{Addr: config.Redis})
		return s, s.script.Load(ctx, s.redis).Err()
	}
	return s, nil
}
