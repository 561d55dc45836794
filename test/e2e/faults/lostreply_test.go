package faults

import (
	"context"
	"fmt"
	"testing"

	"github.com/setpoint-dev/setpoint/store/redis/redistest"
)

// asking is how a recommendation is asked for. The errors are by entry.
type asking struct {
	name string
	ask  func(ctx context.Context, s *service, b *book, entries []*entry) []error
}

var askings = []asking{
	{"Recommend", func(ctx context.Context, s *service, b *book, entries []*entry) []error {
		errs := make([]error, len(entries))
		for i, e := range entries {
			errs[i] = s.recommend(ctx, b, e)
		}
		return errs
	}},
	{"BatchRecommend", func(ctx context.Context, s *service, b *book, entries []*entry) []error {
		return s.batch(ctx, b, entries)
	}},
	{"StreamRecommend", func(ctx context.Context, s *service, b *book, entries []*entry) []error {
		return s.stream(ctx, b, entries)
	}},
}

// The swap happens and its reply is lost; the next attempt proposes the same version: the swap
// is acknowledged, and happens once.
func TestASwapWhoseReplyIsLostIsSentAgainAndHappensOnce(t *testing.T) {
	t.Parallel()
	for _, a := range askings {
		for _, fresh := range []bool{false, true} {
			for _, keep := range []int{0, 2} {
				t.Run(fmt.Sprintf("%s, new target %v, %d bytes arrive", a.name, fresh, keep), func(t *testing.T) {
					t.Parallel()
					r := sharedRig(t)
					s := r.start(t, generous)
					b := newBook()
					names := []string{target("one"), target("two"), target("three")}
					if !fresh {
						must(t, s.batch(t.Context(), b, b.requests(names...))...)
						s.allLogged(t, names[0])
					}
					before := s.store.Stats()
					l := &loss{prefix: swapped, keep: keep, times: 1}
					r.proxy.lose(t, l)
					must(t, a.ask(t.Context(), s, b, b.requests(names...))...)
					if l.lost.Load() == 0 {
						t.Fatal("no reply was lost")
					}
					after := s.store.Stats()
					if after.Retries == before.Retries || after.Conflicts != before.Conflicts {
						t.Errorf("%d commands were sent again, %d races lost", after.Retries-before.Retries, after.Conflicts-before.Conflicts)
					}
					b.check(t, r)
					b.retryAll(t, s)
					b.check(t, r)
				})
			}
		}
	}
}

// If a batch's reply breaks off, the driver returns no part of it; everything is sent again.
func TestABatchWhoseReplyBreaksOffHappensOnce(t *testing.T) {
	t.Parallel()
	r := sharedRig(t)
	s := r.start(t, generous)
	b := newBook()
	var names []string
	for i := range 100 {
		names = append(names, target(fmt.Sprint("many-", i)))
	}
	for range 2 {
		must(t, s.batch(t.Context(), b, b.requests(names...))...)
	}
	s.allLogged(t, names[0])
	before := s.store.Stats()
	l := &loss{prefix: swapped, keep: 3*len(swapped) + 1, times: 1}
	r.proxy.lose(t, l)
	must(t, s.batch(t.Context(), b, b.requests(names...))...)
	after := s.store.Stats()
	if l.lost.Load() == 0 || after.Retries == before.Retries || after.Conflicts != before.Conflicts {
		t.Errorf("%d replies lost, %d swaps sent again, %d races lost", l.lost.Load(), after.Retries-before.Retries, after.Conflicts-before.Conflicts)
	}
	b.check(t, r)
}

// The swap happens and no reply ever arrives. The caller is refused, and finds the record when
// it repeats the request.
func TestASwapWithoutAReplyIsFoundByTheSameRequestID(t *testing.T) {
	t.Parallel()
	for _, a := range askings {
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			r := sharedRig(t)
			s, other := r.start(t), r.startBeside(t)
			b := newBook()
			names := []string{target("one"), target("two")}
			must(t, s.batch(t.Context(), b, b.requests(names...))...)
			asked := b.requests(append(names, target("new"))...)
			r.proxy.add(t, "timeout", "downstream", attributes{"timeout": 0})
			errs := a.ask(t.Context(), s, b, asked)
			refused(t, unavailable, errs...)
			r.proxy.clear(t)
			must(t, s.batch(t.Context(), b, b.requests(names...)[:0])...)
			for i, e := range asked {
				// Any instance knows.
				must(t, other.recommend(t.Context(), b, e))
				if i < len(names) && len(r.history(t, names[i]).Answers) != 2 {
					t.Errorf("%s has the answers %v", names[i], r.history(t, names[i]).Answers)
				}
			}
			b.retryAll(t, s)
			b.check(t, r)
		})
	}
}

