// Package decisionlog writes decisions to the store's log for people to read: in the
// background, best effort, without delaying any response.
//
//	log := decisionlog.New(engine, feed, logger, repeatsPerSecond)
//	log.Append(key, decisionlog.OfDecision(&decision, requestID))
//	err := log.Flush(ctx, key) // before the log is read
//
// No decision depends on it. What one cluster or namespace writes too fast delays and displaces its own
// entries only.
package decisionlog
