package truth

import (
	"encoding/binary"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/setpoint-dev/setpoint/fleet"
	"github.com/setpoint-dev/setpoint/recommender"
	"github.com/setpoint-dev/setpoint/stages"
	"github.com/setpoint-dev/setpoint/stages/forecast"
)

// Encoder appends decisions and reports to a chunk. The zero value is an empty chunk. It keeps a copy of
// what it needs of the last step, and nothing of the caller's.
type Encoder struct {
	buf   []byte
	items int
	last  Step
	texts []string
}

// Len is the length of the chunk so far, in bytes, and Items how many steps and reports it has.
func (e *Encoder) Len() int { return len(e.buf) }

// Items is how many steps and reports the chunk has.
func (e *Encoder) Items() int { return e.items }

// Full reports whether the chunk is to be taken: a further item might be more than Open reads. No item takes half of that.
func (e *Encoder) Full() bool { return e.items >= MaxSteps || len(e.buf) >= MaxChunk/2 }

// Take returns the chunk and begins the next one.
func (e *Encoder) Take() []byte {
	chunk := e.buf
	metrics, conditions := e.last.Metrics[:0], e.last.Conditions[:0]
	clear(e.texts)
	*e = Encoder{texts: e.texts[:0]}
	e.last.Metrics, e.last.Conditions = metrics, conditions
	return chunk
}

// Copy returns a copy of the chunk so far.
func (e *Encoder) Copy() []byte { return slices.Clone(e.buf) }

// Size is about how much memory the encoder takes beside itself, in bytes.
func (e *Encoder) Size() int {
	const metric, condition, text = 256, 96, 64
	return cap(e.buf) + cap(e.last.Metrics)*metric + cap(e.last.Conditions)*condition + len(e.texts)*text
}

// Step appends a decision, and reports whether it did: not if it can't be kept.
func (e *Encoder) Step(s *Step) bool {
	if !s.fits() || e.items >= MaxSteps {
		return false
	}
	e.items++
	l := &e.last
	has := uint64(0)
	set := func(bit uint64, is bool) {
		if is {
			has |= bit
		}
	}
	set(scaleBit, s.Scale != l.Scale)
	set(podsBit, s.Pods != l.Pods || s.Ready != l.Ready)
	set(outcomeBit, s.Current != s.Scale.SpecReplicas || s.Desired != l.Desired)
	set(proposalsBit, proposals(&s.Basis) != proposals(&l.Basis))
	set(metricsBit, !slices.Equal(s.Metrics, l.Metrics))
	set(conditionsBit, !sameConditions(s.Conditions, l.Conditions))
	set(beforeBit, s.Before != l.At || l.At == 0)
	set(reasonBit, s.Reason != l.Reason || s.Error != l.Error)
	set(boundsBit, s.Basis.Bounded != l.Basis.Bounded || s.Basis.Min != l.Basis.Min || s.Basis.Max != l.Basis.Max)
	set(problemBit, !s.Problem.equal(&l.Problem))
	set(generationBit, s.Generation != l.Generation)
	set(specBit, s.Spec != l.Spec)
	set(specTextBit, len(s.SpecText) > 0 && len(s.SpecText) <= MaxBlob)
	set(stateBit, len(s.State) > 0 && len(s.State) <= MaxBlob)
	set(statusBit, s.StatusCurrent != s.Current || s.StatusDesired != s.Desired)
	set(forecastBit, s.Said != l.Said)
	set(proposedBit, !slices.EqualFunc(s.Proposed, l.Proposed, sameProposal))
	b := binary.AppendUvarint(e.buf, has)
	b = binary.AppendVarint(b, s.At-l.At)
	if has&beforeBit != 0 {
		b = binary.AppendVarint(b, s.At-s.Before)
	}
	if has&scaleBit != 0 {
		b = appendDelta(b, s.Scale.SpecReplicas, l.Scale.SpecReplicas)
		b = appendDelta(b, s.Scale.StatusReplicas, l.Scale.StatusReplicas)
	}
	if has&podsBit != 0 {
		b = appendDelta(b, s.Pods, l.Pods)
		b = appendDelta(b, s.Ready, l.Ready)
	}
	if has&outcomeBit != 0 {
		b = appendDelta(b, s.Current, s.Scale.SpecReplicas)
		b = appendDelta(b, s.Desired, l.Desired)
	}
	if has&statusBit != 0 {
		b = appendDelta(b, s.StatusCurrent, s.Current)
		b = appendDelta(b, s.StatusDesired, s.Desired)
	}
	if has&proposalsBit != 0 {
		b = appendProposals(b, &s.Basis, &l.Basis)
	}
	if has&boundsBit != 0 {
		b = append(b, boolBit(s.Basis.Bounded))
		b = appendDelta(b, s.Basis.Min, l.Basis.Min)
		b = appendDelta(b, s.Basis.Max, l.Basis.Max)
	}
	if has&generationBit != 0 {
		b = binary.AppendVarint(b, s.Generation)
	}
	if has&specBit != 0 {
		b = binary.LittleEndian.AppendUint64(b, s.Spec)
	}
	if e.buf = b; has&reasonBit != 0 {
		e.text(s.Reason)
		e.text(s.Error)
	}
	if has&problemBit != 0 {
		e.problem(&s.Problem)
	}
	if has&forecastBit != 0 {
		e.said(&s.Said)
	}
	if has&proposedBit != 0 {
		e.proposed(s)
	}
	if has&conditionsBit != 0 {
		e.conditions(s.Conditions)
	}
	if has&metricsBit != 0 {
		e.metrics(s.Metrics)
	}
	if has&specTextBit != 0 {
		e.blob(s.SpecText)
	}
	if has&stateBit != 0 {
		e.blob(s.State)
	}
	e.keep(s, has)
	return true
}

