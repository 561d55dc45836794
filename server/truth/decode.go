package truth

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/fleet"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/stages"
	"github.com/setpoint-dev/setpoint/stages/forecast"
)

// Errors of Open; test for them with errors.Is.
var (
	// ErrFormat: a newer version wrote the chunk.
	ErrFormat = errors.New("unknown format of a chunk of recorded decisions")
	// ErrCorrupt: it is no chunk.
	ErrCorrupt = errors.New("corrupt chunk of recorded decisions")
)

// Decode decodes what an Encoder has taken. The result shares no memory with b.
func Decode(b []byte) (steps []Step, reports []Report, err error) {
	r := reader{rest: b}
	var last Step
	for len(r.rest) > 0 && !r.bad {
		if len(steps)+len(reports) >= MaxSteps {
			return nil, nil, ErrCorrupt
		}
		switch has := r.uvarint(); {
		case has >= itemBits:
			r.bad = true
		case has&reportBit != 0:
			reports = append(reports, Report{Of: last.At + r.varint(), Failed: r.flag(), Message: r.text()})
		default:
			last = r.step(has, &last)
			steps = append(steps, last)
		}
	}
	if r.bad {
		return nil, nil, ErrCorrupt
	}
	return steps, reports, nil
}

// reader reads what an Encoder wrote. After the first thing that is not there, or beyond its bound, it is bad
// and reads zeros.
type reader struct {
	rest  []byte
	texts []string
	bad   bool
}

// step reads a step after the last one.
func (r *reader) step(has uint64, l *Step) Step {
	s := *l
	s.SpecText, s.State = nil, nil
	s.At = l.At + r.varint()
	if s.Before = l.At; has&beforeBit != 0 {
		s.Before = s.At - r.varint()
	}
	if has&scaleBit != 0 {
		s.Scale = recommender.Scale{SpecReplicas: r.delta(l.Scale.SpecReplicas), StatusReplicas: r.delta(l.Scale.StatusReplicas)}
	}
	if has&podsBit != 0 {
		s.Pods, s.Ready = r.delta(l.Pods), r.delta(l.Ready)
	}
	if s.Current = s.Scale.SpecReplicas; has&outcomeBit != 0 {
		s.Current, s.Desired = r.delta(s.Scale.SpecReplicas), r.delta(l.Desired)
	}
	if s.StatusCurrent, s.StatusDesired = s.Current, s.Desired; has&statusBit != 0 {
		s.StatusCurrent, s.StatusDesired = r.delta(s.Current), r.delta(s.Desired)
	}
	if has&proposalsBit != 0 {
		r.proposals(&s.Basis)
	}
	if has&boundsBit != 0 {
		s.Basis.Bounded = r.flag()
		s.Basis.Min, s.Basis.Max = r.delta(l.Basis.Min), r.delta(l.Basis.Max)
	}
	if has&generationBit != 0 {
		s.Generation = r.varint()
	}
	if has&specBit != 0 {
		if b := r.bytes(8); b != nil {
			s.Spec = binary.LittleEndian.Uint64(b)
		}
	}
	if has&reasonBit != 0 {
		s.Reason, s.Error = r.text(), r.text()
	}
	if has&problemBit != 0 {
		s.Problem = r.problem()
	}
	if has&forecastBit != 0 {
		s.Said = r.said(&l.Said)
	}
	if has&proposedBit != 0 {
		s.Proposed = nil
		for range r.count(maxProposed) {
			p := stages.Proposal{Name: r.text(), Role: stages.Role(r.byte()), Replicas: int32(r.count(math.MaxInt32))}
			p.Expires = time.Unix(0, s.At+r.varint()).UTC()
			r.bad = r.bad || p.Role < stages.Voter || p.Role > stages.Cap
			s.Proposed = append(s.Proposed, p)
		}
	}
	if has&conditionsBit != 0 {
		s.Conditions = make([]recommender.Condition, r.count(maxConditions))
		for i := range s.Conditions {
			s.Conditions[i] = recommender.Condition{Type: r.text(), Status: r.text(), Reason: r.text(), Message: r.text()}
		}
	}
	if has&metricsBit != 0 {
		s.Metrics = r.metrics(l.Metrics)
	}
	if has&specTextBit != 0 {
		s.SpecText = r.blob()
	}
	if has&stateBit != 0 {
		s.State = r.blob()
	}
	r.bad = r.bad || !s.fits() || s.Pods < 0 || s.Ready < 0
	return s
}

func (r *reader) proposals(b *recommender.Basis) {
	l := proposals(b)
	first := r.byte()
	n := int(first >> 1)
	if n > recommender.BasisProposals {
		r.bad = true
		return
	}
	b.Decided, b.Proposal, b.Proposals, b.ProposalsLen = first&1 != 0, r.delta(l.proposal), [recommender.BasisProposals]int32{}, n
	for i := range n {
		b.Proposals[i] = r.delta(l.each[i])
	}
}

func (r *reader) problem() Problem {
	p := Problem{Kind: ProblemKind(r.byte()), Code: r.byte(), Reason: r.text(), Message: r.text(), Selector: r.text()}
	for range r.count(maxOthers) {
		p.Others = append(p.Others, r.text())
	}
	r.bad = r.bad || p.Kind > SelectorProblem
	return p
}

