package swarm

import (
	"fmt"
	"strings"
	"testing"
)

// The name of a label may have any length, and its problem may end up in logs.
func TestProblemsAreBounded(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 1<<20)
	labels := map[string]string{EnableLabel: "true", "setpoint." + long: "1", "setpoint.metric." + long: "1", "setpoint.metric." + long + ".source": long}
	for i := range 100 {
		labels[fmt.Sprintf("setpoint.%s%d", long[:1<<10], i)] = long[:1<<10]
	}
	_, err := ParseLabels("web", labels)
	if err == nil || len(err.Error()) > mostProblems*(maxLabelName+maxMessage+20) {
		t.Errorf("%d bytes", len(fmt.Sprint(err)))
	}
}