// own is a copy of a text. Words stay what they are in the program: comparing them with themselves reads no memory.
func own(text string) string {
	if i, known := wordsByText[text]; known {
		return words[i]
	}
	return strings.Clone(text)
}

// keep makes the step the last one. Texts that did not change are kept as they were.
func (e *Encoder) keep(s *Step, has uint64) {
	l := &e.last
	l.At, l.Before, l.Spec, l.Scale, l.Pods, l.Ready, l.Generation = s.At, s.Before, s.Spec, s.Scale, s.Pods, s.Ready, s.Generation
	l.Current, l.Desired, l.Basis = s.Current, s.Desired, s.Basis
	if has&reasonBit != 0 {
		l.Reason, l.Error = own(s.Reason), own(s.Error)
	}
	if has&problemBit != 0 {
		p := s.Problem
		p.Reason, p.Message, p.Selector = own(p.Reason), own(p.Message), own(p.Selector)
		p.Others = slices.Clone(p.Others)
		for i := range p.Others {
			p.Others[i] = own(p.Others[i])
		}
		l.Problem = p
	}
	if has&forecastBit != 0 {
		l.Said = s.Said
		l.Said.Problem = own(l.Said.Problem)
	}
	if has&proposedBit != 0 {
		l.Proposed = slices.Clone(s.Proposed)
		for i := range l.Proposed {
			l.Proposed[i].Name = own(l.Proposed[i].Name)
		}
	}
	if has&conditionsBit != 0 {
		l.Conditions = l.Conditions[:0]
		for i := range s.Conditions {
			c := &s.Conditions[i]
			l.Conditions = append(l.Conditions, recommender.Condition{
				Type: own(c.Type), Status: own(c.Status), Reason: own(c.Reason), Message: own(c.Message),
			})
		}
	}
	if has&metricsBit == 0 {
		return
	}
	l.Metrics = slices.Grow(l.Metrics[:0], len(s.Metrics))[:len(s.Metrics)]
	for i := range l.Metrics {
		to, from := &l.Metrics[i], &s.Metrics[i]
		texts := [...]*string{&to.Error, &to.SelectorError, &to.Sums.Unusable, &to.Sums.NoRequest}
		var known [len(texts)]string
		for k, text := range texts {
			known[k] = *text
		}
		*to = *from
		for k, text := range texts {
			if *text == known[k] {
				*text = known[k] // not the caller's
			} else {
				*text = own(*text)
			}
		}
	}
}

// Report appends a report, and reports whether it did.
func (e *Encoder) Report(r *Report) bool {
	if r.Of <= 0 || e.items >= MaxSteps {
		return false
	}
	e.items++
	e.buf = binary.AppendUvarint(e.buf, reportBit)
	e.buf = binary.AppendVarint(e.buf, r.Of-e.last.At)
	e.buf = append(e.buf, boolBit(r.Failed))
	e.text(r.Message)
	return true
}

