package process

import (
	"bufio"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/internal/process"
)

// Service is Setpoint's.
type Service struct {
	*process.Process
	GRPC, REST, Admin string // addresses
	// Started is the time from the start of the process until it was ready.
	Started time.Duration
	log     string // the file's name
	ports   *process.Ports
}

// StartService starts the program with these flags and free addresses, and waits until it
// is ready. The runtime writes a line per garbage collection to its output.
func StartService(program, folder string, flags ...string) (*Service, error) {
	ports, err := process.Reserve(3)
	if err != nil {
		return nil, err
	}
	log, err := os.CreateTemp(folder, "setpoint-*.log") // of this run alone, because collections are counted in it
	if err != nil {
		return nil, err
	}
	defer log.Close()
	s := &Service{GRPC: ports.Address(0), REST: ports.Address(1), Admin: ports.Address(2), ports: ports, log: log.Name()}
	began := time.Now()
	s.Process, err = process.Start(process.Command{
		Name: "setpoint", Program: program, Log: s.log, Env: []string{"GODEBUG=gctrace=1"},
		Args: append([]string{"serve", "--grpc-address=" + s.GRPC, "--rest-address=" + s.REST, "--admin-address=" + s.Admin}, flags...),
	})
	if err != nil {
		return nil, err
	}
	client := &http.Client{Timeout: 10 * time.Second}
	defer client.CloseIdleConnections()
	err = s.Await("ready", process.Patience, func() error { return process.OK(client, "http://"+s.Admin+"/readyz") })
	s.Started = time.Since(began)
	if err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

// Stop implements Process.Stop.
func (s *Service) Stop() error {
	defer s.ports.Release()
	return s.Process.Stop()
}

// Metric returns the value of a metric without labels of /metrics.
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
