package main

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/setpoint-dev/setpoint/cmd/setpoint/config"
)

// checkOnly looks at everything that the settings name and that can be wrong, and
// prints the settings. It listens to nothing, and does not ask Redis.
func checkOnly(cmd *cobra.Command, s *settings) error {
	edge, err := s.Edge.open(zap.NewNop())
	if err != nil {
		return badInput(err)
	}
	edge.close()
	histories, err := openStore(s, zap.NewNop(), prometheus.NewRegistry())
	if err != nil {
		return err
	}
	if err := histories.Close(); err != nil {
		return err
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "# The configuration is valid. Secrets are masked; what was set says so.\n%s", config.Effective(cmd.Flags(), mask))
	return err
}

// mask hides the password in URLs of stores.
func mask(flag, value string) string {
	if flag != "redis" {
		return value
	}
	u, err := url.Parse(value)
	if err != nil {
		// Several hosts are no URL to net/url; what is before the @ is secret all the same.
		scheme, rest, _ := strings.Cut(value, "://")
		if _, hosts, found := strings.Cut(rest, "@"); found {
			return scheme + "://xxxxx@" + hosts
		}
		return value
	}
	return u.Redacted()
}
