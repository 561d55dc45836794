package playground

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/setpoint-dev/setpoint/fleet"
	"github.com/setpoint-dev/setpoint/server/truth"
)

// MaxChunks bounds the chunks of a recording, which has 144 in the store.
const MaxChunks = 1000

// recordedAnswer is what the service kept of a target (TargetService.GetRecording): instants in milliseconds of Unix
// time, rising, with the total of the first metric, and with the count after the decision, as far as the next one shows it.
type recordedAnswer struct {
	Load   [][2]float64 `json:"load"`
	Counts [][2]float64 `json:"counts"`
	// Min and Max are the least and the most of the bounds, and Proposal is the most that metrics asked for.
	Min      int32 `json:"min"`
	Max      int32 `json:"max"`
	Proposal int32 `json:"proposal"`
	// Bounds are an instant, the minimum and the maximum, where these change; without the two where they become unknown.
	Bounds [][]float64 `json:"bounds"`
}

// bounds notes the bounds of a decision; follows says that it was made on the one before.
func (out *recordedAnswer) bounds(s *truth.Step, at float64, follows bool) {
	last := func() []float64 { return out.Bounds[len(out.Bounds)-1] }
	if n := len(out.Counts); !follows && len(out.Bounds) > 0 && len(last()) > 1 {
		out.Bounds = append(out.Bounds, []float64{out.Counts[n-1][0] + 1})
	}
	var now []float64
	if b := &s.Basis; b.Bounded {
		now = []float64{float64(b.Min), float64(b.Max)}
	}
	if len(out.Bounds) == 0 || !slices.Equal(last()[1:], now) {
		out.Bounds = append(out.Bounds, append([]float64{at}, now...))
	}
}

// recorded reads chunks. A share of requests is a percentage of one pod's; other totals are in the metric's unit.
func (a *asked) recorded(chunks [][]byte) answer {
	if len(chunks) > MaxChunks {
		a.refuse(recordedName, fmt.Sprintf("has more than %d chunks", MaxChunks))
		return answer{Problems: a.problems}
	}
	var steps []truth.Step
	for _, chunk := range chunks {
		some, _, err := truth.Open(chunk)
		if err != nil {
			a.note(recordedName, err)
			continue // the others are of use
		}
		steps = append(steps, some...)
	}
	slices.SortStableFunc(steps, func(a, b truth.Step) int { return cmp.Compare(a.At, b.At) })
	steps = slices.CompactFunc(steps, func(a, b truth.Step) bool { return a.At == b.At })
	out := &recordedAnswer{}
	firsts, of := make(map[uint64]string), ""
	for i := range steps {
		if s := &steps[i]; len(s.SpecText) > 0 {
			of = firstMetric(s.SpecText)
			firsts[s.Spec] = of // of the newest spec in the end
		}
	}
	for i := range steps {
		s := &steps[i]
		at := float64(s.At / 1e6)
		follows := i == 0 || s.Before == steps[i-1].At
		out.bounds(s, at, follows)
		if i > 0 && follows && s.Problem.Kind != truth.ScaleProblem && s.Current != steps[i-1].Desired {
			out.Counts[i-1][1] = float64(steps[i-1].Current) // it was not done, as what a shadow decides is not
		}
		out.Counts = append(out.Counts, [2]float64{at, float64(s.Desired)})
		if b := &s.Basis; b.Bounded {
			if out.Max == 0 || b.Min < out.Min {
				out.Min = b.Min
			}
			out.Max = max(out.Max, b.Max)
		}
		if s.Basis.Decided {
			out.Proposal = max(out.Proposal, s.Basis.Proposal)
		}
		if first, known := firsts[s.Spec]; len(s.Metrics) > 0 && (!known || first == of) { // of the metric that is tried, not of one of an earlier spec
			if load, ok := loadOf(&s.Metrics[0]); ok {
				out.Load = append(out.Load, [2]float64{at, load})
			}
		}
	}
	return answer{Problems: a.problems, Recorded: out}
}

// firstMetric is what the first metric of a spec reads, and what its target is compared with: all but the target's number.
// The text is an encoded setpoint.v1.SpecInUse, which only protobuf reads otherwise, and browsers have none.
func firstMetric(text []byte) (of string) {
	const spec, metrics, resource, container, target = 2, 4, 4, 5, 2 // fields
	var first []byte
	eachField(text, func(n uint64, v []byte) {
		if n == spec {
			eachField(v, func(n uint64, v []byte) {
				if n == metrics && first == nil {
					first = v
				}
			})
		}
	})
	eachField(first, func(source uint64, v []byte) {
		of += fmt.Sprintf("%d:", source)
		eachField(v, func(n uint64, v []byte) {
			if n != target && (source == resource || source == container) {
				of += string(v) + " "
				return
			}
			eachField(v, func(n uint64, v []byte) { // the target's type, or a name
				if n == 1 {
					of += string(v) + " "
				}
			})
		})
	})
	return of
}

// eachField gives the fields of an encoded message that have bytes: texts and messages.
func eachField(b []byte, give func(n uint64, v []byte)) {
	for len(b) > 0 {
		tag, used := binary.Uvarint(b)
		if used <= 0 {
			return
		}
		b = b[used:]
		var size uint64
		switch tag & 7 {
		case 0, 2:
			if size, used = binary.Uvarint(b); used <= 0 {
				return
			}
			b = b[used:]
		case 1:
			size = 8
		case 5:
			size = 4
		default:
			return
		}
		switch {
		case tag&7 == 0:
			continue
		case size > uint64(len(b)):
			return
		case tag&7 == 2:
			give(tag>>3, b[:size])
		}
		b = b[size:]
	}
}

// loadOf is the total of a metric; false: there is none.
func loadOf(m *fleet.MetricDigest) (float64, bool) {
	ready, unready := &m.Sums.Ready, &m.Sums.Unready
	switch pods := float64(ready.Pods + unready.Pods); {
	case m.Error != "":
		return 0, false
	case m.Total.Series > 0:
		return float64(m.Total.Sum) / 1000, true
	case pods == 0:
		return 0, false
	case ready.Requests+unready.Requests > 0:
		return 100 * float64(ready.Usage+unready.Usage) * pods / float64(ready.Requests+unready.Requests), true
	}
	return float64(ready.Usage+unready.Usage) / 1000, true
}
