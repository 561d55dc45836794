//go:build service

package main

import "github.com/spf13/cobra"

// about says what the program of the service's own image lacks, and where it is.
const about = `

This program is the service alone, with what looks after it. The commands that read
manifests, recordings and scenarios, and the agents of platforms, are in the releases,
the packages and the image setpoint.`

// others are none: what reads manifests is linked with the types of Kubernetes, which are a sixth
// of the program. See docs/decisions/0099-the-services-own-image.md.
func others() []*cobra.Command { return nil }
