package serve

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
	autoscalingv2 "k8s.io/api/autoscaling/v2"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/recording"
	"github.com/setpoint-dev/setpoint/cmd/internal/clitest"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/testlength"
	"github.com/setpoint-dev/setpoint/replay"
	"github.com/setpoint-dev/setpoint/store/redis/redistest"
)

// asking makes random requests of a target: of all types of metrics, with any behavior.
type asking struct {
	*rand.Rand
	target string
	spec   *setpointv1.HorizontalPodAutoscalerSpec
	// request is what each pod requests of cpu, in milli.
	request int
}

func (r *asking) chance(percent int) bool { return r.IntN(100) < percent }

func (r *asking) between(low, high int) int { return low + r.IntN(high-low+1) }

func pick[T any](r *asking, of ...T) T { return of[r.IntN(len(of))] }

var described = &setpointv1.CrossVersionObjectReference{Kind: "Ingress", Name: "main", ApiVersion: "networking.k8s.io/v1"}

func newAsking(i int) *asking {
	r := &asking{Rand: rand.New(rand.NewPCG(33, uint64(i))), target: webTarget(i)}
	r.request = r.between(50, 1000)
	r.spec = &setpointv1.HorizontalPodAutoscalerSpec{
		ScaleTargetRef: &setpointv1.CrossVersionObjectReference{Kind: "Deployment", Name: "web", ApiVersion: "apps/v1"},
		MinReplicas:    new(int32(r.between(1, 5))), MaxReplicas: int32(r.between(6, 40)),
	}
	for range r.between(0, 3) { // none: the API's default
		r.spec.Metrics = append(r.spec.Metrics, r.metric(len(r.spec.Metrics)))
	}
	if r.chance(60) {
		r.spec.Behavior = &setpointv1.HorizontalPodAutoscalerBehavior{ScaleUp: r.rules(), ScaleDown: r.rules()}
	}
	return r
}

func (r *asking) metric(i int) *setpointv1.MetricSpec {
	average := func() *setpointv1.MetricTarget {
		return &setpointv1.MetricTarget{Type: "AverageValue", AverageValue: new(fmt.Sprint(r.between(50, 500), "m"))}
	}
	whole := func() *setpointv1.MetricTarget {
		if r.chance(50) {
			return average()
		}
		return &setpointv1.MetricTarget{Type: "Value", Value: new(fmt.Sprint(r.between(50, 500), "m"))}
	}
	perPod := func() *setpointv1.MetricTarget {
		if r.chance(50) {
			return average()
		}
		return &setpointv1.MetricTarget{Type: "Utilization", AverageUtilization: new(int32(r.between(20, 150)))}
	}
	named := &setpointv1.MetricIdentifier{Name: fmt.Sprint("metric-", i)}
	switch r.IntN(5) {
	case 0:
		return &setpointv1.MetricSpec{Type: "Resource", Resource: &setpointv1.ResourceMetricSource{Name: "cpu", Target: perPod()}}
	case 1:
		return &setpointv1.MetricSpec{Type: "ContainerResource", ContainerResource: &setpointv1.ContainerResourceMetricSource{Name: "cpu", Container: "app", Target: perPod()}}
	case 2:
		return &setpointv1.MetricSpec{Type: "Pods", Pods: &setpointv1.PodsMetricSource{Metric: named, Target: average()}}
	case 3:
		return &setpointv1.MetricSpec{Type: "Object", Object: &setpointv1.ObjectMetricSource{Metric: named, DescribedObject: described, Target: whole()}}
	default:
		return &setpointv1.MetricSpec{Type: "External", External: &setpointv1.ExternalMetricSource{Metric: named, Target: whole()}}
	}
}

func (r *asking) rules() *setpointv1.HPAScalingRules {
	rules := &setpointv1.HPAScalingRules{
		StabilizationWindowSeconds: new(pick[int32](r, 0, 30, 60, 300)), SelectPolicy: new(pick(r, "Max", "Max", "Min", "Disabled")),
	}
	for range r.between(1, 3) {
		policy := &setpointv1.HPAScalingPolicy{Type: pick(r, "Pods", "Percent"), Value: int32(r.between(1, 120)), PeriodSeconds: int32(r.between(1, 90))}
		if policy.GetType() == "Pods" {
			policy.Value = policy.GetValue()/20 + 1
		}
		rules.Policies = append(rules.Policies, policy)
	}
	return rules
}

