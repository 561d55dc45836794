package differential

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// benchmarkRuns is how often each benchmark runs; medians are reported.
const benchmarkRuns = 5

// RunBenchmarks runs the benchmarks of Setpoint beside upstream's code, in one program
// of the reference version, and returns a table of medians and their ratios. They are
// named BenchmarkX/case/upstream and BenchmarkX/case/setpoint.
func RunBenchmarks(ctx context.Context, root string) (string, error) {
	bench := exec.CommandContext(ctx, "go", "test", "-run=^$", "-bench=.", "-benchmem", "-benchtime=300ms", "-count="+strconv.Itoa(benchmarkRuns), "-timeout=30m", ".")
	bench.Dir = filepath.Join(root, "controller")
	var complaints bytes.Buffer
	bench.Stderr = &complaints
	out, err := bench.Output()
	if err != nil {
		return "", fmt.Errorf("run the benchmarks: %w\n%s%s", err, out, complaints.String())
	}
	return table(out)
}

// measured are the measurements of one benchmark: one value per run.
type measured struct {
	nanos, allocations []float64
}

// table formats the output of benchmarks as Markdown.
func table(out []byte) (string, error) {
	results := map[string]map[string]*measured{}
	var cases []string
	processor := ""
	lines := bufio.NewScanner(bytes.NewReader(out))
	for lines.Scan() {
		if name, ok := strings.CutPrefix(lines.Text(), "cpu: "); ok {
			processor = name
		}
		what, who, m, ok := parseBenchmark(lines.Text())
		if !ok {
			continue
		}
		if results[what] == nil {
			results[what] = map[string]*measured{}
			cases = append(cases, what)
		}
		if results[what][who] == nil {
			results[what][who] = &measured{}
		}
		all := results[what][who]
		all.nanos, all.allocations = append(all.nanos, m.nanos...), append(all.allocations, m.allocations...)
	}
	if len(cases) == 0 {
		return "", fmt.Errorf("no benchmarks in:\n%s", out)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Medians of %d runs in one program on %s; upstream's logging is off and its API clients are fakes that\nanswer at once, as they are in the comparison.\n\n", benchmarkRuns, processor)
	b.WriteString("| What | Upstream | Setpoint | Ratio | Allocations |\n|---|---:|---:|---:|---:|\n")
	for _, what := range cases {
		up, us := results[what]["upstream"], results[what]["setpoint"]
		if up == nil || us == nil {
			return "", fmt.Errorf("%s was not measured on both sides", what)
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %.1f × | %.0f → %.0f |\n", what, micros(median(up.nanos)), micros(median(us.nanos)),
			median(up.nanos)/median(us.nanos), median(up.allocations), median(us.allocations))
	}
	return b.String(), nil
}

// parseBenchmark parses a line such as "BenchmarkCalculator/utilization/1000_pods/setpoint-2 100
// 38000 ns/op 7 B/op 2 allocs/op".
func parseBenchmark(line string) (what, who string, m measured, ok bool) {
	fields := strings.Fields(line)
	if len(fields) < 4 || !strings.HasPrefix(fields[0], "Benchmark") {
		return "", "", m, false
	}
	name := strings.TrimPrefix(fields[0], "Benchmark")
	if i := strings.LastIndexByte(name, '-'); i > 0 {
		name = name[:i]
	}
	i := strings.LastIndexByte(name, '/')
	if i < 0 {
		return "", "", m, false
	}
	for j := 2; j+1 < len(fields); j += 2 {
		value, err := strconv.ParseFloat(fields[j], 64)
		if err != nil {
			return "", "", m, false
		}
		switch fields[j+1] {
		case "ns/op":
			m.nanos = append(m.nanos, value)
		case "allocs/op":
			m.allocations = append(m.allocations, value)
		}
	}
	return strings.ReplaceAll(strings.ReplaceAll(name[:i], "/", ", "), "_", " "), name[i+1:], m, len(m.nanos) > 0
}

func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

func micros(nanos float64) string {
	return fmt.Sprintf("%.2f µs", nanos/1000)
}
