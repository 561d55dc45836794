package flight

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/agent"
	"github.com/setpoint-dev/setpoint/clients/agent/flight"
	"github.com/setpoint-dev/setpoint/clients/kubernetes"
	v1 "github.com/setpoint-dev/setpoint/clients/kubernetes/autoscaling/v1"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/recording"
	"github.com/setpoint-dev/setpoint/replay"
	"github.com/setpoint-dev/setpoint/server"
	"github.com/setpoint-dev/setpoint/store/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const curated = "../../recording/testdata/curated.jsonl.gz"

// service is a server in memory.
type service struct {
	recommendations setpointv1.RecommendationServiceClient
	targets         setpointv1.TargetServiceClient
}

func (s *service) GetTarget(ctx context.Context, name string) (*setpointv1.Target, error) {
	answer, err := s.targets.GetTarget(ctx, &setpointv1.GetTargetRequest{Name: name})
	return answer.GetTarget(), err
}

func newService(t *testing.T) *service {
	t.Helper()
	options := server.DefaultOptions()
	options.AllowEvaluationTime = true
	engine := memory.New(memory.Options{})
	srv, err := server.New(engine, engine, options)
	if err != nil {
		t.Fatal(err)
	}
	listener := bufconn.Listen(1 << 20)
	rest, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- srv.Serve(ctx, listener, rest) }()
	conn, err := grpc.NewClient("passthrough:///x", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
		_ = engine.Close()
	})
	return &service{setpointv1.NewRecommendationServiceClient(conn), setpointv1.NewTargetServiceClient(conn)}
}

// decide does a step as the agent does; nil if there is no autoscaler.
func (s *service) decide(t *testing.T, player *recording.Player, step *recording.Step, cluster string) (*agent.Decision, error) {
	t.Helper()
	snapshot, err := player.Snapshot(step)
	if err != nil || snapshot == nil {
		return nil, err
	}
	copied := *snapshot
	copied.Autoscaler = snapshot.Autoscaler.DeepCopy()
	d := &agent.Decision{Key: agent.Key{Kind: "HorizontalPodAutoscaler", Namespace: snapshot.Autoscaler.Namespace, Name: snapshot.Autoscaler.Name}, Observation: &agent.Observation{Native: &copied}}
	if d.Request, err = player.Request(step, cluster); err != nil {
		return nil, err
	}
	if d.Answer, err = s.recommendations.Recommend(t.Context(), d.Request); err != nil {
		return nil, err
	}
	d.At = d.Answer.GetEvaluationTime().AsTime()
	if d.Answer.GetDesiredReplicas() == d.Answer.GetCurrentReplicas() {
		return d, nil
	}
	report := &setpointv1.ReportScaleRequest{Target: d.Request.GetTarget(), RecommendationId: d.Answer.GetRecommendationId(), Outcome: "APPLIED"}
	if d.Applied = step.ScaleUpdateError == ""; !d.Applied {
		d.ApplyError = errors.New(step.ScaleUpdateError)
		report.Outcome, report.Message = "FAILED", step.ScaleUpdateError
	}
	d.Report, err = s.recommendations.ReportScale(t.Context(), report)
	return d, err
}

