package samples

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/api"
	promv1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
	"go.uber.org/zap"

	"github.com/setpoint-dev/setpoint/internal/files"
)

// promServer asks instant queries. It implements backend.
type promServer struct {
	server  *httpServer
	api     promv1.API
	timeout time.Duration
}

var _ backend = (*promServer)(nil)

func newPrometheus(s Source, log *zap.Logger, dial files.Dial) *promServer {
	server := newHTTPServer(s.Prometheus, s, log, dial)
	// The error is that of an address that does not parse: see Validate.
	client, _ := api.NewClient(api.Config{Address: s.Prometheus.URL, Client: server.client})
	return &promServer{server: server, api: promv1.NewAPI(statusClient{client}), timeout: time.Duration(s.Timeout)}
}

func (b *promServer) close() { b.server.close() }

func (b *promServer) check(q Query) problems {
	var p problems
	p.required("query", q.Query, maxQueryLength)
	if q.PodLabel != "" && !labelName.MatchString(q.PodLabel) {
		p.add("podLabel", "must be the name of a label: letters, digits and _")
	}
	if q.ContainerLabel != "" && !labelName.MatchString(q.ContainerLabel) {
		p.add("containerLabel", "must be the name of a label: letters, digits and _")
	}
	if q.ContainerLabel != "" && q.PodLabel == "" {
		p.add("podLabel", "is required with containerLabel")
	}
	return p
}

func (b *promServer) request(q Query) string { return q.Query }

// vector is an answer.
type vector struct {
	value    model.Value
	warnings []string
}

func (b *promServer) ask(ctx context.Context, q Query) (any, error) {
	// Without a time the server takes its own clock: this one's may be off.
	value, warnings, _, err := b.api.Query(ctx, q.Query, time.Time{}, promv1.WithTimeout(b.timeout))
	if err != nil {
		return nil, promFailure(err)
	}
	return vector{value, warnings}, nil
}

// statusClient turns away what is no answer of Prometheus' API, such as that of a proxy:
// the official client would make an error of it that may quote the body.
type statusClient struct{ api.Client }

// Do implements api.Client.
func (c statusClient) Do(ctx context.Context, req *http.Request) (*http.Response, []byte, error) {
	resp, body, err := c.Client.Do(ctx, req)
	if err != nil {
		return resp, body, err
	}
	switch resp.StatusCode {
	case http.StatusBadRequest, http.StatusUnprocessableEntity:
		// Prometheus answers errors as JSON; a proxy does not.
		if !strings.HasPrefix(strings.TrimSpace(string(body)), "{") {
			return resp, nil, statusFailure(resp.StatusCode)
		}
	default:
		if resp.StatusCode/100 != 2 && !fallsBack(resp.StatusCode, req.Method) {
			return resp, nil, statusFailure(resp.StatusCode)
		}
	}
	return resp, body, nil
}

// fallsBack reports whether the official client tries again with GET.
func fallsBack(status int, method string) bool {
	switch status {
	case http.StatusForbidden, http.StatusMethodNotAllowed, http.StatusNotImplemented:
		return method == http.MethodPost
	}
	return false
}

// promFailure reads an error of the official client.
func promFailure(err error) error {
	var said *promv1.Error
	if !errors.As(err, &said) {
		return err
	}
	switch said.Type {
	case promv1.ErrBadData, promv1.ErrExec:
		return failed(Refused, "it can't evaluate the query: %s", shorten(said.Msg, maxQuoted))
	case promv1.ErrTimeout, promv1.ErrCanceled:
		return failed(Timeout, "it gave up the query: %s", shorten(said.Msg, maxQuoted))
	case promv1.ErrBadResponse:
		return failed(Unusable, "the answer is no vector or scalar as Prometheus answers them: is url where its API begins, and the result a number?")
	}
	return failed(Refused, "it answered with an error: %s", shorten(said.Msg, maxQuoted))
}

func (b *promServer) values(q Query, answer any) ([]value, error) {
	a := answer.(vector)
	if !q.AllowWarnings {
		for _, warning := range a.warnings {
			// Servers from 2.48 to 2.54 give hints that concern the query's style here, too.
			if !strings.HasPrefix(warning, "PromQL info:") {
				return nil, failed(Invalid, "the result may be incomplete, the source warns: %s; set allowWarnings to take it nevertheless", shorten(warning, maxQuoted))
			}
		}
	}
	switch result := a.value.(type) {
	case *model.Scalar:
		if q.ofPods() {
			return nil, failed(Invalid, "the result is a scalar, which names no pod: aggregate by (%s)", q.PodLabel)
		}
		v := value{Sample: Sample{Timestamp: result.Timestamp.Time()}}
		v.Value, v.err = fromFloat(float64(result.Value), q.AllowNegative)
		return []value{v}, nil
	case model.Vector:
		return q.series(result)
	case model.Matrix:
		return nil, failed(Invalid, "the result is a range vector: query one value for each series, as with rate(…[1m]) or last_over_time(…)")
	}
	return nil, failed(Unusable, "the answer holds no result")
}

// series reads a vector.
func (q Query) series(vector model.Vector) ([]value, error) {
	values := make([]value, len(vector))
	for i, series := range vector {
		if series == nil || series.Histogram != nil {
			// Its plain value would be 0.
			return nil, failed(Invalid, "the result holds native histograms: query a number, as with histogram_quantile() or histogram_count()")
		}
		v := &values[i]
		v.Labels, v.Timestamp = make(map[string]string, len(series.Metric)), series.Timestamp.Time()
		for name, text := range series.Metric {
			v.Labels[strings.ToValidUTF8(string(name), "?")] = strings.ToValidUTF8(string(text), "?")
		}
		v.Pod, v.Container = string(series.Metric[model.LabelName(q.PodLabel)]), string(series.Metric[model.LabelName(q.ContainerLabel)])
		v.Value, v.err = fromFloat(float64(series.Value), q.AllowNegative)
	}
	return values, nil
}
