//go:build !service

package main

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/setpoint-dev/setpoint/cmd/internal/explaincmd"
	"github.com/setpoint-dev/setpoint/cmd/internal/fleetcmd"
	"github.com/setpoint-dev/setpoint/cmd/setpoint/decide"
	"github.com/setpoint-dev/setpoint/cmd/setpoint/trial"
)

// about is this build's addition to the help of setpoint.
const about = ""

// others are the commands besides those of the service: for files and platforms, and generated
// documents.
func others() []*cobra.Command {
	return slices.Concat(decide.Commands(), trial.Commands(), []*cobra.Command{explaincmd.New(explainElsewhere), fleetcmd.New(), newAgent(), newDocs()})
}
