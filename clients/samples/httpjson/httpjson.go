// Package httpjson reads values from JSON documents over HTTP.
package httpjson

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/setpoint-dev/setpoint/clients/samples/httpapi"
	"github.com/setpoint-dev/setpoint/clients/samples/source"
	"github.com/setpoint-dev/setpoint/internal/files"
	"github.com/setpoint-dev/setpoint/internal/typed"
)

// Source reads JSON documents. It is safe for concurrent use.
type Source struct {
	server    *httpapi.Client
	base      *url.URL
	maxSeries int
}

var _ source.Backend = (*Source)(nil)

// New returns a source. It opens no connection.
func New(s *httpapi.Server, bounds source.Bounds, log *zap.Logger, dial files.Dial) *Source {
	// Problems reports an address that does not parse.
	base, _ := url.Parse(s.URL)
	return &Source{server: httpapi.New(s, bounds, log, dial), base: base, maxSeries: bounds.MaxSeries}
}

// Close implements source.Backend.
func (b *Source) Close() { b.server.Close() }

// Check implements source.Backend.
func (b *Source) Check(q source.Query) typed.Problems {
	var p typed.Problems
	if _, problem := b.address(q.Path); problem != "" {
		p.Add("path", "%s", problem)
	}
	if q.ValuePath == "" {
		p.Add("valuePath", "is required")
	}
	checkPath(&p, "valuePath", q.ValuePath)
	checkPath(&p, "itemsPath", q.ItemsPath)
	checkPath(&p, "podPath", q.PodPath)
	checkPath(&p, "containerPath", q.ContainerPath)
	checkPath(&p, "timestampPath", q.TimestampPath)
	switch {
	case (q.ItemsPath == "") != (q.PodPath == ""):
		p.Add("itemsPath", "and podPath belong together: the one leads to items, the other from an item to its pod's name")
	case q.ContainerPath != "" && q.PodPath == "":
		p.Add("podPath", "is required with containerPath")
	}
	switch {
	case q.MaxAge < 0 || q.MaxAge > source.Duration(source.MaxWindow):
		p.Add("maxAge", "must be between 0s and %s", source.MaxWindow)
	case q.MaxAge > 0 && q.TimestampPath == "":
		p.Add("timestampPath", "is required with maxAge")
	}
	return p
}

// address returns the URL of a path below the source's. It must not lead elsewhere: the request
// carries the source's credentials.
func (b *Source) address(path string) (u *url.URL, problem string) {
	relative, err := url.Parse(path)
	switch {
	case len(path) > source.MaxQueryLength:
		return nil, "is too long"
	case err != nil:
		return nil, "must be a path such as /queues/main?state=open"
	case relative.Scheme != "" || relative.Host != "" || relative.User != nil || relative.Opaque != "" || relative.Fragment != "":
		return nil, "must be a path below the source's url, without a host"
	case relative.Path != "" && relative.Path[0] != '/':
		return nil, "must begin with /"
	case slices.ContainsFunc(strings.FieldsFunc(relative.Path, func(r rune) bool { return r == '/' || r == '\\' }), leadsUp):
		return nil, "must not contain .."
	}
	// Another parser may read other parameters from a query that this one does not accept.
	query, err := url.ParseQuery(relative.RawQuery)
	if err != nil || strings.ContainsAny(relative.RawQuery, " ") {
		return nil, "has a query that is not of the form name=value&name=value, escaped"
	}
	for fixed := range b.base.Query() {
		for name := range query {
			if strings.EqualFold(name, fixed) { // some servers don't distinguish case
				return nil, "must not set a parameter that the source's url sets"
			}
		}
	}
	out := *b.base
	if relative.Path != "" {
		out.RawPath = strings.TrimRight(b.base.EscapedPath(), "/") + relative.EscapedPath()
		out.Path = strings.TrimRight(b.base.Path, "/") + relative.Path
	}
	out.RawQuery = strings.Trim(b.base.RawQuery+"&"+relative.RawQuery, "&")
	return &out, ""
}

// leadsUp reports whether a segment is "..", also before parameters (;name), which some servers
// strip first.
func leadsUp(segment string) bool {
	name, _, _ := strings.Cut(segment, ";")
	return name == ".."
}

// Request implements source.Backend.
func (b *Source) Request(q source.Query) string { return q.Path }

// page is an answer.
type page struct {
	content any
	// at is when it arrived.
	at time.Time
}

// Ask implements source.Backend.
func (b *Source) Ask(ctx context.Context, q source.Query) (any, error) {
	u, problem := b.address(q.Path)
	if problem != "" {
		return nil, source.Failed(source.Invalid, "path %s", problem)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), http.NoBody)
	if err != nil {
		return nil, source.Failed(source.Invalid, "path is no path")
	}
	resp, err := b.server.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, httpapi.StatusFailure(resp.StatusCode)
	}
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	content, err := typed.DecodeJSON(text)
	if err != nil {
		// The parser's error may quote the answer.
		return nil, source.Failed(source.Unusable, "the answer is not one JSON document")
	}
	return page{content, time.Now()}, nil
}

