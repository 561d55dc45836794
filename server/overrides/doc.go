// Package overrides keeps the overrides of recommendations: all of a cluster in one record of the store, which is
// changed by compare-and-swap, and a cache of the clusters that this instance decides for.
//
//	all, err := overrides.New(engine, overrides.Options{…})
//	go all.Run(ctx) // reads the cached clusters again each second
//	…
//	in := all.For(key) // of a decision
//
// A decision waits for the store only where it is the first one on a cluster since the start, and then no longer than
// a second. While the store is away, what is known stays in force until it expires.
//
// Service serves OverrideService: it validates, says who did what in the log, and lists what a caller may see.
package overrides
