package trial

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
	autoscalingv2 "k8s.io/api/autoscaling/v2"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/check"
	"github.com/setpoint-dev/setpoint/clients/kubernetes"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/recording"
	"github.com/setpoint-dev/setpoint/cmd/internal/clitest"
	"github.com/setpoint-dev/setpoint/hpa"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/testlength"
	"github.com/setpoint-dev/setpoint/internal/testpages"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/server"
	"github.com/setpoint-dev/setpoint/simulation"
	"github.com/setpoint-dev/setpoint/simulation/scenario"
	"github.com/setpoint-dev/setpoint/test/testserver"
)

var update = flag.Bool("update", false, "write the table of the closed loop's errors")

// served is the service as the engine of a simulation: it is asked as an agent asks, and what it was asked is kept as
// an agent records it.
type served struct {
	ctx     context.Context
	conn    grpc.ClientConnInterface
	target  string
	spec    *autoscalingv2.HorizontalPodAutoscalerSpec
	calls   []recording.Call
	desired []int32
	err     error
}

// Recommend implements simulation.Engine.
func (s *served) Recommend(now time.Time, in *recommender.Input) (recommender.Decision, error) {
	req := testserver.RequestOf(s.target, s.spec, in)
	req.EvaluationTime = timestamppb.New(now)
	answer, err := setpointv1.NewRecommendationServiceClient(s.conn).Recommend(s.ctx, req)
	if err != nil {
		return recommender.Decision{}, err
	}
	id, named := recommender.ParseID(answer.GetRecommendationId())
	if !named && answer.GetDesiredReplicas() != answer.GetCurrentReplicas() {
		return recommender.Decision{}, fmt.Errorf("a change without a name: %q", answer.GetRecommendationId())
	}
	req.EvaluationTime = nil
	s.calls = append(s.calls, recording.Call{Time: now, Request: s.json(req), Answer: s.json(answer)})
	s.desired = append(s.desired, answer.GetDesiredReplicas())
	return recommender.Decision{ID: id, Current: answer.GetCurrentReplicas(), Desired: answer.GetDesiredReplicas(), Path: recommender.PathMetrics}, s.err
}

// Settle implements simulation.Engine.
func (s *served) Settle(id recommender.ID, outcome recommender.Outcome, message string) error {
	req := &setpointv1.ReportScaleRequest{Target: s.target, RecommendationId: id.String(), Outcome: "APPLIED"}
	if outcome == recommender.Failed {
		req.Outcome, req.Message = "FAILED", message
	}
	report, err := setpointv1.NewRecommendationServiceClient(s.conn).ReportScale(s.ctx, req)
	if err != nil {
		return err
	}
	s.calls[len(s.calls)-1].Report = s.json(report)
	return s.err
}

func (s *served) json(m proto.Message) json.RawMessage {
	data, err := protojson.Marshal(m)
	s.err = err
	return data
}

const (
	scalerHead = "apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: web, namespace: shop}\nspec:\n  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}\n  minReplicas: 3\n"
	onCPU      = scalerHead + "  maxReplicas: 40\n  metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 60}}}]\n"
	onRequests = scalerHead + "  maxReplicas: 40\n  metrics: [{type: Pods, pods: {metric: {name: requests}, target: {type: AverageValue, averageValue: \"30\"}}}]\n"
	onQueue    = scalerHead + "  maxReplicas: 40\n  metrics: [{type: External, external: {metric: {name: waiting}, target: {type: AverageValue, averageValue: \"600\"}}}]\n"
	quickDown  = "  behavior: {scaleDown: {stabilizationWindowSeconds: 60}}\n"
)

// edit is a change of a spec: of a text, or an addition.
type edit struct{ name, from, to string }

func (e *edit) of(spec string) string {
	if e.from == "" {
		return spec + e.to
	}
	return strings.Replace(spec, e.from, e.to, 1)
}

