//go:build !linux

package limit

// yield is for Linux only.
func yield() {}
