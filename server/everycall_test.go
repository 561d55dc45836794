package server_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/gzip"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/server/servertest"
)

// everyMethod returns the methods of all services that a server has registered, as it says itself.
func everyMethod(t *testing.T, s *servertest.Service) (all []protoreflect.MethodDescriptor) {
	t.Helper()
	stream, err := reflectionv1.NewServerReflectionClient(s.Conn).ServerReflectionInfo(t.Context())
	fatal.If(t, err)
	fatal.If(t, stream.Send(&reflectionv1.ServerReflectionRequest{MessageRequest: &reflectionv1.ServerReflectionRequest_ListServices{}}))
	answer, err := stream.Recv()
	fatal.If(t, err)
	fatal.If(t, stream.CloseSend())
	for _, listed := range answer.GetListServicesResponse().GetService() {
		found, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(listed.GetName()))
		fatal.If(t, err)
		methods := found.(protoreflect.ServiceDescriptor).Methods()
		for i := range methods.Len() {
			all = append(all, methods.Get(i))
		}
	}
	if len(all) < 30 {
		t.Fatalf("only %d methods", len(all))
	}
	return all
}

func fullMethod(m protoreflect.MethodDescriptor) string {
	return "/" + string(m.Parent().FullName()) + "/" + string(m.Name())
}

// callOnce calls any method with one encoded message, takes at most one response, and ends the call.
func callOnce(ctx context.Context, conn *grpc.ClientConn, m protoreflect.MethodDescriptor, data []byte, more ...grpc.CallOption) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var answer []byte
	options := append([]grpc.CallOption{grpc.ForceCodecV2(servertest.RawCodec{}), grpc.MaxCallRecvMsgSize(256 << 20)}, more...)
	if !m.IsStreamingClient() && !m.IsStreamingServer() {
		return conn.Invoke(ctx, fullMethod(m), &data, &answer, options...)
	}
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, fullMethod(m), options...)
	if err != nil {
		return err
	}
	if err := stream.SendMsg(&data); err != nil && err != io.EOF {
		return err
	}
	_ = stream.CloseSend()
	return stream.RecvMsg(&answer)
}

// filled sets all texts in a message, in messages in it, and in one element of each list.
func filled(m protoreflect.Message, text func(protoreflect.FieldDescriptor) string, depth int) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		value := f
		if f.IsMap() {
			value = f.MapValue()
		}
		var v protoreflect.Value
		switch {
		case value.Message() != nil && depth > 0 && value.Message().ParentFile().Package() != "google.protobuf":
			inner := dynamicpb.NewMessage(value.Message())
			filled(inner, text, depth-1)
			v = protoreflect.ValueOfMessage(inner)
		case value.Kind() == protoreflect.StringKind:
			v = protoreflect.ValueOfString(text(f))
		default:
			continue
		}
		switch {
		case f.IsMap():
			if f.MapKey().Kind() == protoreflect.StringKind {
				m.Mutable(f).Map().Set(protoreflect.ValueOfString(text(f)).MapKey(), v)
			}
		case f.IsList():
			m.Mutable(f).List().Append(v)
		default:
			m.Set(f, v)
		}
	}
}

