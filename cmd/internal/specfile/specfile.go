// Package specfile reads the specs that commands get as files.
package specfile

import (
	"github.com/spf13/cobra"

	"github.com/setpoint-dev/setpoint/cmd/internal/cli"
	"github.com/setpoint-dev/setpoint/hpa"
)

// Read reads the one autoscaler of a file, in any of the forms that there are.
func Read(cmd *cobra.Command, name string) (*hpa.Autoscaler, error) {
	file, err := cli.Open(cmd, name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	a, err := hpa.ReadOne(name, file)
	return a, cli.BadInput(err)
}
