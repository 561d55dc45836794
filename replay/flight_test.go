package replay

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"flag"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/recording"
	"github.com/setpoint-dev/setpoint/hpa"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/testlength"
	"github.com/setpoint-dev/setpoint/internal/testpages"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/simulation"
	"github.com/setpoint-dev/setpoint/simulation/scenario"
	"github.com/setpoint-dev/setpoint/test/testserver"
)

var update = flag.Bool("update", false, "write the example's flight")

const (
	examples   = "../examples/simulation/"
	flightFile = examples + "flight.jsonl.gz"
)

// camera is the production engine, and writes down what it is asked as an agent does.
type camera struct {
	simulation.Engine
	spec  *autoscalingv2.HorizontalPodAutoscalerSpec
	calls []*setpointv1.RecommendRequest
}

func (c *camera) Recommend(now time.Time, in *recommender.Input) (recommender.Decision, error) {
	req := testserver.RequestOf("clusters/demo/namespaces/shop/targets/web", c.spec, in)
	req.EvaluationTime = timestamppb.New(now)
	c.calls = append(c.calls, req)
	return c.Engine.Recommend(now, in)
}

// flown is a simulation of the examples as an agent records it: the whole day of web.yaml with
// hpa.yaml, or a part of it.
func flown(t *testing.T, from, to time.Duration) *recording.Scenario {
	t.Helper()
	s, a, spec := exampleScenario(t, "hpa.yaml")
	c := &camera{Engine: simulation.NewEngine(a.Namespace), spec: spec}
	if _, err := simulation.RunWith(s, a, c, nil); err != nil {
		t.Fatal(err)
	}
	out := &recording.Scenario{Name: "shop/web", Source: "simulation of examples/simulation"}
	engine := NewEngine()
	for _, req := range c.calls {
		at := req.GetEvaluationTime().AsTime()
		if at.Before(s.Start.Add(from)) || !at.Before(s.Start.Add(to)) {
			continue
		}
		answer, err := engine.Recommend(t.Context(), req)
		fatal.If(t, err)
		call := recording.Call{Time: at}
		if answer.GetDesiredReplicas() != answer.GetCurrentReplicas() {
			report, err := engine.ReportScale(t.Context(), &setpointv1.ReportScaleRequest{Target: req.GetTarget(), RecommendationId: answer.GetRecommendationId(), Outcome: "APPLIED"})
			fatal.If(t, err)
			call.Report = message(t, report)
		}
		req.EvaluationTime = nil
		call.Request, call.Answer = message(t, req), message(t, answer)
		out.Calls = append(out.Calls, call)
	}
	return out
}

func message(t *testing.T, m proto.Message) json.RawMessage {
	t.Helper()
	data, err := protojson.Marshal(m)
	fatal.If(t, err)
	var compact bytes.Buffer // protojson's blanks differ from build to build
	fatal.If(t, json.Compact(&compact, data))
	return compact.Bytes()
}

func exampleScenario(t *testing.T, specFile string) (*simulation.Scenario, *simulation.Autoscaler, *autoscalingv2.HorizontalPodAutoscalerSpec) {
	t.Helper()
	data := testpages.Read(t, examples+"web.yaml")
	s, err := scenario.Read(t.Context(), "web.yaml", []byte(data), nil, nil)
	fatal.If(t, err)
	file, err := os.Open(examples + specFile)
	fatal.If(t, err)
	defer func() { _ = file.Close() }()
	read, err := hpa.ReadOne(specFile, file)
	fatal.If(t, err)
	spec := &read.Object.Spec
	a, err := read.Engine(nil)
	fatal.If(t, err)
	return s, a, spec
}

// flight is the recording that the examples have: the evening with its flash crowd.
func flight(t *testing.T) *recording.Scenario {
	t.Helper()
	data := testpages.Read(t, flightFile)
	for scenario, err := range recording.NewReader(flightFile, strings.NewReader(data)).All() {
		fatal.If(t, err)
		return scenario
	}
	t.Fatal("there is no scenario")
	return nil
}

func TestTheExamplesFlightIsASimulation(t *testing.T) {
	t.Parallel()
	line, err := json.Marshal(flown(t, 18*time.Hour, 21*time.Hour))
	fatal.If(t, err)
	if *update {
		var out bytes.Buffer
		w, _ := gzip.NewWriterLevel(&out, gzip.BestCompression)
		if _, err := w.Write(append(line, '\n')); err != nil {
			t.Fatal(err)
		}
		fatal.If(t, w.Close())
		fatal.If(t, os.WriteFile(flightFile, out.Bytes(), 0o644))
	}
	file, err := os.Open(flightFile)
	fatal.If(t, err)
	defer func() { _ = file.Close() }()
	r, err := gzip.NewReader(file)
	fatal.If(t, err)
	var have bytes.Buffer
	if _, err := have.ReadFrom(r); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(bytes.TrimSpace(have.Bytes()), line) {
		t.Error("the file is another; go test ./replay -run=Flight -update writes it")
	}
}