// heapInUse returns the bytes of all that is reachable.
func heapInUse() int64 {
	var stats runtime.MemStats
	for range 3 { // pools take two collections
		runtime.GC()
	}
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// Whatever calls are made, with texts that never were seen before, nothing of them is left when they
// have ended: of every method that is registered, of every route, and of every page.
func TestCallsThatHaveEndedLeaveNothing(t *testing.T) {
	measures(t)
	const (
		many, length = 400, 450
		mayStay      = many * length * 3 / 4
	)
	s := servertest.Start(t, servertest.WithPage)
	var serial atomic.Int64
	next := func() string {
		text := fmt.Sprintf("%08d", serial.Add(1))
		return text + strings.Repeat("x", length-len(text))
	}
	target := func() string { return "clusters/c/namespaces/n/targets/" + next()[:250] }
	// Both what no field may contain, and what the names of targets may.
	texts := func(f protoreflect.FieldDescriptor) string {
		switch f.Name() {
		case "target", "name", "parent":
			if serial.Load()%2 == 0 {
				return target()
			}
		}
		return next()
	}
	type door struct {
		name string
		call func() error
	}
	var doors []door
	rest := func(name string, method string, path func() string, body func() string) door {
		return door{name, func() error {
			req, err := http.NewRequestWithContext(t.Context(), method, s.URL+path(), strings.NewReader(body()))
			if err != nil {
				return err
			}
			if strings.Contains(req.URL.Path, ":watch") { // else it does not end
				req.URL.RawQuery = "resumeToken=" + next()
			}
			resp, err := s.HTTP.Do(req)
			if err != nil {
				return err
			}
			defer func() { _ = resp.Body.Close() }()
			_, err = io.Copy(io.Discard, resp.Body)
			return err
		}}
	}
	none := func() string { return "" }
	for _, m := range everyMethod(t, s) {
		message := func() *dynamicpb.Message {
			req := dynamicpb.NewMessage(m.Input())
			filled(req, texts, 3)
			return req
		}
		doors = append(doors, door{fullMethod(m), func() error {
			data, err := proto.Marshal(message())
			if err != nil {
				return err
			}
			for {
				err := callOnce(t.Context(), s.Conn, m, data)
				if status.Code(err) != codes.ResourceExhausted || len(data) > 1<<10 { // else the end of those before is on its way
					return nil
				}
			}
		}})
		routes := servertest.Routes(m, "clusters/{parent}/namespaces/n/targets/{target}")
		if len(routes) == 0 {
			continue
		}
		b := routes[0]
		body := none
		if b.Body {
			body = func() string {
				text, err := protojson.Marshal(message())
				if err != nil {
					panic(err)
				}
				return string(text)
			}
		}
		doors = append(doors, rest(b.Method+" "+b.Path, b.Method, func() string {
			path := strings.ReplaceAll(b.Path, "{target}", next()[:250])
			path = strings.ReplaceAll(path, "{parent}", next()[:250])
			return path + "?pageToken=" + next()
		}, body))
	}
	for _, path := range []string{"/", "/ui/", "/docs/", "/openapi.json", "/healthz", "/readyz", "/v1/", "/v1/integrations/datadog/clusters/", "/" + "metrics"} {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			doors = append(doors, rest(method+" "+path, method, func() string { return path + next() + "?q=" + next() }, next))
		}
	}
	for _, d := range doors {
		t.Run(strings.ReplaceAll(strings.Trim(d.name, "/"), "/", "_"), func(t *testing.T) {
			round := func() {
				var calling sync.WaitGroup
				for range 4 {
					calling.Go(func() {
						for range many / 4 {
							if err := d.call(); err != nil {
								t.Error(err)
								return
							}
						}
					})
				}
				calling.Wait()
			}
			round() // what is kept up to a bound is full then
			before := heapInUse()
			round()
			var stays int64
			for range 20 { // the end of the last may be on its way
				if stays = heapInUse() - before; stays <= mayStay {
					return
				}
				time.Sleep(100 * time.Millisecond)
			}
			t.Errorf("%d bytes are left of %d calls with texts of %d bytes", stays, many, length)
		})
	}
}

// No exempt call takes a message that is larger than a name.
func TestMessagesOfExemptCallsAreShort(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t)
	tried := 0
	for _, m := range everyMethod(t, s) {
		package_ := string(m.ParentFile().Package())
		if !slices.Contains([]string{"grpc.health.v1", "grpc.reflection.v1", "grpc.reflection.v1alpha"}, package_) {
			continue
		}
		tried++
		// An unknown field, which every message may have.
		if err := callOnce(t.Context(), s.Conn, m, append([]byte{0xfa, 0x7f, 0x80, 0x10}, make([]byte, 2<<10)...)); status.Code(err) != codes.ResourceExhausted {
			t.Errorf("%s takes 2 KiB: %v", fullMethod(m), err)
		}
	}
	if tried != 5 {
		t.Errorf("%d exempt methods, want 5", tried)
	}
}

