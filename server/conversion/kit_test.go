package conversion_test

import (
	"testing"

	"google.golang.org/protobuf/encoding/protojson"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/server/conversion"
	"github.com/setpoint-dev/setpoint/server/validation"
)

// request is a message from its JSON, for the target web of the namespace shop.
func request(tb testing.TB, text string) *setpointv1.RecommendRequest {
	tb.Helper()
	req := &setpointv1.RecommendRequest{}
	if err := protojson.Unmarshal([]byte(text), req); err != nil {
		tb.Fatalf("%v in %s", err, text)
	}
	req.Target = "clusters/demo/namespaces/shop/targets/web"
	return req
}

// input converts a request that can be read.
func input(tb testing.TB, req *setpointv1.RecommendRequest) *recommender.Input {
	tb.Helper()
	in, violations := conversion.Input(req, recommender.DefaultOptions())
	if len(violations) > 0 {
		tb.Fatalf("refused: %v", violations)
	}
	return in
}

// refused converts a request that can't be read and returns why.
func refused(tb testing.TB, req *setpointv1.RecommendRequest) []validation.Violation {
	tb.Helper()
	_, violations := conversion.Input(req, recommender.DefaultOptions())
	if len(violations) == 0 {
		tb.Fatalf("not refused: %v", req)
	}
	return violations
}