// Values implements source.Backend.
func (b *Source) Values(q source.Query, answer any) ([]source.Value, error) {
	d := answer.(page)
	if q.ItemsPath == "" {
		at, err := instant(q, d.content, d)
		if err != nil {
			return nil, err
		}
		found, lost, err := find(d.content, q.ValuePath)
		switch {
		case err != nil:
			return nil, source.Failed(source.Unusable, "valuePath %v", err)
		case lost > 0:
			return nil, source.Failed(source.Invalid, "valuePath leads to %d places without a value, or with null, and to %d values: their sum would be too small", lost, len(found))
		}
		values := make([]source.Value, len(found))
		for i, one := range found {
			values[i].Timestamp = at
			read(&values[i], one, q.AllowNegative)
		}
		return values, nil
	}
	items, _, err := find(d.content, q.ItemsPath)
	if err != nil {
		return nil, source.Failed(source.Unusable, "itemsPath %v", err)
	}
	if len(items) > b.maxSeries {
		return nil, source.Failed(source.Unusable, "the answer has %d items, more than maxSeries", len(items))
	}
	values := make([]source.Value, len(items))
	for i, item := range items {
		if err := readItem(&values[i], q, item, d); err != nil {
			return nil, err
		}
	}
	return values, nil
}

// readItem reads the value of a pod. The error is about its names; what is wrong with its value is the pod's own.
func readItem(v *source.Value, q source.Query, item any, d page) error {
	var err error
	if v.Pod, err = name(item, "podPath", q.PodPath); err != nil {
		return err
	}
	if q.ContainerPath != "" {
		if v.Container, err = name(item, "containerPath", q.ContainerPath); err != nil {
			return err
		}
	}
	found, _, err := find(item, q.ValuePath)
	switch {
	case err != nil:
		v.Err = fmt.Errorf("valuePath %w", err)
	case len(found) == 0:
		v.Err = source.ErrNoSample
	case len(found) > 1:
		v.Err = fmt.Errorf("valuePath leads to %d values of one item", len(found))
	default:
		read(v, found[0], q.AllowNegative)
	}
	switch v.Timestamp, err = instant(q, item, d); {
	case errors.Is(err, errOld):
		// An old value makes its pod one without a sample; the values of other pods may be
		// recent.
		v.Timestamp, v.Err = d.at, source.ErrNoSample
	case err != nil:
		v.Err = err
	}
	return nil
}

// name returns the text at a path; empty: none.
func name(item any, field, path string) (string, error) {
	found, _, err := find(item, path)
	switch {
	case err != nil:
		return "", source.Failed(source.Unusable, "%s %v", field, err)
	case len(found) == 0:
		return "", nil
	case len(found) > 1:
		return "", source.Failed(source.Invalid, "%s leads to %d values of one item", field, len(found))
	}
	text, ok := found[0].(string)
	if !ok {
		return "", source.Failed(source.Invalid, "%s does not lead to a text", field)
	}
	return text, nil
}

// read reads a number, or a quantity in a text.
func read(v *source.Value, from any, allowNegative bool) {
	switch from := from.(type) {
	case json.Number:
		v.Value, v.Err = source.FromText(from.String(), allowNegative)
	case string:
		v.Value, v.Err = source.FromText(from, allowNegative)
	default: // including the bytes of a text, which [*] would split
		v.Err = source.ErrNoNumber
	}
}

// errOld is the failure of a value that is older than maxAge, or so far ahead that it would never be.
var errOld error = &source.Failure{Outcome: source.Invalid, Message: "the value is older than maxAge, or ahead of the clock"}

// mostAhead is how far ahead of this clock the time of a value with a maxAge may be.
const mostAhead = time.Minute

// instant returns the time of a value.
func instant(q source.Query, of any, d page) (time.Time, error) {
	if q.TimestampPath == "" {
		return d.at, nil
	}
	found, _, err := find(of, q.TimestampPath)
	if err != nil {
		return time.Time{}, source.Failed(source.Unusable, "timestampPath %v", err)
	}
	if len(found) != 1 {
		return time.Time{}, source.Failed(source.Invalid, "timestampPath leads to %d values, not to one", len(found))
	}
	at, ok := instantOf(found[0])
	if !ok {
		return time.Time{}, source.Failed(source.Invalid, "timestampPath leads neither to a time such as 2026-01-31T12:00:00Z nor to seconds since 1970")
	}
	if age := d.at.Sub(at); q.MaxAge > 0 && (age > time.Duration(q.MaxAge) || age < -mostAhead) {
		return time.Time{}, errOld
	}
	return at, nil
}

// instantOf parses a time: RFC 3339, or a number of seconds since 1970.
func instantOf(from any) (time.Time, bool) {
	switch from := from.(type) {
	case string:
		at, err := time.Parse(time.RFC3339Nano, from)
		return at, err == nil
	case json.Number:
		seconds, err := from.Float64()
		if err != nil || seconds < 0 || seconds > 253402300799 { // the end of the year 9999
			return time.Time{}, false
		}
		whole, fraction := math.Modf(seconds)
		return time.Unix(int64(whole), int64(fraction*1e9)), true
	}
	return time.Time{}, false
}
