package record

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/codec"
	"github.com/setpoint-dev/setpoint/recommender"
)

func TestAnswersAreBoundedInBytes(t *testing.T) {
	var h Record
	limits := Limits{Retention: time.Hour, Count: 10, Bytes: 1000}
	answer := func(id string, explanation, text int) Answer {
		return Answer{RequestID: id, At: 1, Reason: strings.Repeat("r", text), Explanation: make([]byte, explanation)}
	}
	h = h.WithAnswer(answer("a", 600, 0), limits)
	before := h
	h = h.WithAnswer(answer("b", 600, 0), limits)
	equal(t, "both are remembered", len(h.Answers), 2)
	equal(t, "the older one's explanation", len(h.AnswerFor("a").Explanation), 0)
	equal(t, "the newer one's", len(h.AnswerFor("b").Explanation), 600)
	equal(t, "the history before", len(before.Answers[0].Explanation), 600)
	h = h.WithAnswer(answer("c", 0, 900), limits)
	equal(t, "what is left", len(h.Answers), 1)
	h = h.WithAnswer(answer("d", 0, 9000), limits)
	equal(t, "the newest stays in any case", h.Answers[0].RequestID, "d")
	h = h.WithAnswer(answer("e", 2000, 0), limits)
	equal(t, "its explanation", len(h.Answers[0].Explanation), 2000)
	three := []Answer{answer("x", 600, 0), answer("y", 300, 0), answer("z", 0, 0)}
	enough := limits
	enough.Bytes = sizeOfAll(three) - 600
	h.Answers = three
	equal(t, "of the others as much as there is room for", len(new(h.WithinLimits(1, enough)).AnswerFor("y").Explanation), 300)
	h = h.WithinLimits(2+int64(time.Hour), limits)
	equal(t, "in the end", h.Answers, []Answer(nil))
}

func TestAnswersAreRememberedForAWhile(t *testing.T) {
	var h Record
	for i := range 5 {
		h = h.WithAnswer(Answer{RequestID: string(rune('a' + i)), At: int64(i) * 10}, Limits{25, 4, 1 << 20})
	}
	var kept []string
	for _, a := range h.Answers {
		kept = append(kept, a.RequestID)
	}
	equal(t, "those not older than 25", kept, []string{"c", "d", "e"})
	equal(t, "the last decision's request", h.LastRequest, "e")
	equal(t, "a remembered one", h.AnswerFor("d").At, int64(30))
	equal(t, "a forgotten one", h.AnswerFor("a"), (*Answer)(nil))

	next := h.WithAnswer(Answer{RequestID: "f", At: 41}, Limits{25, 2, 1 << 20})
	equal(t, "at most two", len(next.Answers), 2)
	equal(t, "the history before", len(h.Answers), 3)
	remembered := Record{Frame: codec.Frame{Answers: []Answer{{RequestID: "a"}}}}
	exact := remembered.WithAnswer(Answer{RequestID: "b", At: 25}, Limits{25, 9, 1 << 20})
	equal(t, "one exactly as old as the retention stays", len(exact.Answers), 2)
}

// The request's id goes to the decision's change too, and not to another's.
func TestAnAnswerNamesTheRequestOfItsChange(t *testing.T) {
	limits := Limits{time.Minute, 10, 1 << 20}
	d := recommender.Decision{ID: recommender.ID{7}, At: t0, Current: 2, Desired: 4, Reason: "reason", Error: "an error", Status: recommender.Status{DesiredReplicas: 4},
		Events: []recommender.Event{{Type: recommender.EventWarning, Reason: "FailedGetScale", Message: "x"}}, Adjusted: &recommender.Adjusted{Plain: 3}}
	decided := Record{History: recommender.History{Seen: true, Updated: t0, Pending: &recommender.Pending{ID: d.ID}}}
	next := decided.WithAnswer(NewAnswer("r", &d, []byte("because")), limits)
	equal(t, "the change's request", next.PendingRequest, "r")
	equal(t, "the record before", decided.PendingRequest, "")
	other := decided.WithAnswer(Answer{RequestID: "s", ID: recommender.ID{9}}, limits)
	equal(t, "another's request", other.PendingRequest, "")

	decoded := decode(t, Append(nil, &next))
	a := decoded.AnswerFor("r")
	equal(t, "the decision again", DecisionOf(a), d)
	equal(t, "the explanation", string(a.Explanation), "because")

	later := next.Next(recommender.History{Pending: next.Pending}, Owner{})
	equal(t, "while the change is pending", []string{later.PendingRequest, later.LastRequest}, []string{"r", ""})
	another := next.Next(recommender.History{Pending: &recommender.Pending{ID: recommender.ID{8}}}, Owner{})
	equal(t, "of the next change", another.PendingRequest, "")
	none := next.Next(recommender.History{}, Owner{})
	equal(t, "without a change", none.PendingRequest, "")
	_, same, err := next.Settle("shop", recommender.ID{9}, recommender.Applied, "")
	equal(t, "after a report about another one", []any{same.PendingRequest, err}, []any{"r", recommender.ErrUnknownRecommendation})
	_, settled, err := next.Settle("shop", d.ID, recommender.Applied, "")
	equal(t, "once it is settled", []any{settled.PendingRequest, settled.LastRequest, err}, []any{"", "r", nil})
}

