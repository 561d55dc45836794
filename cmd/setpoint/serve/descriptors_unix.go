//go:build unix

package serve

import "syscall"

// descriptorLimit returns the process' limit of open files and connections, which Go has raised
// to the maximum; false: unknown.
func descriptorLimit() (uint64, bool) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0, false
	}
	return uint64(limit.Cur), true //nolint:unconvert // it is signed on some systems
}
