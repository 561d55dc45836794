package faults

import (
	"context"
	"fmt"
	"testing"
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
