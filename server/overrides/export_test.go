package overrides

import (
	"context"
	"time"
)

// Cached is how many clusters are in the cache.
func (o *Overrides) Cached() int { return len(o.cache.all()) }

// Refresh is what Run does once a second.
func (o *Overrides) Refresh(ctx context.Context) { o.refresh(ctx) }

// SetClockBack makes it as if the machine's clock had been set back.
func (o *Overrides) SetClockBack(by time.Duration) {
	for _, c := range o.cache.all() {
		c.readAt.Add(int64(by))
	}
}
