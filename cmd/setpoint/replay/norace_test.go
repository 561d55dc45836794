//go:build !race

package replay

// backtested are the recordings that back-tests reproduce: all.
var backtested = recorded
