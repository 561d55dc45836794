package stages

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// told is the sentence of an override: what was done, by whom, until when, why, and which override it was.
var told = regexp.MustCompile(`(?s)^(.*?) by (.*) until (\S+)(?: \(the end of the (floor|ceiling)\))?: ("(?:[^"\\]|\\.)*") \(override( [a-z0-9-]*)?(?: of the (cluster|namespace|target))?( and the other)?\); (?:the recommendation would be (\d+))?`)

// bound is a count of an override, in what was done, and came the one that it came to otherwise.
var (
	bound = regexp.MustCompile(`(pinned to|pin of|floor of|ceiling of) (\d+)`)
	came  = regexp.MustCompile(`^held at (\d+)|\(limited to (?:\w+ )?(\d+)`)
)

// Retold returns overrides that do what a decision's condition Overridden tells: its message, and the reason of
// the change, empty if the count stayed. What did nothing there is not in it: an empty message is one that
// does nothing. They count from ever until they expire, or without an end.
func Retold(message, change string) []Override {
	o := Override{Level: OfTarget, Pin: -1, Floor: -1, Ceiling: -1, Expires: time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)}
	m := told.FindStringSubmatch(message)
	if m == nil {
		return []Override{o}
	}
	did := m[1]
	if o.Author = m[2]; o.Author == "somebody" {
		o.Author = ""
	}
	if until, err := time.Parse(time.RFC3339, m[3]); err == nil {
		o.Expires = until.Add(time.Second - 1) // it is told in whole seconds
	}
	o.Reason, _ = strconv.Unquote(m[5])
	o.Name = "/" + strings.TrimSpace(m[6])
	for level, word := range map[Level]string{OfCluster: "cluster", OfNamespace: "namespace"} {
		if m[7] == word {
			o.Level = level
		}
	}
	if name, reason, ok := strings.Cut(strings.TrimPrefix(change, Overridden+" ("), "): "); ok && strings.HasPrefix(change, Overridden+" (") {
		o.Name, o.Reason = name, reason
	}
	counts := bound.FindAllStringSubmatch(did, -1)
	other := Override{Pin: -1, Floor: -1, Ceiling: -1, Expires: o.Expires}
	if i := strings.LastIndex(did, "override "); i >= 0 {
		other.retitle(strings.TrimSuffix(did[i+len("override "):], ")"))
	}
	decided := countOf(m[9])
	if c := came.FindStringSubmatch(did); decided < 0 && c != nil {
		decided = countOf(c[1] + c[2])
	}
	switch {
	case strings.Contains(did, "contradicts") && len(counts) == 2:
		o.set(counts[0])
		if m[8] == "" {
			o.set(counts[1])
			return []Override{o}
		}
		other.set(counts[1])
		other.Author, other.Reason = o.Author, o.Reason // what is told of both is told again
		switch m[4] {
		case "floor":
			other.Expires = other.Expires.Add(time.Second)
		case "ceiling":
			o.Expires = o.Expires.Add(time.Second)
		}
		return []Override{o, other}
	case strings.Contains(did, "no scale-down"):
		o.NoScaleDown = true
	case strings.Contains(did, "no scale-up"):
		o.NoScaleUp = true
	case len(counts) == 0:
		o.Hold = true
	default:
		o.set(counts[0])
		return append([]Override{o}, o.against(decided)...)
	}
	if len(counts) == 0 {
		return []Override{o}
	}
	other.set(counts[0])
	return append([]Override{o, other}, other.against(decided)...)
}

// against is a pin that the bound acted on, nil if the decided count is enough; below 0 that was the bound.
func (o *Override) against(decided int32) []Override {
	pin := Override{Pin: -1, Floor: -1, Ceiling: -1, Expires: o.Expires}
	switch {
	case o.Floor > 0 && (decided < 0 || decided >= o.Floor):
		pin.Pin = o.Floor - 1
	case o.Ceiling >= 0 && o.Ceiling < math.MaxInt32 && decided <= o.Ceiling:
		pin.Pin = o.Ceiling + 1
	default:
		return nil
	}
	return []Override{pin}
}

// countOf reads a count; below 0: there is none.
func countOf(text string) int32 {
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		return -1
	}
	return int32(n)
}

// retitle reads what title writes, without its first word.
func (o *Override) retitle(text string) {
	id, of, _ := strings.Cut(text, " of the ")
	o.Name = "/" + id
	o.Level = map[string]Level{"cluster": OfCluster, "namespace": OfNamespace, "target": OfTarget}[of]
}

// set sets the bound that a match of bound has.
func (o *Override) set(match []string) {
	switch n := countOf(match[2]); match[1] {
	case "floor of":
		o.Floor = n
	case "ceiling of":
		o.Ceiling = n
	default:
		o.Pin = n
	}
}
