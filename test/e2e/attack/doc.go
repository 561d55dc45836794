//go:build linux

// Command attack starts setpoint serve as it is shipped, with GOMEMLIMIT=512MiB, throws
// at it what a hostile caller can send, each attack at a process of its own, and holds to
// bounds: the most memory it has resident, the processor time that the attack costs it,
// what an honest caller meets meanwhile, what is left afterwards, and that it lives.
//
//	go run ./attack -list
//	go run ./attack -run 'empties|gzip' -v
//	go run ./attack -short -json=attack.json
//
// It prints a table and exits with 1 if a bound is missed, with 2 if it could not attack.
// It binds and calls loopback addresses only.
package main
