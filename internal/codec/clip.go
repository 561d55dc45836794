package codec

import (
	"fmt"
	"unicode/utf8"

	"github.com/setpoint-dev/setpoint/recommender"
)

// MaxText is how many bytes of one text or one selector are stored: names, conditions'
// messages, errors. Responses carry the full text. The stored text is only shown later,
// and no decision depends on it.
const MaxText = 4 << 10

// cutOff marks a text that was cut.
const cutOff = "... (%d bytes more)"

// clipStored shortens a text that is too long, between characters, and marks it.
func clipStored(s string) string {
	n := MaxText - len(cutOff) - len("9223372036854775807")
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + fmt.Sprintf(cutOff, len(s)-n)
}

// clipSelector returns the selector. If it is too long, it returns its first parts and
// a requirement that says how many are missing.
func clipSelector(s *recommender.LabelSelector) *recommender.LabelSelector {
	if Size(s) <= MaxText {
		return s
	}
	room := MaxText - 64 // reserve for the mark
	for i := range s.MatchLabels {
		if room -= sizeOfLabel(&s.MatchLabels[i]); room < 0 {
			return cut(s, i, 0)
		}
	}
	for i := range s.MatchExpressions {
		if room -= sizeOfRequirement(&s.MatchExpressions[i]); room < 0 {
			return cut(s, len(s.MatchLabels), i)
		}
	}
	return s
}

// cut keeps the first labels and requirements, up to that number.
func cut(s *recommender.LabelSelector, labels, requirements int) *recommender.LabelSelector {
	left := len(s.MatchLabels) - labels + len(s.MatchExpressions) - requirements
	mark := recommender.LabelRequirement{Key: fmt.Sprintf("... (%d more)", left), Operator: "Exists"}
	return &recommender.LabelSelector{
		MatchLabels:      s.MatchLabels[:labels],
		MatchExpressions: append(s.MatchExpressions[:requirements:requirements], mark),
	}
}

// Size is the approximate size of a selector's texts in bytes.
func Size(s *recommender.LabelSelector) (bytes int) {
	for i := range s.MatchLabels {
		bytes += sizeOfLabel(&s.MatchLabels[i])
	}
	for i := range s.MatchExpressions {
		bytes += sizeOfRequirement(&s.MatchExpressions[i])
	}
	return bytes
}

func sizeOfLabel(l *recommender.Label) int { return len(l.Key) + len(l.Value) + 4 }

func sizeOfRequirement(r *recommender.LabelRequirement) int {
	n := len(r.Key) + len(r.Operator) + 6
	for _, v := range r.Values {
		n += len(v) + 2
	}
	return n
}
