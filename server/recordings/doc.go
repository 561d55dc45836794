// Package recordings keeps what each target was asked, so that its decisions can be made again. Package truth
// is the form. A decision notes what its record was before, and keeps what came of it once that is stored:
//
//	r := recordings.New(options, engine, newLog)
//	r.Begin(&asked, &key, input, dryRun)
//	input.Summed = asked.SumsOf(input, &memory)
//	// … decide …
//	r.Note(&asked, &call, &known, moved)
//	// … swap …
//	r.Keep(&asked, &call, &memory)
//
// Nothing of it waits, and nothing fails: what there is no room for is counted.
package recordings
