// Package limiters compares server/limit with the load shedders of libraries, in a simulated
// server. It has only tests:
//
//	go test -v ./limiters
package limiters
