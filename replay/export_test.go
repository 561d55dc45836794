package replay

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/kubernetes/recording"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/server/decisionlog"
	"github.com/setpoint-dev/setpoint/server/record"
	"github.com/setpoint-dev/setpoint/server/servertest"
	"github.com/setpoint-dev/setpoint/server/truth"
	"github.com/setpoint-dev/setpoint/stages"
	"github.com/setpoint-dev/setpoint/store"
	"github.com/setpoint-dev/setpoint/store/memory"
)

// keeping is a service that keeps its targets, and counts their decisions.
type keeping struct {
	*Server
	asked map[string]int
	// restarts has windows begin anew after pauses.
	restarts bool
}

func (k *keeping) Recommend(ctx context.Context, req *setpointv1.RecommendRequest) (*setpointv1.RecommendResponse, error) {
	req.RestartAfterPause = k.restarts
	resp, err := k.Server.Recommend(ctx, req)
	if err == nil {
		k.asked[req.GetTarget()]++
	}
	return resp, err
}

func (k *keeping) Delete(context.Context, string) error { return nil }

// Begin is of no use: histories of recordings are left out.
func (k *keeping) Begin(string, *recording.History) {}

// Override is of no use either.
func (k *keeping) Override(string, []stages.Override) {}

// chunksOf reads all chunks of a target.
func chunksOf(t *testing.T, log store.Log, key store.Key) (chunks [][]byte) {
	t.Helper()
	values, next, err := log.ReadLog(context.Background(), key, "", 10_000)
	if err != nil || next != "" {
		t.Fatal(err, next)
	}
	for _, value := range values {
		if _, sealed := decisionlog.ReadChunk(value); sealed != nil {
			chunks = append(chunks, sealed)
		}
	}
	return chunks
}

// TestExportsGiveEveryDecisionAgain asks the service as recorded controllers asked theirs, and replays what it
// keeps of that.
func TestExportsGiveEveryDecisionAgain(t *testing.T) {
	engine := memory.New(memory.Options{})
	s := servertest.Start(t, func(su *servertest.Setup) {
		su.Engine, su.Log = engine, engine
		// All targets are kept, whatever room that takes.
		su.Options.Recordings.Bytes, su.Options.Recordings.Total, su.Options.Recordings.Buffer = 1<<20, 0, 1<<30
	})
	asks := &keeping{Server: NewServer(s.Conn), asked: map[string]int{}}
	targets := 0
	for _, name := range []string{"curated", "fuzz"} {
		played := 0
		for scenario := range scenarios(t, name) {
			deleted := slices.ContainsFunc(scenario.Steps, func(s recording.Step) bool { return s.HPADeleted })
			if deleted || scenario.History != nil || played >= 200 {
				continue
			}
			played++
			asks.restarts = played%2 == 0
			runner := NewRunner(asks, Options{NoCompare: true, Cluster: fmt.Sprintf("c%d", targets)})
			if targets++; runner.Run(t.Context(), scenario, func(*Step) error { return nil }) != nil {
				continue // the service refuses more than the engine
			}
		}
	}
	s.StopAndWait(t)
	log := engine.Chunks(144, 24*time.Hour)
	replayed, differences, decisions, incomplete := 0, 0, 0, 0
	for _, target := range slices.Sorted(maps.Keys(asks.asked)) {
		out := Export(target, chunksOf(t, log, servertest.KeyOf(target)), time.Time{}, time.Time{})
		if out.Unreadable > 0 {
			t.Fatal(out.Unreadability)
		}
		if decisions += out.Steps; out.Steps != asks.asked[target] {
			if incomplete++; incomplete < 10 {
				t.Errorf("%s: %d of %d decisions, gaps %v", target, out.Steps, asks.asked[target], out.Gaps)
			}
		}
		replayed++
		for _, written := range out.Scenarios {
			scenario := reread(t, written)
			err := NewRunner(NewEngine(), Options{}).Run(t.Context(), scenario, func(step *Step) error {
				if !step.Compared {
					t.Errorf("%s: step %d has nothing to compare", target, step.Index)
				}
				if len(step.Differences) > 0 {
					if differences++; differences < 20 {
						t.Errorf("%s step %d: %v", target, step.Index, step.Differences)
					}
				}
				return nil
			})
			if err != nil {
				t.Errorf("%s: %v", target, err)
			}
		}
	}
	t.Logf("%d targets, %d decisions, %d differences, %d incomplete", replayed, decisions, differences, incomplete)
	if replayed < 200 || differences+incomplete > 0 {
		t.Errorf("%d targets, %d differences, %d incomplete", replayed, differences, incomplete)
	}
}

