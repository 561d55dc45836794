// Package limiters compares server/limit with the load shedders of libraries, in a simulated
// server. Its tests are all that it has:
//
//	go test -v ./limiters
package limiters
