//go:build unix && !service

package main

import (
	"fmt"
	"os"
	"syscall"
)

// replaceWith replaces this process by a program, with its signals and its exit code.
func replaceWith(program string, args []string) error {
	return fmt.Errorf("%s: %w", program, syscall.Exec(program, args, os.Environ()))
}
