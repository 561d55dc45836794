package forecast

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// Length is that of a bucket.
const Length = 15 * time.Minute

const (
	bucketSeconds = int64(Length / time.Second)
	perDay        = int64(24 * time.Hour / Length)
	// tested is how many closed buckets the forecast is tested on: those of 7 days. leastTested is how many of them it
	// needs to act.
	tested      = 7 * perDay
	leastTested = perDay
	// ahead is how many buckets an Outlook has: as many as the longest lead reaches, and two hours more.
	ahead = int64(MaxLead/Length) + 9
)

// MaxLead limits Settings.Lead.
const MaxLead = time.Hour

// The most that a forecast may have been wrong to act, in per cent: how often the target needed more, and how much too
// much it said, of what was needed.
const (
	MostMissed = 25
	MostExcess = 50
)

// Season is what repeats.
type Season uint8

// The seasons.
const (
	Daily Season = iota
	Weekly
)

// String returns the API's word for the season.
func (s Season) String() string {
	if s == Weekly {
		return "WEEKLY"
	}
	return "DAILY"
}

// period is the season in buckets, most how many are kept, and least how many a forecast needs.
func (s Season) period() int64 {
	if s == Weekly {
		return 7 * perDay
	}
	return perDay
}

func (s Season) most() int64 {
	if s == Weekly {
		return 4
	}
	return 14
}

func (s Season) least() int {
	if s == Weekly {
		return 3
	}
	return 7
}

// size is how many buckets a ring keeps: two hours more than the seasons, for clocks that were set meanwhile.
func (s Season) size() int { return int(s.period()*s.most()) + 8 }

// unit names n seasons.
func (s Season) unit(n int) string {
	word := "day"
	if s == Weekly {
		word = "week"
	}
	if n != 1 {
		word += "s"
	}
	return fmt.Sprintf("%d %s", n, word)
}

// Settings say how a forecast is made.
type Settings struct {
	Season Season
	// Quantile is in per cent: 50 to 100.
	Quantile int
	// Lead is how far ahead it looks: 0 to MaxLead.
	Lead time.Duration
	// Zone is whose wall time counts.
	Zone *time.Location
}

// Same reports whether both make the same forecast.
func (s *Settings) Same(o *Settings) bool {
	return s.Season == o.Season && s.Quantile == o.Quantile && s.Lead == o.Lead && s.Zone.String() == o.Zone.String()
}

// BucketOf returns the bucket of an instant.
func BucketOf(t time.Time) int64 { return floorDiv(t.Unix(), bucketSeconds) }

// StartOf returns when a bucket begins.
func StartOf(bucket int64) time.Time { return time.Unix(bucket*bucketSeconds, 0).UTC() }

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// wall returns the wall time of a bucket, as the bucket that has it in UTC.
func wall(bucket int64, zone *time.Location) int64 {
	_, offset := time.Unix(bucket*bucketSeconds, 0).In(zone).Zone()
	return floorDiv(bucket*bucketSeconds+int64(offset), bucketSeconds)
}

// Outlook is what a ring says of the buckets from one on.
type Outlook struct {
	first int64
	// counts are by bucket; below 0: the past is too short. seasons are how many values each is of.
	counts  [ahead]int32
	seasons [ahead]uint8
	// Back is how the forecasts of the last 7 days were.
	Back Backtest
}

// Covers reports whether the outlook says something of that bucket and what follows it.
func (o *Outlook) Covers(bucket int64) bool {
	return bucket >= o.first && bucket-o.first < ahead-int64(MaxLead/Length)
}

// At returns the forecast for an instant, and of how many days or weeks it is; below 0: there is none, because the past
// is too short.
func (o *Outlook) At(s *Settings, now time.Time) (replicas int32, seasons int) {
	from, to := BucketOf(now)-o.first, BucketOf(now.Add(s.Lead))-o.first
	replicas = -1
	for i := max(0, from); i <= min(to, ahead-1); i++ {
		if o.counts[i] > replicas {
			replicas, seasons = o.counts[i], int(o.seasons[i])
		}
	}
	return replicas, seasons
}

// Said is what a forecast said at an instant: all of the past that its decision depends on. The zero value says nothing.
type Said struct {
	// Replicas is the forecast, of so many days or weeks; below 0: the past is too short, or not known.
	Replicas int32 `json:"replicas"`
	Seasons  int   `json:"seasons,omitempty"`
	// Problem is why the past is not known; empty: it is.
	Problem string `json:"problem,omitempty"`
	// Back is how the forecasts of the last 7 days were.
	Back Backtest `json:"back,omitzero"`
}

// Under returns what is said under another basis, as a Ring's values are; not ok: they can't be compared.
func (s Said) Under(from, to *Basis) (Said, bool) {
	factor, ok := from.factor(to)
	if !ok {
		return Said{}, false
	}
	if factor == 1 {
		return s, true
	}
	if s.Replicas > 0 {
		s.Replicas = scaled(s.Replicas, factor)
	}
	most := float64(s.Back.Tested) * math.MaxInt32 // as a ring's values end there
	s.Back.Excess, s.Back.Actual = int64(min(most, float64(s.Back.Excess)*factor)), int64(min(most, float64(s.Back.Actual)*factor))
	return s, true
}

