package explaincmd

import (
	"context"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/server"
	"github.com/setpoint-dev/setpoint/server/conversion"
	"github.com/setpoint-dev/setpoint/store/memory"
)

// localTarget is the default target of a request that is decided locally.
const localTarget = "clusters/local/namespaces/default/targets/request"

// Decide decides with the service itself, on a temporary store.
func Decide(ctx context.Context, req *setpointv1.RecommendRequest) (*setpointv1.RecommendResponse, error) {
	if req.GetTarget() == "" {
		req.Target = localTarget
	}
	options := server.DefaultOptions()
	options.AllowEvaluationTime = true
	engine := memory.New(memory.Options{})
	defer func() { _ = engine.Close() }()
	srv, err := server.New(engine, engine, options)
	if err != nil {
		return nil, err
	}
	defer srv.Close()
	return srv.Recommendations().Recommend(ctx, req)
}

// Ahead returns what the schedules of a request make of its bounds from its decision on; nil: it has none.
func Ahead(req *setpointv1.RecommendRequest, resp *setpointv1.RecommendResponse) []*setpointv1.OutlookBounds {
	if len(req.GetStages().GetSchedules()) == 0 {
		return nil
	}
	in := &recommender.Input{}
	in.Spec, in.Options, _ = conversion.Spec(req.GetSpec(), req.GetOptions(), server.DefaultOptions().Recommend)
	plan, _ := conversion.Stages(req.GetSpec(), req.GetStages(), in)
	return conversion.Bounds(plan, &in.Spec, resp.GetEvaluationTime().AsTime())
}
