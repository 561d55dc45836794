package store

import "time"

// Remote is implemented by engines behind a network.
type Remote interface {
	// Timeout is how long one attempt to reach the engine may take.
	Timeout() time.Duration
}

// usualTimeout is the timeout for which limits of waits are chosen: the default of engines.
const usualTimeout = time.Second

// Patience returns how long to wait for an engine: as long as usual, and longer in the proportion in which its timeout is
// longer than a second, so that no wait ends before an attempt that the engine still makes.
func Patience(engine Store, usual time.Duration) time.Duration {
	remote, is := engine.(Remote)
	if !is || remote.Timeout() <= usualTimeout {
		return usual
	}
	return time.Duration(float64(usual) * (float64(remote.Timeout()) / float64(usualTimeout)))
}
