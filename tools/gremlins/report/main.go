// Command report prints the results of mutation tests as Markdown: for each log of
// gremlins the score, and the mutants that no test noticed. It reads the log because an
// interrupted run writes nothing else.
//
//	report NAME.log...
package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// mutant is a line of the log.
type mutant struct {
	status, name, file string
	line, column       int
}

// verdict matches the lines about mutants.
var verdict = regexp.MustCompile(`^\s*([A-Z]+(?: [A-Z]+)?) ([A-Z_]+) at (\S+):(\d+):(\d+)\s*$`)

// Ways a mutant may end.
const (
	killed     = "KILLED"
	lived      = "LIVED"
	timedOut   = "TIMED OUT"
	notCovered = "NOT COVERED"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "report:", err)
		os.Exit(1)
	}
}

func run(files []string, out io.Writer) error {
	var b, survivors strings.Builder
	b.WriteString("| Target | Killed | Timed out | **Lived** | Not covered | Score |\n|---|---:|---:|---:|---:|---:|\n")
	tried := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		n := list(string(text), &survivors)
		// A mutant that never ends is noticed, too.
		noticed, all := n[killed]+n[timedOut], n[killed]+n[timedOut]+n[lived]
		score := "–"
		if all > 0 {
			score = fmt.Sprintf("%.1f %%", 100*float64(noticed)/float64(all))
		}
		tried += all
		fmt.Fprintf(&b, "| %s | %d | %d | **%d** | %d | %s |\n",
			strings.TrimSuffix(path.Base(file), ".log"), n[killed], n[timedOut], n[lived], n[notCovered], score)
	}
	if tried == 0 {
		return fmt.Errorf("no mutant was tried in %s", strings.Join(files, ", "))
	}
	if survivors.Len() == 0 {
		survivors.WriteString("None.\n")
	}
	_, err := fmt.Fprintf(out, "%s\nThe score is the share of the mutants tried that a test of their package noticed.\n\nSurvivors:\n\n%s", &b, &survivors)
	return err
}

// list counts the mutants of a log by outcome, and lists the surviving ones.
func list(log string, into io.Writer) map[string]int {
	var mutants []mutant
	for line := range strings.Lines(log) {
		found := verdict.FindStringSubmatch(strings.TrimSuffix(line, "\n"))
		if found == nil {
			continue
		}
		m := mutant{status: found[1], name: found[2], file: found[3]}
		m.line, _ = strconv.Atoi(found[4]) // digits
		m.column, _ = strconv.Atoi(found[5])
		mutants = append(mutants, m)
	}
	slices.SortFunc(mutants, func(a, b mutant) int {
		return cmp.Or(cmp.Compare(a.file, b.file), cmp.Compare(a.line, b.line), cmp.Compare(a.column, b.column), cmp.Compare(a.name, b.name))
	})
	n := map[string]int{}
	for _, m := range mutants {
		n[m.status]++
		if m.status == lived {
			fmt.Fprintf(into, "- `%s:%d:%d` %s\n", m.file, m.line, m.column, m.name)
		}
	}
	return n
}
