package fleet

import (
	"encoding/binary"
	"errors"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/setpoint-dev/setpoint/internal/numbers"
	"github.com/setpoint-dev/setpoint/recommender"
)

// Errors of DecodeDigest and DecodeRecord; test for them with errors.Is.
var (
	// ErrFormat: a newer version wrote the value.
	ErrFormat = errors.New("unknown format of a fleet's value")
	// ErrCorrupt: the value is none of a fleet.
	ErrCorrupt = errors.New("corrupt value of a fleet")
)

// digestFormat 1: the format's byte, the spec's version, the counts, the metrics. Integers are varints,
// signed ones zigzag; a metric begins with bits that say what follows.
const digestFormat = 1

// MaxTexts limits the texts of an encoded digest, in bytes: later ones are cut.
const MaxTexts = 256

// cutOff ends a text that was cut.
const cutOff = "…"

// Bits of a metric.
const (
	podsBit = 1 << iota
	sampledBit
	filledBit
	missingBit
	unreadyBit
	unlistedBit
	totalBit
	lowBit
	highBit
	beyondBit
	usageWrapsBit
	requestsWrapBit
	errorBit
	selectorBit
	unusableBit
	noRequestBit
	metricBits
)

// AppendDigest appends the digest's encoding to b: at most 100 bytes a metric, and MaxTexts bytes of texts.
func AppendDigest(b []byte, d *Digest) []byte {
	b = append(b, digestFormat)
	b = binary.LittleEndian.AppendUint64(b, d.Version)
	for _, n := range []int32{d.Scale.SpecReplicas, d.Scale.StatusReplicas, d.Pods, d.Ready, d.Placed, d.Unplaced, d.Min, d.Max} {
		b = binary.AppendVarint(b, int64(n))
	}
	b = binary.AppendUvarint(b, uint64(len(d.Metrics)))
	texts := texts{room: MaxTexts}
	for i := range d.Metrics {
		b = appendMetric(b, &d.Metrics[i], &texts)
	}
	return b
}

func appendMetric(b []byte, m *MetricDigest, texts *texts) []byte {
	s, t := &m.Sums, &m.Total
	has := uint64(0)
	set := func(bit uint64, is bool) {
		if is {
			has |= bit
		}
	}
	set(podsBit, s.Ready != recommender.GroupSums{} || s.Ignored != 0)
	set(sampledBit, s.Sampled)
	set(filledBit, s.Ready.Filled != s.Ready.Requests || s.Missing.Filled != s.Missing.Requests)
	set(missingBit, s.Missing != recommender.GroupSums{})
	set(unreadyBit, s.Unready != recommender.GroupSums{})
	set(unlistedBit, s.Unlisted != 0 || s.UnlistedUsage != 0)
	set(totalBit, t.Series != 0)
	set(lowBit, t.Low != min(0, t.Sum))
	set(highBit, t.High != max(0, t.Sum))
	set(beyondBit, t.Beyond != 0)
	set(usageWrapsBit, s.UsageWraps)
	set(requestsWrapBit, s.RequestsWrap)
	set(errorBit, m.Error != "")
	set(selectorBit, m.SelectorError != "")
	set(unusableBit, s.Unusable != "")
	set(noRequestBit, s.NoRequest != "")
	b = binary.AppendUvarint(b, has)
	group := func(bit uint64, g *recommender.GroupSums) {
		if has&bit == 0 {
			return
		}
		b = binary.AppendUvarint(b, uint64(g.Pods))
		b = binary.AppendVarint(b, g.Requests)
		if has&filledBit != 0 && bit != unreadyBit {
			b = binary.AppendVarint(b, g.Filled-g.Requests)
		}
	}
	group(podsBit, &s.Ready)
	if has&podsBit != 0 {
		b = binary.AppendVarint(b, s.Ready.Usage)
		b = binary.AppendUvarint(b, uint64(s.Ignored))
	}
	group(missingBit, &s.Missing)
	group(unreadyBit, &s.Unready)
	if has&unlistedBit != 0 {
		b = binary.AppendUvarint(b, uint64(s.Unlisted))
		b = binary.AppendVarint(b, s.UnlistedUsage)
	}
	if has&totalBit != 0 {
		b = binary.AppendUvarint(b, uint64(t.Series))
		b = binary.AppendVarint(b, t.Sum)
		if has&lowBit != 0 {
			b = binary.AppendVarint(b, t.Low)
		}
		if has&highBit != 0 {
			b = binary.AppendVarint(b, t.High)
		}
		if has&beyondBit != 0 {
			b = binary.AppendVarint(b, t.Beyond)
		}
	}
	for _, text := range []string{m.Error, m.SelectorError, s.Unusable, s.NoRequest} {
		if text != "" {
			b = texts.append(b, text)
		}
	}
	return b
}

// texts appends the texts of a digest.
type texts struct {
	room int
	last string
}

