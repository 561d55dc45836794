//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/test/e2e/hostile"
)

const (
	recommendMethod = setpointv1.RecommendationService_Recommend_FullMethodName
	batchMethod     = setpointv1.RecommendationService_BatchRecommend_FullMethodName
	streamMethod    = setpointv1.RecommendationService_StreamRecommend_FullMethodName
)

// body is a request in both forms. A form that does not exist is nil.
type body struct{ wire, json []byte }

// carrier is a way to request a recommendation. send returns the size of the request, and the
// answer.
type carrier struct {
	name string
	send func(ctx context.Context, s *site, b body) (sent int, err error)
}

func carriers() []carrier {
	return []carrier{
		{"grpc", sendUnary}, {"batch", sendBatch}, {"stream", sendStream}, {"rest", sendREST}, {"rest-batch", sendRESTBatch},
	}
}

// dial opens a connection of its own, which takes answers of any size.
func (s *site) dial(options ...grpc.DialOption) (*grpc.ClientConn, error) {
	return grpc.NewClient(s.grpc, append([]grpc.DialOption{
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(1 << 30)),
	}, options...)...)
}

func (s *site) asHonest(ctx context.Context) context.Context { return withToken(ctx, s.honestToken) }

func withToken(ctx context.Context, token string) context.Context {
	if token == "" {
		return ctx
	}
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
}

func sendUnary(ctx context.Context, s *site, b body) (int, error) {
	return invoke(ctx, s, recommendMethod, b.wire)
}

func invoke(ctx context.Context, s *site, method string, data []byte) (int, error) {
	conn, err := s.dial()
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	return len(data), conn.Invoke(s.asHonest(ctx), method, &hostile.Raw{Data: data}, &hostile.Raw{}, grpc.ForceCodec(hostile.RawCodec{}))
}

// field returns a field that holds bytes.
func field(number protowire.Number, data []byte) []byte {
	return append(protowire.AppendVarint(protowire.AppendTag(nil, number, protowire.BytesType), uint64(len(data))), data...)
}

func sendBatch(ctx context.Context, s *site, b body) (int, error) {
	sent, answer, err := batch(ctx, s, field(1, b.wire))
	if err != nil {
		return sent, err
	}
	var results setpointv1.BatchRecommendResponse
	if err := proto.Unmarshal(answer, &results); err != nil || len(results.GetResults()) != 1 {
		return sent, fmt.Errorf("%d results, %w", len(results.GetResults()), err)
	}
	return sent, status.ErrorProto(results.GetResults()[0].GetError())
}

// batch sends a batch, and returns the answer.
func batch(ctx context.Context, s *site, data []byte) (int, []byte, error) {
	conn, err := s.dial()
	if err != nil {
		return 0, nil, err
	}
	defer conn.Close()
	answer := &hostile.Raw{}
	err = conn.Invoke(s.asHonest(ctx), batchMethod, &hostile.Raw{Data: data}, answer, grpc.ForceCodec(hostile.RawCodec{}))
	return len(data), answer.Data, err
}

var bothWays = &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}

func sendStream(ctx context.Context, s *site, b body) (int, error) {
	conn, err := s.dial()
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	stream, err := conn.NewStream(s.asHonest(ctx), bothWays, streamMethod, grpc.ForceCodec(hostile.RawCodec{}))
	if err != nil {
		return 0, err
	}
	data := streamed("1", b.wire)
	_ = stream.SendMsg(&hostile.Raw{Data: data}) // what is wrong is told by what is received
	_ = stream.CloseSend()
	var answer hostile.Raw
	if err := stream.RecvMsg(&answer); err != nil {
		return len(data), err
	}
	var result setpointv1.StreamRecommendResponse
	if err := proto.Unmarshal(answer.Data, &result); err != nil {
		return len(data), err
	}
	return len(data), status.ErrorProto(result.GetError())
}

// streamed is a message of a stream.
func streamed(id string, request []byte) []byte {
	return append(field(1, []byte(id)), field(2, request)...)
}

func sendREST(ctx context.Context, s *site, b body) (int, error) {
	return post(ctx, s, "/v1/"+hostileTarget+":recommend", b.json)
}