// other is the spec as somebody edits it.
func (r *asking) other() *setpointv1.HorizontalPodAutoscalerSpec {
	out := proto.CloneOf(r.spec)
	out.MinReplicas, out.MaxReplicas = new(int32(r.between(1, 8))), int32(r.between(9, 60))
	out.Behavior = &setpointv1.HorizontalPodAutoscalerBehavior{ScaleUp: r.rules(), ScaleDown: r.rules()}
	for _, m := range out.GetMetrics() {
		for _, t := range []*setpointv1.MetricTarget{m.GetResource().GetTarget(), m.GetContainerResource().GetTarget(), m.GetPods().GetTarget(), m.GetObject().GetTarget(), m.GetExternal().GetTarget()} {
			switch {
			case t == nil:
			case t.AverageUtilization != nil:
				t.AverageUtilization = new(int32(r.between(20, 150)))
			case t.AverageValue != nil:
				t.AverageValue = new(fmt.Sprint(r.between(50, 500), "m"))
			default:
				t.Value = new(fmt.Sprint(r.between(50, 500), "m"))
			}
		}
	}
	return out
}

// ask is what the target is asked at an instant with that many replicas.
func (r *asking) ask(at time.Time, replicas int32) *setpointv1.RecommendRequest {
	req := &setpointv1.RecommendRequest{Target: r.target, Spec: r.spec, Scale: &setpointv1.Scale{SpecReplicas: replicas, StatusReplicas: &replicas}, EvaluationTime: timestamppb.New(at)}
	if r.chance(3) {
		req.Scale, req.ScaleError = nil, &setpointv1.ScaleError{Message: "away"}
	}
	for i := range replicas {
		start := at.Add(-time.Duration(r.IntN(900)) * time.Second)
		pod := &setpointv1.Pod{
			Name: fmt.Sprint("web-", i), Phase: "Running", StartTime: timestamppb.New(start),
			Ready:      &setpointv1.PodReadyCondition{Status: "True", LastTransitionTime: timestamppb.New(start.Add(10 * time.Second))},
			Containers: []*setpointv1.Container{{Name: "app", Requests: map[string]string{"cpu": fmt.Sprint(r.request, "m")}}},
		}
		if r.chance(5) {
			pod.Phase = pick(r, "Pending", "Failed")
		}
		if r.chance(5) {
			pod.Ready.Status = "False"
		}
		req.Pods = append(req.Pods, pod)
		if r.chance(90) {
			req.PodMetrics = append(req.PodMetrics, &setpointv1.PodMetrics{
				Pod: pod.GetName(), Timestamp: timestamppb.New(at), WindowSeconds: 30,
				Containers: []*setpointv1.ContainerMetrics{{Name: "app", Usage: map[string]string{"cpu": fmt.Sprint(r.IntN(2*r.request), "m")}}},
			})
		}
	}
	for i, m := range r.spec.GetMetrics() {
		name := &setpointv1.MetricIdentifier{Name: fmt.Sprint("metric-", i)}
		value := func() string { return fmt.Sprint(r.IntN(5000), "m") }
		switch m.GetType() {
		case "Pods":
			for _, pod := range req.GetPods() {
				if r.chance(90) {
					req.CustomMetrics = append(req.CustomMetrics, &setpointv1.CustomMetric{Metric: name, Value: fmt.Sprint(r.IntN(800), "m"), DescribedObject: &setpointv1.CrossVersionObjectReference{Kind: "Pod", Name: pod.GetName()}})
				}
			}
		case "Object":
			if r.chance(90) {
				req.CustomMetrics = append(req.CustomMetrics, &setpointv1.CustomMetric{Metric: name, Value: value(), DescribedObject: described})
			}
		case "External":
			for range r.IntN(3) {
				req.ExternalMetrics = append(req.ExternalMetrics, &setpointv1.ExternalMetric{Metric: name, Value: value()})
			}
		}
		if r.chance(4) && (m.GetType() == "Object" || m.GetType() == "External") {
			req.MetricErrors = append(req.MetricErrors, &setpointv1.MetricError{Metric: name.GetName(), Message: "away"})
		}
	}
	return req
}

// played is what a target was asked and answered.
type played struct {
	*asking
	other *setpointv1.HorizontalPodAutoscalerSpec
	// decided and otherwise are the counts that services decided by the two specs.
	decided, otherwise []int32
}