// A flight's own spec comes to the flight in the closed loop, and another one to what it does in
// the same world from the count that it begins with.
func TestAFlightInAClosedLoop(t *testing.T) {
	t.Parallel()
	recorded := flight(t)
	_, _, own := exampleScenario(t, "hpa.yaml")
	got, err := RunBacktest(t.Context(), recorded, &Question{Spec: own})
	fatal.If(t, err)
	if c := got.ClosedLoop; got.Mismatched != 0 || c.ModelledSeconds+c.UnknownSeconds != 0 || c.RecordedSeconds != got.SpanSeconds || c.Recorded != c.Other {
		t.Errorf("its own spec: %+v of %+v", c, got)
	}

	s, a, other := exampleScenario(t, "careful.yaml")
	first := recorded.Steps[0].Time.Sub(s.Start)
	points := slices.Clone(s.Load.Points())
	for i := range points {
		points[i].At -= first
	}
	s.Load, err = simulation.NewTrace(points)
	fatal.If(t, err)
	replicas := recorded.Steps[0].Request.GetScale().GetSpecReplicas()
	s.Start, s.Duration, s.Workload.Replicas = s.Start.Add(first), 3*time.Hour, &replicas
	truth, err := simulation.Run(s, a, nil)
	fatal.If(t, err)
	limit := Assumed{CPULimit: 1000, Idle: []recommender.ResourceUsage{{Resource: "cpu", Milli: 20}}}
	got, err = RunBacktest(t.Context(), recorded, &Question{Spec: other, Assumed: limit})
	fatal.If(t, err)
	c := got.ClosedLoop
	if c.RecordedSeconds+c.ModelledSeconds != got.SpanSeconds || c.ModelledSeconds < 0.9*got.SpanSeconds {
		t.Errorf("%+v", c)
	}
	if off := c.Other.ReplicaHours/truth.Figures.ReplicaHours - 1; math.Abs(off) > 0.02 {
		t.Errorf("%g replica-hours, %g in the same world", c.Other.ReplicaHours, truth.Figures.ReplicaHours)
	}
	if c.Other.Most < truth.Figures.Most-2 || c.Other.Most > truth.Figures.Most+2 {
		t.Errorf("up to %d replicas, up to %d in the same world", c.Other.Most, truth.Figures.Most)
	}
	t.Logf("replica-hours %g and %g, most %d and %d, short %gs and %s, lower bound %gs", c.Other.ReplicaHours, truth.Figures.ReplicaHours,
		c.Other.Most, truth.Figures.Most, *c.Other.ShortSeconds, truth.Figures.ShortTime, c.LowerBoundSeconds)
}

// With all pods modelled, the own spec shows by how much the model misses: it is never the recording itself.
func TestAFlightThatIsModelled(t *testing.T) {
	t.Parallel()
	got := backtest(t, flight(t), &Question{Modelled: true, Assumed: Assumed{CPULimit: 1000, Idle: []recommender.ResourceUsage{{Resource: "cpu", Milli: 20}}}})
	c := got.ClosedLoop
	if c.RecordedSeconds != 0 || c.ModelledSeconds != got.SpanSeconds {
		t.Errorf("%+v of %g s", c, got.SpanSeconds)
	}
	off, same := c.Other.ReplicaHours/c.Recorded.ReplicaHours-1, 0
	for _, at := range got.Instants {
		if at.Closed == at.Recorded {
			same++
		}
	}
	if math.Abs(off) > 0.02 || same < len(got.Instants)*95/100 || same == len(got.Instants) {
		t.Errorf("replica-hours off by %.2f %%, the same count at %d of %d steps", 100*off, same, len(got.Instants))
	}
	t.Logf("replica-hours off by %.2f %%, the same count at %d of %d steps", 100*off, same, len(got.Instants))
}

// Each step of a closed loop is one of the four sources, and time is counted once.
func TestTimeOfAClosedLoopAddsUp(t *testing.T) {
	testlength.SkipUnderRace(t)
	t.Parallel()
	for scenario := range scenarios(t, "fuzz") {
		spec := scenario.HPA.Spec.DeepCopy()
		spec.MaxReplicas += 2
		got := backtest(t, scenario, &Question{Spec: spec})
		c := got.ClosedLoop
		if sum := c.RecordedSeconds + c.ModelledSeconds + c.UnknownSeconds; math.Abs(sum-got.CoveredSeconds) > 1e-6 || c.LowerBoundSeconds > c.ModelledSeconds {
			t.Errorf("%s: %+v of %g s", scenario.Name, c, got.CoveredSeconds)
		}
		if c.Other.Most > max(spec.MaxReplicas, c.Recorded.Most) {
			t.Errorf("%s: %+v", scenario.Name, c)
		}
	}
}

// The limit is that of the autoscaler's own pods, of all their containers; one without a limit
// leaves it unknown.
func TestTheLimitOfAPod(t *testing.T) {
	t.Parallel()
	pod := func(name string, limits ...string) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}}
		for _, limit := range limits {
			c := corev1.Container{}
			if limit != "" {
				c.Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(limit)}
			}
			p.Spec.Containers = append(p.Spec.Containers, c)
		}
		return p
	}
	in := &recommender.Input{Pods: []recommender.Pod{{Name: "web"}}}
	for _, tt := range []struct {
		pods    []*corev1.Pod
		in      *recommender.Input
		assumed int64
		want    int64
	}{
		{[]*corev1.Pod{pod("other", "4"), pod("web", "500m", "1")}, in, 0, 1500},
		{[]*corev1.Pod{pod("web", "500m", "")}, in, 0, 0},
		{[]*corev1.Pod{pod("other", "4")}, in, 0, 0},
		{[]*corev1.Pod{pod("web", "500m")}, in, 2000, 2000},
		{nil, nil, 0, 0},
		{nil, in, 0, 0},
	} {
		if got := limitOf(&recording.Step{Pods: tt.pods}, tt.in, Assumed{CPULimit: tt.assumed}); got != tt.want {
			t.Errorf("%d, want %d", got, tt.want)
		}
	}
}
