//go:build linux

package keda

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/grpc/status"

	"github.com/setpoint-dev/setpoint/store/redis/redistest"
	"github.com/setpoint-dev/setpoint/test/e2e/service"
	"github.com/setpoint-dev/setpoint/test/keda/scalers"
)

func TestTheCodeIsKEDAs(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/kedacore/keda/v2").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"external_scaler.go", "scaler.go"} {
		theirs, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(out)), "pkg", "scalers", name))
		if err != nil {
			t.Fatal(err)
		}
		ours, err := os.ReadFile(filepath.Join("scalers", name))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(theirs, ours) {
			t.Errorf("scalers/%s is not the module's: copy it anew", name)
		}
	}
}

// A service that is away is an error, never a number, and is found again when it is back.
func TestAServiceIsKilled(t *testing.T) {
	s := service.Start(t, "--redis="+redistest.Start(t, redistest.Config{}).URL())
	want(t, s, "web", 7)
	scaler := external(t, scaledObject(s.GRPCAddr(), "web"))
	if milli, active, err := count(t, scaler); err != nil || milli != 7000 || !active {
		t.Fatalf("told %d, %v, %v, want 7000", milli, active, err)
	}
	s.Kill()
	if milli, active, err := count(t, scaler); status.Code(err) != codes.Unavailable || milli != 0 || active {
		t.Errorf("of a service that was killed: %d, %v, %v, want UNAVAILABLE", milli, active, err)
	}
	if specs := scaler.GetMetricSpecForScaling(t.Context()); len(specs) != 0 {
		t.Errorf("of a service that was killed: %v", specs)
	}
	s.Restart()
	eventually(t, "the service is found again", func() bool {
		milli, _, err := count(t, scaler)
		if err == nil && milli != 7000 {
			t.Fatalf("told %d afterwards, want 7000", milli)
		}
		return err == nil
	})
}

// Two instances behind one name both get calls, and answer the same. If one is killed the other
// takes over.
func TestTwoInstancesBehindRoundRobin(t *testing.T) {
	instances := service.StartAll(t, 2, "--redis="+redistest.Start(t, redistest.Config{}).URL())
	name := manual.NewBuilderWithScheme("headless")
	name.InitialState(resolver.State{Addresses: []resolver.Address{{Addr: instances[0].GRPCAddr()}, {Addr: instances[1].GRPCAddr()}}})
	resolver.Register(name)
	want(t, instances[0], "web", 9)
	scaler := external(t, scaledObject("headless:///setpoint", "web"))
	// KEDA asks for metrics and activity in turn, so that of two instances each may be asked
	// for one of them only.
	before := []float64{instances[0].Metric("setpoint_requests_total"), instances[1].Metric("setpoint_requests_total")}
	asked := func(i int) float64 { return instances[i].Metric("setpoint_requests_total") - before[i] }
	eventually(t, "both instances are asked", func() bool {
		if milli, _, err := count(t, scaler); err != nil || milli != 9000 {
			t.Fatalf("told %d, %v, want 9000", milli, err)
		}
		return asked(0) > 3 && asked(1) > 3
	})
	instances[0].Kill()
	failed := 0
	eventually(t, "the other instance takes all", func() bool {
		milli, _, err := count(t, scaler)
		if err == nil && milli != 9000 {
			t.Fatalf("told %d, want 9000", milli)
		}
		if err != nil {
			failed++
			return false
		}
		return true
	})
	for range 50 {
		if milli, _, err := count(t, scaler); err != nil || milli != 9000 {
			t.Fatalf("told %d, %v by the one that is left, want 9000", milli, err)
		}
	}
	t.Logf("%d calls failed when one instance was killed", failed)
}

// KEDA learns at once that a target is active, and within seconds that it should leave zero.
func TestPush(t *testing.T) {
	s := service.Start(t)
	want(t, s, "web", 0)
	scaler, err := scalers.NewExternalPushScaler(scaledObject(s.GRPCAddr(), "web"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	active, ended := make(chan bool), make(chan struct{})
	go func() {
		defer close(ended)
		scaler.Run(ctx, active)
	}()
	defer func() {
		cancel()
		for range active { // which Run closes
		}
		<-ended
		_ = scaler.Close(context.Background())
	}()
	next := func(what string, want bool) {
		t.Helper()
		select {
		case got := <-active:
			if got != want {
				t.Fatalf("%s: active is %v", what, got)
			}
		case <-time.After(time.Minute):
			t.Fatalf("%s: not told within a minute", what)
		}
	}
	next("at zero", false)
	select {
	case specs := <-scaler.(scalers.MetricSpecStreamer).MetricSpecChan():
		if len(specs) != 1 || specs[0].External.Metric.Name != metricName {
			t.Errorf("told of the specs %v", specs)
		}
	case <-time.After(time.Minute):
		t.Error("told of no specs within a minute")
	}
	observe(t, s, "web", 0, 3)
	next("when it is to leave zero", true)
}
