package process

import (
	"bufio"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// Service is Setpoint's.
type Service struct {
	*Process
	GRPC, REST, Admin string // addresses
	// Started is how long it took from the process' start to being ready.
	Started time.Duration
}

// StartService starts the program with these flags besides those of addresses, and waits
// until it is ready. The runtime writes a line for each garbage collection to its output.
func StartService(program, folder string, flags ...string) (*Service, error) {
	s := &Service{}
	args := []string{"serve"}
	for flag, address := range map[string]*string{"grpc": &s.GRPC, "rest": &s.REST, "admin": &s.Admin} {
		var err error
		if *address, err = FreeAddress(); err != nil {
			return nil, err
		}
		args = append(args, "--"+flag+"-address="+*address)
	}
	cmd := exec.Command(program, append(args, flags...)...)
	cmd.Env = append(withoutSettings(os.Environ()), "GODEBUG=gctrace=1")
	began := time.Now()
	var err error
	if s.Process, err = start(folder, "setpoint", cmd); err != nil {
		return nil, err
	}
	client := &http.Client{Timeout: 10 * time.Second}
	defer client.CloseIdleConnections()
	err = s.await(func() error {
		response, err := client.Get("http://" + s.Admin + "/readyz")
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("/readyz answers %s", response.Status)
		}
		return nil
	})
	s.Started = time.Since(began)
	if err != nil {
		_ = s.Stop()
		return nil, err
	}
	return s, nil
}

// withoutSettings leaves out what would change the service or its runtime.
func withoutSettings(environment []string) []string {
	var kept []string
	for _, variable := range environment {
		name, _, _ := strings.Cut(variable, "=")
		if !strings.HasPrefix(name, "SETPOINT_") && !strings.HasPrefix(name, "GO") && !strings.HasPrefix(name, "OTEL_") {
			kept = append(kept, variable)
		}
	}
	return kept
}

// Metric returns one of /metrics, which must have no labels.
func (s *Service) Metric(name string) (float64, error) {
	response, err := http.Get("http://" + s.Admin + "/metrics")
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		if value, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
			return strconv.ParseFloat(value, 64)
		}
	}
	return 0, fmt.Errorf("/metrics has no %s", name)
}

// Mallocs returns how many objects the service has allocated so far.
func (s *Service) Mallocs() (float64, error) { return s.Metric("go_memstats_mallocs_total") }
