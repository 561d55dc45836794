// Package guard has tests that fail where the service begins to cost more: objects and
// bytes that an operation allocates, system calls, and commands and bytes to Redis. They
// count and take no time, so that a busy machine changes nothing; bounds_test.go has the
// bounds, and says how to change them.
//
// The race detector allocates, too, so under it nothing is counted: `make guard` runs the
// tests without.
package guard