// text appends a text: 0 and the text, 1 for none, or the number of one of words or of one that the chunk has.
func (e *Encoder) text(text string) {
	if text == "" {
		e.buf = append(e.buf, 1)
		return
	}
	if i, known := wordsByText[text]; known {
		e.buf = binary.AppendUvarint(e.buf, wordsBegin+uint64(i))
		return
	}
	text = cut(text)
	if i := slices.Index(e.texts, text); i >= 0 {
		e.buf = binary.AppendUvarint(e.buf, textsBegin+uint64(i))
		return
	}
	e.buf = append(e.buf, 0)
	e.buf = binary.AppendUvarint(e.buf, uint64(len(text)))
	e.buf = append(e.buf, text...)
	if len(e.texts) < maxTexts {
		e.texts = append(e.texts, strings.Clone(text))
	}
}

// The numbers of texts: those of a chunk, of which there are maxTexts at most, and then words.
const (
	textsBegin = 2
	wordsBegin = textsBegin + maxTexts
)

// cutOff ends a text that was cut.
const cutOff = "…"

// cut shortens a text that is too long.
func cut(text string) string {
	if len(text) <= MaxText {
		return text
	}
	n := MaxText - len(cutOff)
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n] + cutOff
}

func (e *Encoder) blob(b []byte) {
	e.buf = binary.AppendUvarint(e.buf, uint64(len(b)))
	e.buf = append(e.buf, b...)
}

func (e *Encoder) problem(p *Problem) {
	e.buf = append(e.buf, byte(p.Kind), p.Code)
	e.text(p.Reason)
	e.text(p.Message)
	e.text(p.Selector)
	others := p.Others[:min(len(p.Others), maxOthers)]
	e.buf = binary.AppendUvarint(e.buf, uint64(len(others)))
	for _, name := range others {
		e.text(name)
	}
}

func (e *Encoder) said(s *forecast.Said) {
	l := &e.last.Said
	e.buf = appendDelta(e.buf, s.Replicas, l.Replicas)
	e.buf = binary.AppendUvarint(e.buf, uint64(s.Seasons))
	for _, pair := range [...][2]int64{
		{int64(s.Back.Tested), int64(l.Back.Tested)}, {int64(s.Back.Missed), int64(l.Back.Missed)},
		{s.Back.Excess, l.Back.Excess}, {s.Back.Actual, l.Back.Actual},
	} {
		e.buf = binary.AppendVarint(e.buf, pair[0]-pair[1])
	}
	e.text(s.Problem)
}

// proposed appends the proposals of the caller. When they expire is told from the decision on.
func (e *Encoder) proposed(s *Step) {
	list, at := s.Proposed[:min(len(s.Proposed), maxProposed)], time.Unix(0, s.At)
	e.buf = binary.AppendUvarint(e.buf, uint64(len(list)))
	for i := range list {
		p := &list[i]
		e.text(p.Name)
		e.buf = append(e.buf, byte(p.Role))
		e.buf = binary.AppendUvarint(e.buf, uint64(p.Replicas))
		e.buf = binary.AppendVarint(e.buf, int64(p.Expires.Sub(at)))
	}
}

func sameProposal(a, b stages.Proposal) bool {
	return a.Name == b.Name && a.Replicas == b.Replicas && a.Role == b.Role && a.Expires.Equal(b.Expires)
}

func (e *Encoder) conditions(list []recommender.Condition) {
	list = list[:min(len(list), maxConditions)]
	e.buf = binary.AppendUvarint(e.buf, uint64(len(list)))
	for i := range list {
		c := &list[i]
		e.text(c.Type)
		e.text(c.Status)
		e.text(c.Reason)
		e.text(c.Message)
	}
}

func sameConditions(a, b []recommender.Condition) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		x, y := &a[i], &b[i]
		if x.Type != y.Type || x.Status != y.Status || x.Reason != y.Reason || x.Message != y.Message {
			return false
		}
	}
	return true
}

// metrics appends what of the metrics differs from those of the step before.
func (e *Encoder) metrics(list []fleet.MetricDigest) {
	e.buf = binary.AppendUvarint(e.buf, uint64(len(list)))
	var none fleet.MetricDigest
	for i := range list {
		last := &none
		if i < len(e.last.Metrics) {
			last = &e.last.Metrics[i]
		}
		e.metric(&list[i], last)
	}
}