// Before the swap is sent again, another instance has decided on its result. It must not count
// as a lost race: decided again under the same id, it would be recorded twice.
func TestASwapThatIsOvertakenAfterItsReplyWasLostIsNotDecidedAgain(t *testing.T) {
	t.Parallel()
	for _, a := range askings {
		for _, fresh := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, new target %v", a.name, fresh), func(t *testing.T) {
				t.Parallel()
				r := sharedRig(t)
				s, other := r.start(t, generous), r.startBeside(t, generous)
				b := newBook()
				names := []string{target("overtaken")}
				if !fresh {
					must(t, s.batch(t.Context(), b, b.requests(names...))...)
				}
				asked := b.requests(names...)
				overtakes := b.request(names[0])
				var overtaken error
				l := &loss{prefix: swapped, times: 1, meanwhile: func() {
					overtaken = other.recommend(context.Background(), b, overtakes)
				}}
				r.proxy.lose(t, l)
				refused(t, unavailable, a.ask(t.Context(), s, b, asked)...)
				l.await(t)
				must(t, overtaken)
				b.retryAll(t, s)
				b.retryAll(t, other)
				b.check(t, r)
			})
		}
	}
}

func TestAReportWhoseReplyIsLostSettlesOnce(t *testing.T) {
	t.Parallel()
	for _, overtaken := range []bool{false, true} {
		t.Run(fmt.Sprint("overtaken ", overtaken), func(t *testing.T) {
			t.Parallel()
			r := sharedRig(t)
			s, other := r.start(t, generous), r.startBeside(t, generous)
			name := target("reported")
			answer, err := s.recommendations.Recommend(t.Context(), wants(name, "", 5))
			must(t, err)
			l := &loss{prefix: swapped, times: 1}
			var second error
			if overtaken {
				l.meanwhile = func() {
					second = other.report(context.Background(), name, answer.GetRecommendationId())
					if second == nil {
						_, second = other.recommendations.Recommend(context.Background(), wants(name, "", 7))
					}
				}
			}
			r.proxy.lose(t, l)
			err = s.report(t.Context(), name, answer.GetRecommendationId())
			l.await(t)
			must(t, second)
			if overtaken {
				refused(t, unavailable, err)
			} else {
				must(t, err)
			}
			must(t, s.report(t.Context(), name, answer.GetRecommendationId()))
			if ups := r.history(t, name).ScaleUps; len(ups) != 1 || ups[0].Change != 2 {
				t.Errorf("the change is in the history as %v", ups)
			}
		})
	}
}

// It is unknown whether a delete with a lost reply found anything; the next one reports that
// there is nothing.
func TestADeleteWhoseReplyIsLostIsRefusedAndHasHappened(t *testing.T) {
	t.Parallel()
	r := sharedRig(t)
	s := r.start(t, generous)
	b := newBook()
	must(t, s.recommend(t.Context(), b, b.request(doomed)))
	r.proxy.lose(t, &loss{prefix: swapped, times: 1})
	refused(t, unavailable, s.remove(t.Context(), doomed))
	refused(t, notFound, s.remove(t.Context(), doomed))
	if r.key(t, doomed) != "" {
		t.Error("it is still there")
	}
}

// The decision log is best effort, but has no duplicates.
func TestALogEntryWhoseReplyIsLostIsNotWrittenTwice(t *testing.T) {
	t.Parallel()
	r := newRig(t, redistest.Config{})
	s := r.start(t, generous)
	name := target("logged")
	_, err := s.recommendations.Recommend(t.Context(), wants(name, "", current))
	must(t, err)
	_, err = s.recommendations.Recommend(t.Context(), wants(name, "", 2*current))
	must(t, err)
	_, err = s.decisions(t.Context(), name)
	must(t, err)
	l := &loss{prefix: "+OK", times: 1} // an entry is appended
	r.proxy.lose(t, l)
	_, err = s.recommendations.Recommend(t.Context(), wants(name, "", 3*current))
	must(t, err)
	logged, err := s.decisions(t.Context(), name)
	must(t, err)
	if l.lost.Load() == 0 {
		t.Fatal("no reply was lost")
	}
	seen := make(map[string]int)
	for _, d := range logged {
		seen[d.GetRecommendationId()]++
	}
	if len(seen) != len(logged) || len(logged) != 3 {
		t.Errorf("logged are %v", seen)
	}
}
