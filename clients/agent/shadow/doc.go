// Package shadow keeps account of how the decisions of a shadow agree with what the
// controller in charge wants, reconcile by reconcile. It is pure: it reads neither clock nor
// cluster.
//
//	ledger := shadow.NewLedger()
//	change := ledger.Note(key, against, shadow.Round{At: now, Period: period, Ours: ours, Theirs: theirs})
//	if change.Began {
//		// the two have come apart
//	}
//	report := ledger.Report(now)
//
// A difference is judged only when both have had the time for a reconcile: one that is gone
// within two periods is one of timing, and counts as agreement. A reconcile in which one of
// both could not decide, for example because a metric could not be read, is neither
// agreement nor difference.
package shadow
