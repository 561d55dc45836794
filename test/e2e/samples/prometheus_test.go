//go:build linux

package samples

import (
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	setpointv1 "github.com/setpoint-dev/setpoint/api/setpoint/v1"
	"github.com/setpoint-dev/setpoint/clients/samples"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/store/redis/redistest"
	"github.com/setpoint-dev/setpoint/test/e2e/kit"
	"github.com/setpoint-dev/setpoint/test/e2e/panels"
)

const gauges = `queue_length{queue="a"} 3
queue_length{queue="b"} 4.5
load{pod="web-1"} 0.25
load{pod="web-2"} NaN`

// newSet makes a set with the source prom, which ends with the test.
func newSet(t *testing.T, source samples.Source) *samples.Set {
	t.Helper()
	source.Timeout, source.Reuse = samples.Duration(time.Minute), new(samples.Duration)
	set, err := samples.New(samples.Config{Sources: map[string]samples.Source{"prom": source}}, samples.Options{})
	fatal.If(t, err)
	t.Cleanup(set.Close)
	return set
}

// outcome returns the outcome of a failure; empty: none.
func outcome(err error) samples.Outcome {
	var e *samples.Error
	if errors.As(err, &e) {
		return e.Outcome
	}
	return ""
}

// sorted prints samples as "pod=value", in order.
func sorted(got []samples.Sample) []string {
	out := make([]string, len(got))
	for i, s := range got {
		out[i] = s.Pod + "=" + s.Value.String()
	}
	slices.Sort(out)
	return out
}

