package main

import (
	"github.com/spf13/cobra"

	"github.com/setpoint-dev/setpoint/clients/setpoint"
	"github.com/setpoint-dev/setpoint/cmd/internal/cli"
	"github.com/setpoint-dev/setpoint/cmd/internal/config"
	"github.com/setpoint-dev/setpoint/cmd/internal/connection"
)

// addServerFlags adds --server and the flags of the connection. Without a fallback the server
// is optional.
func addServerFlags(cmd *cobra.Command, fallback, of string) *connection.Settings {
	s := &connection.Settings{Server: fallback}
	s.FromEnvironment()
	s.Bind(cmd.PersistentFlags(), of)
	return s
}

// openServer returns a client of the server; it sends nothing before the first call. A person
// waits: calls have no timeout, and the person may interrupt them.
func openServer(s *connection.Settings, options ...setpoint.Option) (*setpoint.Client, error) {
	var problems config.Problems
	s.Validate(problems.Refuse)
	if err := problems.Err(); err != nil {
		return nil, cli.BadInput(err)
	}
	client, err := s.Open("setpoint", append(options, setpoint.WithTimeout(0))...)
	return client, cli.BadInput(err)
}
