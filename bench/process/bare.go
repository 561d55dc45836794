package process

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"time"

	"github.com/setpoint-dev/setpoint/bench/bare"
)

// Bare is the process of package bare.
type Bare struct {
	*Process
	bare.Addresses
}

// StartBare starts it by that command, which has to call bare.Serve.
func StartBare(command []string, folder string, config bare.Config) (*Bare, error) {
	text, err := json.Marshal(config)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = withoutSettings(cmd.Environ())
	cmd.Stdin = bytes.NewReader(text)
	said, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	b := &Bare{}
	if b.Process, err = start(folder, "bare", cmd); err != nil {
		return nil, err
	}
	lines := make(chan []byte, 1)
	go func() {
		line, _ := bufio.NewReader(said).ReadBytes('\n')
		lines <- line
	}()
	select {
	case line := <-lines:
		err = json.Unmarshal(line, &b.Addresses)
	case <-time.After(readyTimeout):
		err = fmt.Errorf("nothing within %v", readyTimeout)
	}
	if err != nil {
		_ = b.Stop()
		return nil, fmt.Errorf("the bare handlers don't tell their addresses: %w\n%s", err, b.said())
	}
	return b, nil
}