// What the service keeps of 200 targets by itself gives every decision again; and what another spec would have decided is
// what a service that is asked the same decides by it.
func TestWhatIsKeptGivesEveryDecisionAgain(t *testing.T) {
	testlength.SkipUnderRace(t)
	t.Parallel()
	const targets, steps = 200, 12
	url := redistest.Shared(t).URL()
	patient := func(s *settings) { s.ShedLoad = false } // a busy machine would refuse some
	one, two := serveOnRedis(t, url, patient), serveOnRedis(t, url, patient)
	begin := time.Now().Add(-30 * time.Minute).Truncate(time.Second)
	all := make([]*played, targets)
	var running sync.WaitGroup
	const atOnce = 8
	for worker := range atOnce {
		running.Go(func() {
			for i := worker; i < targets; i += atOnce {
				p := &played{asking: newAsking(i)}
				p.other = p.asking.other()
				p.play(t, one, two, begin, steps)
				all[i] = p
			}
		})
	}
	running.Wait()
	if t.Failed() {
		return
	}
	conn := clitest.Dial(t, one.address)
	client := setpointv1.NewTargetServiceClient(conn)
	decisions, changes, different, problems := 0, 0, 0, 0
	wrong := func(format string, args ...any) {
		if problems++; problems <= 10 {
			t.Errorf(format, args...)
		}
	}
	types := make(map[string]int)
	for _, p := range all {
		for _, m := range p.spec.GetMetrics() {
			types[m.GetType()]++
		}
		page, err := client.GetRecording(t.Context(), &setpointv1.GetRecordingRequest{Name: p.target})
		if err != nil || page.GetNextPageToken() != "" {
			t.Fatal(err, page.GetNextPageToken())
		}
		kept := replay.Export(p.target, page.GetChunks(), time.Time{}, time.Time{})
		if len(kept.Scenarios) != 1 || kept.Steps != steps || len(kept.Gaps) > 0 || kept.Unreadable > 0 {
			wrong("%s: %d scenarios, %d steps, gaps %v", p.target, len(kept.Scenarios), kept.Steps, kept.Gaps)
			continue
		}
		var file bytes.Buffer
		fatal.If(t, recording.NewWriter(&file).Write(kept.Scenarios[0]))
		scenario, err := recording.NewReader(p.target, &file).Next()
		fatal.If(t, err)
		err = replay.NewRunner(replay.NewEngine(), replay.Options{}).Run(t.Context(), scenario, func(s *replay.Step) error {
			decisions++
			if !s.Compared || len(s.Differences) > 0 || s.Response.GetDesiredReplicas() != p.decided[s.Index] {
				wrong("%s step %d: %d decided, %d again; %v", p.target, s.Index, p.decided[s.Index], s.Response.GetDesiredReplicas(), s.Differences)
			}
			if s.Response.GetDesiredReplicas() != s.Response.GetCurrentReplicas() {
				changes++
			}
			return nil
		})
		fatal.If(t, err)
		err = replay.NewRunner(replay.NewEngine(), replay.Options{Spec: specOf(t, p.other)}).Run(t.Context(), scenario, func(s *replay.Step) error {
			if got, want := s.Response.GetDesiredReplicas(), p.otherwise[s.Index]; got != want {
				wrong("%s step %d: %d predicted, %d decided by the other spec; %s", p.target, s.Index, got, want, s.Response.GetReason())
			}
			return nil
		})
		fatal.If(t, err)
		for i, n := range p.decided {
			if n != p.otherwise[i] {
				different++
			}
		}
	}
	t.Logf("%d decisions, %d of them changes, %d others by the other spec, %d differences; metrics %v", decisions, changes, different, problems, types)
	if decisions != targets*steps || changes < decisions/10 || different < decisions/4 || len(types) != 5 {
		t.Errorf("%d decisions, %d changes, %d different, metrics %v", decisions, changes, different, types)
	}
}

// play asks both services the same, each by its spec. The count is the first one's.
func (p *played) play(t *testing.T, one, two *onRedis, begin time.Time, steps int) {
	at, replicas := begin, int32(p.between(1, 12))
	for range steps {
		at = at.Add(time.Duration(p.between(5, 60)) * time.Second)
		req := p.ask(at, replicas)
		other := proto.CloneOf(req)
		other.Spec = p.other
		failed := p.chance(10)
		answers := make([]*setpointv1.RecommendResponse, 2)
		for i, of := range []struct {
			*onRedis
			req *setpointv1.RecommendRequest
		}{{one, req}, {two, other}} {
			answer, err := of.Recommend(t.Context(), of.req)
			if err != nil {
				t.Errorf("%s: %v", p.target, err)
				return
			}
			answers[i] = answer
		}
		// Nobody applies what the second decides, see replay.Runner.
		if answer := answers[0]; answer.GetDesiredReplicas() != answer.GetCurrentReplicas() {
			report := &setpointv1.ReportScaleRequest{Target: p.target, RecommendationId: answer.GetRecommendationId(), Outcome: "APPLIED"}
			if failed {
				report.Outcome, report.Message = "FAILED", "quota exceeded"
			}
			if _, err := one.ReportScale(t.Context(), report); err != nil {
				t.Errorf("%s: %v", p.target, err)
			}
		}
		p.decided, p.otherwise = append(p.decided, answers[0].GetDesiredReplicas()), append(p.otherwise, answers[1].GetDesiredReplicas())
		if !failed && req.GetScaleError() == nil {
			replicas = min(answers[0].GetDesiredReplicas(), 30)
		}
	}
}

// specOf is the spec as a manifest has it.
func specOf(t *testing.T, spec *setpointv1.HorizontalPodAutoscalerSpec) *autoscalingv2.HorizontalPodAutoscalerSpec {
	text, err := protojson.Marshal(spec)
	fatal.If(t, err)
	out := &autoscalingv2.HorizontalPodAutoscalerSpec{}
	fatal.If(t, json.Unmarshal(text, out))
	return out
}
