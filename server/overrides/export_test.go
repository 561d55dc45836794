package overrides

import "context"

// Cached is how many clusters are in the cache.
func (o *Overrides) Cached() int { return len(o.cache.all()) }

// Refresh is what Run does once a second.
func (o *Overrides) Refresh(ctx context.Context) { o.refresh(ctx) }
