package main

import (
	"fmt"
	"strings"
)

// chosen selects the series of the jobs and instances that the reader chose. Further
// matchers follow, such as `code!="OK"`.
func chosen(matchers ...string) string {
	return "{" + strings.Join(append([]string{`job=~"$job"`, `instance=~"$instance"`}, matchers...), ", ") + "}"
}

// rate returns the sum of a counter's rates by labels, each named by its first label.
func rate(metric, by string, matchers ...string) query {
	return query{
		expr:   fmt.Sprintf("sum by (%s) (rate(%s%s[$__rate_interval]))", by, metric, chosen(matchers...)),
		legend: legend(by),
	}
}

// total returns the sum of a counter's rates under a name.
func total(name, metric string) query {
	return query{expr: fmt.Sprintf("sum(rate(%s%s[$__rate_interval]))", metric, chosen()), legend: name}
}

// share returns the share of some counters' rates in those of others, 0 while nothing is counted.
func share(parts, of []string) string {
	return fmt.Sprintf("(%s or vector(0)) / (%s > 0) or vector(0)", sumOfRates(parts), sumOfRates(of))
}

func sumOfRates(counters []string) string {
	rates := make([]string, len(counters))
	for i, metric := range counters {
		rates[i] = "sum(rate(" + metric + "[$__rate_interval]))"
	}
	return strings.Join(rates, " + ")
}

// gauge returns a gauge, one series for each instance.
func gauge(metric string) query {
	return query{expr: metric + chosen(), legend: "{{instance}}"}
}

// sum returns the sum of a gauge over instances under a name.
func sum(name, metric string) query {
	return query{expr: fmt.Sprintf("sum(%s%s)", metric, chosen()), legend: name}
}

// quantiles returns the median, the 95th and the 99th percentile of a histogram.
func quantiles(metric string, matchers ...string) []query {
	out := make([]query, 0, 3)
	for _, q := range []struct{ quantile, name string }{{"0.5", "p50"}, {"0.95", "p95"}, {"0.99", "p99"}} {
		out = append(out, query{
			expr:   fmt.Sprintf("histogram_quantile(%s, sum by (le) (rate(%s_bucket%s[$__rate_interval])))", q.quantile, metric, chosen(matchers...)),
			legend: q.name,
		})
	}
	return out
}

// p99 returns the 99th percentile of a histogram by a label.
func p99(metric, by string) query {
	return query{
		expr:   fmt.Sprintf("histogram_quantile(0.99, sum by (le, %s) (rate(%s_bucket%s[$__rate_interval])))", by, metric, chosen()),
		legend: legend(by),
	}
}

// legend names a series by its labels.
func legend(by string) string {
	labels := strings.Split(by, ", ")
	for i, l := range labels {
		labels[i] = "{{" + l + "}}"
	}
	return strings.Join(labels, " ")
}

// instances are the variables of dashboards about programs: of those that export a metric.
func instances(metric string) []variable {
	return []variable{
		{name: "job", title: "Job", query: fmt.Sprintf("label_values(%s, job)", metric)},
		{name: "instance", title: "Instance", query: fmt.Sprintf(`label_values(%s{job=~"$job"}, instance)`, metric)},
	}
}

// process are the panels about a program's use of its machine.
func process() []panel {
	return []panel{
		row("Process"),
		graph("Versions", unitNone, "Instances by version. More than one: an upgrade is under way, or got stuck.", query{"count by (version) (setpoint_build_info" + chosen() + ")", "{{version}}"}).as(quarter),
		graph("Processor time", unitCores, "Cores in use by each instance.", query{"rate(process_cpu_seconds_total" + chosen() + "[$__rate_interval])", "{{instance}}"}).as(quarter),
		graph("Memory", unitBytes, "Resident memory of each instance. It stays below the container's limit, which GOMEMLIMIT follows.", gauge("process_resident_memory_bytes")).as(quarter),
		graph("Goroutines", unitNone, "Goroutines of each instance. A steady rise is a leak.", gauge("go_goroutines")).as(quarter),
	}
}

// join returns lists of panels as one.
func join(lists ...[]panel) []panel {
	var out []panel
	for _, l := range lists {
		out = append(out, l...)
	}
	return out
}
