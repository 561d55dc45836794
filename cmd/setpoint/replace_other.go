//go:build !unix && !service

package main

import (
	"errors"
	"os"
	"os/exec"
)

// replaceWith runs a program and exits with its exit code.
func replaceWith(program string, args []string) error {
	cmd := &exec.Cmd{Path: program, Args: args, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		os.Exit(exit.ExitCode())
	}
	if err != nil {
		return err
	}
	os.Exit(0)
	return nil
}
