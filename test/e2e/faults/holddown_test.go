package faults

import (
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/store/redis/redistest"
	"github.com/setpoint-dev/setpoint/test/e2e/kit"
)

// holdDown makes a service answer from its cache while the store is away.
func holdDown(su *setup) { su.options.HoldDown = true }

// aways are ways that the store is away.
var aways = []fault{
	{name: "connections are refused", begin: func(t *testing.T, r *rig) func() {
		r.proxy.disable()
		return func() { r.proxy.enable(t) }
	}},
	{name: "requests vanish", begin: toxic("timeout", "upstream", attributes{"timeout": 0})},
	{name: "replies vanish", begin: toxic("timeout", "downstream", attributes{"timeout": 0})},
	{name: "the process hangs", config: directives(), begin: hang},
	{name: "a script of somebody else does not return", config: directives("busy-reply-threshold 50"), begin: busy},
	{name: "memory is full", config: directives("maxmemory-policy noeviction"), begin: fillMemory},
	{name: "it is a read-only replica", config: directives(), begin: replicate},
	{name: "it lacks replicas", config: directives(), begin: setting("min-replicas-to-write", "1", "0")},
	{name: "the password is another, and connections are closed", config: &redistest.Config{Password: password}, begin: func(t *testing.T, r *rig) func() {
		r.do(t, "CONFIG", "SET", "requirepass", "second")
		r.do(t, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
		return func() { r.do(t, "CONFIG", "SET", "requirepass", password) }
	}},
}

// from returns a request of a workload with so many replicas, that wants others at
// once, but no more than four more in half an hour.
func from(replicas int32, target, id string, wanted int32) *setpointv1.RecommendRequest {
	return with(wants(target, id, wanted), func(r *setpointv1.RecommendRequest) {
		r.Scale.SpecReplicas = replicas
		r.Spec.Behavior.ScaleUp.Policies[0].Value = 4
		r.Spec.Behavior.ScaleDown.StabilizationWindowSeconds = new(int32(0))
	})
}

// condition returns a condition as status and reason.
func condition(answer *setpointv1.RecommendResponse, kind string) string {
	for _, c := range answer.GetStatus().GetConditions() {
		if c.GetType() == kind {
			return c.GetStatus() + " " + c.GetReason()
		}
	}
	return ""
}

// diary makes requests for one target, step by step, and remembers the answers.
type diary struct {
	target  string
	asked   []*setpointv1.RecommendRequest
	answers []*setpointv1.RecommendResponse
}

// step requests at one count and fails the test unless the wanted count is recommended.
func (d *diary) step(t *testing.T, s *service, replicas, wanted, want int32) *setpointv1.RecommendResponse {
	t.Helper()
	req := from(replicas, d.target, fmt.Sprint("step-", len(d.asked)), wanted)
	answer, err := s.recommendations.Recommend(t.Context(), req)
	fatal.If(t, err)
	if answer.GetDesiredReplicas() != want {
		t.Errorf("from %d for %d: %d are recommended, want %d: %v", replicas, wanted, answer.GetDesiredReplicas(), want, answer.GetStatus())
	}
	d.asked, d.answers = append(d.asked, req), append(d.answers, answer)
	return answer
}

// again repeats all steps, which must give the same answers.
func (d *diary) again(t *testing.T, s *service) {
	t.Helper()
	for i, req := range d.asked {
		answer, err := s.recommendations.Recommend(t.Context(), req)
		fatal.If(t, err)
		if !proto.Equal(answer, d.answers[i]) {
			t.Errorf("%s was answered by %v, now by %v", req.GetRequestId(), d.answers[i], answer)
		}
	}
}

func TestWhatIsKnownIsHeldDownWhileTheStoreIsAway(t *testing.T) {
	t.Parallel()
	for _, f := range aways {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			r := f.rig(t)
			s := r.start(t, holdDown)
			d := &diary{target: target("held")}
			fatal.If(t, s.report(t.Context(), d.target, d.step(t, s, 3, 5, 5).GetRecommendationId()))

			end := f.begin(t, r)
			start := time.Now()
			up := d.step(t, s, 5, 9, 7) // 2 of 4 were used up before
			slowest := time.Since(start)
			fatal.If(t, s.report(t.Context(), d.target, up.GetRecommendationId()))
			d.step(t, s, 7, 9, 7) // and 2 now
			down := d.step(t, s, 7, 2, 7)
			if got := condition(down, "AbleToScale"); got != "False HistoryUnavailable" {
				t.Errorf("a scale-down that is withheld has AbleToScale %s", got)
			}
			d.again(t, s)
			refused(t, unavailable, s.recommend(t.Context(), newBook(), newBook().request(probe)))
			dry := from(7, d.target, "", 9)
			dry.DryRun = true
			if _, err := s.recommendations.Recommend(t.Context(), dry); err != nil { // with a store that can be read
				refused(t, unavailable, err)
			}
			kit.Eventually(t, notice, "ready without the store", func() error { return s.holdsDown(t) })
			if got := s.metric(t, "setpoint_unwritten_targets"); got != 1 {
				t.Errorf("%v targets are not written", got)
			}
			if got := s.metric(t, "setpoint_decisions_without_store_total"); got != 3 {
				t.Errorf("%v decisions were made without the store", got)
			}

			end()
			written := s.awaitWritten(t)
			t.Logf("the first answer took %v; written after %v", brief(slowest), brief(written))
			s.awaitReady(t)
			d.check(t, r, 2, 2)
			d.again(t, s)
			d.again(t, r.startBeside(t))
			if got := condition(d.step(t, s, 7, 2, 2), "AbleToScale"); got != "True ReadyForNewScale" {
				t.Errorf("a scale-down has AbleToScale %s", got)
			}
		})
	}
}

