package process

import (
	"bufio"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/setpoint-dev/setpoint/internal/process"
)

// Still is the process of package still.
type Still struct {
	*process.Process
	stood atomic.Int64
}

// StartStill starts it by that command, which must call still.Serve, and returns when
// it watches.
func StartStill(command []string, folder string) (*Still, error) {
	said, out := io.Pipe()
	s := &Still{}
	var err error
	s.Process, err = process.Start(process.Command{Name: "still", Program: command[0], Args: command[1:], Log: filepath.Join(folder, "still.log"), Stdout: out})
	if err != nil {
		return nil, err
	}
	watches := make(chan struct{})
	go s.read(said, watches)
	select {
	case <-watches:
		return s, nil
	case <-s.Ended():
		return nil, fmt.Errorf("standstills of the machine can't be detected: %s", s.Log())
	case <-time.After(process.Patience):
		s.Kill()
		return nil, fmt.Errorf("no report of standstills within %v", process.Patience)
	}
}

// Stop stops it: it has nothing to finish.
func (s *Still) Stop() error {
	s.Kill()
	return nil
}

func (s *Still) read(said io.Reader, watches chan<- struct{}) {
	lines := bufio.NewScanner(said)
	for first := true; lines.Scan(); first = false {
		if first {
			close(watches)
		}
		nanos, _ := strconv.ParseInt(strings.TrimSpace(lines.Text()), 10, 64)
		s.stood.Add(nanos)
	}
}

// Stood is how long processors have stood still so far, in total.
func (s *Still) Stood() time.Duration {
	time.Sleep(5 * time.Millisecond) // for reports in transit
	return time.Duration(s.stood.Load())
}
