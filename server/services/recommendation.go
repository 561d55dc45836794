package services

import (
	"context"

	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/server/access"
	"github.com/setpoint-dev/setpoint/server/admission"
	"github.com/setpoint-dev/setpoint/server/apierror"
	"github.com/setpoint-dev/setpoint/server/decision"
	"github.com/setpoint-dev/setpoint/server/encoded"
	"github.com/setpoint-dev/setpoint/server/fleets"
	"github.com/setpoint-dev/setpoint/server/gate"
	"github.com/setpoint-dev/setpoint/server/limit"
	"github.com/setpoint-dev/setpoint/server/record"
	"github.com/setpoint-dev/setpoint/server/requests"
	"github.com/setpoint-dev/setpoint/server/stored"
	"github.com/setpoint-dev/setpoint/server/workers"
	"github.com/setpoint-dev/setpoint/store"
)

// Recommendations serves RecommendationService.
type Recommendations struct {
	setpointv1.UnimplementedRecommendationServiceServer
	targets  *decision.Targets
	requests *requests.Reader
	// stored has the specs and observations of targets.
	stored  *stored.Targets
	fleets  *fleets.Fleets
	sources stored.Sources
	guard   *admission.Guard
	// streamInFlight limits the unanswered requests of a stream.
	streamInFlight int
	// draining is closed when the server begins to stop.
	draining <-chan struct{}
	// workers answer the messages of streams.
	workers *workers.Workers
}

// Options are the settings of Recommendations.
type Options struct {
	// Requests reads requests. It must not be nil.
	Requests *requests.Reader
	// Fleets has the fleets of the store. It must not be nil.
	Fleets *fleets.Fleets
	// Sources fetch metrics that stored specs name. Nil: none are fetched.
	Sources stored.Sources
	// Guard admits the messages of streams, and checks their callers again. It must not be nil.
	Guard *admission.Guard
	// MaxStreamInFlight limits the unanswered requests of one stream.
	MaxStreamInFlight int
	// Draining is closed when the server begins to stop.
	Draining <-chan struct{}
	// Workers answer the messages of streams. It must not be nil.
	Workers *workers.Workers
}

// NewRecommendations returns the service for the targets of a store.
func NewRecommendations(targets *decision.Targets, engine store.Engine, options Options) (*Recommendations, error) {
	s := &Recommendations{targets: targets, requests: options.Requests, fleets: options.Fleets, sources: options.Sources, guard: options.Guard, streamInFlight: options.MaxStreamInFlight, draining: options.Draining, workers: options.Workers}
	var err error
	s.stored, err = s.newStored(engine)
	return s, err
}

// Recommend serves calls within the process; for gRPC see RecommendEncoded.
func (s *Recommendations) Recommend(ctx context.Context, req *setpointv1.RecommendRequest) (*setpointv1.RecommendResponse, error) {
	return inside(ctx, req, s.RecommendEncoded, &setpointv1.RecommendResponse{})
}

// inside serves a call within the process as one of gRPC.
func inside[Resp proto.Message](ctx context.Context, req proto.Message, call func(context.Context, *encoded.Message) (*encoded.Message, error), into Resp) (none Resp, err error) {
	data, err := proto.Marshal(req)
	if err != nil {
		return none, apierror.Undecodable()
	}
	in := &encoded.Message{Data: data}
	defer in.Free()
	answer, err := call(ctx, in)
	if err != nil {
		return none, err
	}
	defer answer.Free()
	return into, proto.Unmarshal(answer.Data, into)
}

// recommendStored decides on stored observations, with the limits of any other call.
func (s *Recommendations) recommendStored(ctx context.Context, req *setpointv1.RecommendRequest, poll record.Poll) (*setpointv1.RecommendResponse, error) {
	j := s.requests.Polled(ctx, req, poll)
	s.requests.Trace(ctx, j)
	s.targets.Recommend(ctx, &j.Job)
	s.requests.Answered(ctx, j)
	return j.Answer()
}

// storedRoom waits until there is enough memory to process that many stored bytes. Who waits has called free, or the bytes
// of all who wait would be held. A call whose message holds memory does not wait: it gets more, or is refused.
func (s *Recommendations) storedRoom(ctx context.Context, bytes int, free func()) (leave func(), freed bool, err error) {
	if of := gate.Of(ctx); of != nil && of.Holds() {
		if !of.More(int64(bytes) * storedGrowth) {
			return nil, false, s.requests.Refuse(limit.LargeRequests)
		}
		return func() {}, false, nil
	}
	pass, large := new(gate.Pass), bytes > stored.Small
	if !s.requests.Gate.TryEnter(pass, large) {
		if freed = large; freed {
			free()
		}
		if err := s.requests.Enter(ctx, admission.TicketOf(ctx), access.CallerOf(ctx).Name(), pass, large); err != nil {
			return nil, freed, err
		}
	}
	if !pass.Read(int64(bytes) * storedGrowth) {
		return nil, freed, s.requests.Refuse(limit.LargeRequests)
	}
	return pass.Leave, freed, nil
}

// storedGrowth is how much more memory stored bytes take when decoded.
const storedGrowth = 10

// ReportScale records the outcome of a recommendation.
func (s *Recommendations) ReportScale(ctx context.Context, req *setpointv1.ReportScaleRequest) (*setpointv1.ReportScaleResponse, error) {
	if err := apierror.OfStructure(req); err != nil {
		return nil, err
	}
	return s.targets.Report(ctx, req)
}

// admit admits a message of a stream as a call of its own. It blocks the reading of the stream.
func (s *Recommendations) admit(ctx context.Context, ticket *limit.Ticket, caller string) error {
	if s.guard.Limiter == nil {
		return nil
	}
	return s.guard.Limiter.AdmitQueued(ctx, s.draining, ticket, caller).Err()
}

// checkBatch refuses batches that are too long.
func (s *Recommendations) checkBatch(n int) error {
	if limit := s.requests.Settings.MaxBatch; n > limit {
		return apierror.OverLimit("maxBatch", limit, "the batch has more requests than this server takes at once")
	}
	return nil
}

// BatchRecommend serves calls within the process; for gRPC see BatchEncoded.
func (s *Recommendations) BatchRecommend(ctx context.Context, req *setpointv1.BatchRecommendRequest) (*setpointv1.BatchRecommendResponse, error) {
	return inside(ctx, req, s.BatchEncoded, &setpointv1.BatchRecommendResponse{})
}