// append appends as much of a text as there is room for, at least the mark; nothing of one that is that before
// it.
func (t *texts) append(b []byte, text string) []byte {
	if text == t.last {
		return append(b, 0)
	}
	t.last = text
	if len(text) > t.room {
		n := max(0, t.room-len(cutOff))
		for n > 0 && !utf8.RuneStart(text[n]) {
			n--
		}
		text = text[:n] + cutOff
	}
	t.room = max(0, t.room-len(text))
	b = binary.AppendUvarint(b, uint64(len(text)))
	return append(b, text...)
}

// DecodeDigest decodes what AppendDigest wrote. The result shares no memory with b.
func DecodeDigest(b []byte) (Digest, error) {
	var d Digest
	if err := d.decode(b); err != nil {
		return Digest{}, err
	}
	return d, nil
}

// decode is DecodeDigest; it uses the capacity of the digest's metrics.
func (d *Digest) decode(b []byte) error {
	if len(b) > 0 && b[0] != digestFormat {
		return ErrFormat
	}
	r := reader{Reader: numbers.Reader{Rest: b}}
	r.head(d)
	n := r.Count(min(MaxMetrics, len(r.Rest)))
	if d.Metrics == nil || cap(d.Metrics) < n {
		d.Metrics = make([]MetricDigest, n)
	}
	d.Metrics = d.Metrics[:n]
	for i := range d.Metrics {
		r.metric(&d.Metrics[i])
	}
	if r.Bad || len(r.Rest) > 0 {
		return ErrCorrupt
	}
	return nil
}

// head reads what stands before the metrics.
func (r *reader) head(d *Digest) {
	r.Bytes(1)
	d.Version = r.Fixed()
	d.Scale = recommender.Scale{SpecReplicas: r.Int32(), StatusReplicas: r.Int32()}
	d.Pods, d.Ready, d.Placed, d.Unplaced = r.pods(r.Int32()), r.pods(r.Int32()), r.pods(r.Int32()), r.pods(r.Int32())
	d.Min, d.Max = r.Int32(), r.Int32()
	r.Bad = r.Bad || d.Min < 0
}

// SameBounds reports whether the member's caller stays between the same numbers of replicas by two of its records.
func (m *MemberRecord) SameBounds(other *MemberRecord) bool {
	var a, b Digest
	(&reader{Reader: numbers.Reader{Rest: m.Digest}}).head(&a)
	(&reader{Reader: numbers.Reader{Rest: other.Digest}}).head(&b)
	return a.Min == b.Min && a.Max == b.Max
}

// metric reads one metric.
func (r *reader) metric(m *MetricDigest) {
	s, t := &m.Sums, &m.Total
	has := r.Uvarint()
	if has >= metricBits {
		r.Bad = true
		return
	}
	s.Sampled, s.UsageWraps, s.RequestsWrap = has&sampledBit != 0, has&usageWrapsBit != 0, has&requestsWrapBit != 0
	group := func(bit uint64, g *recommender.GroupSums) {
		if has&bit == 0 {
			return
		}
		g.Pods = r.pods(int32(min(r.Uvarint(), math.MaxInt32)))
		g.Requests = r.Varint()
		if bit != unreadyBit {
			g.Filled = g.Requests
			if has&filledBit != 0 {
				g.Filled += r.Varint()
			}
		}
	}
	group(podsBit, &s.Ready)
	if has&podsBit != 0 {
		s.Ready.Usage = r.Varint()
		s.Ignored = r.pods(int32(min(r.Uvarint(), math.MaxInt32)))
	}
	group(missingBit, &s.Missing)
	group(unreadyBit, &s.Unready)
	if has&unlistedBit != 0 {
		s.Unlisted = r.pods(int32(min(r.Uvarint(), math.MaxInt32)))
		s.UnlistedUsage = r.Varint()
	}
	if has&totalBit != 0 {
		t.Series = int32(r.Count(math.MaxInt32))
		t.Sum = r.Varint()
		t.Low, t.High = min(0, t.Sum), max(0, t.Sum)
		if has&lowBit != 0 {
			t.Low = r.Varint()
		}
		if has&highBit != 0 {
			t.High = r.Varint()
		}
		if has&beyondBit != 0 {
			t.Beyond = r.Varint()
		}
		r.Bad = r.Bad || t.Series == 0 || t.Low > 0 || t.High < 0 || t.Beyond < 0
	}
	for _, text := range []struct {
		bit uint64
		to  *string
	}{{errorBit, &m.Error}, {selectorBit, &m.SelectorError}, {unusableBit, &s.Unusable}, {noRequestBit, &s.NoRequest}} {
		if has&text.bit != 0 {
			*text.to = r.text()
		}
	}
}

// reader reads what digests and records have.
type reader struct {
	numbers.Reader
	last string // text
}

// text reads a text of a digest: none is the last one again.
func (r *reader) text() string {
	if n := r.Count(MaxTexts + len(cutOff)); n > 0 {
		r.last = strings.ToValidUTF8(string(r.Bytes(n)), "�")
	}
	return r.last
}

// pods checks a count of pods.
func (r *reader) pods(n int32) int32 {
	if n < 0 || n > MostPods {
		r.Bad = true
		return 0
	}
	return n
}
