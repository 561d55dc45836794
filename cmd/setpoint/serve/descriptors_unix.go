//go:build unix

package serve

import "syscall"

// descriptorLimit returns how many files and connections the process may have open, which Go
// has raised as far as it may; false: the system does not tell.
func descriptorLimit() (uint64, bool) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0, false
	}
	return uint64(limit.Cur), true //nolint:unconvert // it is signed on some systems
}
