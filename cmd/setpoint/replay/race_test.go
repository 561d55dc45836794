//go:build race

package replay

// backtested are the recordings that back-tests reproduce: with the race detector, which slows
// them down by much and has one goroutine to look at, the curated ones.
var backtested = recorded[:1]
