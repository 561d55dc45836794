package httpjson

import (
	"net"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/setpoint-dev/setpoint/clients/samples/httpapi"
	"github.com/setpoint-dev/setpoint/clients/samples/source"
	"github.com/setpoint-dev/setpoint/internal/typed"
)

// FuzzDocuments applies arbitrary paths to arbitrary documents.
func FuzzDocuments(f *testing.F) {
	for _, seed := range [][3]string{
		{`{"pods": [{"name": "a", "n": 1.5, "at": 1700000000}]}`, "{.pods[*]}", ".n"},
		{`{"pods": {"a": ["1", "2Gi", null, 1e999]}}`, "{.pods.*}", "[0]"},
		{`[[[1]]]`, "[*][*]", "[-1:]"},
		{`{"q": [{"a": "b", "n": -1}]}`, `{.q[?(@.a=="b")]}`, "$.n"},
		{`{"q": "text"}`, "{.q[*]}", "."},
		{`null`, "[::0]", "[5:1:2]"},
	} {
		f.Add([]byte(seed[0]), seed[1], seed[2])
	}
	b := New(&httpapi.Server{URL: "http://localhost"}, source.Bounds{Concurrency: 1, MaxBytes: 1 << 20, MaxSeries: 1000}, zap.NewNop(), (&net.Dialer{}).DialContext)
	f.Fuzz(func(t *testing.T, text []byte, items, value string) {
		content, err := typed.DecodeJSON(text)
		if err != nil {
			return
		}
		for _, q := range []source.Query{
			{ValuePath: value},
			{ValuePath: value, ItemsPath: items, PodPath: ".name", TimestampPath: ".at"},
		} {
			if len(b.Check(q)) > 0 {
				continue
			}
			values, err := b.Values(q, page{content, time.Now()})
			if err != nil && len(values) > 0 {
				t.Fatalf("values and the error %v", err)
			}
			// Every value comes from a place in the document.
			if len(values) > len(text) {
				t.Fatalf("%d values of %d bytes", len(values), len(text))
			}
		}
	})
}
