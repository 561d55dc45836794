// Package truth is the form in which the service keeps what each target was asked, so that yesterday's
// decisions can be made again: of each decision the instant, the counts, the sums that its metrics were
// read as, and what came of it. Pods are not kept: the engine decides the same on their sums.
//
//	var e truth.Encoder
//	e.Step(&step)              // one decision after the other
//	chunk := truth.Seal(e.Take())
//	...
//	steps, reports, err := truth.Open(chunk)
//
// A chunk can be read alone: it names its first step whole, and each further one by what differs from
// the one before. The first chunk of a target has its record as it was before (State) and the text of the
// spec, and so has one in each hour, so that a replay can begin there. Each step names the instant that
// the record was of which it was decided (Before): where no other step has that instant, one is missing.
//
// Everything here is a pure function of its arguments.
package truth
