//go:build !service

package main

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/cmd/internal/cli"
	"github.com/setpoint-dev/setpoint/cmd/internal/explaincmd"
	"github.com/setpoint-dev/setpoint/cmd/programs"
)

// newAgent groups the agents.
func newAgent() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "agent",
		Short: "Scale the workloads of a platform as a server recommends",
		Long: `Scale the workloads of a platform as a server recommends. The agent of each platform
is a program of its own, such as setpoint-kubernetes, beside this one or on the PATH.`,
	}
	platforms := programs.Platforms()
	for _, platform := range slices.Sorted(maps.Keys(platforms)) {
		cmd.AddCommand(&cobra.Command{
			Use:                platform,
			Short:              platforms[platform],
			DisableFlagParsing: true, // they belong to the other program
			RunE: func(_ *cobra.Command, args []string) error {
				return runPlatform(platform, append([]string{"agent"}, args...))
			},
		})
	}
	return cmd
}

// explainElsewhere runs the program that links a cluster client.
func explainElsewhere(*cobra.Command, *explaincmd.Live) (*setpointv1.RecommendRequest, error) {
	return nil, runPlatform("kubernetes", os.Args[1:])
}

// runPlatform replaces this process by a platform's program.
func runPlatform(platform string, args []string) error {
	program, err := findPlatform(platform)
	if err != nil {
		return err
	}
	return replaceWith(program, append([]string{program}, args...))
}

// findPlatform returns the path of a platform's program: beside this one, or else on the
// PATH.
func findPlatform(platform string) (string, error) {
	name := "setpoint-" + platform
	folder := "this program"
	if self, err := os.Executable(); err == nil {
		if resolved, err := filepath.EvalSymlinks(self); err == nil {
			self = resolved
		}
		folder = filepath.Dir(self)
		beside := filepath.Join(folder, name+strings.ToLower(filepath.Ext(self)))
		if info, err := os.Stat(beside); err == nil && info.Mode().IsRegular() {
			return beside, nil
		}
	}
	program, err := exec.LookPath(name)
	if err != nil {
		return "", cli.BadInput(fmt.Errorf("this needs the program %s, which is neither in %s nor on the PATH: make build makes it, releases and the image have it beside setpoint", name, folder))
	}
	return program, nil
}
