package explaincmd

import (
	"context"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/server"
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