// workload is one whose truth is known, and what the edits may miss at most.
type workload struct {
	name, load, pods, spec string
	edits                  [2]edit
	// most is by how many percent the replica hours may be off, in the closed loop of an agent's recording, and
	// late by how many seconds the time short of capacity; lateUnknown: nothing is said of it.
	most, late float64
}

// lateUnknown is of a workload whose capacity is not CPU.
const lateUnknown = -1

// workloads are believable ones. The last of them break what the closed loop assumes.
var workloads = []workload{
	{"a web shop, with a rush", "{constant: 200}, {flashCrowd: {at: 70m, height: 600, rise: 1m, halfLife: 10m}}", "startup: 30s, startupP95: 60s", onCPU,
		[2]edit{{"target 60 to 45 %", "averageUtilization: 60", "averageUtilization: 45"}, {"down after 1 min", "", quickDown}}, 4, 15},
	{"slow pods, waves of an hour", "{sawtooth: {low: 100, high: 500, period: 1h}}", "startup: 90s, startupP95: 3m", onCPU,
		[2]edit{{"target 60 to 80 %", "averageUtilization: 60", "averageUtilization: 80"}, {"max 40 to 12", "maxReplicas: 40", "maxReplicas: 12"}}, 4, 15},
	{"on and off", "{onOff: {low: 80, high: 400, on: 20m, off: 25m}}", "startup: 20s", onCPU,
		[2]edit{{"target 60 to 50 %", "averageUtilization: 60", "averageUtilization: 50"}, {"down after 1 min", "", quickDown}}, 4, 75},
	{"uneven pods", "{ramp: {from: 100, to: 600, at: 20m, for: 80m}}", "startup: 30s, imbalance: 0.4", onCPU,
		[2]edit{{"target 60 to 75 %", "averageUtilization: 60", "averageUtilization: 75"}, {"min 3 to 10", "minReplicas: 3", "minReplicas: 10"}}, 4, 15},
	{"requests of a pod", "{constant: 150}, {flashCrowd: {at: 1h, height: 500, rise: 3m, halfLife: 15m}}", "startup: 30s", onRequests,
		[2]edit{{"target 30 to 40", `"30"`, `"40"`}, {"down after 1 min", "", quickDown}}, 4, lateUnknown},
	{"pods that warm up for 2 min", "{constant: 200}, {flashCrowd: {at: 70m, height: 600, rise: 1m, halfLife: 10m}}", "startup: 20s, warmup: 2m", onCPU,
		[2]edit{{"target 60 to 45 %", "averageUtilization: 60", "averageUtilization: 45"}, {"down after 1 min", "", quickDown}}, 6, 15},
	{"150m without load, told", "{ramp: {from: 100, to: 500, at: 20m, for: 80m}}", "startup: 30s", onCPU,
		[2]edit{{"target 60 to 80 %", "averageUtilization: 60", "averageUtilization: 80"}, {"min 3 to 10", "minReplicas: 3", "minReplicas: 10"}}, 4, 15},
	{"150m without load, not told", "{ramp: {from: 100, to: 500, at: 20m, for: 80m}}", "startup: 30s", onCPU,
		[2]edit{{"target 60 to 80 %", "averageUtilization: 60", "averageUtilization: 80"}, {"min 3 to 10", "minReplicas: 3", "minReplicas: 10"}}, 25, 15},
	{"retries", "{constant: 150}, {flashCrowd: {at: 70m, height: 1200, rise: 30s, halfLife: 5m}}", "startup: 60s, retries: {count: 5, delay: 20s, factor: 2}", onCPU,
		[2]edit{{"target 60 to 85 %", "averageUtilization: 60", "averageUtilization: 85"}, {"max 40 to 9", "maxReplicas: 40", "maxReplicas: 9"}}, 8, 30},
	{"a queue's length", "{sawtooth: {low: 100, high: 400, period: 1h}}", "startup: 30s, queue: {size: 100000}, capacity: 30", onQueue,
		[2]edit{{"target 600 to 300", `"600"`, `"300"`}, {"down after 1 min", "", quickDown}}, 45, lateUnknown},
}

