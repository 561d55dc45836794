// Package decisionlog writes decisions to the store's log for people to read: in the
// background, best effort, never in the way of an answer.
//
//	log := decisionlog.New(engine, feed, logger, repeatsPerSecond)
//	log.Append(key, decisionlog.OfDecision(&decision, requestID))
//	err := log.Flush(ctx) // before the log is read
//
// What decides reads nothing of it.
package decisionlog