func (e *Encoder) metric(m, l *fleet.MetricDigest) {
	s, o, t := &m.Sums, &l.Sums, &m.Total
	has := uint64(0)
	set := func(bit uint64, is bool) {
		if is {
			has |= bit
		}
	}
	set(usageBit, s.Ready.Usage != o.Ready.Usage)
	set(totalBit, t.Sum != l.Total.Sum)
	set(readyBit, s.Ready.Pods != o.Ready.Pods)
	set(missingBit, s.Missing.Pods != o.Missing.Pods)
	set(unreadyBit, s.Unready.Pods != o.Unready.Pods)
	set(requestsBit, s.Ready.Requests != o.Ready.Requests || s.Ready.Filled != o.Ready.Filled ||
		s.Missing.Requests != o.Missing.Requests || s.Missing.Filled != o.Missing.Filled || s.Unready.Requests != o.Unready.Requests)
	set(seriesBit, t.Series != l.Total.Series || !usual(t))
	rest := restOf(s)
	set(restBit, rest != restOf(o) || s.Ignored != o.Ignored || s.Unlisted != o.Unlisted || s.UnlistedUsage != o.UnlistedUsage)
	set(textsBit, m.Error != l.Error || m.SelectorError != l.SelectorError || s.Unusable != o.Unusable || s.NoRequest != o.NoRequest)
	b := binary.AppendUvarint(e.buf, has)
	if has&usageBit != 0 {
		b = binary.AppendVarint(b, s.Ready.Usage-o.Ready.Usage)
	}
	if has&totalBit != 0 {
		b = binary.AppendVarint(b, t.Sum-l.Total.Sum)
	}
	if has&readyBit != 0 {
		b = appendDelta(b, s.Ready.Pods, o.Ready.Pods)
	}
	if has&missingBit != 0 {
		b = appendDelta(b, s.Missing.Pods, o.Missing.Pods)
	}
	if has&unreadyBit != 0 {
		b = appendDelta(b, s.Unready.Pods, o.Unready.Pods)
	}
	if has&requestsBit != 0 {
		for _, pair := range [...][2]int64{
			{s.Ready.Requests, o.Ready.Requests}, {s.Ready.Filled - s.Ready.Requests, o.Ready.Filled - o.Ready.Requests},
			{s.Missing.Requests, o.Missing.Requests}, {s.Missing.Filled - s.Missing.Requests, o.Missing.Filled - o.Missing.Requests},
			{s.Unready.Requests, o.Unready.Requests},
		} {
			b = binary.AppendVarint(b, pair[0]-pair[1])
		}
	}
	if has&seriesBit != 0 {
		b = binary.AppendUvarint(b, uint64(t.Series))
		if usual(t) {
			b = append(b, 0)
		} else {
			b = append(b, 1)
			b = binary.AppendVarint(b, t.Low)
			b = binary.AppendVarint(b, t.High)
			b = binary.AppendVarint(b, t.Beyond)
		}
	}
	if has&restBit != 0 {
		b = append(b, rest)
		b = binary.AppendUvarint(b, uint64(s.Ignored))
		b = binary.AppendUvarint(b, uint64(s.Unlisted))
		b = binary.AppendVarint(b, s.UnlistedUsage)
	}
	if e.buf = b; has&textsBit != 0 {
		e.text(m.Error)
		e.text(m.SelectorError)
		e.text(s.Unusable)
		e.text(s.NoRequest)
	}
}

// usual reports whether the total's other sums follow from the sum.
func usual(t *fleet.Total) bool {
	return t.Low == min(0, t.Sum) && t.High == max(0, t.Sum) && t.Beyond == 0
}

func restOf(s *recommender.MetricSums) (rest byte) {
	if s.Sampled {
		rest |= sampledBit
	}
	if s.UsageWraps {
		rest |= usageWrapsBit
	}
	if s.RequestsWrap {
		rest |= requestsWrapBit
	}
	return rest
}

// proposed is what the metrics proposed.
type proposed struct {
	decided  bool
	proposal int32
	each     [recommender.BasisProposals]int32
	n        int
}

func proposals(b *recommender.Basis) proposed {
	if !b.Decided {
		return proposed{}
	}
	return proposed{true, b.Proposal, b.Proposals, b.ProposalsLen}
}

func appendProposals(b []byte, now, last *recommender.Basis) []byte {
	p, l := proposals(now), proposals(last)
	b = append(b, boolBit(p.decided)|byte(p.n)<<1)
	b = appendDelta(b, p.proposal, l.proposal)
	for i := range p.n {
		b = appendDelta(b, p.each[i], l.each[i])
	}
	return b
}

func appendDelta(b []byte, now, last int32) []byte {
	return binary.AppendVarint(b, int64(now)-int64(last))
}

func boolBit(is bool) byte {
	if is {
		return 1
	}
	return 0
}
