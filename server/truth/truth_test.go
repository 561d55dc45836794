package truth

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/fleet"
	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/testpages"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/stages"
	"github.com/setpoint-dev/setpoint/stages/forecast"
)

// dice makes random steps.
type dice struct{ *rand.Rand }

func (r dice) chance(percent int) bool { return r.IntN(100) < percent }

func (r dice) count() int32 { return r.Int32N(50) }

func (r dice) text() string {
	switch r.IntN(6) {
	case 0:
		return ""
	case 1:
		return fmt.Sprintf("text %d", r.Int())
	case 2:
		return strings.Repeat("é", r.IntN(MaxText))
	}
	return fmt.Sprintf("word %d", r.IntN(5))
}

func (r dice) number() int64 {
	switch r.IntN(5) {
	case 0:
		return 0
	case 1:
		return int64(r.Uint64())
	case 2:
		return []int64{math.MinInt64, math.MaxInt64, -1}[r.IntN(3)]
	}
	return r.Int64N(1e6)
}

func (r dice) metric(m *fleet.MetricDigest) {
	s, t := &m.Sums, &m.Total
	for range r.IntN(4) {
		switch r.IntN(11) {
		case 0:
			s.Ready.Usage = r.number()
		case 1:
			s.Ready.Pods, s.Ready.Requests, s.Ready.Filled = r.count(), r.number(), r.number()
		case 2:
			s.Missing = recommender.GroupSums{Pods: r.count(), Requests: r.number(), Filled: r.number()}
		case 3:
			s.Unready = recommender.GroupSums{Pods: r.count(), Requests: r.number()}
		case 4:
			s.Ignored, s.Unlisted, s.UnlistedUsage = r.count(), r.count(), r.number()
		case 5:
			s.Sampled, s.UsageWraps, s.RequestsWrap = r.chance(50), r.chance(50), r.chance(50)
		case 6:
			s.Unusable, s.NoRequest = r.text(), r.text()
		case 7:
			m.Error, m.SelectorError = r.text(), r.text()
		case 8:
			*t = fleet.Total{Series: r.count(), Sum: r.number()}
			t.Low, t.High = min(0, t.Sum), max(0, t.Sum)
		case 9:
			*t = fleet.Total{Series: r.count(), Sum: r.number(), Low: -r.Int64N(1e9), High: r.Int64N(1e9), Beyond: r.Int64N(1e9)}
		}
	}
}

// next changes some of a step.
func (r dice) next(l Step) Step {
	s := l
	s.At += r.Int64N(int64(time.Hour)) + 1
	if s.Before = l.At; r.chance(20) || l.At == 0 {
		s.Before = s.At - r.Int64N(s.At)
	}
	s.SpecText, s.State = nil, nil
	s.Metrics = append([]fleet.MetricDigest(nil), l.Metrics...)
	for range r.IntN(5) {
		switch r.IntN(13) {
		case 0:
			s.Scale = recommender.Scale{SpecReplicas: r.count(), StatusReplicas: int32(r.Uint32())}
		case 1:
			s.Pods, s.Ready = r.count(), r.count()
		case 2:
			s.Current, s.Desired = int32(r.Uint32()), r.count()
			s.StatusCurrent, s.StatusDesired = r.count(), int32(r.Uint32())
		case 3:
			s.Basis = recommender.Basis{Bounded: true, Min: int32(r.Uint32()), Max: r.count(), Decided: r.chance(80)}
			if s.Basis.Decided {
				s.Basis.Proposal, s.Basis.ProposalsLen = r.count(), r.IntN(recommender.BasisProposals+1)
				for i := range s.Basis.ProposalsLen {
					s.Basis.Proposals[i] = r.count() - 1
				}
			}
		case 4:
			s.Reason, s.Error = r.text(), r.text()
		case 5:
			s.Problem = Problem{}
			if r.chance(50) {
				s.Problem = Problem{Kind: ProblemKind(r.IntN(3)), Code: uint8(r.IntN(3)), Reason: r.text(), Message: r.text(), Selector: r.text()}
				for range r.IntN(3) {
					s.Problem.Others = append(s.Problem.Others, r.text())
				}
			}
		case 6:
			s.Generation = r.number()
		case 7:
			s.Spec, s.SpecText = r.Uint64(), []byte(r.text())
		case 8:
			s.State = []byte(r.text())
		case 9:
			s.Conditions = nil
			for range r.IntN(4) {
				s.Conditions = append(s.Conditions, recommender.Condition{Type: r.text(), Status: r.text(), Reason: r.text(), Message: r.text()})
			}
		case 11:
			if s.Said = (forecast.Said{}); r.chance(80) {
				s.Said = forecast.Said{Replicas: r.count() - 1, Seasons: r.IntN(15), Problem: r.text()}
				s.Said.Back = forecast.Backtest{Tested: 600 + r.IntN(73), Missed: r.IntN(600), Excess: r.Int64N(1e9), Actual: r.Int64N(1e9)}
			}
		case 12:
			s.Proposed = nil
			for i := range r.IntN(3) {
				s.Proposed = append(s.Proposed, stages.Proposal{
					Name: fmt.Sprint("p", r.IntN(3)), Role: stages.Role(1 + i), Replicas: r.count(), Expires: time.Unix(0, s.At+r.Int64N(1e12)-1e11).UTC(),
				})
			}
		case 10:
			s.Metrics = append(make([]fleet.MetricDigest, r.IntN(3)), s.Metrics[:r.IntN(len(s.Metrics)+1)]...)
		}
	}
	for i := range s.Metrics {
		r.metric(&s.Metrics[i])
	}
	return s
}

