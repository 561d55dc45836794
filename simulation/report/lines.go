package report

import (
	"encoding/csv"
	"encoding/json"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/internal/printable"
	"github.com/setpoint-dev/setpoint/simulation"
)

// CSV writes an evaluation a line.
type CSV struct{ w *csv.Writer }

// NewCSV writes the heading.
func NewCSV(w io.Writer) (*CSV, error) {
	c := &CSV{csv.NewWriter(w)}
	return c, c.w.Write([]string{
		"spec", "time", "offset_seconds", "load", "capacity", "replicas", "ready", "running", "needed",
		"proposal", "desired", "cause", "queued", "served", "late", "lost",
	})
}

// Step writes a step.
func (c *CSV) Step(spec string, s *simulation.Step) error {
	whole := func(n int32) string { return strconv.Itoa(int(n)) }
	capacity, proposal := "", ""
	if !math.IsInf(s.Capacity, 1) {
		capacity = float(s.Capacity)
	}
	if s.Proposal >= 0 {
		proposal = whole(s.Proposal)
	}
	return c.w.Write([]string{
		cell(spec), s.Time.Format(time.RFC3339Nano), float(s.At.Seconds()), float(s.Load), capacity, whole(s.Replicas), whole(s.Ready),
		whole(s.Running), whole(s.Needed), proposal, whole(s.Decision.Desired), cell(string(s.Cause)),
		float(s.Queued), float(s.Served), float(s.Late), float(s.Lost),
	})
}

// cell is others' text, as the tables have it, that no spreadsheet takes for a formula.
func cell(text string) string {
	if text = printable.Text(text); text != "" && strings.ContainsRune("=+-@", rune(text[0])) {
		return "'" + text
	}
	return text
}

// Close writes what is left.
func (c *CSV) Close() error {
	c.w.Flush()
	return c.w.Error()
}

