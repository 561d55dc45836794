package cost

import (
	"bytes"
	_ "embed" // for the points
	"encoding/json"
	"fmt"

	"github.com/setpoint-dev/setpoint/bench/report"
)

// Kind is the kind of calls, and the place of the histories.
type Kind string

// The measured kinds.
const (
	UnaryMemory Kind = "unary, memory"
	UnaryRedis  Kind = "unary, Redis"
	StreamRedis Kind = "stream, Redis"
	BatchRedis  Kind = "batch, Redis"
)

// Load is a closed loop with that many calls in flight.
type Load struct {
	Kind Kind `json:"kind"`
	// InFlight counts callers, requests in flight on all streams together, or batches.
	InFlight int `json:"inFlight"`
	// Requests per call: 1, or the size of a batch.
	Requests int `json:"requests"`
}

// String names the load as the tables do.
func (l Load) String() string {
	if l.Kind == BatchRedis {
		return fmt.Sprintf("%s, %d × %d", l.Kind, l.InFlight, l.Requests)
	}
	return fmt.Sprintf("%s, %d", l.Kind, l.InFlight)
}

// Point is a load with its measurements.
type Point struct {
	Load
	// Rate is recommendations per second.
	Rate float64 `json:"rate"`
	// Client, Service and Redis are the processor times of the processes per
	// recommendation, in microseconds.
	Client  float64 `json:"clientMicros"`
	Service float64 `json:"serviceMicros"`
	Redis   float64 `json:"redisMicros,omitempty"`
	// SwapsATrip is how many commands a round trip to Redis carried; 0: none.
	SwapsATrip float64 `json:"swapsATrip,omitempty"`
	// P50 is the median time of a call, in milliseconds.
	P50 float64 `json:"p50Millis"`
	// OthersPercent is the share of the machine's processor time that other programs
	// used, including the hypervisor.
	OthersPercent float64 `json:"othersPercent"`
	// Discarded counts runs that did not count because the service refused calls.
	Discarded int `json:"discarded,omitempty"`
}

// Bytes are the bytes on the wire per recommendation, without TCP and IP.
type Bytes struct {
	Kind        Kind    `json:"kind"`
	ToService   float64 `json:"toService"`
	FromService float64 `json:"fromService"`
	ToRedis     float64 `json:"toRedis"`
	FromRedis   float64 `json:"fromRedis"`
}

// Measured is a set of measurements of one machine.
type Measured struct {
	Machine report.Machine `json:"machine"`
	Command string         `json:"command"`
	Points  []Point        `json:"points"`
	Bytes   []Bytes        `json:"bytes"`
}

//go:embed testdata/points.json
var committed []byte

// Committed returns the points behind the tables in docs/operate/scaling.md.
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
