// Package cluster drives the real controllers of all versions: it has the scenarios,
// the run of one, and the cluster around the controller, which shows it the current
// step and stores its writes.
//
// Each version compiles it with its own libraries. So it contains what is the same in
// all of them; its own go.mod names the oldest. What differs, such as the clients,
// whose methods have a context from v1.18 on, is in the versions' packages.
package cluster
