package cost

import (
	"bytes"
	"testing"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
)

// JSON may escape any character of a name, and decoding takes the field for what it is.
func TestEscapedNamesAreCountedLikeOthers(t *testing.T) {
	message := Of((&setpointv1.RecommendRequest{}).ProtoReflect().Descriptor())
	for _, name := range []string{`pods`, `p\u006fds`, `\u0070\u006F\u0064\u0073`, `pod_metrics`, `pod\u005fmetrics`, `metricErro\u0072s`} {
		body := append([]byte(`{"`+name+`":[`), bytes.Repeat([]byte(`{},`), 300_000)...)
		body = append(body, `{}]}`...)
		excess := message.JSON(body, BudgetOf(len(body)))
		if excess == nil || excess.Kind != Memory {
			t.Errorf("%s: got %v, want too much memory", name, excess)
		}
	}
	for _, name := range []string{`pods`, `p\u006fds`} {
		body := []byte(`{"` + name + `":[{"name":"web-a"}]}`)
		if excess := message.JSON(body, BudgetOf(len(body))); excess != nil {
			t.Errorf("%s: one pod is refused: %s", name, excess.Path())
		}
	}
}
