package nomadtest

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"embed"
	"encoding/json"
	"io"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/fatal"
)

//go:embed testdata/*.jsonl.gz
var recordings embed.FS

// Exchange is a recorded HTTP exchange.
type Exchange struct {
	ID      string
	Note    string
	Request struct {
		Method, Path string
		Query        map[string]any
		Headers      map[string]string
		Body         json.RawMessage
		BodyText     *string `json:"body_text"`
	}
	Response struct {
		Status     int
		Headers    map[string]string
		Body       json.RawMessage
		BodyText   string  `json:"body_text"`
		DurationMS float64 `json:"duration_ms"`
		Error      string
	}
	// AtMS is the time of the request since the start of the theme.
	AtMS float64 `json:"at_ms"`
	// CPUSecondsUsed is the kernel's count at the time of the answer, by process. Only
	// statistics have it.
	CPUSecondsUsed map[string]float64 `json:"cpu_seconds_used"`
}

// At is the time of the request since the start of the theme.
func (e *Exchange) At() time.Duration { return time.Duration(e.AtMS * float64(time.Millisecond)) }

// Recorded returns the exchanges of a theme, in the order of the requests. One without a method
// marks a phase, or an action outside of HTTP.
func Recorded(t testing.TB, theme string) []*Exchange {
	t.Helper()
	data, err := recordings.ReadFile("testdata/" + theme + ".jsonl.gz")
	fatal.If(t, err)
	uncompressed, err := gzip.NewReader(bytes.NewReader(data))
	fatal.If(t, err)
	var out []*Exchange
	lines := bufio.NewReader(uncompressed)
	for {
		line, err := lines.ReadBytes('\n')
		if len(bytes.TrimSpace(line)) > 0 {
			e := &Exchange{}
			if err := json.Unmarshal(line, e); err != nil {
				t.Fatalf("%s, exchange %d: %v", theme, len(out)+1, err)
			}
			out = append(out, e)
		}
		if err == io.EOF {
			return out
		}
		fatal.If(t, err)
	}
}

// RecordedBody decodes the body of one exchange.
func RecordedBody[T any](t testing.TB, theme, id string) T {
	t.Helper()
	var out T
	for _, e := range Recorded(t, theme) {
		if e.ID != id {
			continue
		}
		if err := json.Unmarshal(e.Response.Body, &out); err != nil {
			t.Fatalf("%s: %v", id, err)
		}
		return out
	}
	t.Fatalf("no exchange %s was recorded", id)
	return out
}
