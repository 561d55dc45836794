package replay

import (
	"context"
	"encoding/binary"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/recording"
	"github.com/setpoint-dev/setpoint/internal/target"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/recommender/encoding"
	"github.com/setpoint-dev/setpoint/server/conversion"
	"github.com/setpoint-dev/setpoint/server/validation"
	"github.com/setpoint-dev/setpoint/stages"
)

// Engine is an in-process backend without a server: the recommender alone. It also decides
// specs that the service would refuse.
type Engine struct {
	histories map[string][]byte
	// kept is what stages need of a target beside its history.
	kept map[string]*stages.Kept
	// overrides are those of the targets' next decisions.
	overrides map[string][]stages.Override
	// sums are what the targets' next requests read, and seeds the statuses before the first.
	sums  map[string]sums
	seeds map[string]*recommender.Status
	ids   uint64
}

// NewEngine returns an engine without any history.
func NewEngine() *Engine {
	return &Engine{
		histories: make(map[string][]byte), kept: make(map[string]*stages.Kept), overrides: make(map[string][]stages.Override),
		sums: make(map[string]sums), seeds: make(map[string]*recommender.Status),
	}
}

// Recommend decides and keeps the history, encoded as a store would keep it.
func (e *Engine) Recommend(_ context.Context, req *setpointv1.RecommendRequest) (*setpointv1.RecommendResponse, error) {
	of := e.sums[req.GetTarget()]
	in, around, err := read(req, e.overrides[req.GetTarget()], &of)
	if err != nil {
		return nil, err
	}
	if seed := e.seeds[req.GetTarget()]; seed != nil {
		in.PreviousStatus = seed
	}
	history, err := e.history(req.GetTarget())
	if err != nil {
		return nil, err
	}
	e.ids++
	binary.BigEndian.PutUint64(in.ID[:], e.ids)
	decision, next := e.keptOf(req.GetTarget()).Recommend(around, req.GetEvaluationTime().AsTime(), in, &history)
	e.histories[req.GetTarget()] = encoding.AppendHistory(nil, &next)
	return conversion.Response(&decision), nil
}

// ReportScale settles a change.
func (e *Engine) ReportScale(_ context.Context, req *setpointv1.ReportScaleRequest) (*setpointv1.ReportScaleResponse, error) {
	history, err := e.history(req.GetTarget())
	if err != nil {
		return nil, err
	}
	id, _ := recommender.ParseID(req.GetRecommendationId())
	outcome := recommender.Applied
	if req.GetOutcome() == "FAILED" {
		outcome = recommender.Failed
	}
	name, _ := target.Parse(req.GetTarget())
	settlement, next, err := e.keptOf(req.GetTarget()).Settle(history, name.Namespace, id, outcome, req.GetMessage())
	if err != nil {
		return nil, err
	}
	e.histories[req.GetTarget()] = encoding.AppendHistory(nil, &next)
	return conversion.Settlement(req.GetRecommendationId(), &settlement), nil
}

// Begin implements Beginner.
func (e *Engine) Begin(target string, with *recording.History) {
	history := historyOf(with)
	e.histories[target] = encoding.AppendHistory(nil, &history)
	delete(e.kept, target)
}

func (e *Engine) keptOf(target string) *stages.Kept {
	k := e.kept[target]
	if k == nil {
		k = &stages.Kept{}
		e.kept[target] = k
	}
	return k
}

// Override implements Overrider.
func (e *Engine) Override(target string, overrides []stages.Override) {
	e.overrides[target] = overrides
}

// read reads a request, with what is around its decision, and with the sums that it reads; without any it has
// pods and readings itself.
func read(req *setpointv1.RecommendRequest, overrides []stages.Override, of *sums) (*recommender.Input, stages.Around, error) {
	in, violations := conversion.Input(req, recommender.DefaultOptions())
	around := stages.Around{}
	if of.Sums != nil && len(violations) == 0 {
		if err := of.give(in); err != nil {
			return nil, around, err
		}
	}
	if len(violations) == 0 && conversion.Staged(req) {
		violations = validation.Structure(req)
		read, more := conversion.Around(req, in, req.GetEvaluationTime().AsTime())
		around, violations = read, append(violations, more...)
		if of.Sums != nil && len(violations) == 0 && around.Plan != nil && around.Plan.Forecast != nil {
			around.Past = of.past(around.Plan.Forecast)
		}
	}
	if len(violations) > 0 {
		return nil, around, fmt.Errorf("%s (%d problems)", violations[0], len(violations))
	}
	around.Overrides = stages.InForce(overrides, req.GetEvaluationTime().AsTime())
	return in, around, nil
}

// historyOf is a recording's history as the recommender has it.
func historyOf(with *recording.History) recommender.History {
	history := recommender.History{Initialized: len(with.Recommendations) > 0}
	for _, r := range with.Recommendations {
		history.Recommendations = append(history.Recommendations, recommender.TimedRecommendation{Replicas: r.Replicas, At: r.Time.UnixNano()})
	}
	history.ScaleUps, history.ScaleDowns = scaleEvents(with.ScaleUps), scaleEvents(with.ScaleDowns)
	return history
}

func scaleEvents(events []recording.ScaleEvent) []recommender.ScaleEvent {
	var out []recommender.ScaleEvent
	for _, e := range events {
		out = append(out, recommender.ScaleEvent{Change: e.Change, At: e.Time.UnixNano(), Outdated: e.Outdated})
	}
	return out
}

// Delete forgets a target.
func (e *Engine) Delete(_ context.Context, target string) error {
	delete(e.histories, target)
	delete(e.kept, target)
	delete(e.overrides, target)
	delete(e.sums, target)
	delete(e.seeds, target)
	return nil
}

func (e *Engine) history(target string) (recommender.History, error) {
	value, ok := e.histories[target]
	if !ok {
		return recommender.History{}, nil
	}
	return encoding.DecodeHistory(value)
}

// Server is a backend over gRPC.
type Server struct {
	recommendations setpointv1.RecommendationServiceClient
	targets         setpointv1.TargetServiceClient
}

// NewServer returns a backend on the connection. The server must allow requests
// to choose the evaluation time.
func NewServer(conn grpc.ClientConnInterface) *Server {
	return &Server{setpointv1.NewRecommendationServiceClient(conn), setpointv1.NewTargetServiceClient(conn)}
}

// Recommend calls the server.
func (s *Server) Recommend(ctx context.Context, req *setpointv1.RecommendRequest) (*setpointv1.RecommendResponse, error) {
	return s.recommendations.Recommend(ctx, req)
}

// ReportScale reports to the server.
func (s *Server) ReportScale(ctx context.Context, req *setpointv1.ReportScaleRequest) (*setpointv1.ReportScaleResponse, error) {
	return s.recommendations.ReportScale(ctx, req)
}

// Delete deletes a target at the server.
func (s *Server) Delete(ctx context.Context, target string) error {
	_, err := s.targets.DeleteTarget(ctx, &setpointv1.DeleteTargetRequest{Name: target})
	if status.Code(err) == codes.NotFound {
		return nil
	}
	return err
}
