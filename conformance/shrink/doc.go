// Package shrink minimizes failing scenarios: it removes and simplifies everything that the
// failure does not need.
//
//	small := shrink.Scenario(scenario, fails, shrink.Budget{Calls: 5000, Time: time.Minute})
//
// It works on the structure of a scenario without regard to its meaning: it tests every
// candidate, and keeps only those that still fail. Candidates may be invalid for the API
// server; a test that wants to exclude those reports that they don't fail.
package shrink
