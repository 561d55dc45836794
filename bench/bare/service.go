// Package bare is the baseline of the service: handlers that do the minimum. They decode
// the same requests with the generated code, write the same number of bytes to Redis by a
// script like the service's, and send a response that the service produced. They run in
// their own process, with the same garbage collector settings, on plain servers without
// interceptors.
package bare

import (
	"context"
	"errors"
	"io"
	"sync"

	"github.com/redis/go-redis/v9"
	"google.golang.org/grpc"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
)

// Script does the same work in Redis as the service's swap.
const Script = `redis.call('GETRANGE', KEYS[1], 0, 8)
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return 1`

// Arguments of Script besides the value: a version and a time to live, like the
// service's.
const (
	Version  = "123456789"
	Lifetime = "86400000"
)

// service sends the same response to each request.
type service struct {
	setpointv1.UnimplementedRecommendationServiceServer
	answer *setpointv1.RecommendResponse
	redis  *redis.Client // nil: nothing is written
	script *redis.Script
	value  []byte
}

func (s *service) write(ctx context.Context, c redis.Scripter, target string) error {
	return s.script.EvalSha(ctx, c, []string{"bare:" + target}, Version, s.value, Lifetime).Err()
}

// Recommend implements the service of that name.
func (s *service) Recommend(ctx context.Context, req *setpointv1.RecommendRequest) (*setpointv1.RecommendResponse, error) {
	if s.redis == nil {
		return s.answer, nil
	}
	return s.answer, s.write(ctx, s.redis, req.GetTarget())
}

// BatchRecommend implements the service of that name, with one pipeline.
func (s *service) BatchRecommend(ctx context.Context, req *setpointv1.BatchRecommendRequest) (*setpointv1.BatchRecommendResponse, error) {
	if s.redis != nil {
		if _, err := s.redis.Pipelined(ctx, func(p redis.Pipeliner) error {
			for _, r := range req.GetRequests() {
				_ = s.write(ctx, p, r.GetTarget())
			}
			return nil
		}); err != nil {
			return nil, err
		}
	}
	resp := &setpointv1.BatchRecommendResponse{}
	result := &setpointv1.BatchRecommendResult{Result: &setpointv1.BatchRecommendResult_Response{Response: s.answer}}
	for range req.GetRequests() {
		resp.Results = append(resp.Results, result)
	}
	return resp, nil
}

// StreamRecommend implements the service of that name: a goroutine for each request.
func (s *service) StreamRecommend(stream grpc.BidiStreamingServer[setpointv1.StreamRecommendRequest, setpointv1.StreamRecommendResponse]) error {
	var sending sync.Mutex
	var running sync.WaitGroup
	defer running.Wait()
	for {
		req, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		running.Go(func() {
			answer, err := s.Recommend(stream.Context(), req.GetRequest())
			if err != nil {
				return // the stream then lacks a response, which its caller notices
			}
			sending.Lock()
			defer sending.Unlock()
			_ = stream.Send(&setpointv1.StreamRecommendResponse{
				Id: req.GetId(), Result: &setpointv1.StreamRecommendResponse_Response{Response: answer},
			})
		})
	}
}
