package agenttest

import (
	"context"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/agent"
)

// Service is a recommender in process that records its calls, and injects failures and invalid
// answers. It implements agent.Recommender.
type Service struct {
	service setpointv1.RecommendationServiceServer

	mu      sync.Mutex
	away    bool                                // guarded by mu
	tamper  func(*setpointv1.RecommendResponse) // guarded by mu
	asked   []Question                          // guarded by mu
	reports []*setpointv1.ReportScaleRequest    // guarded by mu
	deletes []*setpointv1.DeleteTargetRequest   // guarded by mu
}

var _ agent.Recommender = (*Service)(nil)

// Question is a recorded recommendation request.
type Question struct {
	At      time.Time
	Request *setpointv1.RecommendRequest
}

// NewService returns a Service that calls the given server.
func NewService(server setpointv1.RecommendationServiceServer) *Service {
	return &Service{service: server}
}

// Away makes all calls fail from now on, or succeed again.
func (s *Service) Away(away bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.away = away
}

// Tamper changes answers in transit; nil: no change.
func (s *Service) Tamper(change func(*setpointv1.RecommendResponse)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tamper = change
}

// Asked returns the requests so far.
func (s *Service) Asked() []Question {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked)
}

// AskedSince returns the number of requests since an instant.
func (s *Service) AskedSince(at time.Time) int {
	n := 0
	for _, q := range s.Asked() {
		if !q.At.Before(at) {
			n++
		}
	}
	return n
}

// Reports returns the reports so far.
func (s *Service) Reports() []*setpointv1.ReportScaleRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.reports)
}

// Deletes returns the requests to delete targets so far.
func (s *Service) Deletes() []*setpointv1.DeleteTargetRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.deletes)
}

// failure is the error for calls now. The caller holds the lock.
func (s *Service) failure() error {
	if s.away {
		return status.Error(codes.Unavailable, "away")
	}
	return nil
}

// Recommend implements agent.Recommender.
func (s *Service) Recommend(ctx context.Context, req *setpointv1.RecommendRequest) (*setpointv1.RecommendResponse, error) {
	s.mu.Lock()
	s.asked = append(s.asked, Question{time.Now(), req})
	err := s.failure()
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	answer, err := s.service.Recommend(ctx, req)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tamper != nil && err == nil {
		answer = proto.CloneOf(answer)
		s.tamper(answer)
	}
	return answer, err
}

// ReportScale implements agent.Recommender.
func (s *Service) ReportScale(ctx context.Context, req *setpointv1.ReportScaleRequest) (*setpointv1.ReportScaleResponse, error) {
	s.mu.Lock()
	err := s.failure()
	if err == nil {
		s.reports = append(s.reports, req)
	}
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return s.service.ReportScale(ctx, req)
}

// DeleteIncarnation implements agent.Recommender. It only records the call: the server tells an
// object from its namesake by the UID anyway.
func (s *Service) DeleteIncarnation(_ context.Context, req *setpointv1.DeleteTargetRequest) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.failure(); err != nil {
		return err
	}
	s.deletes = append(s.deletes, req)
	return status.Error(codes.NotFound, "no such target")
}