// plain is a step as it is read: texts cut, and nothing empty but not nil.
func plain(s Step) Step {
	s.Reason, s.Error = cut(s.Reason), cut(s.Error)
	s.Said.Problem = cut(s.Said.Problem)
	p := &s.Problem
	p.Reason, p.Message, p.Selector = cut(p.Reason), cut(p.Message), cut(p.Selector)
	for i := range p.Others {
		p.Others[i] = cut(p.Others[i])
	}
	for i := range s.Conditions {
		c := &s.Conditions[i]
		c.Type, c.Status, c.Reason, c.Message = cut(c.Type), cut(c.Status), cut(c.Reason), cut(c.Message)
	}
	for i := range s.Metrics {
		m := &s.Metrics[i]
		m.Error, m.SelectorError, m.Sums.Unusable, m.Sums.NoRequest = cut(m.Error), cut(m.SelectorError), cut(m.Sums.Unusable), cut(m.Sums.NoRequest)
	}
	if len(s.SpecText) == 0 {
		s.SpecText = nil
	}
	if len(s.State) == 0 {
		s.State = nil
	}
	if len(s.Metrics) == 0 {
		s.Metrics = nil
	}
	if len(s.Conditions) == 0 {
		s.Conditions = nil
	}
	return s
}

func TestChunksAreReadAsTheyWereWritten(t *testing.T) {
	r := dice{rand.New(rand.NewPCG(1, 2))}
	var e Encoder
	for chunk := range 300 {
		var want []Step
		var reported []Report
		s := Step{}
		for range 1 + r.IntN(30) {
			s = r.next(s)
			if !e.Step(&s) {
				t.Fatal("a step was refused")
			}
			want = append(want, s)
			if r.chance(10) {
				report := Report{Of: 1 + r.Int64N(1e18), Failed: r.chance(50), Message: r.text()}
				if !e.Report(&report) {
					t.Fatal("a report was refused")
				}
				report.Message = cut(report.Message)
				reported = append(reported, report)
			}
		}
		steps, reports, err := Open(Seal(e.Take()))
		fatal.If(t, err)
		if len(steps) != len(want) || !reflect.DeepEqual(reports, reported) {
			t.Fatalf("chunk %d: %d steps, want %d; reports %v, want %v", chunk, len(steps), len(want), reports, reported)
		}
		for i := range want {
			if got, want := plain(steps[i]), plain(want[i]); !reflect.DeepEqual(got, want) {
				t.Fatalf("chunk %d step %d:\n%+v\nwant\n%+v", chunk, i, got, want)
			}
		}
	}
}