func TestQueriesOfARealPrometheus(t *testing.T) {
	panels.Require(t, "prometheus")
	exporter := newExporter(t, gauges)
	prom := start(t, exporter, "", &http.Client{})
	set := newSet(t, samples.Source{Prometheus: &samples.Prometheus{URL: prom.url()}})
	query := func(text string, change ...func(*samples.Query)) samples.Query {
		q := samples.Query{Source: "prom", Query: text}
		for _, f := range change {
			f(&q)
		}
		return q
	}
	pods := func(q *samples.Query) { q.PodLabel = "pod" }
	kit.Eventually(t, patience, "the exporter is scraped", func() error {
		_, err := set.Samples(t.Context(), query("queue_length"))
		return err
	})
	for _, c := range []struct {
		name    string
		query   samples.Query
		want    []string
		outcome samples.Outcome
		text    string
	}{
		{name: "a vector", query: query("queue_length"), want: []string{"=3", "=4500m"}},
		{name: "an aggregate", query: query("sum(queue_length)"), want: []string{"=7500m"}},
		{name: "a scalar", query: query("scalar(sum(queue_length))"), want: []string{"=7500m"}},
		{name: "pods, one of which has NaN", query: query("load", pods), want: []string{"web-1=250m"}},
		{name: "nothing", query: query("nothing"), outcome: samples.Empty, text: "the result is empty"},
		{name: "nothing that means zero", query: query("nothing", func(q *samples.Query) { q.EmptyIsZero = true }), want: []string{"=0"}},
		{name: "nothing divided by nothing", query: query("vector(0) / 0"), outcome: samples.Invalid, text: "NaN"},
		{name: "something divided by nothing", query: query("vector(1) / 0"), outcome: samples.Invalid, text: "infinite"},
		{name: "a negative value", query: query("-sum(queue_length)"), outcome: samples.Invalid, text: "negative"},
		{name: "a string", query: query(`"seven"`), outcome: samples.Unusable, text: "is the result a number"},
		{name: "a range vector", query: query("queue_length[1m]"), outcome: samples.Invalid, text: "range vector"},
		{name: "a query that does not parse", query: query("sum("), outcome: samples.Refused, text: "it can't evaluate the query"},
		{name: "a query that can't be evaluated", query: query("queue_length * on(job) queue_length"), outcome: samples.Refused, text: "it can't evaluate the query"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := set.Samples(t.Context(), c.query)
			if c.outcome != "" {
				if outcome(err) != c.outcome || !strings.Contains(err.Error(), c.text) {
					t.Fatalf("got %v, %v; want %s and %q", got, err, c.outcome, c.text)
				}
				return
			}
			if err != nil || !reflect.DeepEqual(sorted(got), c.want) {
				t.Fatalf("got %v, %v; want %v", sorted(got), err, c.want)
			}
			if age := time.Since(got[0].Timestamp); age < -time.Minute || age > 2*time.Minute {
				t.Errorf("the value is %s old", age)
			}
		})
	}
	t.Run("a rate of each pod, as a request takes it", func(t *testing.T) {
		metric := samples.Metric{
			Spec: &setpointv1.MetricSpec{Type: "Pods", Pods: &setpointv1.PodsMetricSource{Metric: &setpointv1.MetricIdentifier{Name: "rps"}}},
			Query: query("sum by (pod) (rate(requests_total[30s]))", pods, func(q *samples.Query) {
				q.Window = samples.Duration(30 * time.Second)
			}),
		}
		kit.Eventually(t, patience, "there is a rate", func() error {
			got := set.Read(t.Context(), []samples.Metric{metric}, []string{"web-1", "web-2", "web-3"})
			if len(got.CustomMetrics) != 2 {
				return fmt.Errorf("got %v", got)
			}
			for _, value := range got.CustomMetrics {
				if value.GetWindowSeconds() != 30 || strings.HasPrefix(value.GetValue(), "0") {
					return fmt.Errorf("got %v", value)
				}
			}
			return nil
		})
	})
	t.Run("a series that goes is an error, not its last value", func(t *testing.T) {
		exporter.tell("")
		kit.Eventually(t, patience, "it is gone", func() error {
			if got, err := set.Samples(t.Context(), query("queue_length")); outcome(err) != samples.Empty {
				return fmt.Errorf("got %v, %w", got, err)
			}
			return nil
		})
		exporter.tell(gauges)
		kit.Eventually(t, patience, "it is back", func() error {
			_, err := set.Samples(t.Context(), query("queue_length"))
			return err
		})
	})
	t.Run("a Prometheus that goes is an error until it is back", func(t *testing.T) {
		prom.kill()
		if got, err := set.Samples(t.Context(), query("queue_length")); outcome(err) != samples.Unreachable {
			t.Fatalf("got %v, %v", got, err)
		}
		prom.run()
		kit.Eventually(t, patience, "it answers again", func() error {
			_, err := set.Samples(t.Context(), query("queue_length"))
			return err
		})
	})
}

func TestMutualTLSOfARealPrometheus(t *testing.T) {
	panels.Require(t, "prometheus")
	files := redistest.NewTLS(t)
	web := fmt.Sprintf(`tls_server_config: {cert_file: %q, key_file: %q, client_ca_file: %q, client_auth_type: RequireAndVerifyClientCert}`,
		files.ServerCertFile, files.ServerKeyFile, files.CAFile)
	prom := start(t, newExporter(t, gauges), web, &http.Client{Transport: &http.Transport{TLSClientConfig: files.Config()}})
	query := samples.Query{Source: "prom", Query: "vector(1)"}
	own := samples.TLS{CAFile: files.CAFile, CertFile: files.ClientCertFile, KeyFile: files.ClientKeyFile}
	set := newSet(t, samples.Source{Prometheus: &samples.Prometheus{URL: prom.url(), TLS: &own}})
	if got, err := set.Samples(t.Context(), query); err != nil || !reflect.DeepEqual(sorted(got), []string{"=1"}) {
		t.Errorf("with a certificate: %v, %v", got, err)
	}
	for name, tls := range map[string]samples.TLS{"without a certificate": {CAFile: files.CAFile}, "without its authority": {}} {
		set := newSet(t, samples.Source{Prometheus: &samples.Prometheus{URL: prom.url(), TLS: &tls}})
		if got, err := set.Samples(t.Context(), query); outcome(err) != samples.Unreachable {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}
