// Command generator is the program of package load. A phase without an end lasts until
// its standard input ends.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/setpoint-dev/setpoint/test/e2e/edge/load"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	input := bufio.NewReader(os.Stdin)
	line, err := input.ReadBytes('\n')
	if err != nil {
		return err
	}
	var config load.Config
	if err := json.Unmarshal(line, &config); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, input)
		cancel()
	}()
	return load.Run(ctx, config, os.Stdout)
}
