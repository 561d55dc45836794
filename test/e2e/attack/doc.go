//go:build linux

// Command attack starts setpoint serve as it is shipped, with GOMEMLIMIT=512MiB, attacks it as
// a hostile caller could, each attack on a process of its own, and checks bounds: its peak
// resident memory, the processor time of the attack, the experience of an honest caller
// meanwhile, the leftovers afterwards, and that the process survives.
//
//	go run ./attack -list
//	go run ./attack -run 'empties|gzip' -v
//	go run ./attack -short -json=attack.json
//
// It prints a table and exits with 1 if a bound is missed, with 2 if it could not attack. It
// binds and calls loopback addresses only.
package main
