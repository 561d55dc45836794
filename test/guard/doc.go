// Package guard has tests that fail if the service costs more: objects and bytes allocated by
// an operation, system calls, and commands and bytes to Redis. They count instead of measuring
// time, so that a busy machine makes no difference; bounds_test.go has the bounds, and says how
// to change them.
//
// The race detector allocates, too, so under it nothing is counted: `make guard` runs the tests
// without.
package guard
