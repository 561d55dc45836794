package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/setpoint-dev/setpoint/clients/setpoint"
	"github.com/setpoint-dev/setpoint/cmd/internal/cli"
	"github.com/setpoint-dev/setpoint/cmd/internal/connection"
)

// addServerFlags adds --server and what goes with it. Without a fallback the command can do
// without.
func addServerFlags(cmd *cobra.Command, fallback, of string) *connection.Settings {
	s := &connection.Settings{Server: fallback, ClearOnLoopback: true}
	s.FromEnvironment()
	s.Bind(cmd.PersistentFlags(), of)
	return s
}

// openServer returns a client of the server; nothing is sent before the first call. A person
// waits: what takes long is not given up, and they interrupt it when they like.
func openServer(s *connection.Settings) (*setpoint.Client, error) {
	var problems []error
	s.Validate(func(flag, format string, args ...any) {
		problems = append(problems, fmt.Errorf("--"+flag+": "+format, args...))
	})
	if len(problems) > 0 {
		return nil, cli.BadInput(errors.Join(problems...))
	}
	client, err := s.Open("setpoint", setpoint.WithTimeout(0))
	return client, cli.BadInput(err)
}