// Backtest is how forecasts were that can be compared with what came. Missed counts those that were too low. Excess is
// by how much the others were too high, and Actual what was needed, both summed.
type Backtest struct {
	Tested int   `json:"tested"`
	Missed int   `json:"missed"`
	Excess int64 `json:"excess"`
	Actual int64 `json:"actual"`
}

// MissedPercent and ExcessPercent are rounded up: what is shown is at most MostMissed, or MostExcess, if and only if it is.
func (b *Backtest) MissedPercent() int {
	return (b.Missed*100 + max(1, b.Tested) - 1) / max(1, b.Tested)
}

// ExcessPercent is Excess of Actual.
func (b *Backtest) ExcessPercent() int64 {
	return (b.Excess*100 + max(1, b.Actual) - 1) / max(1, b.Actual)
}

// Problem says why a forecast must not act; empty: it may.
func (b *Backtest) Problem() string {
	if b.Tested < int(leastTested) {
		return fmt.Sprintf("it is compared with %d quarters of an hour of the last 7 days, of at least %d", b.Tested, leastTested)
	}
	var wrong []string
	if b.MissedPercent() > MostMissed {
		wrong = append(wrong, fmt.Sprintf("missed %d %%", b.MissedPercent()))
	}
	if b.ExcessPercent() > MostExcess {
		wrong = append(wrong, fmt.Sprintf("excess %d %%", b.ExcessPercent()))
	}
	if len(wrong) == 0 {
		return ""
	}
	return strings.Join(wrong, ", ") + " in 7 days"
}

// Outlook returns what the ring says of the buckets from one on.
func (r *Ring) Outlook(s *Settings, first int64) Outlook {
	o := Outlook{first: first}
	for i := range o.counts {
		o.counts[i] = -1
	}
	if len(r.values) == 0 || r.last < first-int64(s.Season.size()) || r.first() > first+ahead {
		return o
	}
	p := r.past(s, first)
	for i := range o.counts {
		replicas, n := p.quantile(wall(first+int64(i), s.Zone))
		o.counts[i], o.seasons[i] = replicas, uint8(n)
	}
	leads := int64(s.Lead / Length) // from the start of a bucket
	for b := max(first-tested, r.first()); b < min(first, r.last+1); b++ {
		actual := r.at(b)
		if actual < 0 {
			continue
		}
		said := int32(-1)
		for i := range leads + 1 {
			n, _ := p.quantile(wall(b+i, s.Zone))
			said = max(said, n)
		}
		if said < 0 {
			continue
		}
		o.Back.Tested++
		o.Back.Actual += int64(actual)
		if actual > said {
			o.Back.Missed++
		} else {
			o.Back.Excess += int64(said - actual)
		}
	}
	return o
}

// past is a ring by wall time.
type past struct {
	*Settings
	first  int64
	values []int32
	// known are quantiles that were asked for, and of how many values, by wall time.
	known map[int64]known
}

type known struct {
	replicas int32
	n        int
}

// past returns the values of the ring before a bucket, by wall time.
func (r *Ring) past(s *Settings, before int64) *past {
	const slack = 2 * perDay // clocks are set by less, and zones differ by less from UTC
	from, to := max(r.first(), before-int64(s.Season.size())), min(r.last+1, before)
	p := &past{Settings: s, first: from - slack, known: map[int64]known{}}
	p.values = slices.Repeat([]int32{-1}, int(max(0, to-from)+2*slack))
	for b := from; b < to; b++ {
		if i := wall(b, s.Zone) - p.first; i >= 0 && i < int64(len(p.values)) {
			p.values[i] = max(p.values[i], r.at(b))
		}
	}
	return p
}

// quantile returns the forecast for a wall time, and of how many values it is.
func (p *past) quantile(at int64) (int32, int) {
	if k, ok := p.known[at]; ok {
		return k.replicas, k.n
	}
	var room [14]int32
	values := room[:0]
	for k := range p.Season.most() {
		if i := at - (k+1)*p.Season.period() - p.first; i >= 0 && i < int64(len(p.values)) && p.values[i] >= 0 {
			values = append(values, p.values[i])
		}
	}
	k := known{replicas: -1, n: len(values)}
	if k.n >= p.Season.least() {
		k.replicas = Quantile(values, p.Quantile)
	}
	p.known[at] = k
	return k.replicas, k.n
}

// Quantile returns the nearest-rank quantile of values, in per cent, and sorts them. There is at least one.
func Quantile(values []int32, percent int) int32 {
	slices.Sort(values)
	rank := (percent*len(values) + 99) / 100
	return values[min(max(rank, 1), len(values))-1]
}

// Told says of what a forecast is: "90 % of 14 days".
func (s *Settings) Told(seasons int) string {
	return fmt.Sprintf("%d %% of %s", s.Quantile, s.Season.unit(seasons))
}

// Needs says what a forecast needs: "7 days".
func (s *Settings) Needs() string { return s.Season.unit(s.Season.least()) }
