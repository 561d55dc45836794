package trial

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/check"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/recording"
	"github.com/setpoint-dev/setpoint/cmd/internal/clitest"
	"github.com/setpoint-dev/setpoint/internal/fatal"
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
	conn := clitest.Dial(t, address)
	file, err := os.Open(flightOfExamples)
	fatal.If(t, err)
	defer func() { _ = file.Close() }()
	scenario, err := recording.NewReader("flight", file).Next()
	fatal.If(t, err)
	err = replay.NewRunner(keeping{replay.NewServer(conn)}, replay.Options{Cluster: "kept"}).Run(t.Context(), scenario, func(*replay.Step) error { return nil })
	fatal.If(t, err)
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
	fatal.If(t, os.WriteFile(world, []byte("load: [{recording: {file: web.jsonl.gz, metric: cpu}}]\nworkload: {requests: {cpu: 500m}, replicas: 3, usage: [{metric: cpu, perLoad: 1}]}\n"), 0o600))
	for _, args := range [][]string{{"simulate", "-f", world, "../../../examples/simulation/hpa.yaml"}, {"tune", "-f", world, "--candidates=20", "--max-short=50", "../../../examples/simulation/hpa.yaml"}} {
		if got := run(t, "", args...); got.Code != 0 || got.Stdout == "" {
			t.Errorf("%v: exit code %d\n%s%s", args, got.Code, got.Stdout, got.Stderr)
		}
	}
	t.Logf("%d steps, %d of them different, unknown for %g s of %g, replica hours %.4g and %.4g, open %.4g and %.4g; the model misses %.2f %%", h.Steps, h.DifferentSteps, h.UnknownSeconds, h.CoveredSeconds,
		h.Old.ReplicaHours, h.New.ReplicaHours, h.Old.OpenReplicaHours, h.New.OpenReplicaHours, h.Model.MissPercent())
}

// What was read of a metric is what a simulation of its recording reads: the unchanged spec gives every decision again.
func TestARecordingOfAMetricGivesItsDecisionsAgain(t *testing.T) {
	t.Parallel()
	options := server.DefaultOptions()
	options.AllowEvaluationTime, options.Limits.Shedding.Off = true, true
	options.Recordings.Bytes, options.Recordings.Total, options.Recordings.Buffer = 1<<20, 0, 1<<30
	address := clitest.StartServerWith(t, options)
	conn := clitest.Dial(t, address)
	client := setpointv1.NewRecommendationServiceClient(conn)
	folder := t.TempDir()
	for kind, metric := range map[string]string{
		"external": `{"type":"External","external":{"metric":{"name":"queue"},"target":{"type":"AverageValue","averageValue":"10"}}}`,
		"pods":     `{"type":"Pods","pods":{"metric":{"name":"queue"},"target":{"type":"AverageValue","averageValue":"10"}}}`,
	} {
		name, at := "clusters/kept/namespaces/shop/targets/"+kind, time.Now().Truncate(time.Second).Add(-time.Hour)
		hpa := &setpointv1.HorizontalPodAutoscalerSpec{}
		spec := `{"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"web"},"minReplicas":1,"maxReplicas":50,"metrics":[` + metric + `],"behavior":{"scaleDown":{"stabilizationWindowSeconds":50}}}`
		fatal.If(t, protojson.Unmarshal([]byte(spec), hpa))
		replicas := int32(3)
		var want []int32
		for i := range 60 {
			value := 20 + 9*(i*i*7%23)
			req := &setpointv1.RecommendRequest{Target: name, Spec: hpa, Scale: &setpointv1.Scale{SpecReplicas: replicas, StatusReplicas: &replicas}, EvaluationTime: timestamppb.New(at)}
			queue := &setpointv1.MetricIdentifier{Name: "queue"}
			if kind == "external" {
				req.ExternalMetrics = []*setpointv1.ExternalMetric{{Metric: queue, Value: strconv.Itoa(value)}}
			} else {
				for pod := range replicas {
					name := fmt.Sprintf("p%d", pod)
					req.Pods = append(req.Pods, &setpointv1.Pod{Name: name, Phase: "Running", StartTime: timestamppb.New(at.Add(-time.Hour)), Ready: &setpointv1.PodReadyCondition{Status: "True", LastTransitionTime: timestamppb.New(at.Add(-time.Hour))}})
					req.CustomMetrics = append(req.CustomMetrics, &setpointv1.CustomMetric{Metric: queue, DescribedObject: &setpointv1.CrossVersionObjectReference{Kind: "Pod", Name: name}, Value: fmt.Sprintf("%dm", 1000*value/int(replicas))})
				}
			}
			resp, err := client.Recommend(t.Context(), req)
			fatal.If(t, err)
			replicas = resp.GetDesiredReplicas()
			want, at = append(want, replicas), at.Add(15*time.Second)
		}
		files := map[string]string{
			kind + ".spec": `{"spec":` + spec + `}`,
			kind + ".yaml": "load: [{recording: {file: " + kind + ".jsonl}}]\nduration: 886s\nworkload: {replicas: 3, usage: [{metric: queue, perLoad: 1}]}\n",
		}
		for file, text := range files {
			fatal.If(t, os.WriteFile(filepath.Join(folder, file), []byte(text), 0o600))
		}
		if got := run(t, "", "targets", "export", "--server", address, "--file", filepath.Join(folder, kind+".jsonl"), name); got.Code != 0 {
			t.Fatal(got.Stderr)
		}
		simulated := run(t, "", "simulate", "-o=json", "-f", filepath.Join(folder, kind+".yaml"), filepath.Join(folder, kind+".spec"))
		if simulated.Code != 0 {
			t.Fatal(simulated.Stderr)
		}
		var got []int32
		for line := range strings.Lines(simulated.Stdout) {
			step := struct {
				Step    int
				Desired int32
			}{}
			fatal.If(t, json.Unmarshal([]byte(line), &step))
			if step.Step > 0 {
				got = append(got, step.Desired)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: simulated %v, decided %v", kind, got, want)
		}
	}
}
