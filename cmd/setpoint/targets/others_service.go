//go:build service

package targets

import "github.com/spf13/cobra"

// others are none in the service's own image: see package main.
func others() []*cobra.Command { return nil }

// otherTargets are none, either.
func otherTargets(*targetsCommand) []*cobra.Command { return nil }