func TestAnswersFromTheFuture(t *testing.T) {
	before, after := t0.Add(-time.Minute), t0.Add(time.Hour)
	r := Record{History: recommender.History{Updated: after}}
	r.Spec.Since = after.UnixMilli()
	r.Answers = []Answer{{RequestID: "a", At: after.UnixNano(), Status: recommender.Status{LastScaleTime: after}}, {RequestID: "b", At: before.UnixNano()}}
	got := r.WithoutFuture(t0)
	equal(t, "the newest record", got.Updated, t0)
	equal(t, "the later one", []any{got.Answers[0].At, got.Answers[0].Status.LastScaleTime}, []any{t0.UnixNano(), t0})
	equal(t, "the earlier one", got.Answers[1].At, before.UnixNano())
	equal(t, "since when the spec is in use", got.Spec.Since, t0.UnixMilli())
	equal(t, "the record before", r.Answers[0].At, after.UnixNano())
	r.Spec.Since = before.UnixMilli()
	equal(t, "a spec that was in use before", new(r.WithoutFuture(t0)).Spec.Since, before.UnixMilli())
}

// A decision answers the polls about its spec that have not seen it, and no other.
func TestADecisionAnswersPollsOfItsSpec(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, time.March, 3, 10, 0, 0, 0, time.UTC)
	decided := recommender.History{Seen: true, Updated: at, Last: recommender.LastDecision{ID: recommender.ID{2}, At: at.UnixNano(), From: 3, To: 5, Reason: "queue above target", Error: "an error"},
		Status: recommender.Status{DesiredReplicas: 5}}
	polled := Record{History: decided}
	polled.LastPoll, polled.Adjusted = "etag", &recommender.Adjusted{Plain: 4}
	stored, err := Decode(Append(nil, &polled))
	if err != nil || stored.LastPoll != "etag" || stored.LastRequest != "" {
		t.Fatalf("stored as the answer to a poll of %q and to the request %q: %v", stored.LastPoll, stored.LastRequest, err)
	}
	asked := Record{History: decided}
	asked.LastRequest = "etag"
	next := polled.Next(decided, Owner{})
	older := Record{History: recommender.History{Seen: true, Updated: at.Add(-time.Second)}}
	merged := Merge(&older, &polled)
	for name, tc := range map[string]struct {
		of   *Record
		poll Poll
		want bool
	}{
		"another poller decided":     {&stored, Poll{Spec: "etag", After: recommender.ID{1}}, true},
		"and during an outage":       {&merged, Poll{Spec: "etag", After: recommender.ID{1}}, true},
		"it was seen before":         {&stored, Poll{Spec: "etag", After: recommender.ID{2}}, false},
		"as old as the one seen":     {&stored, Poll{Spec: "etag", After: recommender.ID{1}, AfterAt: at.UnixNano()}, true},
		"older than the one seen":    {&stored, Poll{Spec: "etag", After: recommender.ID{1}, AfterAt: at.UnixNano() + 1}, false},
		"the spec is another one":    {&stored, Poll{Spec: "later", After: recommender.ID{1}}, false},
		"no poll":                    {&stored, Poll{}, false},
		"no poll of what none asked": {&asked, Poll{After: recommender.ID{1}}, false},
		"a request with such an id":  {&asked, Poll{Spec: "etag", After: recommender.ID{1}}, false},
		"the next one, of a request": {&next, Poll{Spec: "etag", After: recommender.ID{1}}, false},
	} {
		var want *Answer
		if tc.want {
			want = &Answer{ID: recommender.ID{2}, At: at.UnixNano(), From: 3, To: 5, Reason: "queue above target", Error: "an error", Status: decided.Status, Adjusted: polled.Adjusted}
		}
		equal(t, name, tc.of.AnswerTo(tc.poll), want)
	}
}

// Adjustments count as part of an answer: they would else grow beyond the limit.
func TestAdjustmentsAreWithinTheLimit(t *testing.T) {
	all := make([]recommender.Adjustment, 8)
	for i := range all {
		all[i].Message = strings.Repeat("x", 250)
	}
	for name, adjusted := range map[string]*recommender.Adjusted{"adjustments": {Adjustments: all}, "overrides that begin or end": {Overrides: all}} {
		var r Record
		for i := range 10 {
			r = r.WithAnswer(Answer{RequestID: fmt.Sprint(i), At: int64(i), Adjusted: adjusted}, Limits{Retention: time.Hour, Count: 32, Bytes: 8 << 10})
		}
		if n := len(r.Answers); n < 2 || n > 4 {
			t.Errorf("%s: %d answers of 2 kB each are within 8 KiB", name, n)
		}
	}
}