func sendRESTBatch(ctx context.Context, s *site, b body) (int, error) {
	if len(b.json) == 0 {
		return 0, nil
	}
	var text bytes.Buffer
	text.WriteString(`{"requests":[{"target":"` + hostileTarget + `",`)
	text.Write(b.json[1:])
	text.WriteString("]}")
	return post(ctx, s, "/v1/targets:batchRecommend", text.Bytes())
}

// post makes a REST call on a connection of its own. The error is a status, as over gRPC.
func post(ctx context.Context, s *site, path string, text []byte, headers ...string) (int, error) {
	return len(text), s.rested(ctx, http.MethodPost, path, text, headers...)
}

func (s *site) rested(ctx context.Context, method, path string, text []byte, headers ...string) error {
	request, err := http.NewRequestWithContext(ctx, method, "http://"+s.rest+path, bytes.NewReader(text))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	if s.honestToken != "" {
		request.Header.Set("Authorization", "Bearer "+s.honestToken)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	// It does not ask for the end of the connection: then net/http ends it at once after an answer that comes before all is
	// sent, and most of these are lost on their way.
	client := &http.Client{Transport: &http.Transport{DisableCompression: true}}
	defer client.CloseIdleConnections()
	return answered(client.Do(request))
}

// answered reads a REST answer. The error is a status, as over gRPC.
func answered(response *http.Response, err error) error {
	if err != nil {
		return status.Error(codes.Unavailable, err.Error())
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return status.Error(codes.Unavailable, err.Error())
	}
	if response.StatusCode == http.StatusOK {
		return nil
	}
	type problem struct {
		Code    codes.Code
		Message string
	}
	var said struct {
		problem
		Error problem // a stream's
	}
	if json.Unmarshal(text, &said) == nil {
		for _, p := range []problem{said.problem, said.Error} {
			if p.Code != codes.OK {
				return status.Error(p.Code, p.Message)
			}
		}
	}
	return status.Error(codes.Unknown, response.Status)
}

// codeOf names the code of an answer.
func codeOf(err error) string { return status.Code(err).String() }

// Targets of the attacker and its request, which an honest caller sends, too.
const hostileTarget = "clusters/hostile/namespaces/shop/targets/web"

// requestFor returns a small request: a queue of ten for each of three replicas, and a few
// more.
func requestFor(target string) *setpointv1.RecommendRequest {
	return &setpointv1.RecommendRequest{
		Target: target,
		Spec: &setpointv1.HorizontalPodAutoscalerSpec{
			MinReplicas: proto.Int32(1), MaxReplicas: 100,
			Metrics: []*setpointv1.MetricSpec{{Type: "External", External: &setpointv1.ExternalMetricSource{
				Metric: &setpointv1.MetricIdentifier{Name: "queue-depth"},
				Target: &setpointv1.MetricTarget{Type: "AverageValue", AverageValue: proto.String("10")},
			}}},
		},
		Scale:           &setpointv1.Scale{SpecReplicas: 3},
		ExternalMetrics: []*setpointv1.ExternalMetric{{Metric: &setpointv1.MetricIdentifier{Name: "queue-depth"}, Value: "50"}},
	}
}

// bodyOf returns a request in both forms; that of REST has its target in the path.
func bodyOf(request *setpointv1.RecommendRequest) body {
	data, err := proto.Marshal(request)
	if err != nil {
		panic(err) // a request of ours
	}
	request = proto.CloneOf(request)
	request.Target = ""
	text, err := protojson.Marshal(request)
	if err != nil {
		panic(err)
	}
	return body{data, text}
}

// wave sends a request by a carrier, one after the other, until it was sent as often as is
// usual, or the time is over.
func wave(c carrier, make func() body) func(context.Context, *scene) error {
	return func(ctx context.Context, s *scene) error {
		b := make()
		for range s.times {
			began := time.Now()
			sent, err := c.send(ctx, s.site, b)
			if sent == 0 {
				return err
			}
			s.sent(1, sent)
			s.met.Add(codeOf(err))
			s.met.AddAll("ms", int(time.Since(began).Milliseconds()))
			if ctx.Err() != nil {
				break
			}
		}
		return nil
	}
}
