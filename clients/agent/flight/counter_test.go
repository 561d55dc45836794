package flight

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/setpoint-dev/setpoint/internal/fatal"
)

func counterValue(t *testing.T, c prometheus.Counter) float64 {
	t.Helper()
	var m dto.Metric
	fatal.If(t, c.Write(&m))
	return m.GetCounter().GetValue()
}
