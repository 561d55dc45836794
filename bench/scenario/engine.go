package scenario

import (
	"bytes"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"

	"github.com/setpoint-dev/setpoint/bench/report"
)

var engine = Scenario{
	Name: "engine", Title: "Engine beside upstream's calculator",
	Note: "One whole decision on 1,000 pods with a cpu utilization target, beside one proposal of Kubernetes' own calculator: `BenchmarkCalculator` in `conformance/controller`, without the service.",
	play: (*stage).engine,
}

// engineBenchmark is a benchmark of the conformance module; slashes separate its parts.
const engineBenchmark = "^BenchmarkCalculator$/^utilization$/^1000_pods$"

func (s *stage) engine() ([]report.Figure, error) {
	bench := exec.CommandContext(s.ctx, "go", "test", "-run=^$", "-bench="+engineBenchmark, "-benchmem",
		"-benchtime="+(s.Duration/4).String(), "-count="+strconv.Itoa(s.Runs), "-timeout=30m", ".")
	bench.Dir = filepath.Join(s.Root, "conformance", "controller")
	var complaints bytes.Buffer
	bench.Stderr = &complaints
	out, err := bench.Output()
	if err != nil {
		return nil, fmt.Errorf("go test in %s: %w\n%s%s", bench.Dir, err, out, complaints.Bytes())
	}
	return engineFigures(string(out))
}

// benchmarkLine is one result of go test.
var benchmarkLine = regexp.MustCompile(`(?m)^Benchmark\S+/(upstream|setpoint)(?:-\d+)?\s+\d+\s+([\d.]+) ns/op\b.*?\s(\d+) allocs/op`)

func engineFigures(out string) ([]report.Figure, error) {
	micros, allocations := map[string][]float64{}, map[string][]float64{}
	for _, line := range benchmarkLine.FindAllStringSubmatch(out, -1) {
		nanos, _ := strconv.ParseFloat(line[2], 64)
		allocated, _ := strconv.ParseFloat(line[3], 64)
		micros[line[1]] = append(micros[line[1]], nanos/1e3)
		allocations[line[1]] = append(allocations[line[1]], allocated)
	}
	upstream, setpoint := micros["upstream"], micros["setpoint"]
	if len(upstream) == 0 || len(upstream) != len(setpoint) {
		return nil, fmt.Errorf("%d results of upstream and %d of setpoint in:\n%s", len(upstream), len(setpoint), out)
	}
	faster := report.Figure{Name: "faster than upstream", Unit: "×", Goal: report.AtLeast(25)}
	for i := range upstream {
		faster.Runs = append(faster.Runs, upstream[i]/setpoint[i])
	}
	return []report.Figure{
		faster,
		{Name: "allocations", Runs: allocations["setpoint"], Goal: report.AtMost(5)},
		{Name: "engine", Unit: "µs", Runs: setpoint}, {Name: "upstream's calculator", Unit: "µs", Runs: upstream},
		{Name: "upstream's allocations", Runs: allocations["upstream"]},
	}, nil
}
