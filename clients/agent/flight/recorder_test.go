package flight

import (
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/protobuf/types/known/timestamppb"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/agent"
	"github.com/setpoint-dev/setpoint/internal/fatal"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// at is the instant of decisions.
var at = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// decision is a decision without a change.
func decision() *agent.Decision {
	return &agent.Decision{
		Key: agent.Key{Kind: "Service", Namespace: "shop", Name: "web"}, At: at, Period: 10 * time.Second,
		Request: &setpointv1.RecommendRequest{Target: "clusters/demo/namespaces/shop/targets/web", RequestId: "1", TargetUid: "2"},
		Answer: &setpointv1.RecommendResponse{
			DesiredReplicas: 3, CurrentReplicas: 3, RecommendationId: "3", EvaluationTime: timestamppb.New(at),
			Explanation: &setpointv1.Explanation{},
		},
	}
}

func decided(d *agent.Decision) note { return note{key: d.Key, decision: d} }

func count(t *testing.T, r *Recorder, result string) int {
	t.Helper()
	return int(counterValue(t, r.steps.WithLabelValues(result)))
}

// A slow recorder drops decisions, counts them, and then starts a new scenario.
func TestTheLoopIsNeverHeldUp(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "flight.jsonl")
	r, err := newRecorder(Options{File: name, Queue: 2})
	fatal.If(t, err)
	d := decision()
	d.New = true
	for range 5 {
		r.Observe(d) // must not block, although nothing reads the queue
	}
	if got := count(t, r, "dropped"); got != 3 {
		t.Errorf("%d dropped, want 3", got)
	}
	go r.run()
	fatal.If(t, r.Close())
	r.Observe(d) // ignored after Close
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

// Where the file can't be written, one line a minute says so, of however many objects.
func TestFailedWritesAreLoggedOnceAMinute(t *testing.T) {
	t.Parallel()
	core, logs := observer.New(zap.ErrorLevel)
	r, err := newRecorder(Options{File: filepath.Join(t.TempDir(), "flight.jsonl"), Log: zap.New(core)})
	fatal.If(t, err)
	fatal.If(t, r.file.open.Close())
	const objects = 20
	for i := range objects {
		d := decision()
		d.New, d.Key.Name = true, strconv.Itoa(i)
		r.take(decided(d))
		r.finish(d.Key)
	}
	if got := count(t, r, "failed"); got != objects {
		t.Errorf("%d failed, want %d", got, objects)
	}
	if n := logs.FilterMessage("recording not written").Len(); n != 1 {
		t.Errorf("%d lines, want 1", n)
	}
}

// A scenario ends before a dropped decision and keeps everything before it.
func TestWhatIsDroppedEndsAScenario(t *testing.T) {
	t.Parallel()
	r, err := newRecorder(Options{File: filepath.Join(t.TempDir(), "flight.jsonl"), Queue: 1})
	fatal.If(t, err)
	first := decision()
	first.New = true
	r.take(decided(first))
	r.Observe(decision())
	r.Observe(decision()) // dropped
	r.take(<-r.notes)
	r.Observe(decision())
	r.take(<-r.notes)
	for _, key := range r.keys() {
		r.finish(key)
	}
	if got := count(t, r, "written"); got != 2 {
		t.Errorf("%d steps: want the two before what was dropped", got)
	}
	_ = r.file.close()
}

// An object whose Forget was dropped is forgotten nevertheless: it may have no further note.
func TestAnEndThatIsDroppedIsAnEnd(t *testing.T) {
	t.Parallel()
	r, err := newRecorder(Options{File: filepath.Join(t.TempDir(), "flight.jsonl"), Queue: 1})
	fatal.If(t, err)
	d := decision()
	d.New = true
	r.Observe(d)
	r.Forget(d.Key) // dropped
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		r.run()
	}()
	r.Wait()
	fatal.If(t, r.Close())
	<-ended
	if len(r.gaps) != 0 || r.bytes != 0 {
		t.Errorf("kept: %d gaps, %d bytes", len(r.gaps), r.bytes)
	}
	if got := count(t, r, "written"); got != 1 {
		t.Errorf("%d steps written, want 1", got)
	}
}

// A member's share comes from what other members told, so that it can't be replayed: it is left out, ends
// the scenario before it, and asks the service for no history to begin another one with.
func TestSharesOfFleetsAreLeftOut(t *testing.T) {
	t.Parallel()
	r, err := newRecorder(Options{File: filepath.Join(t.TempDir(), "flight.jsonl")})
	fatal.If(t, err)
	first, member := decision(), decision()
	first.New = true
	member.Request.Fleet = "clusters/f/namespaces/shop/targets/web"
	r.take(decided(first))
	r.take(decided(member))
	if written, left := count(t, r, "written"), count(t, r, "left_out"); written != 1 || left != 1 || len(r.open) > 0 {
		t.Errorf("%d written, %d left out, %d scenarios are open; want 1, 1 and none", written, left, len(r.open))
	}
}

// A scenario begins with a new object, or with the service's history, and ends before what can't be replayed.
func TestWhatCantBeReplayedIsLeftOut(t *testing.T) {
	t.Parallel()
	unsettled := decision()
	unsettled.Unsettled = true
	shadow := decision()
	shadow.Request.Target += agent.ShadowSuffix
	late := decision()
	late.At = late.At.Add(25 * time.Second)
	earlier := decision()
	earlier.At = earlier.At.Add(-5 * time.Minute)
	for _, tt := range []struct {
		name string
		// seen is what follows the first reconcile of a new object, nil for a request without an answer.
		seen             []*agent.Decision
		written, leftOut int
	}{
		{"nothing", []*agent.Decision{decision()}, 2, 0},
		{"a decision of which nothing is known", []*agent.Decision{unsettled, decision()}, 1, 2},
		{"a question without an answer", []*agent.Decision{nil, decision(), decision()}, 1, 2},
		{"one after a pause, in which the service may have begun windows anew", []*agent.Decision{late}, 1, 1},
		{"one before the last, by a clock that was set back", []*agent.Decision{earlier}, 1, 1},
		{"a shadow, which has a history of its own", []*agent.Decision{shadow, shadow}, 1, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r, err := newRecorder(Options{File: filepath.Join(t.TempDir(), "flight.jsonl")})
			fatal.If(t, err)
			first := decision()
			first.New = true
			for _, d := range append([]*agent.Decision{first}, tt.seen...) {
				r.take(note{key: first.Key, decision: d})
			}
			for _, key := range r.keys() {
				r.finish(key)
			}
			if written, left := count(t, r, "written"), count(t, r, "left_out"); written != tt.written || left != tt.leftOut {
				t.Errorf("%d written, %d left out; want %d and %d", written, left, tt.written, tt.leftOut)
			}
		})
	}
}
