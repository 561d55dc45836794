package process

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/setpoint-dev/setpoint/bench/bare"
	"github.com/setpoint-dev/setpoint/internal/process"
)

// Bare is the process of package bare.
type Bare struct {
	*process.Process
	bare.Addresses
}

// StartBare starts it by that command, which must call bare.Serve.
func StartBare(command []string, folder string, config bare.Config) (*Bare, error) {
	text, err := json.Marshal(config)
	if err != nil {
		return nil, err
	}
	said, out := io.Pipe()
	b := &Bare{}
	b.Process, err = process.Start(process.Command{
		Name: "bare", Program: command[0], Args: command[1:], Log: filepath.Join(folder, "bare.log"), Stdin: bytes.NewReader(text), Stdout: out,
	})
	if err != nil {
		return nil, err
	}
	lines := make(chan []byte, 1)
	go func() {
		line, _ := bufio.NewReader(said).ReadBytes('\n')
		lines <- line
		_, _ = io.Copy(io.Discard, said)
	}()
	select {
	case line := <-lines:
		err = json.Unmarshal(line, &b.Addresses)
	case <-b.Ended():
		err = errors.New("it ended")
	case <-time.After(process.Patience):
		err = fmt.Errorf("nothing within %v", process.Patience)
	}
	if err != nil {
		b.Kill()
		return nil, fmt.Errorf("the bare handlers sent no addresses: %w\n%s", err, b.Log())
	}
	return b, nil
}

// Stop stops them: they have nothing to finish.
func (b *Bare) Stop() error {
	b.Kill()
	return nil
}
