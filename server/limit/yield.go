//go:build !linux

package limit

// yield does something on Linux only.
func yield() {}
