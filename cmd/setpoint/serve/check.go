package serve

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/setpoint-dev/setpoint/cmd/internal/cli"
	"github.com/setpoint-dev/setpoint/cmd/internal/config"
	"github.com/setpoint-dev/setpoint/cmd/internal/managerflags"
)

// checkOnly checks all settings and the files they name, and prints the settings. It listens on
// nothing, and does not contact Redis.
func checkOnly(cmd *cobra.Command, s *settings) error {
	edge, err := s.Edge.open(zap.NewNop(), s.Kept.TTL)
	if err != nil {
		return cli.BadInput(err)
	}
	managerflags.TellNotes(cmd, edge.notes)
	_, err = s.SignIn.open(edge, zap.NewNop())
	edge.close()
	if err != nil {
		return cli.BadInput(err)
	}
	fetching, err := s.openSources(prometheus.NewRegistry(), zap.NewNop())
	if err != nil {
		return cli.BadInput(err)
	}
	fetching.Close()
	histories, err := openStore(s, zap.NewNop(), prometheus.NewRegistry())
	if err != nil {
		return err
	}
	if err := histories.Close(); err != nil {
		return err
	}
	return config.PrintChecked(cmd)
}