func TestBytesThatAreNoChunk(t *testing.T) {
	r := dice{rand.New(rand.NewPCG(3, 4))}
	var e Encoder
	s := Step{}
	for range 20 {
		s = r.next(s)
		e.Step(&s)
	}
	chunk := e.Take()
	sealed := Seal(chunk)
	for name, test := range map[string]struct {
		bytes []byte
		want  error
	}{
		"nothing":               {nil, ErrCorrupt},
		"a newer format":        {[]byte{9, 1, 2}, ErrFormat},
		"cut off":               {sealed[:len(sealed)/2], ErrCorrupt},
		"more than it says":     {append([]byte{packed, 1}, sealed[3:]...), ErrCorrupt},
		"larger than any chunk": {[]byte{packed, 0xff, 0xff, 0xff, 0xff, 0x7f}, ErrCorrupt},
		"an unknown bit":        {[]byte{plainFormat, 0xff, 0xff, 0xff, 0x7f}, ErrCorrupt},
	} {
		if _, _, err := Open(test.bytes); !errors.Is(err, test.want) {
			t.Errorf("%s: %v, want %v", name, err, test.want)
		}
	}
	for range 20_000 { // whatever it is, it neither panics nor takes much
		b := append([]byte{plainFormat}, chunk...)
		for range 1 + r.IntN(3) {
			b[1+r.IntN(len(b)-1)] = byte(r.Uint32())
		}
		_, _, _ = Open(b)
	}
}

func FuzzOpen(f *testing.F) {
	f.Add([]byte{plainFormat})
	f.Fuzz(func(_ *testing.T, b []byte) { _, _, _ = Open(b) })
}

func TestStepsThatAreNotKept(t *testing.T) {
	var e Encoder
	for name, s := range map[string]Step{
		"no instant":       {},
		"too many metrics": {At: 1, Metrics: make([]fleet.MetricDigest, MaxMetrics+1)},
	} {
		if e.Step(&s) {
			t.Errorf("%s: it was kept", name)
		}
	}
	if e.Report(&Report{}) || e.Len() > 0 || e.Items() > 0 {
		t.Error("a report on nothing was kept")
	}
	big := Step{At: 1, State: make([]byte, MaxBlob+1), SpecText: make([]byte, MaxBlob+1)}
	if !e.Step(&big) || e.Len() > 100 {
		t.Errorf("a state that is too large takes %d bytes", e.Len())
	}
}

// day calls give for each step of a day at 15 s: two metrics, as a workload has them that follows the sun,
// with noise, rollouts, and some failures.
func day(give func(s *Step)) {
	r := rand.New(rand.NewPCG(5, 6))
	at := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC).UnixNano()
	conditions := []recommender.Condition{
		{Type: "AbleToScale", Status: "True", Reason: "ReadyForNewScale", Message: "recommended size matches current size"},
		{Type: "ScalingActive", Status: "True", Reason: "ValidMetricFound", Message: "the HPA was able to successfully calculate a replica count from cpu resource utilization (percentage of request)"},
		{Type: "ScalingLimited", Status: "False", Reason: "DesiredWithinRange", Message: "the desired count is within the acceptable range"},
	}
	s := Step{Generation: 3, Spec: 0x1234567812345678, Basis: recommender.Basis{Bounded: true, Min: 2, Max: 40}}
	replicas := int32(6)
	for i := range 5760 {
		before := at
		at += int64(15*time.Second) + int64(r.NormFloat64()*2e6) // the loop's jitter
		load := 3000 + 2500*math.Sin(2*math.Pi*float64(i)/5760) + 200*r.NormFloat64()
		s.At, s.Before = at, before
		if i == 0 {
			s.Before = 0
		}
		s.Scale = recommender.Scale{SpecReplicas: replicas, StatusReplicas: replicas}
		s.Pods, s.Ready = replicas, replicas
		if i%400 < 6 { // pods come up
			s.Ready--
		}
		s.Metrics = make([]fleet.MetricDigest, 2)
		cpu, queue := &s.Metrics[0].Sums, &s.Metrics[1].Total
		cpu.Sampled, cpu.Ready.Pods, cpu.Unready.Pods = true, s.Ready, s.Pods-s.Ready
		cpu.Ready.Usage = int64(load)
		cpu.Ready.Requests, cpu.Unready.Requests = int64(cpu.Ready.Pods)*500, int64(cpu.Unready.Pods)*500
		cpu.Ready.Filled = cpu.Ready.Requests
		queue.Series, queue.Sum = 1, 1000*int64(40+load/100+5*r.NormFloat64())
		queue.High = queue.Sum
		proposal := int32(math.Ceil(load / 500 / 0.7))
		s.Basis.Decided, s.Basis.Proposal, s.Basis.ProposalsLen = true, proposal, 2
		s.Basis.Proposals = [4]int32{proposal, int32(queue.Sum / 10000)}
		s.Current, s.Desired = replicas, replicas
		s.Conditions = append([]recommender.Condition(nil), conditions...)
		if i%20 == 0 && proposal != replicas {
			s.Desired = proposal
			s.Conditions[0].Reason, s.Conditions[0].Message = "SucceededRescale", fmt.Sprintf("the HPA controller was able to update the target scale to %d", proposal)
		} else if proposal < replicas {
			s.Conditions[0].Reason, s.Conditions[0].Message = "ScaleDownStabilized", "recent recommendations were higher than current one, applying the highest recent recommendation"
		}
		s.SpecText, s.State = nil, nil
		if i%240 == 0 { // once an hour
			s.SpecText, s.State = make([]byte, 300), make([]byte, 350)
			for k := range s.State {
				s.State[k] = byte(r.Uint32()) // at worst
			}
		}
		s.StatusCurrent, s.StatusDesired = s.Current, s.Desired
		give(&s)
		replicas = s.Desired
	}
}

