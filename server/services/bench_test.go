package services_test

import (
	"bytes"
	"fmt"
	"net/http"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/server/servertest"
)

func TestMain(m *testing.M) { servertest.Main(m) }

// BenchmarkRecommend measures a recommendation as callers meet it, from the
// client's message to its answer, over loopback sockets of one process. The clock
// moves by the controller's period, so that the history is as long as it usually is.
func BenchmarkRecommend(b *testing.B) {
	for _, pods := range []int{10, 100, 1000} {
		req := servertest.PodsRequest(pods)
		b.Run(fmt.Sprintf("transport=grpc/pods=%d", pods), func(b *testing.B) {
			s := servertest.Start(b)
			b.ReportAllocs()
			for b.Loop() {
				s.Clock.Advance(servertest.Period)
				s.Recommend(b, req)
			}
		})
		for transport, header := range map[string]http.Header{"rest": {}, "gateway": {servertest.OverGateway: {"1M"}}} {
			b.Run(fmt.Sprintf("transport=%s/pods=%d", transport, pods), func(b *testing.B) {
				s := servertest.Start(b)
				unnamed := proto.CloneOf(req)
				unnamed.Target = "" // as the path has it
				body, err := protojson.Marshal(unnamed)
				if err != nil {
					b.Fatal(err)
				}
				b.SetBytes(int64(len(body)))
				b.ReportAllocs()
				for b.Loop() {
					s.Clock.Advance(servertest.Period)
					req, err := http.NewRequestWithContext(b.Context(), http.MethodPost, s.URL+servertest.RecommendPath(servertest.Web), bytes.NewReader(body))
					if err != nil {
						b.Fatal(err)
					}
					req.Header = header.Clone()
					if answer, err := s.Send(req); err != nil || answer.Code != http.StatusOK {
						b.Fatal(answer, err)
					}
				}
			})
		}
	}
}

// BenchmarkBatchRecommend measures a batch of a hundred targets of ten pods.
func BenchmarkBatchRecommend(b *testing.B) {
	s := servertest.Start(b)
	batch := &setpointv1.BatchRecommendRequest{}
	for i := range 100 {
		req := servertest.PodsRequest(10)
		req.Target = fmt.Sprintf("clusters/c/namespaces/n/targets/t%d", i)
		batch.Requests = append(batch.Requests, req)
	}
	b.ReportAllocs()
	for b.Loop() {
		s.Clock.Advance(servertest.Period)
		if _, err := s.Recommendations.BatchRecommend(b.Context(), batch); err != nil {
			b.Fatal(err)
		}
	}
}