// awaitWritten waits until everything that was decided is in the store.
func (s *service) awaitWritten(t *testing.T) time.Duration {
	t.Helper()
	return kit.Eventually(t, notice, "everything is written", func() error {
		if n := s.metric(t, "setpoint_unwritten_targets"); n != 0 {
			return fmt.Errorf("%v targets are not", n)
		}
		return nil
	})
}

// check fails the test unless the steps and those scale-ups are recorded, each once.
func (d *diary) check(t *testing.T, r *rig, ups ...int32) {
	t.Helper()
	h := r.history(t, d.target)
	if len(h.Answers) != len(d.answers) {
		t.Errorf("%d answers are recorded, want %d", len(h.Answers), len(d.answers))
	}
	for i, answer := range d.answers {
		if recorded := h.AnswerFor(d.asked[i].GetRequestId()); recorded == nil || recorded.ID.String() != answer.GetRecommendationId() {
			t.Errorf("%s was answered by %s, recorded is %v", d.asked[i].GetRequestId(), answer.GetRecommendationId(), recorded)
		}
	}
	var got []int32
	for _, e := range h.ScaleUps {
		got = append(got, e.Change)
	}
	if fmt.Sprint(got) != fmt.Sprint(ups) {
		t.Errorf("scale-ups are recorded by %v, want %v", got, ups)
	}
}

// In batches and streams, too, only unknown targets fail.
func TestBatchesAndStreamsAreHeldDownItemByItem(t *testing.T) {
	t.Parallel()
	for _, a := range askings {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			f := aways[0] // the test above has all of them
			r := f.rig(t)
			s := r.start(t, holdDown)
			b := newBook()
			names := []string{target("one"), target("two"), target("three")}
			fatal.If(t, s.batch(t.Context(), b, b.requests(names...))...)
			end := f.begin(t, r)
			for range 3 {
				asked := b.requests(append(names, names[0], target("unknown"))...)
				errs := a.ask(t.Context(), s, b, asked)
				fatal.If(t, errs[:4]...)
				refused(t, unavailable, errs[4])
			}
			if got := s.metric(t, "setpoint_unwritten_targets"); got != 3 {
				t.Errorf("%v targets are not written", got)
			}
			end()
			s.awaitWritten(t)
			b.check(t, r)
			s.awaitReady(t)
			b.retryAll(t, s)
			b.check(t, r)
		})
	}
}
