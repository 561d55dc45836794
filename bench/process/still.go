package process

import (
	"bufio"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// Still is the process of package still.
type Still struct {
	*Process
	stood atomic.Int64
}

// StartStill starts it by that command, which has to call still.Serve, and returns when
// it watches.
func StartStill(command []string, folder string) (*Still, error) {
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = withoutSettings(cmd.Environ())
	said, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	s := &Still{}
	if s.Process, err = start(folder, "still", cmd); err != nil {
		return nil, err
	}
	watches := make(chan struct{})
	go s.read(said, watches)
	select {
	case <-watches:
		return s, nil
	case <-s.ended:
		return nil, fmt.Errorf("nothing tells when the machine stands still: %s", s.said())
	case <-time.After(readyTimeout):
		_ = s.Stop()
		return nil, fmt.Errorf("nothing tells when the machine stands still within %v", readyTimeout)
	}
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

// Stood is for how long processors have stood still so far, the sum of all.
func (s *Still) Stood() time.Duration {
	time.Sleep(5 * time.Millisecond) // what just happened is on its way
	return time.Duration(s.stood.Load())
}
