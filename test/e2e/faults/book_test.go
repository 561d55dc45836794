package faults

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/server/record"
	"github.com/setpoint-dev/setpoint/test/e2e/kit"
)

// book records a test's requests and answers. No two requests of a book have the same id or
// want the same number of replicas, so that the history shows the fate of each.
type book struct {
	mu       sync.Mutex
	entries  []*entry // guarded by mu
	replicas int32    // guarded by mu
}

// entry is one request.
type entry struct {
	request  *setpointv1.RecommendRequest
	replicas int32
	// answer is the first one; nil: there was none yet. Guarded by book.mu.
	answer *setpointv1.RecommendResponse
}

// historian reads histories from Redis.
type historian interface {
	history(t testing.TB, target string) *record.Record
}

func newBook() *book { return &book{replicas: 10} }

// request returns a request of its own for the target.
func (b *book) request(target string) *entry {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.replicas++
	e := &entry{request: wants(target, fmt.Sprintf("request-%d", b.replicas), b.replicas), replicas: b.replicas}
	b.entries = append(b.entries, e)
	return e
}

func (b *book) requests(targets ...string) []*entry {
	entries := make([]*entry, len(targets))
	for i, name := range targets {
		entries[i] = b.request(name)
	}
	return entries
}

// told records an answer. It returns an error if it is not the answer to that request, or
// differs from an earlier one.
func (b *book) told(e *entry, answer *setpointv1.RecommendResponse) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case answer.GetDesiredReplicas() != e.replicas:
		return fmt.Errorf("%s of %s asked for %d replicas and got %d", e.request.GetRequestId(), e.request.GetTarget(), e.replicas, answer.GetDesiredReplicas())
	case e.answer == nil:
		e.answer = answer
	case !proto.Equal(e.answer, answer):
		return fmt.Errorf("%s of %s got two answers:\n%s\n%s", e.request.GetRequestId(), e.request.GetTarget(), protojson.Format(e.answer), protojson.Format(answer))
	}
	return nil
}

// all returns the requests so far.
func (b *book) all() []*entry {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.entries)
}

// acknowledged returns how many requests have an answer.
func (b *book) acknowledged() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := 0
	for _, e := range b.entries {
		if e.answer != nil {
			n++
		}
	}
	return n
}

// forget drops the target's requests.
func (b *book) forget(target string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.entries = slices.DeleteFunc(b.entries, func(e *entry) bool { return e.request.GetTarget() == target })
}

// retryAll repeats everything until it succeeds; requests that were answered must get the same
// answer. Calls from before the store's return may be refused later, and open the breaker once
// more.
func (b *book) retryAll(t testing.TB, s *service) {
	t.Helper()
	for _, e := range b.all() {
		kit.Eventually(t, notice, "retry of "+e.request.GetRequestId(), func() error {
			err := s.recommend(t.Context(), b, e)
			if err != nil && refusal(err, unavailable) != nil {
				t.Fatalf("retry of %s: %v", e.request.GetRequestId(), err)
			}
			return err
		})
	}
}

// check fails the test unless everything answered is recorded once, and nothing else is.
func (b *book) check(t testing.TB, r historian) {
	t.Helper()
	b.compare(t, r, false)
}

// checkKept fails the test unless everything answered is recorded, and nothing else is. It is
// for long outages with hold-down, in which a merge keeps a part of the answers.
func (b *book) checkKept(t testing.TB, r historian) {
	t.Helper()
	b.compare(t, r, true)
}

func (b *book) compare(t testing.TB, r historian, merged bool) {
	t.Helper()
	byTarget := make(map[string][]*entry)
	for _, e := range b.all() {
		byTarget[e.request.GetTarget()] = append(byTarget[e.request.GetTarget()], e)
	}
	for _, name := range slices.Sorted(maps.Keys(byTarget)) {
		if err := b.recorded(r.history(t, name), byTarget[name], merged); err != nil {
			t.Errorf("the history of %s: %v", name, err)
		}
	}
}

// recorded compares a history with the answers. In a merged one some may be missing.
func (b *book) recorded(h *record.Record, entries []*entry, merged bool) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	byReplicas, byID := make(map[int32]int), make(map[string][]string)
	for _, r := range h.Recommendations {
		byReplicas[r.Replicas]++
	}
	for i := range h.Answers {
		byID[h.Answers[i].RequestID] = append(byID[h.Answers[i].RequestID], h.Answers[i].ID.String())
	}
	// The count at first sight is a recommendation, too.
	if byReplicas[current] == 1 {
		delete(byReplicas, current)
	}
	var problems []error
	for _, e := range entries {
		id, want := e.request.GetRequestId(), 0
		if e.answer != nil {
			want = 1
			if got := byID[id]; len(got) > 0 && got[0] != e.answer.GetRecommendationId() {
				problems = append(problems, fmt.Errorf("%s was answered by %s, recorded is %s", id, e.answer.GetRecommendationId(), got[0]))
			}
		}
		n, answers := byReplicas[e.replicas], len(byID[id])
		if merged {
			answers = max(answers, want)
		}
		if n != want || answers != want {
			problems = append(problems, fmt.Errorf("%s is recorded %d times with %d answers, want %d", id, n, answers, want))
		}
		delete(byReplicas, e.replicas)
		delete(byID, id)
	}
	if len(byReplicas) > 0 || len(byID) > 0 {
		problems = append(problems, fmt.Errorf("decisions without a request: %v, %v", byReplicas, byID))
	}
	return errors.Join(problems...)
}
