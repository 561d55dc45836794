// Package staged proves the stages around HPA's decision by the real controllers: it runs generated
// scenarios with stages through Setpoint, makes the edit of each step's input that the stages mean by
// itself, sends the edited scenario to the real controller, and compares every field of the outcomes.
//
// The edits know nothing of packages stages and schedule. What an edited controller tells otherwise than
// Setpoint by intent is a table of data, see [Differences].
package staged
