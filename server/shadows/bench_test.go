package shadows_test

import (
	"fmt"
	"testing"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/server/servertest"
)

// BenchmarkShadows measures calls with 0 to 2 shadows, and the bytes of the record.
func BenchmarkShadows(b *testing.B) {
	for n := range 3 {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s := servertest.Start(b)
			spec := &setpointv1.TargetSpec{Spec: windowed("10")}
			for i := range n {
				spec.Shadows = append(spec.Shadows, shadow(fmt.Sprintf("s%d", i), windowed("12")))
			}
			if _, err := s.Targets.SetTargetSpec(b.Context(), &setpointv1.SetTargetSpecRequest{Name: servertest.Web, TargetSpec: spec}); err != nil {
				b.Fatal(err)
			}
			req := servertest.Queue(servertest.Web, 5, 50)
			req.Spec = windowed("10")
			for b.Loop() {
				s.Clock.Advance(servertest.Period)
				s.Recommend(b, req)
			}
			b.ReportMetric(float64(len(s.Stored(b, servertest.Web))), "record-bytes")
		})
	}
}
