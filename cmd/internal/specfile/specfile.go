// Package specfile reads the specs that commands get as files.
package specfile

import (
	"io"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
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

// Replacing is Read of a spec that replaces recorded ones, judged by all but one rule: whether it may have 0 replicas
// is up to each recording.
func Replacing(cmd *cobra.Command, name string) (*hpa.Autoscaler, error) {
	a, err := Read(cmd, name)
	if err != nil {
		return nil, err
	}
	options := &setpointv1.RecommendOptions{}
	proto.Merge(options, a.Options())
	options.ScaleToZero = new(true)
	_, err = a.Engine(options)
	return a, cli.BadInput(err)
}
