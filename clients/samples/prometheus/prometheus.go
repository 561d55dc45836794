// Package prometheus queries servers with the HTTP API of Prometheus.
package prometheus

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"github.com/prometheus/common/model"
	"go.uber.org/zap"

	"github.com/setpoint-dev/setpoint/clients/samples/httpapi"
	"github.com/setpoint-dev/setpoint/clients/samples/source"
	"github.com/setpoint-dev/setpoint/internal/files"
	"github.com/setpoint-dev/setpoint/internal/typed"
)

// Source runs instant queries. It is safe for concurrent use.
type Source struct {
	server  *httpapi.Client
	query   *url.URL
	timeout string // as Prometheus writes durations
}

var _ source.Backend = (*Source)(nil)

var labelName = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)

// New returns a source. It opens no connection.
func New(s *httpapi.Server, bounds source.Bounds, log *zap.Logger, dial files.Dial) *Source {
	// Problems reports an address that does not parse.
	base, _ := url.Parse(s.URL)
	return &Source{server: httpapi.New(s, bounds, log, dial), query: base.JoinPath("api/v1/query"), timeout: model.Duration(bounds.Timeout).String()}
}

// Close implements source.Backend.
func (b *Source) Close() { b.server.Close() }

// Check implements source.Backend.
func (b *Source) Check(q source.Query) typed.Problems {
	var p typed.Problems
	source.Required(&p, "query", q.Query, source.MaxQueryLength)
	if q.PodLabel != "" && !labelName.MatchString(q.PodLabel) {
		p.Add("podLabel", "must be the name of a label: letters, digits and _")
	}
	if q.ContainerLabel != "" && !labelName.MatchString(q.ContainerLabel) {
		p.Add("containerLabel", "must be the name of a label: letters, digits and _")
	}
	if q.ContainerLabel != "" && q.PodLabel == "" {
		p.Add("podLabel", "is required with containerLabel")
	}
	return p
}

// Request implements source.Backend.
func (b *Source) Request(q source.Query) string { return q.Query }

// vector is an answer.
type vector struct {
	value    model.Value
	warnings []string
}

// Ask implements source.Backend.
func (b *Source) Ask(ctx context.Context, q source.Query) (any, error) {
	// Without a time the server uses its own clock: this one's may be off.
	form := url.Values{"query": {q.Query}, "timeout": {b.timeout}}.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, b.query.String(), strings.NewReader(form))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header["Idempotency-Key"] = nil // a query is idempotent: net/http may resend it when a connection closes
	status, body, err := b.send(req)
	switch {
	case err != nil:
		return nil, err
	case status == http.StatusForbidden, status == http.StatusMethodNotAllowed, status == http.StatusNotImplemented:
		// A proxy may allow GET only.
		u := *b.query
		u.RawQuery = strings.Trim(u.RawQuery+"&"+form, "&")
		if req, err = http.NewRequestWithContext(ctx, http.MethodGet, u.String(), http.NoBody); err != nil {
			return nil, err
		}
		if status, body, err = b.send(req); err != nil {
			return nil, err
		}
	}
	return readAnswer(status, body, b.server.Discreet)
}

// send sends a request and returns the answer.
func (b *Source) send(req *http.Request) (status int, body []byte, err error) {
	resp, err := b.server.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(resp.Body)
	return resp.StatusCode, body, err
}

// promAnswer is an answer of Prometheus' API to a query.
type promAnswer struct {
	Status    string   `json:"status"`
	ErrorType string   `json:"errorType"`
	Error     string   `json:"error"`
	Warnings  []string `json:"warnings"`
	// IsPartial is VictoriaMetrics' warning.
	IsPartial bool `json:"isPartial"`
	Data      struct {
		ResultType string          `json:"resultType"`
		Result     json.RawMessage `json:"result"`
	} `json:"data"`
}