// TestBytesOfADay holds what the settings promise: a day at 15 s takes no more than 26 bytes a step.
func TestBytesOfADay(t *testing.T) {
	var e Encoder
	steps, total, plain := 0, 0, 0
	seal := func() {
		chunk := e.Take()
		plain += len(chunk)
		total += len(Seal(chunk))
	}
	day(func(s *Step) {
		if !e.Step(s) {
			t.Fatal("a step was refused")
		}
		if s.Desired != s.Current {
			e.Report(&Report{Of: s.At})
		}
		if steps++; steps%40 == 0 {
			seal()
		}
	})
	seal()
	t.Logf("%d steps: %d bytes, %.1f a step; not compressed %.1f", steps, total, float64(total)/float64(steps), float64(plain)/float64(steps))
	if total > 26*steps {
		t.Errorf("a day takes %d bytes, more than %d", total, 26*steps)
	}
	const guide, redis = "../../docs/guides/recorded-decisions.md", "../../docs/operate/redis.md"
	day := float64(total)
	testpages.Figure(t, guide, "two metrics takes # kB in the store", day/1e3, 0.02)
	testpages.Figure(t, redis, "# kB after a day at 15 s", day/1e3, 0.02)
	testpages.Figure(t, guide, "| 134217728 (default) | # MB |", day*894/1e6, 0.02)
	testpages.Figure(t, guide, "| 1500000000 | # GB |", day*10_000/1e9, 0.02)
	testpages.Figure(t, guide, "| 15000000000 | # GB |", day*100_000/1e9, 0.02)
	testpages.Figure(t, guide, "for a cluster of so many | # GB |", day*1_000_000/1e9, 0.02)
}

func TestSteadyStepsAllocateNothing(t *testing.T) {
	var e Encoder
	var all []Step
	day(func(s *Step) {
		if len(all) < 1000 {
			all = append(all, *s)
		}
	})
	e.buf = make([]byte, 0, 1<<20)
	i := 0
	for ; i < 40; i++ {
		e.Step(&all[i])
	}
	steady := all[i]
	if n := testing.AllocsPerRun(500, func() {
		steady.At += int64(15 * time.Second)
		steady.Metrics[0].Sums.Ready.Usage += 3
		e.Step(&steady)
	}); n > 0 {
		t.Errorf("%v allocations a step", n)
	}
}

func BenchmarkStep(b *testing.B) {
	var e Encoder
	var all []Step
	day(func(s *Step) { all = append(all, *s) })
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		e.Step(&all[i%len(all)])
		if i++; i%40 == 0 {
			e.buf, e.items = e.buf[:0], 0
		}
	}
}

func BenchmarkSeal(b *testing.B) {
	var e Encoder
	n := 0
	day(func(s *Step) {
		if n++; n <= 40 {
			e.Step(s)
		}
	})
	chunk := e.Take()
	b.ReportAllocs()
	for b.Loop() {
		Seal(chunk)
	}
}