func (w *workload) scenario(t *testing.T) *simulation.Scenario {
	t.Helper()
	usage := map[string]string{onCPU: "{metric: cpu, perLoad: 10m, idle: 20m}", onRequests: "{metric: requests, perLoad: \"1\"}", onQueue: "{metric: waiting, perLoad: \"1\", follows: queueLength}"}[w.spec]
	switch {
	case strings.Contains(w.pods, "warmup"):
		usage = strings.Replace(usage, "idle", "warmup: 400m, idle", 1)
	case strings.HasPrefix(w.name, "150m"):
		usage = strings.Replace(usage, "20m", "150m", 1)
	}
	text := fmt.Sprintf("duration: 3h\nload: [%s]\nnoise: {variation: 0.05, every: 1m}\nworkload: {replicas: 6, requests: {cpu: 500m}, limits: {cpu: \"1\"}, %s, usage: [%s]}\n", w.load, w.pods, usage)
	s, err := scenario.Read(t.Context(), w.name, []byte(text), nil, nil)
	fatal.If(t, err)
	return s
}

// truth is what a run was.
type truth struct {
	hours, short float64
	calls        []recording.Call
}

// live runs a workload against the service.
func live(t *testing.T, conn grpc.ClientConnInterface, w *workload, cluster, spec string) truth {
	t.Helper()
	read, err := hpa.ReadOne("spec.yaml", strings.NewReader(spec))
	fatal.If(t, err)
	a, err := read.Engine(nil)
	fatal.If(t, err)
	kubernetes.Defaults(read.Object)
	s := w.scenario(t)
	engine := &served{ctx: t.Context(), conn: conn, target: "clusters/" + cluster + "/namespaces/shop/targets/web", spec: &read.Object.Spec}
	result, err := simulation.RunWith(s, a, engine, nil)
	fatal.If(t, err)
	out := truth{short: result.Figures.ShortTime.Seconds(), calls: engine.calls}
	for _, n := range engine.desired[:len(engine.desired)-1] { // the last one covers no time of a recording
		out.hours += float64(n) * simulation.DefaultPeriod.Hours()
	}
	return out
}

// predicted is what a check says of an edit, by a recording.
func predicted(t *testing.T, old, now, recorded, idle string) *check.History {
	t.Helper()
	got := run(t, recorded, "check", "--old", clitest.File(t, "old.yaml", old), "--new", clitest.File(t, "new.yaml", now), "--recording=-", "--cpu-limit=1", "--idle=cpu="+idle, "-o=json")
	var report check.Report
	if err := json.Unmarshal([]byte(got.Stdout), &report); err != nil || len(report.Specs) != 1 || report.Specs[0].History == nil {
		t.Fatalf("%v, exit code %d\n%s%s", err, got.Code, got.Stdout, got.Stderr)
	}
	return report.Specs[0].History
}

const closedLoopPage = "../../../docs/concepts/closed-loop.md"

