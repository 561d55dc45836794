package overrides

import (
	"context"
	"time"
)

// Cached is how many clusters are in the cache.
func (o *Overrides) Cached() int { return len(o.cache.all()) }

// Within has the cache be for lists of so many bytes, in each of its parts.
func (o *Overrides) Within(memory int) { o.cache.memory = memory }

// Memory is what the lists of the cache take in the part that has the most.
func (o *Overrides) Memory() (most int) {
	for i := range o.cache.parts {
		taken := 0
		for _, one := range *o.cache.parts[i].clusters.Load() {
			taken += one.memory()
		}
		most = max(most, taken)
	}
	return most
}

// Refresh is what Run does once a second.
func (o *Overrides) Refresh(ctx context.Context) { o.refresh(ctx) }

// SetClockBack makes it as if the machine's clock had been set back.
func (o *Overrides) SetClockBack(by time.Duration) {
	for _, c := range o.cache.all() {
		c.readAt.Add(int64(by))
	}
}
