//go:build service

package main

import "github.com/spf13/cobra"

// about says what the program in the service's own image lacks, and where to find it.
const about = `

This program is the service alone, with what looks after it. The commands that read
manifests, recordings and scenarios, and the agents of platforms, are in the releases,
the packages and the image setpoint.`

// others are none: reading manifests needs the types of Kubernetes, a sixth of the program,
// and the image of the service has to stay below 30 MiB. A build tag instead of a second main
// keeps one name in everybody's manifests.
func others() []*cobra.Command { return nil }
