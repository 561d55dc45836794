// Package metricsdoc writes the tables of metrics that are in docs/.
package metricsdoc

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/spf13/cobra"
)

// maxListedValues is how many values of a label the table lists.
const maxListedValues = 8

// buildInfo is the metric whose labels differ for each build.
const buildInfo = "setpoint_build_info"

// Command returns a hidden command that prints a document, for `make generate`.
func Command(use, short string, document func() (string, error)) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Hidden: true, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			text, err := document()
			if err != nil {
				return err
			}
			_, err = fmt.Fprint(cmd.OutOrStdout(), text)
			return err
		},
	}
}

// Of gathers the registered metrics, by name.
func Of(register func(prometheus.Registerer) error) ([]*dto.MetricFamily, error) {
	registry := prometheus.NewRegistry()
	if err := register(registry); err != nil {
		return nil, err
	}
	return registry.Gather()
}

// Table returns a table of metrics in Markdown, in the given order. It lists the values of
// labels with few values, if listed says so.
func Table(families []*dto.MetricFamily, listed func(family, label string) bool) string {
	var b strings.Builder
	b.WriteString("| name | type | labels | meaning |\n|---|---|---|---|\n")
	for _, f := range families {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", f.GetName(), strings.ToLower(f.GetType().String()), labelsOf(f, listed), strings.ReplaceAll(f.GetHelp(), "|", "\\|"))
	}
	return b.String()
}

// labelsOf lists the labels of a metric, with their values where they are few.
func labelsOf(f *dto.MetricFamily, listed func(family, label string) bool) string {
	values := map[string]map[string]bool{}
	for _, m := range f.GetMetric() {
		for _, l := range m.GetLabel() {
			if values[l.GetName()] == nil {
				values[l.GetName()] = map[string]bool{}
			}
			values[l.GetName()][l.GetValue()] = true
		}
	}
	labels := make([]string, 0, len(values))
	for _, name := range slices.Sorted(maps.Keys(values)) {
		label := "`" + name + "`"
		if len(values[name]) <= maxListedValues && f.GetName() != buildInfo && listed(f.GetName(), name) {
			label += ": " + strings.Join(slices.Sorted(maps.Keys(values[name])), ", ")
		}
		labels = append(labels, label)
	}
	return strings.Join(labels, "; ")
}
