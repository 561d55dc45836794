package server_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/server/servertest"
)

func TestMain(m *testing.M) { servertest.Main(m) }

// What a request costs is no matter to a caller who may not make it, on the fast path and on the slow
// one, which takes requests with a field that the fast one does not know.
func TestRightsAreCheckedBeforeTheCost(t *testing.T) {
	t.Parallel()
	s := servertest.Guarded(t)
	req := crowd(20_000, 100)
	req.Target = servertest.OtherTarget
	req.PodMetrics = nil
	for i := range 40 {
		req.PodMetrics = append(req.PodMetrics, &setpointv1.PodMetrics{Pod: req.Pods[i].Name})
		for range 1000 {
			req.PodMetrics[i].Containers = append(req.PodMetrics[i].Containers, &setpointv1.ContainerMetrics{})
		}
	}
	fast := servertest.Encoded(t, req)
	for path, data := range map[string][]byte{"fast": fast, "slow": protowire.AppendVarint(protowire.AppendTag(slices.Clone(fast), 999, protowire.VarintType), 1)} {
		for token, want := range map[string]string{servertest.ScalerToken: "PermissionDenied", servertest.AdminToken: "too many metrics look at each"} {
			_, err := s.SendRaw(servertest.As(t.Context(), token), servertest.UnaryMethod, data)
			if !strings.Contains(fmt.Sprint(err), want) {
				t.Errorf("on the %s path: %v, want %s", path, err, want)
			}
		}
	}
}
