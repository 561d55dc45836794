//go:build linux

package hostile

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// Tally counts the results of an attack. It is safe for concurrent use.
type Tally struct {
	mu     sync.Mutex
	counts map[string]int // guarded by mu
}

// NewTally returns an empty one.
func NewTally() *Tally { return &Tally{counts: make(map[string]int)} }

// Add counts one.
func (y *Tally) Add(what string) { y.AddAll(what, 1) }

// AddAll counts n.
func (y *Tally) AddAll(what string, n int) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.counts[what] += n
}

// Of returns the count of a result.
func (y *Tally) Of(what string) int {
	y.mu.Lock()
	defer y.mu.Unlock()
	return y.counts[what]
}

// String lists the counts.
func (y *Tally) String() string {
	y.mu.Lock()
	defer y.mu.Unlock()
	var all []string
	for _, what := range slices.Sorted(maps.Keys(y.counts)) {
		all = append(all, fmt.Sprintf("%d %s", y.counts[what], what))
	}
	return strings.Join(all, ", ")
}

// Paced calls f so often a second, until ctx is done. It catches up with delays in small lots.
func Paced(ctx context.Context, perSecond float64, f func()) {
	began, n := time.Now(), 0.0
	for ctx.Err() == nil {
		if ahead := began.Add(time.Duration(n / perSecond * float64(time.Second))); time.Until(ahead) > 0 {
			select {
			case <-time.After(time.Until(ahead)):
			case <-ctx.Done():
				return
			}
		}
		n++
		f()
	}
}
