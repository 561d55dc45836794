//go:build !service

// Package decide has the commands that decide: once (recommend), and again from recordings (replay).
package decide

import "github.com/spf13/cobra"

// Commands are the package's.
func Commands() []*cobra.Command { return []*cobra.Command{newRecommend(), newReplay()} }
