// Package shadow compares the decisions of a shadow with those of the controller in charge,
// reconcile by reconcile. It is pure: it reads neither clock nor cluster.
//
//	ledger := shadow.NewLedger()
//	change := ledger.Note(key, against, shadow.Reconcile{At: now, Period: period, Ours: ours, Theirs: theirs})
//	if change.Began {
//		// the two differ
//	}
//	report := ledger.Report(now)
//
// A difference is judged only after both had time for a reconcile: one that disappears within
// two and a half periods is a matter of timing and counts as agreement. A reconcile in which one side
// could not decide, for example because a metric was unreadable, counts neither as agreement
// nor as divergence.
package shadow