// readAnswer parses an answer. It does not quote a body that is no answer of Prometheus' API,
// such as a proxy's, and what it quotes goes through discreet.
func readAnswer(status int, body []byte, discreet func(string) string) (any, error) {
	ok := status/100 == 2
	if !ok && status != http.StatusBadRequest && status != http.StatusUnprocessableEntity && status != http.StatusServiceUnavailable {
		return nil, httpapi.StatusFailure(status)
	}
	var a promAnswer
	err := json.Unmarshal(body, &a)
	switch {
	case err == nil && a.Status == "error":
		a.Error = discreet(a.Error)
		return nil, a.failure()
	case !ok:
		return nil, httpapi.StatusFailure(status)
	case err != nil, a.Status != "success":
		return nil, errNoAnswer()
	}
	var v vector
	for _, warning := range a.Warnings {
		v.warnings = append(v.warnings, discreet(warning))
	}
	if a.IsPartial {
		v.warnings = append(v.warnings, "its result is partial")
	}
	switch a.Data.ResultType {
	case "scalar":
		var scalar model.Scalar
		v.value, err = &scalar, json.Unmarshal(a.Data.Result, &scalar)
	case "vector":
		var series model.Vector
		err = json.Unmarshal(a.Data.Result, &series)
		v.value = series
	case "matrix":
		v.value = model.Matrix{} // refused, whatever the value
	case "": // refused as well
	default:
		return nil, errNoAnswer()
	}
	if err != nil {
		return nil, errNoAnswer()
	}
	return v, nil
}

func errNoAnswer() error {
	return source.Failed(source.Unusable, "the answer is not a vector or scalar of Prometheus' API: does its API begin at url, and is the result a number?")
}

// failure converts the API's error.
func (a *promAnswer) failure() error {
	switch said := typed.Shorten(a.Error, typed.MaxQuoted); a.ErrorType {
	case "bad_data", "execution":
		return source.Failed(source.Refused, "it can't evaluate the query: %s", said)
	case "timeout", "canceled":
		return source.Failed(source.Timeout, "it aborted the query: %s", said)
	default:
		return source.Failed(source.Refused, "it answered with an error: %s", said)
	}
}

// Values implements source.Backend.
func (b *Source) Values(q source.Query, answer any) ([]source.Value, error) {
	a := answer.(vector)
	if !q.AllowWarnings {
		for _, warning := range a.warnings {
			// Servers from 2.48 to 2.54 also list hints about the query's style here.
			if !strings.HasPrefix(warning, "PromQL info:") {
				return nil, source.Failed(source.Invalid, "the result may be incomplete, the source warns: %s; set allowWarnings to accept it nevertheless", typed.Shorten(warning, typed.MaxQuoted))
			}
		}
	}
	switch result := a.value.(type) {
	case *model.Scalar:
		if q.OfPods() {
			return nil, source.Failed(source.Invalid, "the result is a scalar, which names no pod: aggregate by (%s)", q.PodLabel)
		}
		v := source.Value{Sample: source.Sample{Timestamp: result.Timestamp.Time()}}
		v.Value, v.Err = source.FromFloat(float64(result.Value), q.AllowNegative)
		return []source.Value{v}, nil
	case model.Vector:
		return seriesOf(q, result), nil
	case model.Matrix:
		return nil, source.Failed(source.Invalid, "the result is a range vector: query one value for each series, as with rate(…[1m]) or last_over_time(…)")
	}
	return nil, source.Failed(source.Unusable, "the answer has no result")
}

var errHistogram = errors.New("the result has native histograms: query a number, as with histogram_quantile() or histogram_count()")

// seriesOf converts a vector.
func seriesOf(q source.Query, vector model.Vector) []source.Value {
	values := make([]source.Value, len(vector))
	for i, series := range vector {
		v := &values[i]
		if series == nil {
			v.Err = source.ErrNoSample
			continue
		}
		v.Labels, v.Timestamp = make(map[string]string, len(series.Metric)), series.Timestamp.Time()
		for name, text := range series.Metric {
			v.Labels[strings.ToValidUTF8(string(name), "?")] = strings.ToValidUTF8(string(text), "?")
		}
		v.Pod, v.Container = string(series.Metric[model.LabelName(q.PodLabel)]), string(series.Metric[model.LabelName(q.ContainerLabel)])
		if v.Value, v.Err = source.FromFloat(float64(series.Value), q.AllowNegative); series.Histogram != nil { // its plain value is 0
			v.Err = errHistogram
		}
	}
	return values
}
