package samples

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/prometheus/common/model"
	"go.uber.org/zap"

	"github.com/setpoint-dev/setpoint/internal/files"
)

// promServer runs instant queries. It implements backend.
type promServer struct {
	server  *httpServer
	query   *url.URL
	timeout time.Duration
}

var _ backend = (*promServer)(nil)

func newPrometheus(s Source, log *zap.Logger, dial files.Dial) *promServer {
	// Validate reports an address that does not parse.
	base, _ := url.Parse(s.Prometheus.URL)
	return &promServer{server: newHTTPServer(s.Prometheus, s, log, dial), query: base.JoinPath("api/v1/query"), timeout: time.Duration(s.Timeout)}
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
	// Without a time the server uses its own clock: this one's may be off.
	form := url.Values{"query": {q.Query}, "timeout": {b.timeout.String()}}.Encode()
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
	return readAnswer(status, body)
}

// send sends a request and returns the answer.
func (b *promServer) send(req *http.Request) (status int, body []byte, err error) {
	resp, err := b.server.client.Do(req)
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
	Data      struct {
		ResultType string          `json:"resultType"`
		Result     json.RawMessage `json:"result"`
	} `json:"data"`
}

// readAnswer parses an answer. It does not quote a body that is no answer of Prometheus' API,
// such as a proxy's.
func readAnswer(status int, body []byte) (any, error) {
	ok := status/100 == 2
	if !ok && status != http.StatusBadRequest && status != http.StatusUnprocessableEntity {
		return nil, statusFailure(status)
	}
	var a promAnswer
	err := json.Unmarshal(body, &a)
	switch {
	case err != nil && !ok:
		return nil, statusFailure(status)
	case err != nil:
		return nil, errNoAnswer()
	case a.Status == "error":
		return nil, a.failure()
	case !ok:
		return nil, errNoAnswer()
	}
	v := vector{warnings: a.Warnings}
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
	return failed(Unusable, "the answer is not a vector or scalar of Prometheus' API: does its API begin at url, and is the result a number?")
}

// failure converts the API's error.
func (a *promAnswer) failure() error {
	switch said := shorten(a.Error, maxQuoted); a.ErrorType {
	case "bad_data", "execution":
		return failed(Refused, "it can't evaluate the query: %s", said)
	case "timeout", "canceled":
		return failed(Timeout, "it aborted the query: %s", said)
	default:
		return failed(Refused, "it answered with an error: %s", said)
	}
}

func (b *promServer) values(q Query, answer any) ([]value, error) {
	a := answer.(vector)
	if !q.AllowWarnings {
		for _, warning := range a.warnings {
			// Servers from 2.48 to 2.54 also list hints about the query's style here.
			if !strings.HasPrefix(warning, "PromQL info:") {
				return nil, failed(Invalid, "the result may be incomplete, the source warns: %s; set allowWarnings to accept it nevertheless", shorten(warning, maxQuoted))
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
	return nil, failed(Unusable, "the answer has no result")
}

// series converts a vector.
func (q Query) series(vector model.Vector) ([]value, error) {
	values := make([]value, len(vector))
	for i, series := range vector {
		if series == nil || series.Histogram != nil {
			// Its plain value would be 0.
			return nil, failed(Invalid, "the result has native histograms: query a number, as with histogram_quantile() or histogram_count()")
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
