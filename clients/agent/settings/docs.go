package settings

import (
	"fmt"
	"reflect"
	"regexp"
	"strings"
)

// Row describes a key.
type Row struct {
	// Key as users write it, with NAME and KEY for what they choose.
	Key string
	// Value describes the values, Default applies without the key (empty: there is none), and
	// Meaning is a sentence.
	Value, Default, Meaning string
}

// Rows describes the keys that the platform has.
func (f Form) Rows() []Row {
	var rows []Row
	for _, key := range f.Keys() {
		if key != "metric" {
			row := f.row(reflect.TypeFor[Workload](), key, key)
			if key == "min" {
				row.Meaning = strings.TrimSuffix(row.Meaning+f.zero(" "), ".") + "."
			}
			rows = append(rows, row)
			continue
		}
		for _, target := range []string{"average", "value"} {
			rows = append(rows, f.row(reflect.TypeFor[Metric](), target, "metric.NAME."+target))
		}
		rows = append(rows, Row{f.Prefix + "metric.NAME.KEY", "text", "", "Where the metric NAME comes from: `source`, the name of a source of the agent, and what is asked there, such as `query` for a Prometheus."})
	}
	return rows
}

// zero says after a separator how a minimum of 0 is set where min can't be 0; empty: it can.
func (f Form) zero(separator string) string {
	if f.Least == 0 {
		return ""
	}
	return separator + "0 needs a whole spec, " + f.Prefix + "spec, with minReplicas 0, and a service with --scale-to-zero"
}

func (f Form) row(of reflect.Type, name, key string) Row {
	for i := range of.NumField() {
		if tag := of.Field(i).Tag; tag.Get("json") == name {
			return Row{f.Prefix + key, quoteWords(tag.Get("value")), quoteWords(tag.Get("default")), quoteWords(tag.Get("help"))}
		}
	}
	panic("no field " + name)
}

// literal matches values and keys in the tags, which the tables show as code.
var literal = regexp.MustCompile(`\b(true|false|autoscaling/v2|HorizontalPodAutoscaler|podLabel|podPath|External:queue|Stages|scaleTargetRef|[0-9]+[smh])\b`)

func quoteWords(text string) string { return literal.ReplaceAllString(text, "`$1`") }

// Markdown is the table of rows.
func Markdown(rows []Row) string {
	var b strings.Builder
	b.WriteString("| key | value | default | meaning |\n|---|---|---|---|\n")
	for _, r := range rows {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", r.Key, r.Value, r.Default, r.Meaning)
	}
	return b.String()
}
