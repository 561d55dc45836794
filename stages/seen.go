package stages

import (
	"cmp"
	"encoding/binary"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/recommender"
)

const (
	// mostSeen limits the overrides of which a target remembers that its decisions told them, and mostTold those
	// that begin or end of which one decision tells: the next one tells the others.
	mostSeen, mostTold = 8, 4
	// mostSeenText limits the author and the reason of a remembered override, in bytes each.
	mostSeenText = 100
)

// seen is an override in force that a decision of the target has told. Instants are in milliseconds since the
// Unix epoch.
type seen struct {
	level                Level
	id, what             string
	author, reason       string
	start, made, expires int64
}

func seenOf(o *Override) seen {
	return seen{
		level: o.Level, id: o.id(), what: o.What(),
		author: cut(o.Author, mostSeenText), reason: cut(o.Reason, mostSeenText),
		start: o.Start.UnixMilli(), made: o.Created.UnixMilli(), expires: o.Expires.UnixMilli(),
	}
}

// is reports whether both are the same override: another one may have the name of one that was deleted.
func (s *seen) is(o seen) bool { return s.level == o.level && s.id == o.id && s.made == o.made }

// cut shortens a text to so many bytes.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most-len("…")], "") + "…"
}

// says is what the override is, as its begin and its end tell it.
func (s *seen) says() string {
	return s.what + ", by " + cmp.Or(s.author, "somebody") + ": " + strconv.Quote(s.reason)
}

func (s *seen) title() string { return (&Override{Name: "/" + s.id, Level: s.level}).title() }

// seeOverrides tells which overrides begin or end with this decision, and remembers them. So each decision log has
// what acts on its target, whatever it was made for, and nothing is written when an override is.
func (r *run) seeOverrides() {
	if len(r.state.overrides) == 0 && len(r.Overrides) == 0 {
		return
	}
	inForce := r.inForce
	if r.areTold(inForce) {
		return
	}
	now := make([]seen, len(inForce))
	for i, o := range inForce {
		now[i] = seenOf(o)
	}
	slices.SortStableFunc(now, func(a, b seen) int { // so that one more displaces none that is remembered
		return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.made, b.made), cmp.Compare(a.level, b.level), strings.Compare(a.id, b.id))
	})
	var left []seen
	for i := range r.state.overrides {
		was := &r.state.overrides[i]
		if slices.ContainsFunc(now, was.is) {
			left = append(left, *was)
			continue
		}
		if !r.tellOverride(recommender.OverrideEnds, was.title()+" "+r.ended(was)+": "+was.says(), 0) {
			left = append(left, *was)
		}
	}
	for i := range now {
		o := &now[i]
		if len(left) >= mostSeen {
			break
		}
		if !slices.ContainsFunc(left, o.is) && r.tellOverride(recommender.OverrideBegins, o.title()+" begins, until "+clockOf(o.expires)+": "+o.says(), o.expires) {
			left = append(left, *o)
		}
	}
	r.state.overrides = left
}

// areTold reports whether decisions have told exactly these overrides, as nearly always.
func (r *run) areTold(inForce []*Override) bool {
	return len(inForce) == len(r.state.overrides) && !slices.ContainsFunc(inForce, func(o *Override) bool {
		made := o.Created.UnixMilli()
		return !slices.ContainsFunc(r.state.overrides, func(s seen) bool { return s.level == o.Level && s.made == made && s.id == o.id() })
	})
}

// ended says how an override ended that is no longer in force.
func (r *run) ended(s *seen) string {
	at := r.OverridesAt
	if at.IsZero() {
		at = r.now
	}
	if at.UnixMilli() >= s.expires {
		return "has ended at " + clockOf(s.expires)
	}
	if r.Deleted != nil {
		if by, when, known := r.Deleted(s.level, s.id, time.UnixMilli(s.made)); known {
			return "was deleted by " + cmp.Or(cut(by, mostSeenText), "somebody") + " at " + when.UTC().Format(time.RFC3339) + ", before its end at " + clockOf(s.expires)
		}
	}
	return "is gone before its end at " + clockOf(s.expires)
}

// tellOverride tells that an override begins or ends, if there is room in this decision.
func (r *run) tellOverride(rule, message string, until int64) bool {
	if len(r.adjusted.Overrides) >= mostTold {
		return false
	}
	a := recommender.Adjustment{Stage: recommender.StageOverride, Rule: rule, Before: -1, After: -1, Message: cut(message, recommender.MaxAdjustmentText)}
	if until != 0 {
		a.Until = time.UnixMilli(until).UTC()
	}
	r.adjusted.Overrides = append(r.adjusted.Overrides, a)
	return true
}

// What is what an override does, in a few words: "floor 2, no-scale-down".
func (o *Override) What() string {
	var parts []string
	add := func(is bool, word string) {
		if is {
			parts = append(parts, word)
		}
	}
	add(o.Hold, "hold")
	add(o.Pin >= 0, "pin "+itoa(o.Pin))
	add(o.Floor >= 0, "floor "+itoa(o.Floor))
	add(o.Ceiling >= 0, "ceiling "+itoa(o.Ceiling))
	add(o.NoScaleDown, "no-scale-down")
	add(o.NoScaleUp, "no-scale-up")
	return strings.Join(parts, ", ")
}

// appendSeen and decodeSeen are the encoding of what is remembered of overrides.
func appendSeen(b []byte, all []seen) []byte {
	text := func(s string) {
		b = append(binary.AppendUvarint(b, uint64(len(s))), s...)
	}
	for i := range all {
		s := &all[i]
		b = append(b, byte(s.level))
		text(s.id)
		text(s.what)
		text(s.author)
		text(s.reason)
		for _, v := range []int64{s.made, s.start - s.made, s.expires - s.made} {
			b = binary.AppendVarint(b, v)
		}
	}
	return b
}

func decodeSeen(all []seen, b []byte) []seen {
	failed, whole := false, string(b)
	number := func() int64 {
		v, n := binary.Varint(b)
		if n <= 0 {
			failed, n = true, 0
		}
		b = b[n:]
		return v
	}
	text := func() string {
		length, n := binary.Uvarint(b)
		if n <= 0 || length > uint64(len(b)-n) {
			failed = true
			return ""
		}
		from := len(whole) - len(b) + n
		b = b[n+int(length):]
		return whole[from : from+int(length)]
	}
	for len(b) > 0 && len(all) < mostSeen {
		s := seen{level: Level(b[0])}
		b = b[1:]
		s.id, s.what, s.author, s.reason = text(), text(), text(), text()
		s.made = number()
		s.start, s.expires = s.made+number(), s.made+number()
		if failed || s.level < OfCluster || s.level > OfTarget {
			return all
		}
		all = append(all, s)
	}
	return all
}
