package trial

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/setpoint-dev/setpoint/check"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/recording"
	"github.com/setpoint-dev/setpoint/cmd/internal/clitest"
	"github.com/setpoint-dev/setpoint/internal/testlength"
	"github.com/setpoint-dev/setpoint/replay"
	"github.com/setpoint-dev/setpoint/server"
)

// keeping is a service whose targets stay.
type keeping struct{ *replay.Server }

func (keeping) Delete(context.Context, string) error { return nil }

// What a service kept of a target is a recording that a change is checked by.
func TestWhatAServiceKeptIsChecked(t *testing.T) {
	testlength.SkipUnderRace(t)
	t.Parallel()
	options := server.DefaultOptions()
	options.AllowEvaluationTime, options.Limits.Shedding.Off, options.RequestTimeout = true, true, 5*time.Minute
	options.Recordings.Bytes, options.Recordings.Total, options.Recordings.Buffer = 1<<20, 0, 1<<30
	address := clitest.StartServerWith(t, options)
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	file, err := os.Open(flightOfExamples)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	scenario, err := recording.NewReader("flight", file).Next()
	if err != nil {
		t.Fatal(err)
	}
	err = replay.NewRunner(keeping{replay.NewServer(conn)}, replay.Options{Cluster: "kept"}).Run(t.Context(), scenario, func(*replay.Step) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	export := run(t, "", "targets", "export", "--server", address, "clusters/kept-1/namespaces/shop/targets/web")
	if export.Code != 0 {
		t.Fatal(export.Stderr)
	}
	got := run(t, export.Stdout, "check", "--old=../../../examples/simulation/hpa.yaml", "--new=../../../examples/simulation/careful.yaml", "--recording=-", "-o=json")
	var report check.Report
	if err := json.Unmarshal([]byte(got.Stdout), &report); err != nil || len(report.Specs) != 1 {
		t.Fatalf("%v, exit code %d\n%s%s", err, got.Code, got.Stdout, got.Stderr)
	}
	h := report.Specs[0].History
	if h == nil || h.Recordings == 0 || len(h.Unusable) > 0 || strings.Contains(got.Stderr, "setpoint:") {
		t.Fatalf("%s%s", got.Stdout, got.Stderr)
	}
	// The open loop of sums is that of the pods: it rests on nothing else.
	if !h.AsOld || h.Steps < 700 || h.DifferentSteps < h.Steps*2/3 {
		t.Errorf("%+v", h)
	}
	// It is a load, too.
	folder := t.TempDir()
	kept := filepath.Join(folder, "web.jsonl.gz")
	if got := run(t, "", "targets", "export", "--server", address, "--file", kept, "clusters/kept-1/namespaces/shop/targets/web"); got.Code != 0 {
		t.Fatal(got.Stderr)
	}
	world := filepath.Join(folder, "world.yaml")
	if err := os.WriteFile(world, []byte("load: [{recording: {file: web.jsonl.gz, metric: cpu}}]\nworkload: {requests: {cpu: 500m}, replicas: 3, usage: [{metric: cpu, perLoad: 1}]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"simulate", "-f", world, "../../../examples/simulation/hpa.yaml"}, {"tune", "-f", world, "--candidates=20", "--max-short=50", "../../../examples/simulation/hpa.yaml"}} {
		if got := run(t, "", args...); got.Code != 0 || got.Stdout == "" {
			t.Errorf("%v: exit code %d\n%s%s", args, got.Code, got.Stdout, got.Stderr)
		}
	}
	t.Logf("%d steps, %d of them different, unknown for %g s of %g, replica hours %.4g and %.4g, open %.4g and %.4g; the model misses %.2f %%", h.Steps, h.DifferentSteps, h.UnknownSeconds, h.CoveredSeconds,
		h.Old.ReplicaHours, h.New.ReplicaHours, h.Old.OpenReplicaHours, h.New.OpenReplicaHours, h.Model.MissPercent())
}
