//go:build !service

package main

import (
	"github.com/spf13/cobra"

	"github.com/setpoint-dev/setpoint/cmd/internal/explaincmd"
	"github.com/setpoint-dev/setpoint/cmd/internal/fleetcmd"
)

// about is this build's addition to the help of setpoint.
const about = ""

// others are the commands besides those of the service: for files, stored specs and platforms,
// and generated documents.
func others() []*cobra.Command {
	return []*cobra.Command{
		newRecommend(), explaincmd.New(explainElsewhere), newReplay(), newSimulate(), newBacktest(), newTune(), newLint(), newCheck(), newSpecs(), fleetcmd.New(), newAgent(), newDocs(),
	}
}

// otherTargets are the commands on targets that know recordings.
func otherTargets(c *targetsCommand) []*cobra.Command { return []*cobra.Command{newTargetsExport(c)} }