// float has no exponent, which not all that read tables know.
func float(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

// stepLine is a line of JSON: one evaluation.
type stepLine struct {
	Spec     string    `json:"spec"`
	Step     int       `json:"step"`
	Time     time.Time `json:"time"`
	Load     float64   `json:"load"`
	Capacity *float64  `json:"capacity,omitempty"`
	Replicas int32     `json:"replicas"`
	Ready    int32     `json:"ready"`
	Running  int32     `json:"running"`
	Needed   int32     `json:"needed"`
	Proposal *int32    `json:"proposal,omitempty"`
	Desired  int32     `json:"desired"`
	Cause    string    `json:"cause"`
	Reason   string    `json:"reason,omitempty"`
	Queued   float64   `json:"queued,omitempty"`
	Served   float64   `json:"served"`
	Late     float64   `json:"late,omitempty"`
	Lost     float64   `json:"lost,omitempty"`
	// Members are those of a fleet.
	Members []memberLine `json:"members,omitempty"`
}

type memberLine struct {
	Name     string `json:"name"`
	Share    int32  `json:"share"`
	Replicas int32  `json:"replicas"`
	Ready    int32  `json:"ready"`
}

// figureLine is the last line of an autoscaler.
type figureLine struct {
	Spec    string      `json:"spec"`
	Figures figuresJSON `json:"figures"`
}

type figuresJSON struct {
	Steps             int                `json:"steps"`
	Offered           float64            `json:"offered"`
	Served            float64            `json:"served"`
	Lost              float64            `json:"lost"`
	Late              float64            `json:"late"`
	Queued            float64            `json:"queued"`
	Returning         float64            `json:"returning"`
	ShortSeconds      float64            `json:"shortSeconds"`
	OverTargetSeconds float64            `json:"overTargetSeconds"`
	ReplicaHours      float64            `json:"replicaHours"`
	RunningHours      float64            `json:"runningHours"`
	Cost              float64            `json:"cost"`
	Efficiency        *float64           `json:"efficiency,omitempty"`
	Ups               int                `json:"ups"`
	Downs             int                `json:"downs"`
	Reversals         int                `json:"reversals"`
	FailedWrites      int                `json:"failedWrites"`
	LeastReplicas     int32              `json:"leastReplicas"`
	MostReplicas      int32              `json:"mostReplicas"`
	Rises             risesJSON          `json:"rises"`
	DecidedBySeconds  map[string]float64 `json:"decidedBySeconds"`
	Actions           []actionJSON       `json:"actions"`
	MovedReplicas     *int               `json:"movedReplicas,omitempty"`
	Members           []memberJSON       `json:"members,omitempty"`
}

type memberJSON struct {
	Name          string  `json:"name"`
	ShortSeconds  float64 `json:"shortSeconds"`
	ReplicaHours  float64 `json:"replicaHours"`
	LeastReplicas int32   `json:"leastReplicas"`
	MostReplicas  int32   `json:"mostReplicas"`
}

type risesJSON struct {
	Count         int     `json:"count"`
	MedianSeconds float64 `json:"medianSeconds"`
	P95Seconds    float64 `json:"p95Seconds"`
	WorstSeconds  float64 `json:"worstSeconds"`
	Unfinished    bool    `json:"unfinished,omitempty"`
}

type actionJSON struct {
	Time   time.Time `json:"time"`
	Load   float64   `json:"load"`
	From   int32     `json:"from"`
	To     int32     `json:"to"`
	Cause  string    `json:"cause"`
	Reason string    `json:"reason"`
}

// JSON writes an evaluation a line, and the figures of each autoscaler after its last one.
type JSON struct {
	encoder *json.Encoder
	step    int
}

// NewJSON returns one that writes to w.
func NewJSON(w io.Writer) *JSON { return &JSON{encoder: json.NewEncoder(w)} }

// Step writes a step.
func (j *JSON) Step(spec string, s *simulation.Step) error {
	j.step++
	line := stepLine{
		Spec: spec, Step: j.step, Time: s.Time, Load: s.Load, Replicas: s.Replicas, Ready: s.Ready, Running: s.Running, Needed: s.Needed,
		Desired: s.Decision.Desired, Cause: string(s.Cause), Reason: simulation.ReasonOf(s.Decision), Queued: s.Queued, Served: s.Served, Late: s.Late, Lost: s.Lost,
	}
	if !math.IsInf(s.Capacity, 1) {
		line.Capacity = &s.Capacity
	}
	if s.Proposal >= 0 {
		line.Proposal = &s.Proposal
	}
	for i := range s.Members {
		line.Members = append(line.Members, memberLine(s.Members[i]))
	}
	return j.encoder.Encode(line)
}

// Figures writes the figures of an autoscaler.
func (j *JSON) Figures(s *simulation.Scenario, run *Run) error {
	j.step = 0
	f := &run.Result.Figures
	out := figuresJSON{
		Steps: run.Result.Steps, Offered: f.Offered, Served: f.Served, Lost: f.Lost, Late: f.Late, Queued: f.Queued, Returning: f.Returning,
		ShortSeconds: f.ShortTime.Seconds(), OverTargetSeconds: f.OverTarget.Seconds(),
		ReplicaHours: f.ReplicaHours, RunningHours: f.RunningHours, Cost: f.Cost,
		Ups: f.Ups, Downs: f.Downs, Reversals: f.Reversals, FailedWrites: f.FailedWrites, LeastReplicas: f.Least, MostReplicas: f.Most,
		Rises: risesJSON{
			Count: f.Rises.Count, MedianSeconds: f.Rises.Median.Seconds(), P95Seconds: f.Rises.P95.Seconds(),
			WorstSeconds: f.Rises.Worst.Seconds(), Unfinished: f.Rises.Unfinished,
		},
		DecidedBySeconds: make(map[string]float64), Actions: []actionJSON{},
	}
	if !math.IsNaN(f.Efficiency) {
		out.Efficiency = &f.Efficiency
	}
	for _, c := range f.Causes {
		out.DecidedBySeconds[string(c.Cause)] = c.Time.Seconds()
	}
	for _, a := range run.Result.Actions {
		out.Actions = append(out.Actions, actionJSON{s.Start.Add(a.At), a.Load, a.From, a.To, string(a.Cause), a.Reason})
	}
	if s.Fleet != nil {
		out.MovedReplicas = &f.Moved
	}
	for i := range f.Members {
		m := &f.Members[i].Figures
		out.Members = append(out.Members, memberJSON{f.Members[i].Name, m.ShortTime.Seconds(), m.ReplicaHours, m.Least, m.Most})
	}
	return j.encoder.Encode(figureLine{run.Name, out})
}