// reread writes a scenario and reads it.
func reread(t *testing.T, scenario *recording.Scenario) *recording.Scenario {
	t.Helper()
	var file bytes.Buffer
	fatal.If(t, recording.NewWriter(&file).Write(scenario))
	again, err := recording.NewReader("export", &file).Next()
	fatal.If(t, err)
	return again
}

// kept starts instances on one store that keep what they are asked.
func kept(t *testing.T, n int) (*memory.Store, []*servertest.Service) {
	t.Helper()
	engine := memory.New(memory.Options{})
	var all []*servertest.Service
	for range n {
		all = append(all, servertest.Start(t, func(su *servertest.Setup) {
			su.Engine, su.Log = engine, engine
			su.Options.Recordings.Bytes = 150_000
		}))
	}
	return engine, all
}

// replayed replays all scenarios and fails at a difference.
func replayed(t *testing.T, out *Exported) {
	t.Helper()
	for _, scenario := range out.Scenarios {
		err := NewRunner(NewEngine(), Options{}).Run(t.Context(), reread(t, scenario), func(step *Step) error {
			if !step.Compared || len(step.Differences) > 0 {
				t.Errorf("%s step %d: %v", scenario.Name, step.Index, step.Differences)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
}

// TestAClosedLoopBeginsWithWhatStagesKeep has a metric fail, from before a recording until its fallback acts: the recording's
// own spec has the recorded counts, as what stages remember is the service's.
func TestAClosedLoopBeginsWithWhatStagesKeep(t *testing.T) {
	engine, all := kept(t, 2)
	at, begin, replicas := servertest.T0, servertest.T0.Add(5*time.Minute), int32(4)
	for i := range 40 {
		s := all[i/20] // the other one keeps the record at its first decision
		req := servertest.Queue(servertest.Web, replicas, 40)
		req.Stages = &setpointv1.Stages{Fallbacks: []*setpointv1.MetricFallback{{Metric: "External:queue-depth", Replicas: new(int32(10))}}}
		if i >= 16 {
			req.ExternalMetrics, req.MetricErrors = nil, []*setpointv1.MetricError{{Metric: "queue-depth", Message: "away"}}
		}
		servertest.EvaluatedAt(at)(req)
		at = at.Add(15 * time.Second)
		resp := s.Recommend(t, req)
		if resp.GetDesiredReplicas() != replicas {
			s.Report(t, servertest.Web, resp.GetRecommendationId(), "APPLIED", "")
		}
		replicas = resp.GetDesiredReplicas()
	}
	for _, s := range all {
		s.StopAndWait(t)
	}
	out := Export(servertest.Web, chunksOf(t, engine.Chunks(0, 0), servertest.KeyOf(servertest.Web)), begin, time.Time{})
	if len(out.Scenarios) != 1 || out.Steps != 20 || replicas != 10 {
		t.Fatalf("%d steps, gaps %v, %d replicas", out.Steps, out.Gaps, replicas)
	}
	got := backtest(t, reread(t, out.Scenarios[0]), &Question{})
	if c := got.ClosedLoop; got.Mismatched > 0 || c.Other.Ups == 0 || c.RecordedSeconds != got.CoveredSeconds {
		t.Errorf("%d differences, recorded for %g s of %g s: %+v", got.Mismatched, c.RecordedSeconds, got.CoveredSeconds, c.Changes)
	}
}

// ask asks about web with that usage of each pod, at the next instant, and applies the answer as told.
func ask(t *testing.T, s *servertest.Service, at time.Time, report string, changes ...func(*setpointv1.RecommendRequest)) *setpointv1.RecommendResponse {
	t.Helper()
	resp := s.Recommend(t, servertest.WebRequest(t, append(changes, servertest.EvaluatedAt(at))...))
	if report != "" && resp.GetDesiredReplicas() != resp.GetCurrentReplicas() {
		s.Report(t, servertest.Web, resp.GetRecommendationId(), report, "quota exceeded")
	}
	return resp
}

// TestTwoInstancesKeepOneRecording lets two instances take turns, and one of them restart.
func TestTwoInstancesKeepOneRecording(t *testing.T) {
	engine, s := kept(t, 2)
	at := servertest.T0
	steps := 0
	turn := func(instance *servertest.Service, n int) {
		for i := range n {
			at = at.Add(15 * time.Second)
			ask(t, instance, at, []string{"APPLIED", "", "FAILED"}[i%3])
			steps++
		}
	}
	for range 10 {
		turn(s[0], 3)
		turn(s[1], 2)
	}
	s[0].StopAndWait(t)
	turn(s[1], 5)
	s[1].StopAndWait(t)
	third := servertest.Start(t, func(su *servertest.Setup) {
		su.Engine, su.Log = engine, engine
		su.Options.Recordings.Bytes = 150_000
	})
	turn(third, 5)
	third.StopAndWait(t)
	out := Export(servertest.Web, chunksOf(t, engine.Chunks(0, 0), servertest.KeyOf(servertest.Web)), time.Time{}, time.Time{})
	if out.Steps != steps || len(out.Gaps) > 0 || len(out.Scenarios) != 1 {
		t.Errorf("%d of %d steps, %d scenarios, gaps %v", out.Steps, steps, len(out.Scenarios), out.Gaps)
	}
	replayed(t, out)
}

// TestAPromotionBeginsAScenario promotes a shadow and takes that back: what is decided next is decided on the other
// history, which is that of no decision before.
func TestAPromotionBeginsAScenario(t *testing.T) {
	engine, s := kept(t, 1)
	spec := func(average string) *setpointv1.HorizontalPodAutoscalerSpec {
		of := servertest.QueueSpec(1, 100).GetSpec()
		of.Metrics[0].External.Target.AverageValue, of.Behavior = &average, nil // the largest count in five minutes
		return of
	}
	set, err := s[0].Targets.SetTargetSpec(t.Context(), &setpointv1.SetTargetSpecRequest{Name: servertest.Polled, TargetSpec: &setpointv1.TargetSpec{
		Spec: spec("10"), Shadows: []*setpointv1.Shadow{{Name: "next", Spec: spec("20")}},
	}})
	fatal.If(t, err)
	var counts []int32
	etag := set.GetTargetSpec().GetEtag()
	for i := range 9 {
		if i > 0 && i%3 == 0 {
			promoted, err := s[0].Targets.PromoteShadow(t.Context(), &setpointv1.PromoteShadowRequest{Name: servertest.Polled, Shadow: "next", Etag: etag})
			fatal.If(t, err)
			etag = promoted.GetTargetSpec().GetEtag()
		}
		s[0].Observe(t, 3, "60")
		resp, err := s[0].Recommendations.GetRecommendation(t.Context(), &setpointv1.GetRecommendationRequest{Target: servertest.Polled, CurrentReplicas: new(int32(3))})
		fatal.If(t, err)
		counts = append(counts, resp.GetRecommendation().GetDesiredReplicas())
		s[0].Clock.Advance(servertest.Period)
	}
	if want := []int32{6, 6, 6, 3, 3, 3, 6, 6, 6}; !slices.Equal(counts, want) {
		t.Fatalf("decided %v, want %v", counts, want)
	}
	s[0].StopAndWait(t)
	out := Export(servertest.Polled, chunksOf(t, engine.Chunks(0, 0), servertest.KeyOf(servertest.Polled)), time.Time{}, time.Time{})
	if out.Steps != len(counts) || len(out.Gaps) > 0 || len(out.Scenarios) != 3 {
		t.Errorf("%d of %d steps, %d scenarios, gaps %v", out.Steps, len(counts), len(out.Scenarios), out.Gaps)
	}
	replayed(t, out)
}

// ofThree returns what three instances kept that served one after the other, for four decisions each.
func ofThree(t *testing.T) [][]byte {
	t.Helper()
	engine, s := kept(t, 3)
	at := servertest.T0
	for _, instance := range s {
		for range 4 {
			at = at.Add(15 * time.Second)
			ask(t, instance, at, "APPLIED")
		}
		instance.StopAndWait(t)
	}
	return chunksOf(t, engine.Chunks(0, 0), servertest.KeyOf(servertest.Web))
}

// TestALargeScenarioIsDivided exports what three instances kept with room for few bytes in a scenario: each begins where a
// history is kept, and none of the decisions is missing.
func TestALargeScenarioIsDivided(t *testing.T) {
	chunks := ofThree(t)
	for _, c := range []struct{ large, scenarios int }{{1, 3}, {9000, 2}, {largeScenario, 1}} {
		out := export(servertest.Web, chunks, time.Time{}, time.Time{}, c.large)
		if out.Steps != 12 || len(out.Gaps) > 0 || len(out.Scenarios) != c.scenarios {
			t.Errorf("of %d bytes: %d steps, %d scenarios, want %d; gaps %v", c.large, out.Steps, len(out.Scenarios), c.scenarios, out.Gaps)
		}
		replayed(t, out)
	}
}

// TestWhyAGapIs has steps, a gap, and steps after it.
func TestWhyAGapIs(t *testing.T) {
	text, err := proto.Marshal(&setpointv1.SpecInUse{Spec: servertest.Queue(servertest.Web, 1, 1).GetSpec()})
	fatal.If(t, err)
	for name, tt := range map[string]struct {
		// steps come every so often before the gap, and after it as long ago as ago, compared with the last one of all.
		steps      int
		every, ago time.Duration
		// noState: the step after the gap does not begin a scenario, and was made on a record of before.
		noState bool
		want    string
	}{
		"an instance was killed":          {steps: 130, every: 15 * time.Second, ago: time.Hour, want: notKept},
		"half an hour ago":                {steps: 130, every: 15 * time.Second, ago: unwritten, want: notKept},
		"another one may have it":         {steps: 130, every: 15 * time.Second, ago: unwritten - time.Nanosecond, want: notYet},
		"asked in a loop":                 {steps: 120, every: 100 * time.Millisecond, ago: time.Hour, want: tooOften},
		"as often as may be":              {steps: 120, every: 900 * time.Millisecond, ago: time.Hour, want: tooOften},
		"once a second":                   {steps: 200, every: time.Second, ago: time.Hour, want: notKept},
		"not so long":                     {steps: 119, every: 100 * time.Millisecond, ago: time.Hour, want: notKept},
		"a decision that is not repeated": {steps: 130, every: 15 * time.Second, ago: time.Hour, noState: true, want: notTheSame},
	} {
		t.Run(name, func(t *testing.T) {
			var e truth.Encoder
			at, before := servertest.T0.UnixNano(), int64(0)
			step := func(state []byte) {
				if !e.Step(&truth.Step{At: at, Before: before, Spec: 1, SpecText: text, State: state, Generation: -1, Current: 1, Desired: 1}) {
					t.Fatal("a step that can't be kept")
				}
				before = at
			}
			state := record.Append(nil, &record.Record{})
			for range tt.steps {
				step(state)
				at += int64(tt.every)
			}
			before = at
			if at += int64(time.Minute); tt.noState {
				before, state = servertest.T0.UnixNano(), nil
			}
			end := before + int64(tt.ago)
			step(state)
			at = max(at, end)
			step(record.Append(nil, &record.Record{}))
			out := Export(servertest.Web, [][]byte{truth.Seal(e.Take())}, time.Time{}, time.Time{})
			if len(out.Gaps) == 0 || out.Gaps[0].Why != tt.want {
				t.Errorf("%d steps, gaps %v, want %q", out.Steps, out.Gaps, tt.want)
			}
		})
	}
}

// TestALostChunkIsAGap loses the chunk of one instance of three that served one after the other.
func TestALostChunkIsAGap(t *testing.T) {
	chunks := ofThree(t)
	if len(chunks) != 3 {
		t.Fatalf("%d chunks", len(chunks))
	}
	out := Export(servertest.Web, [][]byte{chunks[0], chunks[2]}, time.Time{}, time.Time{})
	if out.Steps != 8 || len(out.Scenarios) != 2 || len(out.Gaps) != 1 || out.Gaps[0].Why != notYet {
		t.Fatalf("%d steps, %d scenarios, gaps %v", out.Steps, len(out.Scenarios), out.Gaps)
	}
	if gap := out.Gaps[0]; !gap.From.Equal(servertest.T0.Add(4*15*time.Second)) || !gap.To.Equal(servertest.T0.Add(9*15*time.Second)) {
		t.Errorf("gap from %v to %v", gap.From, gap.To)
	}
	replayed(t, out)
	if out := Export(servertest.Web, append(chunks, []byte("x"), nil), time.Time{}, time.Time{}); out.Unreadable != 2 || out.Steps != 12 {
		t.Errorf("%d unreadable, %d steps", out.Unreadable, out.Steps)
	}
	// The first instance's chunk is missing at the beginning of the time that is wanted, and of no other.
	begin := servertest.T0.Add(20 * time.Second)
	for _, from := range []time.Time{begin, time.Date(2, time.January, 1, 0, 0, 0, 0, time.UTC), servertest.T0.Add(4*15*time.Second + 1), {}} {
		out := Export(servertest.Web, chunks[:2], from, time.Time{}) // the newest first
		told := len(out.Gaps) == 1 && !out.Gaps[0].From.After(begin) && out.Gaps[0].To.Equal(servertest.T0.Add(5*15*time.Second))
		if missing := !from.IsZero() && !from.After(begin); out.Steps != 8 || told != missing || !missing && len(out.Gaps) > 0 {
			t.Errorf("from %v: %d steps, gaps %v", from, out.Steps, out.Gaps)
		}
		if told && !from.Before(begin) && !out.Gaps[0].From.Equal(begin) {
			t.Errorf("the gap begins at %v", out.Gaps[0].From)
		}
		replayed(t, out)
	}
	window := Export(servertest.Web, chunks, servertest.T0.Add(100*time.Second), servertest.T0.Add(121*time.Second))
	if n := window.Steps; n != 4 { // the instance that served at the begin, from its first one on
		t.Errorf("a window of %d steps", n)
	}
	replayed(t, window)
}

// TestWindowsOfAnExport asks for times without decisions, and for instants that have no nanoseconds since the Unix epoch.
func TestWindowsOfAnExport(t *testing.T) {
	engine, s := kept(t, 1)
	const steps = 4
	for i := range steps {
		ask(t, s[0], servertest.T0.Add(time.Duration(i)*15*time.Second), "APPLIED")
	}
	s[0].StopAndWait(t)
	chunks := chunksOf(t, engine.Chunks(0, 0), servertest.KeyOf(servertest.Web))
	year := func(n int) time.Time { return time.Date(n, time.January, 1, 0, 0, 0, 0, time.UTC) }
	for _, c := range []struct {
		name     string
		from, to time.Time
		want     int
	}{
		{"after the last decision", servertest.T0.Add(time.Minute), time.Time{}, 0},
		{"from the last decision", servertest.T0.Add(45 * time.Second), time.Time{}, steps},
		{"before the first one", time.Time{}, servertest.T0, 0},
		{"from the far future", year(9999), time.Time{}, 0},
		{"to the far future", time.Time{}, year(9999), steps},
		{"from the distant past", year(2), time.Time{}, steps},
		{"to the distant past", time.Time{}, year(2), 0},
		{"all of time", year(2), year(9999), steps},
		{"the wrong way round", servertest.T0.Add(45 * time.Second), servertest.T0.Add(15 * time.Second), 0},
	} {
		if out := Export(servertest.Web, chunks, c.from, c.to); out.Steps != c.want || len(out.Gaps) > 0 { // the target was new
			t.Errorf("%s: %d steps, want %d; gaps %v", c.name, out.Steps, c.want, out.Gaps)
		}
	}
}

// TestADeletionWhereNothingIsKept deletes a target with an instance that keeps nothing: what another one has kept goes.
func TestADeletionWhereNothingIsKept(t *testing.T) {
	engine, s := kept(t, 1)
	ask(t, s[0], servertest.T0, "")
	s[0].StopAndWait(t)
	chunks := engine.Chunks(0, 0)
	if n := len(chunksOf(t, chunks, servertest.KeyOf(servertest.Web))); n != 1 {
		t.Fatalf("%d chunks", n)
	}
	off := servertest.Start(t, func(su *servertest.Setup) { su.Engine, su.Log = engine, engine })
	if _, err := off.Targets.DeleteTarget(t.Context(), &setpointv1.DeleteTargetRequest{Name: servertest.Web}); err != nil {
		t.Fatal(err)
	}
	if n := len(chunksOf(t, chunks, servertest.KeyOf(servertest.Web))); n != 0 {
		t.Errorf("%d chunks of a deleted target are left", n)
	}
}

// TestWhatIsNotKept asks what leaves nothing.
func TestWhatIsNotKept(t *testing.T) {
	engine, s := kept(t, 1)
	ask(t, s[0], servertest.T0, "", servertest.DryRun)
	ask(t, s[0], servertest.T0.Add(time.Minute), "", func(r *setpointv1.RecommendRequest) {
		r.Target = servertest.Web + "-old"
		r.Options = &setpointv1.RecommendOptions{Profile: "cooldown"}
	})
	ask(t, s[0], servertest.T0.Add(time.Minute), "", func(r *setpointv1.RecommendRequest) { r.Target = servertest.Web + "-gone" })
	if _, err := s[0].Targets.DeleteTarget(t.Context(), &setpointv1.DeleteTargetRequest{Name: servertest.Web + "-gone"}); err != nil {
		t.Fatal(err)
	}
	s[0].StopAndWait(t)
	for _, name := range []string{"", "-old", "-gone"} {
		if chunks := chunksOf(t, engine.Chunks(0, 0), servertest.KeyOf(servertest.Web+name)); len(chunks) > 0 {
			t.Errorf("%q: %d chunks", name, len(chunks))
		}
	}
}

// TestASpecWithoutMetrics is asked with the API's default metric.
func TestASpecWithoutMetrics(t *testing.T) {
	engine, s := kept(t, 1)
	for i := range 5 {
		ask(t, s[0], servertest.T0.Add(time.Duration(i)*time.Minute), "APPLIED", func(r *setpointv1.RecommendRequest) { r.Spec.Metrics = nil })
	}
	s[0].StopAndWait(t)
	out := Export(servertest.Web, chunksOf(t, engine.Chunks(0, 0), servertest.KeyOf(servertest.Web)), time.Time{}, time.Time{})
	if out.Steps != 5 || len(out.Gaps) > 0 {
		t.Errorf("%d steps, gaps %v", out.Steps, out.Gaps)
	}
	replayed(t, out)
}

// Empty parts of a spec decide, too: an empty behavior limits changes where none does not.
func TestEmptyPartsOfASpec(t *testing.T) {
	rules := &setpointv1.HPAScalingRules{}
	for _, behavior := range []*setpointv1.HorizontalPodAutoscalerBehavior{{}, {ScaleUp: rules}, {ScaleDown: rules}} {
		engine, s := kept(t, 1)
		for i := range 5 {
			ask(t, s[0], servertest.T0.Add(time.Duration(i)*time.Minute), "APPLIED", func(r *setpointv1.RecommendRequest) {
				r.Spec.Behavior, r.Spec.MaxReplicas = behavior, 100
				r.Spec.Metrics[0].Resource.Target.AverageUtilization = new(int32(1))
			})
		}
		s[0].StopAndWait(t)
		out := Export(servertest.Web, chunksOf(t, engine.Chunks(0, 0), servertest.KeyOf(servertest.Web)), time.Time{}, time.Time{})
		replayed(t, out)
	}
}

// TestGetRecording reads what is not yet written, too, and by pages.
func TestGetRecording(t *testing.T) {
	_, s := kept(t, 1)
	for i := range 10 {
		ask(t, s[0], servertest.T0.Add(time.Duration(i)*15*time.Second), "APPLIED")
	}
	s[0].Clock.Advance(10 * time.Minute)
	page, err := s[0].Targets.GetRecording(t.Context(), &setpointv1.GetRecordingRequest{Name: servertest.Web, PageSize: 1})
	if err != nil || page.GetNextPageToken() != "" {
		t.Fatal(page, err)
	}
	again, err := s[0].Targets.GetRecording(t.Context(), &setpointv1.GetRecordingRequest{Name: servertest.Web})
	if err != nil || len(again.GetChunks()) != 1 { // reading ends no chunk
		t.Fatal(again, err)
	}
	out := Export(servertest.Web, page.GetChunks(), time.Time{}, time.Time{})
	if out.Steps != 10 || len(out.Gaps) > 0 {
		t.Errorf("%d steps, gaps %v", out.Steps, out.Gaps)
	}
	replayed(t, out)
	if _, err := s[0].Targets.GetRecording(t.Context(), &setpointv1.GetRecordingRequest{Name: servertest.Web + "-other"}); status.Code(err) != codes.NotFound {
		t.Errorf("of an unknown target: %v", err)
	}
	if _, err := servertest.Start(t).Targets.GetRecording(t.Context(), &setpointv1.GetRecordingRequest{Name: servertest.Web}); status.Code(err) != codes.Unimplemented {
		t.Errorf("of a service that keeps none: %v", err)
	}
}
