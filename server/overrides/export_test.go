package overrides

// Cached is how many clusters are in the cache.
func (o *Overrides) Cached() int { return len(*o.clusters.Load()) }
