//go:build !service

// Package trial has the commands that try specs: on recordings (backtest, check), in virtual
// time (simulate, tune), and by rules (lint).
package trial

import "github.com/spf13/cobra"

// Commands are the package's.
func Commands() []*cobra.Command {
	return []*cobra.Command{newBacktest(), newCheck(), newLint(), newSimulate(), newTune()}
}
