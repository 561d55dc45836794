// Package specfile reads the specs that commands get as files.
package specfile

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/setpoint-dev/setpoint/cmd/internal/cli"
	"github.com/setpoint-dev/setpoint/hpa"
)

// Read reads the one autoscaler of a file, in any of the forms that there are.
func Read(cmd *cobra.Command, name string) (*hpa.Autoscaler, error) {
	return read(cmd, name, hpa.ReadOne)
}

// ReadAll reads all autoscalers of a file.
func ReadAll(cmd *cobra.Command, name string) ([]*hpa.Autoscaler, error) {
	return read(cmd, name, hpa.Read)
}

func read[T any](cmd *cobra.Command, name string, as func(string, io.Reader) (T, error)) (read T, err error) {
	file, err := cli.Open(cmd, name)
	if err != nil {
		return read, err
	}
	defer func() { _ = file.Close() }()
	read, err = as(name, file)
	return read, cli.BadInput(err)
}
