// Package shrink makes failing scenarios small: it leaves out and simplifies what a
// failure does not need, so that what is left shows it.
//
//	small := shrink.Scenario(scenario, fails, shrink.Budget{Calls: 5000, Time: time.Minute})
//
// It works on the structure of a scenario and knows nothing of what it means: every
// candidate is put to the test, and only one that still fails replaces the scenario
// before. Candidates that the API server would not take may be among them; a test
// that is to do without those says that they don't fail.
package shrink
