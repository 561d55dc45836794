//go:build !service

package targets

import "github.com/spf13/cobra"

// others are the commands that read manifests.
func others() []*cobra.Command { return []*cobra.Command{newSpecs()} }

// otherTargets are the commands on targets that know recordings.
func otherTargets(c *targetsCommand) []*cobra.Command { return []*cobra.Command{newExport(c)} }
