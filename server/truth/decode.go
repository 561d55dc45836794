package truth

import (
	"errors"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/fleet"
	"github.com/setpoint-dev/setpoint/internal/numbers"
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
	r := reader{Reader: numbers.Reader{Rest: b}}
	var last Step
	for len(r.Rest) > 0 && !r.Bad {
		if len(steps)+len(reports) >= MaxSteps {
			return nil, nil, ErrCorrupt
		}
		switch has := r.Uvarint(); {
		case has >= itemBits:
			r.Bad = true
		case has&reportBit != 0:
			reports = append(reports, Report{Of: last.At + r.Varint(), Failed: r.flag(), Message: r.text()})
		default:
			last = r.step(has, &last)
			steps = append(steps, last)
		}
	}
	if r.Bad {
		return nil, nil, ErrCorrupt
	}
	return steps, reports, nil
}

// reader reads what an Encoder wrote.
type reader struct {
	numbers.Reader
	texts []string
}

// step reads a step after the last one.
func (r *reader) step(has uint64, l *Step) Step {
	s := *l
	s.SpecText, s.State = nil, nil
	s.At = l.At + r.Varint()
	if s.Before = l.At; has&beforeBit != 0 {
		s.Before = s.At - r.Varint()
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
		s.Generation = r.Varint()
	}
	if has&specBit != 0 {
		s.Spec = r.Fixed()
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
		for range r.Count(maxProposed) {
			p := stages.Proposal{Name: r.text(), Role: stages.Role(r.Byte()), Replicas: int32(r.Count(math.MaxInt32))}
			p.Expires = time.Unix(0, s.At+r.Varint()).UTC()
			r.Bad = r.Bad || p.Role < stages.Voter || p.Role > stages.Cap
			s.Proposed = append(s.Proposed, p)
		}
	}
	if has&conditionsBit != 0 {
		s.Conditions = make([]recommender.Condition, r.Count(maxConditions))
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
	r.Bad = r.Bad || !s.fits() || s.Pods < 0 || s.Ready < 0
	return s
}

func (r *reader) proposals(b *recommender.Basis) {
	l := proposals(b)
	first := r.Byte()
	n := int(first >> 1)
	if n > recommender.BasisProposals {
		r.Bad = true
		return
	}
	b.Decided, b.Proposal, b.Proposals, b.ProposalsLen = first&1 != 0, r.delta(l.proposal), [recommender.BasisProposals]int32{}, n
	for i := range n {
		b.Proposals[i] = r.delta(l.each[i])
	}
}

func (r *reader) problem() Problem {
	p := Problem{Kind: ProblemKind(r.Byte()), Code: r.Byte(), Reason: r.text(), Message: r.text(), Selector: r.text()}
	for range r.Count(maxOthers) {
		p.Others = append(p.Others, r.text())
	}
	r.Bad = r.Bad || p.Kind > SelectorProblem
	return p
}

func (r *reader) said(l *forecast.Said) forecast.Said {
	s := forecast.Said{Replicas: r.delta(l.Replicas), Seasons: r.Count(math.MaxUint8)}
	tested, missed := int64(l.Back.Tested)+r.Varint(), int64(l.Back.Missed)+r.Varint()
	s.Back = forecast.Backtest{Tested: int(tested), Missed: int(missed), Excess: l.Back.Excess + r.Varint(), Actual: l.Back.Actual + r.Varint()}
	s.Problem = r.text()
	r.Bad = r.Bad || missed < 0 || tested < missed || tested > math.MaxInt32 || s.Back.Excess < 0 || s.Back.Actual < 0
	return s
}

func (r *reader) metrics(last []fleet.MetricDigest) []fleet.MetricDigest {
	list := make([]fleet.MetricDigest, r.Count(min(MaxMetrics, len(r.Rest))))
	copy(list, last)
	for i := range list {
		r.metric(&list[i])
	}
	return list
}

// metric reads what differs of a metric.
func (r *reader) metric(m *fleet.MetricDigest) {
	s, t := &m.Sums, &m.Total
	has := r.Uvarint()
	if has >= metricBits {
		r.Bad = true
		return
	}
	if has&usageBit != 0 {
		s.Ready.Usage += r.Varint()
	}
	if has&totalBit != 0 {
		t.Sum += r.Varint()
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
			g.Requests += r.Varint()
			g.Filled = g.Requests + beyond + r.Varint()
		}
		s.Unready.Requests += r.Varint()
	}
	if t.Low, t.High, t.Beyond = min(0, t.Sum), max(0, t.Sum), 0; has&seriesBit != 0 {
		t.Series = int32(r.Count(math.MaxInt32))
		if r.flag() {
			t.Low, t.High, t.Beyond = r.Varint(), r.Varint(), r.Varint()
		}
	}
	if has&restBit != 0 {
		rest := r.Byte()
		r.Bad = r.Bad || rest >= restBits
		s.Sampled, s.UsageWraps, s.RequestsWrap = rest&sampledBit != 0, rest&usageWrapsBit != 0, rest&requestsWrapBit != 0
		s.Ignored, s.Unlisted = int32(r.Count(math.MaxInt32)), int32(r.Count(math.MaxInt32))
		s.UnlistedUsage = r.Varint()
	}
	if has&textsBit != 0 {
		m.Error, m.SelectorError, s.Unusable, s.NoRequest = r.text(), r.text(), r.text(), r.text()
	}
	r.Bad = r.Bad || t.Low > 0 || t.High < 0 || t.Beyond < 0 || s.Ready.Pods < 0 || s.Missing.Pods < 0 || s.Unready.Pods < 0
}

// text reads a text: one that was there before, or a new one.
func (r *reader) text() string {
	n := r.Uvarint()
	switch {
	case r.Bad:
		return ""
	case n == 1:
		return ""
	case n >= textsBegin && n-textsBegin < uint64(len(r.texts)):
		return r.texts[n-textsBegin]
	case n >= wordsBegin && n-wordsBegin < uint64(len(words)):
		return words[n-wordsBegin]
	case n != 0:
		r.Bad = true
		return ""
	}
	text := strings.ToValidUTF8(string(r.Bytes(r.Count(MaxText+len(cutOff)))), "�")
	if len(r.texts) < maxTexts {
		r.texts = append(r.texts, text)
	}
	return text
}

func (r *reader) blob() []byte { return slices.Clone(r.Bytes(r.Count(MaxBlob))) }

func (r *reader) flag() bool {
	b := r.Byte()
	r.Bad = r.Bad || b > 1
	return b == 1
}

// delta reads a number by its difference from the last one.
func (r *reader) delta(last int32) int32 {
	v := r.Varint()
	if v < -1<<33 || v > 1<<33 {
		r.Bad = true
		return 0
	}
	if v += int64(last); v < math.MinInt32 || v > math.MaxInt32 {
		r.Bad = true
		return 0
	}
	return int32(v)
}
