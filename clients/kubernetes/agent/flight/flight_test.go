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

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/agent"
	"github.com/setpoint-dev/setpoint/clients/kubernetes"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/recording"
	"github.com/setpoint-dev/setpoint/cmd/setpoint/replay"
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

// decide does what the agent does with a step: nil where there is no autoscaler.
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

// replayed replays a file and returns how many scenarios and steps it has, and those
// steps that came out otherwise.
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

// What the agent records of anything that a controller was recorded with replays
// without a mismatch, also where a scenario begins amid a history.
func TestWhatIsRecordedReplays(t *testing.T) {
	t.Parallel()
	s := newService(t)
	in, err := os.Open(curated)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.Close() }()
	name := filepath.Join(t.TempDir(), "flight.jsonl.gz")
	r, err := newRecorder(Options{File: name, MaxSteps: 3, Targets: s})
	if err != nil {
		t.Fatal(err)
	}
	given, n := 0, 0
	for scenario, err := range recording.NewReader(curated, in).All() {
		if err != nil {
			t.Fatal(err)
		}
		n++
		player, fresh := recording.NewPlayer(scenario), scenario.HPA.Status.Conditions == nil
		for i := range scenario.Steps {
			d, err := s.decide(t, player, &scenario.Steps[i], fmt.Sprintf("c%d", n))
			if err != nil {
				break // the service refuses what the recommender takes
			}
			if d == nil {
				r.take(note{key: agent.Key{Kind: "HorizontalPodAutoscaler", Namespace: scenario.HPA.Namespace, Name: scenario.HPA.Name}})
				break
			}
			d.Key.Name += fmt.Sprintf("-%d", n)
			d.New, fresh = fresh, false
			snapshotOf(d).PodMetricsSelected = false
			r.take(note{d.Key, d})
			given++
		}
	}
	for _, key := range r.keys() {
		r.finish(key)
	}
	if err := r.file.close(); err != nil {
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

// decisionAt is one of an object, made by the service.
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

func count(t *testing.T, r *Recorder, result string) int {
	t.Helper()
	m := counterValue(t, r.steps.WithLabelValues(result))
	return int(m)
}

func TestWhatCantBeReplayedIsLeftOut(t *testing.T) {
	t.Parallel()
	s := newService(t)
	now := time.Now()
	for _, tt := range []struct {
		name             string
		notes            func(next func() *agent.Decision) []note
		written, leftOut int
	}{
		{"from the first round of a new object on", func(next func() *agent.Decision) []note {
			first, second := next(), next()
			first.New = true
			return []note{{first.Key, first}, {second.Key, second}}
		}, 2, 0},
		{"not before the history is known", func(next func() *agent.Decision) []note {
			return []note{decided(next()), decided(next()), decided(next())}
		}, 0, 3}, // the service has decided all three before the recorder asks, but for the last
		{"not what nothing is known of", func(next func() *agent.Decision) []note {
			first, second := next(), next()
			first.New, second.Unsettled = true, true
			return []note{decided(first), decided(second)}
		}, 1, 1},
		{"not after a question without an answer", func(next func() *agent.Decision) []note {
			first, second, third := next(), next(), next()
			first.New = true
			return []note{decided(first), {key: first.Key}, decided(second), decided(third)}
		}, 1, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			name := filepath.Join(t.TempDir(), "flight.jsonl")
			r, err := newRecorder(Options{File: name, Targets: s})
			if err != nil {
				t.Fatal(err)
			}
			target := strings.ReplaceAll(t.Name(), "/", ".")
			for _, n := range tt.notes(func() *agent.Decision { return decisionAt(t, s, strings.ToLower(target[len(target)-10:]), now, nil) }) {
				r.take(n)
			}
			for _, key := range r.keys() {
				r.finish(key)
			}
			if got := count(t, r, "written"); got != tt.written {
				t.Errorf("%d written, want %d", got, tt.written)
			}
			if got := count(t, r, "left_out"); got != tt.leftOut {
				t.Errorf("%d left out, want %d", got, tt.leftOut)
			}
			_ = r.file.close()
			if _, _, steps, mismatches := replayed(t, name); steps != tt.written || len(mismatches) > 0 {
				t.Errorf("%d steps replay, %q", steps, mismatches)
			}
		})
	}
}

func decided(d *agent.Decision) note { return note{d.Key, d} }

// A recorder that can't keep up drops, counts, and begins anew.
func TestTheLoopIsNeverHeldUp(t *testing.T) {
	t.Parallel()
	s := newService(t)
	name := filepath.Join(t.TempDir(), "flight.jsonl")
	r, err := newRecorder(Options{File: name, Targets: s, Queue: 2})
	if err != nil {
		t.Fatal(err)
	}
	d := decisionAt(t, s, "web", time.Now(), nil)
	d.New = true
	for range 5 {
		r.Observe(d) // nobody takes them in: it must not wait
	}
	if got := count(t, r, "dropped"); got != 3 {
		t.Errorf("%d dropped, want 3", got)
	}
	go r.run()
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	r.Observe(d) // after the end it is passed over
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

// A scenario does not go on over what was dropped.
func TestWhatIsDroppedEndsAScenario(t *testing.T) {
	t.Parallel()
	s := newService(t)
	name := filepath.Join(t.TempDir(), "flight.jsonl")
	r, err := newRecorder(Options{File: name, Targets: s, Queue: 1})
	if err != nil {
		t.Fatal(err)
	}
	next := func() *agent.Decision { return decisionAt(t, s, "web", time.Now(), nil) }
	first := next()
	first.New = true
	r.take(decided(first))
	second, third := next(), next()
	r.Observe(second)
	r.Observe(third) // is dropped
	r.take(<-r.notes)
	r.take(decided(next()))
	for _, key := range r.keys() {
		r.finish(key)
	}
	_ = r.file.close()
	if _, _, steps, mismatches := replayed(t, name); steps != 1 || len(mismatches) > 0 {
		t.Errorf("%d steps, %q: want the one before what was dropped", steps, mismatches)
	}
}

func TestFilesRotate(t *testing.T) {
	t.Parallel()
	for _, ending := range []string{"", ".gz"} {
		folder := t.TempDir()
		name := filepath.Join(folder, "flight.jsonl"+ending)
		f, err := openFile(name, 200, 3)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 40 {
			if _, err := fmt.Fprintf(f, "{\"name\": \"%03d, which is some text that takes place\"}\n", i); err != nil {
				t.Fatal(err)
			}
		}
		if err := f.close(); err != nil {
			t.Fatal(err)
		}
		files, err := filepath.Glob(filepath.Join(folder, "*"))
		if err != nil {
			t.Fatal(err)
		}
		if len(files) != 3 {
			t.Errorf("%d files: %q", len(files), files)
		}
		for _, file := range files {
			info, err := os.Stat(file)
			if err != nil {
				t.Fatal(err)
			}
			if info.Size() > 200 {
				t.Errorf("%s has %d bytes", file, info.Size())
			}
		}
		again, err := openFile(name, 200, 3)
		if err != nil || again.size == 0 {
			t.Errorf("opened again: %v, %d bytes", err, again.size)
		}
		_ = again.close()
	}
}
