//go:build !service

package main

import (
	"github.com/spf13/cobra"

	"github.com/setpoint-dev/setpoint/cmd/internal/explaincmd"
)

// about is what help says of this build beside what setpoint is for.
const about = ""

// others are the commands beside those of the service: what works on files, on stored specs and
// with platforms, and generated documents.
func others() []*cobra.Command {
	return []*cobra.Command{
		newRecommend(), explaincmd.New(explainElsewhere), newReplay(), newSimulate(), newBacktest(), newTune(), newLint(), newSpecs(), newAgent(), newDocs(),
	}
}
