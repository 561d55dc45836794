//go:build linux

package service_test

import (
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/test/e2e/service"
)

func TestAServiceComesAndGoesOnTheSamePorts(t *testing.T) {
	s := service.Start(t)
	ask := func() codes.Code {
		_, err := s.Targets().GetTarget(t.Context(), &setpointv1.GetTargetRequest{Name: "clusters/a/namespaces/b/targets/c"})
		return status.Code(err)
	}
	answers := func() {
		t.Helper()
		if !s.Ready() {
			t.Error("not ready")
		}
		// The connection may still wait to be tried again.
		for code := ask(); code != codes.NotFound; code = ask() {
			if code != codes.Unavailable || t.Context().Err() != nil {
				t.Fatalf("code %s of an unknown target", code)
			}
		}
		if up := s.Metric("setpoint_store_up"); up != 1 {
			t.Errorf("setpoint_store_up is %v", up)
		}
	}
	answers()
	address := s.GRPCAddr()
	s.Kill()
	if s.Ready() || ask() != codes.Unavailable {
		t.Error("it answers after Kill")
	}
	s.Restart()
	answers()
	s.Stop()
	if s.Ready() || ask() != codes.Unavailable {
		t.Error("it answers after Stop")
	}
	s.Restart()
	answers()
	if s.GRPCAddr() != address {
		t.Errorf("came back on %s, was on %s", s.GRPCAddr(), address)
	}
	t.Logf("ready after %v", s.StartTime())
}