// 15 kB of gzip are 15 MiB of zeros, before anything of ours sees them, and nothing counts them: no
// method takes compressed messages, and nobody registers another compression for this process.
func TestNoMethodTakesCompressedMessages(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"br", "deflate", "lz4", "s2", "snappy", "x-snappy-framed", "zstd"} {
		if encoding.GetCompressor(name) != nil {
			t.Errorf("%s is registered, and the server would take it: see noCompression", name)
		}
	}
	s := servertest.Start(t)
	for _, m := range everyMethod(t, s) {
		if m.FullName() == "setpoint.v1.RecommendationService.StreamRecommend" {
			continue // below: its answers have the errors
		}
		err := callOnce(t.Context(), s.Conn, m, append([]byte{0xfa, 0x7f, 0x80, 0x80, 0x40}, make([]byte, 1<<20)...), grpc.UseCompressor(gzip.Name))
		if !strings.Contains(status.Convert(err).Message(), "without compression") || status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s: %v", fullMethod(m), err)
		}
	}
	stream, err := setpointv1.NewRecommendationServiceClient(s.Conn).StreamRecommend(t.Context(), grpc.UseCompressor(gzip.Name))
	if err == nil {
		err = stream.Send(&setpointv1.StreamRecommendRequest{Id: "x"})
	}
	fatal.If(t, err)
	if answer, err := stream.Recv(); err != nil || answer.GetError().GetCode() != int32(codes.InvalidArgument) || !strings.Contains(answer.GetError().GetMessage(), "without compression") {
		t.Errorf("a stream's answer: %v, %v", answer, err)
	}
}

// Every method counts for its caller's rate, streams of one message, too, over gRPC and REST.
func TestEveryMethodIsLimitedByRate(t *testing.T) {
	t.Parallel()
	s := servertest.Start(t, func(su *servertest.Setup) {
		su.Options.Limits.Identity.Rate, su.Options.Limits.Identity.Burst = 0.001, 1
	})
	s.Ask(t, http.MethodGet, "/v1/"+servertest.Web, nil) // the one that is allowed
	for _, m := range everyMethod(t, s) {
		switch {
		case strings.HasPrefix(fullMethod(m), "/grpc."): // health and reflection
		case m.IsStreamingClient(), m.Name() == "StreamIsActive": // of them each message or evaluation counts
		default:
			if err := callOnce(t.Context(), s.Conn, m, nil); status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "rate limit") {
				t.Errorf("%s: %v", fullMethod(m), err)
				continue // over REST a watch would not end
			}
			for _, route := range servertest.Routes(m, servertest.Web) {
				body := ""
				if route.Body {
					body = "{}"
				}
				if a := s.Ask(t, route.Method, route.Path, body); a.Code != http.StatusTooManyRequests || a.Header.Get("Retry-After") == "" {
					t.Errorf("%s %s: %d %s", route.Method, route.Path, a.Code, a.Raw)
				}
			}
		}
	}
}

// A call whose message can't be read counts for its caller's rate like others, over gRPC and REST, and also if the caller makes
// no others.
func TestMessagesThatCantBeReadCountForTheRate(t *testing.T) {
	t.Parallel()
	const limited = servertest.TestPolicy + "limits: [{requestsPerSecond: 0.001, burst: 1}]\n"
	start := func(t *testing.T) *servertest.Service {
		return servertest.NewTenancy(t, map[string]string{servertest.AdminToken: "admin"}, limited).Service
	}
	for _, m := range everyMethod(t, servertest.Start(t)) {
		if strings.HasPrefix(fullMethod(m), "/grpc.") || m.IsStreamingServer() { // streams are charged before, or by their messages
			continue
		}
		t.Run(fullMethod(m), func(t *testing.T) {
			t.Parallel()
			s := start(t)
			for i, want := range []codes.Code{codes.InvalidArgument, codes.ResourceExhausted} {
				if err := callOnce(servertest.As(t.Context(), servertest.AdminToken), s.Conn, m, []byte{0xff}); status.Code(err) != want {
					t.Errorf("message %d: %v, want %s", i+1, err, want)
				}
			}
		})
		for _, route := range servertest.Routes(m, servertest.Web) {
			if route.Body {
				unreadOverREST(t, start, route.Method, route.Path)
			}
		}
	}
	unreadOverREST(t, start, http.MethodPost, "/v1/integrations/datadog/clusters/demo")
}

func unreadOverREST(t *testing.T, start func(*testing.T) *servertest.Service, method, path string) {
	t.Run(method+" "+path, func(t *testing.T) {
		t.Parallel()
		s := start(t)
		for i, want := range []int{http.StatusBadRequest, http.StatusTooManyRequests} {
			r := s.Request(t, method, path, strings.NewReader(`{"a"`))
			r.Header.Set("Authorization", "Bearer "+servertest.AdminToken)
			if a := s.MustSend(t, r); a.Code != want {
				t.Errorf("body %d: %d %s, want %d", i+1, a.Code, a.Raw, want)
			}
		}
	})
}