func (r *reader) said(l *forecast.Said) forecast.Said {
	s := forecast.Said{Replicas: r.delta(l.Replicas), Seasons: r.count(math.MaxUint8)}
	tested, missed := int64(l.Back.Tested)+r.varint(), int64(l.Back.Missed)+r.varint()
	s.Back = forecast.Backtest{Tested: int(tested), Missed: int(missed), Excess: l.Back.Excess + r.varint(), Actual: l.Back.Actual + r.varint()}
	s.Problem = r.text()
	r.bad = r.bad || missed < 0 || tested < missed || tested > math.MaxInt32 || s.Back.Excess < 0 || s.Back.Actual < 0
	return s
}

func (r *reader) metrics(last []fleet.MetricDigest) []fleet.MetricDigest {
	list := make([]fleet.MetricDigest, r.count(min(MaxMetrics, len(r.rest))))
	copy(list, last)
	for i := range list {
		r.metric(&list[i])
	}
	return list
}

// metric reads what differs of a metric.
func (r *reader) metric(m *fleet.MetricDigest) {
	s, t := &m.Sums, &m.Total
	has := r.uvarint()
	if has >= metricBits {
		r.bad = true
		return
	}
	if has&usageBit != 0 {
		s.Ready.Usage += r.varint()
	}
	if has&totalBit != 0 {
		t.Sum += r.varint()
	}
	if has&readyBit != 0 {
		s.Ready.Pods = r.delta(s.Ready.Pods)
	}
	if has&missingBit != 0 {
		s.Missing.Pods = r.delta(s.Missing.Pods)
	}
	if has&unreadyBit != 0 {
		s.Unready.Pods = r.delta(s.Unready.Pods)
	}
	if has&requestsBit != 0 {
		for _, g := range []*recommender.GroupSums{&s.Ready, &s.Missing} {
			beyond := g.Filled - g.Requests
			g.Requests += r.varint()
			g.Filled = g.Requests + beyond + r.varint()
		}
		s.Unready.Requests += r.varint()
	}
	if t.Low, t.High, t.Beyond = min(0, t.Sum), max(0, t.Sum), 0; has&seriesBit != 0 {
		t.Series = int32(r.count(math.MaxInt32))
		if r.flag() {
			t.Low, t.High, t.Beyond = r.varint(), r.varint(), r.varint()
		}
	}
	if has&restBit != 0 {
		rest := r.byte()
		r.bad = r.bad || rest >= restBits
		s.Sampled, s.UsageWraps, s.RequestsWrap = rest&sampledBit != 0, rest&usageWrapsBit != 0, rest&requestsWrapBit != 0
		s.Ignored, s.Unlisted = int32(r.count(math.MaxInt32)), int32(r.count(math.MaxInt32))
		s.UnlistedUsage = r.varint()
	}
	if has&textsBit != 0 {
		m.Error, m.SelectorError, s.Unusable, s.NoRequest = r.text(), r.text(), r.text(), r.text()
	}
	r.bad = r.bad || t.Low > 0 || t.High < 0 || t.Beyond < 0 || s.Ready.Pods < 0 || s.Missing.Pods < 0 || s.Unready.Pods < 0
}

// text reads a text: one that was there before, or a new one.
func (r *reader) text() string {
	n := r.uvarint()
	switch {
	case r.bad:
		return ""
	case n == 1:
		return ""
	case n >= textsBegin && n-textsBegin < uint64(len(r.texts)):
		return r.texts[n-textsBegin]
	case n >= wordsBegin && n-wordsBegin < uint64(len(words)):
		return words[n-wordsBegin]
	case n != 0:
		r.bad = true
		return ""
	}
	text := strings.ToValidUTF8(string(r.bytes(r.count(MaxText+len(cutOff)))), "�")
	if len(r.texts) < maxTexts {
		r.texts = append(r.texts, text)
	}
	return text
}

func (r *reader) blob() []byte { return slices.Clone(r.bytes(r.count(MaxBlob))) }

func (r *reader) bytes(n int) []byte {
	if r.bad || n > len(r.rest) {
		r.bad = true
		return nil
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *reader) byte() byte {
	if b := r.bytes(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) flag() bool {
	b := r.byte()
	r.bad = r.bad || b > 1
	return b == 1
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.rest)
	return took(r, v, n)
}

func (r *reader) varint() int64 {
	v, n := binary.Varint(r.rest)
	return took(r, v, n)
}

// took takes the n bytes of a varint.
func took[T uint64 | int64](r *reader, v T, n int) T {
	if r.bad || n <= 0 {
		r.bad = true
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

// delta reads a number by its difference from the last one.
func (r *reader) delta(last int32) int32 {
	v := r.varint()
	if v < -1<<33 || v > 1<<33 {
		r.bad = true
		return 0
	}
	if v += int64(last); v < math.MinInt32 || v > math.MaxInt32 {
		r.bad = true
		return 0
	}
	return int32(v)
}

// count reads a number up to most.
func (r *reader) count(most int) int {
	v := r.uvarint()
	if v > uint64(most) {
		r.bad = true
		return 0
	}
	return int(v)
}
