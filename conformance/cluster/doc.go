// Package cluster is what the real controllers of all versions are driven with: the
// scenarios, the run of one, and the cluster around the controller, which shows it the
// step at hand and keeps what it writes.
//
// It is compiled with the libraries of each version that requires it. So it has what
// is the same in all of them; its own go.mod names the oldest. What differs, such as
// the clients whose methods take a context from v1.18 on, is with the versions.
package cluster