// replayed replays a file and returns the numbers of scenarios and steps, and the steps with
// another outcome.
func replayed(t *testing.T, name string) (scenarios, histories, steps int, mismatches []string) {
	t.Helper()
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	runner := replay.NewRunner(replay.NewEngine(), replay.Options{})
	for scenario, err := range recording.NewReader(name, file).All() {
		if err != nil {
			t.Fatal(err)
		}
		scenarios++
		if scenario.History != nil {
			histories++
		}
		err := runner.Run(t.Context(), scenario, func(step *replay.Step) error {
			steps++
			if !step.Compared {
				mismatches = append(mismatches, fmt.Sprintf("%s #%d expects nothing", scenario.Name, step.Index+1))
			}
			for _, d := range step.Differences {
				mismatches = append(mismatches, fmt.Sprintf("%s #%d: %s", scenario.Name, step.Index+1, d))
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return scenarios, histories, steps, mismatches
}

// What the agent records about any recorded controller replays without a mismatch, also when a
// scenario begins amid a history.
func TestWhatIsRecordedReplays(t *testing.T) {
	t.Parallel()
	s := newService(t)
	in, err := os.Open(curated)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.Close() }()
	name := filepath.Join(t.TempDir(), "flight.jsonl.gz")
	r, err := flight.Open(flight.Options{File: name, MaxSteps: 3, Targets: s, Format: Format})
	if err != nil {
		t.Fatal(err)
	}
	given, n := 0, 0
	for scenario, err := range recording.NewReader(curated, in).All() {
		if err != nil {
			t.Fatal(err)
		}
		if n++; n%3 == 0 { // as an autoscaler with stages
			scenario.HPA.Annotations = map[string]string{v1.StagesAnnotation: `{"windowThroughFailures": true, "guards": {"ignoreSurge": true}}`}
		}
		player, fresh := recording.NewPlayer(scenario), scenario.HPA.Status.Conditions == nil
		for i := range scenario.Steps {
			d, err := s.decide(t, player, &scenario.Steps[i], fmt.Sprintf("c%d", n))
			if err != nil {
				break // the service refuses an input that the recommender accepts
			}
			if d == nil {
				r.Lost(agent.Key{Kind: "HorizontalPodAutoscaler", Namespace: scenario.HPA.Namespace, Name: scenario.HPA.Name})
				break
			}
			d.Key.Name += fmt.Sprintf("-%d", n)
			d.New, fresh = fresh, false
			snapshotOf(d).PodMetricsSelected = false
			r.Observe(d)
			r.Wait()
			given++
		}
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	scenarios, histories, steps, mismatches := replayed(t, name)
	t.Logf("%d decisions of %d scenarios: recorded %d in %d scenarios, %d of which begin with a history", given, n, steps, scenarios, histories)
	if steps*10 < given*8 {
		t.Errorf("only %d of %d steps were recorded", steps, given)
	}
	if histories < 50 {
		t.Errorf("%d scenarios begin with a history, too few to prove anything", histories)
	}
	for i, m := range mismatches {
		if i < 20 {
			t.Error(m)
		}
	}
	t.Logf("%d mismatches", len(mismatches))
}

// decisionAt is a decision of the service on one object.
func decisionAt(t *testing.T, s *service, name string, at time.Time, change func(*kubernetes.Snapshot)) *agent.Decision {
	t.Helper()
	one := int32(1)
	snapshot := &kubernetes.Snapshot{
		Autoscaler: &autoscalingv2.HorizontalPodAutoscaler{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name},
			Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
				ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "example.org/v1", Kind: "Fleet", Name: name},
				MinReplicas:    &one, MaxReplicas: 10,
			},
		},
		Scale: &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: 3}, Status: autoscalingv1.ScaleStatus{Replicas: 3, Selector: "app=" + name}},
	}
	kubernetes.Defaults(snapshot.Autoscaler)
	if change != nil {
		change(snapshot)
	}
	d := &agent.Decision{Key: agent.Key{Kind: "HorizontalPodAutoscaler", Namespace: "shop", Name: name}, Observation: &agent.Observation{Native: snapshot}, At: at}
	var err error
	if d.Request, err = snapshot.Request("demo"); err != nil {
		t.Fatal(err)
	}
	if d.Answer, err = s.recommendations.Recommend(t.Context(), d.Request); err != nil {
		t.Fatal(err)
	}
	d.At = d.Answer.GetEvaluationTime().AsTime()
	return d
}

func count(t *testing.T, metrics prometheus.Gatherer, result string) (n int) {
	t.Helper()
	families, err := metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if family.GetName() == "setpoint_agent_flight_steps_total" && m.GetLabel()[0].GetValue() == result {
				n += int(m.GetCounter().GetValue())
			}
		}
	}
	return n
}

func TestWhatCantBeReplayedIsLeftOut(t *testing.T) {
	t.Parallel()
	s := newService(t)
	now := time.Now()
	for _, tt := range []struct {
		name string
		// seen are the observed decisions, nil for a request without an answer.
		seen             func(next func() *agent.Decision) []*agent.Decision
		written, leftOut int
	}{
		{"from the first reconcile of a new object on", func(next func() *agent.Decision) []*agent.Decision {
			first, second := next(), next()
			first.New = true
			return []*agent.Decision{first, second}
		}, 2, 0},
		{"not before the history is known", func(next func() *agent.Decision) []*agent.Decision {
			return []*agent.Decision{next(), next(), next()}
		}, 0, 3}, // the service decides three times before the recorder reads the history, but for the last
		{"not what nothing is known of", func(next func() *agent.Decision) []*agent.Decision {
			first, second := next(), next()
			first.New, second.Unsettled = true, true
			return []*agent.Decision{first, second}
		}, 1, 1},
		{"not after a question without an answer", func(next func() *agent.Decision) []*agent.Decision {
			first, second, third := next(), next(), next()
			first.New = true
			return []*agent.Decision{first, nil, second, third}
		}, 1, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			name, metrics := filepath.Join(t.TempDir(), "flight.jsonl"), prometheus.NewRegistry()
			r, err := flight.Open(flight.Options{File: name, Targets: s, Format: Format, Registerer: metrics})
			if err != nil {
				t.Fatal(err)
			}
			target := strings.ReplaceAll(t.Name(), "/", ".")
			var key agent.Key
			for _, d := range tt.seen(func() *agent.Decision { return decisionAt(t, s, strings.ToLower(target[len(target)-10:]), now, nil) }) {
				if d == nil {
					r.Lost(key)
					continue
				}
				key = d.Key
				r.Observe(d)
			}
			if err := r.Close(); err != nil {
				t.Fatal(err)
			}
			if got := count(t, metrics, "written"); got != tt.written {
				t.Errorf("%d written, want %d", got, tt.written)
			}
			if got := count(t, metrics, "left_out"); got != tt.leftOut {
				t.Errorf("%d left out, want %d", got, tt.leftOut)
			}
			if _, _, steps, mismatches := replayed(t, name); steps != tt.written || len(mismatches) > 0 {
				t.Errorf("%d steps replay, %q", steps, mismatches)
			}
		})
	}
}
