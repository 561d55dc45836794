package nomad

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Writes of one job go one after the other, each on what the one before has made of the job, and the
// group that has waited longest is first, also if it is not there yet.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var (
			order   []string
			index   = uint64(10)
			refused = errors.New("a deployment is active")
			blocked bool
			ts      turns
		)
		group := func(name string) Group { return Group{"default", "web", name} }
		apply := func(name string, observed uint64) error {
			return ts.apply(context.Background(), group(name), 5*time.Second, observed, func(want uint64) (uint64, error) {
				if want != index {
					t.Errorf("%s is written if the job is at %d, which is at %d", name, want, index)
				}
				if blocked {
					return 0, refused
				}
				index++
				order = append(order, name)
				return index, nil
			})
		}
		all := func(names ...string) map[string]error {
			var mu sync.Mutex
			var writing sync.WaitGroup
			out := map[string]error{}
			observed := index
			for _, name := range names {
				writing.Go(func() {
					err := apply(name, observed)
					mu.Lock()
					defer mu.Unlock()
					out[name] = err
				})
				time.Sleep(time.Millisecond)
			}
			writing.Wait()
			return out
		}
		if got := all("c", "a", "b"); got["a"] != nil || got["b"] != nil || got["c"] != nil || !slices.Equal(order, []string{"c", "a", "b"}) {
			t.Fatalf("%v, order %v", got, order)
		}
		// d waits longer than the others, and comes a second later.
		ts.wants(group("d"), true, 5*time.Second)
		time.Sleep(time.Second)
		ts.wants(group("a"), true, 5*time.Second)
		order = nil
		var first *firstError
		if got := all("b", "a"); !errors.As(got["a"], &first) || !errors.As(got["b"], &first) || first.group == "b" {
			t.Fatalf("%v, order %v", got, order)
		}
		if got := all("b", "a", "d"); got["d"] != nil || !slices.Equal(order, []string{"d", "a", "b"}) {
			t.Fatalf("%v, order %v", got, order)
		}
		// One that does not come any more is not waited for.
		ts.wants(group("d"), true, 5*time.Second)
		time.Sleep(8 * time.Second)
		if got := all("a"); got["a"] != nil {
			t.Fatal(got)
		}
		// Nor is one whose period is much longer.
		ts.wants(group("d"), true, time.Hour)
		time.Sleep(time.Second)
		if got := all("a"); got["a"] != nil {
			t.Fatal(got)
		}
		time.Sleep(time.Hour - 2*time.Second)
		if got := all("a"); !errors.As(got["a"], &first) || first.group != "d" {
			t.Fatal(got)
		}
		ts.wants(group("d"), false, 0)
		blocked = true
		if got := all("a"); !errors.Is(got["a"], refused) {
			t.Fatal(got)
		}
		for _, name := range []string{"a", "b", "c", "d"} {
			ts.wants(group(name), false, 0)
		}
		if len(ts.jobs) > 0 {
			t.Errorf("it remembers %d jobs", len(ts.jobs))
		}
	})
}