// TestWhatTheClosedLoopPredictsIsWhatHappens: a service under one spec is recorded, a check predicts an edit by that,
// and the same load is run against the service under the edited spec. The page has all figures, also the bad ones.
func TestWhatTheClosedLoopPredictsIsWhatHappens(t *testing.T) {
	testlength.SkipUnderRace(t)
	t.Parallel()
	options := server.DefaultOptions()
	options.AllowEvaluationTime, options.Limits.Shedding.Off, options.RequestTimeout = true, true, 5*time.Minute
	options.Recordings.Bytes, options.Recordings.Total, options.Recordings.Buffer = 1<<20, 0, 1<<30
	address := clitest.StartServerWith(t, options)
	conn := clitest.Dial(t, address)

	rows := make([][2]string, len(workloads))
	t.Run("workloads", func(t *testing.T) {
		for i := range workloads {
			if i%3 != 0 && !testlength.Full() && !*update { // a run of hours each, three times
				continue
			}
			t.Run(workloads[i].name, func(t *testing.T) {
				t.Parallel()
				rows[i] = edited(t, conn, address, i)
			})
		}
	})
	page := testpages.Read(t, closedLoopPage)
	if !testlength.Full() && !*update {
		t.Log("each third workload is run: all with FULL=1")
		for _, pair := range rows {
			if !strings.Contains(page, pair[0]+pair[1]) {
				t.Errorf("the table is not what was measured: run go test ./cmd/setpoint/trial -run TestWhatTheClosedLoop -update\n%s%s", pair[0], pair[1])
			}
		}
		return
	}
	var table strings.Builder
	table.WriteString("| workload | edit | replica hours before | after, predicted | after, really | off | by the service's recording | late, predicted | late, really | miss |\n|---|---|---|---|---|---|---|---|---|---|\n")
	for _, pair := range rows {
		table.WriteString(pair[0] + pair[1])
	}
	const begin, end = "<!-- table -->\n", "<!-- end of table -->"
	before, rest, found := strings.Cut(page, begin)
	written, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		t.Fatal("the page has no place for the table")
	}
	switch {
	case written == table.String():
	case *update:
		fatal.If(t, os.WriteFile(closedLoopPage, []byte(before+begin+table.String()+end+after), 0o644))
	default:
		t.Errorf("the table is not what was measured: run go test ./cmd/setpoint/trial -run TestWhatTheClosedLoop -update\n%s", table.String())
	}
}

// edited are the rows of a workload.
func edited(t *testing.T, conn grpc.ClientConnInterface, address string, i int) (rows [2]string) {
	t.Helper()
	w := &workloads[i]
	was := live(t, conn, w, fmt.Sprintf("w%d-before", i), w.spec)
	export := run(t, "", "targets", "export", "--server", address, fmt.Sprintf("clusters/w%d-before/namespaces/shop/targets/web", i))
	if export.Code != 0 {
		t.Fatal(export.Stderr)
	}
	var agents bytes.Buffer
	fatal.If(t, json.NewEncoder(&agents).Encode(&recording.Scenario{Name: "shop/web", Calls: was.calls}))
	idle := "20m"
	if strings.HasSuffix(w.name, ", told") {
		idle = "150m"
	}
	for j := range w.edits {
		e := &w.edits[j]
		spec := e.of(w.spec)
		really := live(t, conn, w, fmt.Sprintf("w%d-after%d", i, j), spec)
		byAgent, byService := predicted(t, w.spec, spec, agents.String(), idle), predicted(t, w.spec, spec, export.Stdout, idle)
		off := 100 * (byAgent.New.ReplicaHours/really.hours - 1)
		offService := 100 * (byService.New.ReplicaHours/really.hours - 1)
		if math.Abs(off) > w.most || math.Abs(byAgent.Old.ReplicaHours-was.hours) > 1e-6*was.hours {
			t.Errorf("%s, %s: off by %.2f %%, more than %g; before %g, really %g", w.name, e.name, off, w.most, byAgent.Old.ReplicaHours, was.hours)
		}
		late := fmt.Sprintf("not known | %.0f s", really.short)
		if byAgent.LimitKnown {
			late = fmt.Sprintf("%.0f s | %.0f s", byAgent.New.ShortSeconds, really.short)
		}
		if byAgent.LimitKnown != (w.late != lateUnknown) || byAgent.LimitKnown && math.Abs(byAgent.New.ShortSeconds-really.short) > w.late {
			t.Errorf("%s, %s: late, predicted and really: %s", w.name, e.name, late)
		}
		rows[j] = strings.ReplaceAll(fmt.Sprintf("| %s | %s | %.2f | %.2f | %.2f | %+.1f %% | %+.1f %% | %s | %.1f %% |\n", w.name, e.name, was.hours, byAgent.New.ReplicaHours, really.hours, off, offService, late, byAgent.Model.MissPercent()), "-0.0 %", "+0.0 %")
	}
	return rows
}
