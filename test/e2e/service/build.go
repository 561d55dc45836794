//go:build linux

package service

import (
	"os"

	"github.com/setpoint-dev/setpoint/internal/process"
)

// Program returns a path to setpoint, built from the working tree, which works for as long as
// this process lives.
func Program() (string, error) { return process.Build("setpoint", race()) }

// Kubernetes returns a path to setpoint-kubernetes in the same way.
func Kubernetes() (string, error) { return process.Build("setpoint-kubernetes", race()) }

// Swarm returns a path to setpoint-swarm in the same way.
func Swarm() (string, error) { return process.Build("setpoint-swarm", race()) }

func race() bool { return os.Getenv("SETPOINT_E2E_RACE") != "" }
