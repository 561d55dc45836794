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
