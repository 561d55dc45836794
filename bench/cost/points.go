package cost

import (
	"bytes"
	_ "embed" // for the points
	"encoding/json"
	"fmt"

	"github.com/setpoint-dev/setpoint/bench/report"
)

// Kind is how recommendations are asked for, and where histories are.
type Kind string

// Kinds that are measured.
const (
	UnaryMemory Kind = "unary, memory"
	UnaryRedis  Kind = "unary, Redis"
	StreamRedis Kind = "stream, Redis"
	BatchRedis  Kind = "batch, Redis"
)

// Load is a closed loop: so many calls are on their way at any time.
type Load struct {
	Kind Kind `json:"kind"`
	// InFlight are callers, requests in flight on all streams together, or batches.
	InFlight int `json:"inFlight"`
	// Requests are those of one call: 1, or those of a batch.
	Requests int `json:"requests"`
}

// String names the load as tables do.
func (l Load) String() string {
	if l.Kind == BatchRedis {
		return fmt.Sprintf("%s, %d × %d", l.Kind, l.InFlight, l.Requests)
	}
	return fmt.Sprintf("%s, %d", l.Kind, l.InFlight)
}

// Point is a load and what came of it.
type Point struct {
	Load
	// Rate is that of recommendations a second.
	Rate float64 `json:"rate"`
	// Client, Service and Redis are the processes' times on a processor a
	// recommendation, in microseconds.
	Client  float64 `json:"clientMicros"`
	Service float64 `json:"serviceMicros"`
	Redis   float64 `json:"redisMicros,omitempty"`
	// SwapsATrip is how many commands a round trip to Redis carried; 0: there are none.
	SwapsATrip float64 `json:"swapsATrip,omitempty"`
	// P50 is the median time of a call, in milliseconds.
	P50 float64 `json:"p50Millis"`
	// OthersPercent is the share of the machine's processor time that others had, those
	// of the hypervisor included.
	OthersPercent float64 `json:"othersPercent"`
	// Discarded are runs that did not count, for the service refused calls.
	Discarded int `json:"discarded,omitempty"`
}

// Bytes are those of a recommendation on the wire, without what TCP and IP add.
type Bytes struct {
	Kind        Kind    `json:"kind"`
	ToService   float64 `json:"toService"`
	FromService float64 `json:"fromService"`
	ToRedis     float64 `json:"toRedis"`
	FromRedis   float64 `json:"fromRedis"`
}

// Measured is what was measured on a machine at a time.
type Measured struct {
	Machine report.Machine `json:"machine"`
	Command string         `json:"command"`
	Points  []Point        `json:"points"`
	Bytes   []Bytes        `json:"bytes"`
}

//go:embed testdata/points.json
var committed []byte

// Committed returns the points that the tables in docs/operate/scaling.md are made of.
func Committed() (*Measured, error) { return read(committed) }

func read(data []byte) (*Measured, error) {
	m := &Measured{}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(m); err != nil {
		return nil, fmt.Errorf("measured points: %w", err)
	}
	return m, nil
}

// find returns the point of a load.
func (m *Measured) find(l Load) (*Point, error) {
	for i := range m.Points {
		if m.Points[i].Load == l {
			return &m.Points[i], nil
		}
	}
	return nil, fmt.Errorf("measured points: none for %q, measure again", l)
}

// traffic returns the bytes of a kind.
func (m *Measured) traffic(kind Kind) (*Bytes, error) {
	for i := range m.Bytes {
		if m.Bytes[i].Kind == kind {
			return &m.Bytes[i], nil
		}
	}
	return nil, fmt.Errorf("measured points: no bytes for %q, measure again", kind)
}
