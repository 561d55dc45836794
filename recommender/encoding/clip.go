package encoding

import (
	"fmt"
	"unicode/utf8"

	"github.com/setpoint-dev/setpoint/recommender"
)

// MaxText is how many bytes are stored of one text, and of one selector: names,
// conditions' messages, errors. Whoever asks is answered in full; what is stored is for
// those who look later, and for decisions on which no text has a say.
const MaxText = 4 << 10

// cutOff is the mark of what a text was cut to.
const cutOff = "... (%d bytes more)"

// clipStored cuts a text that is too long, between characters, and marks it.
func clipStored(s string) string {
	n := MaxText - len(cutOff) - len("9223372036854775807")
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + fmt.Sprintf(cutOff, len(s)-n)
}

// clipSelector returns the selector, of one that is too long its first parts and, where
// a requirement would be, how many it leaves out.
func clipSelector(s *recommender.LabelSelector) *recommender.LabelSelector {
	if s.Size() <= MaxText {
		return s
	}
	room := MaxText - 64 // for the mark
	for i := range s.MatchLabels {
		if room -= s.MatchLabels[i].Size(); room < 0 {
			return cut(s, i, 0)
		}
	}
	for i := range s.MatchExpressions {
		if room -= s.MatchExpressions[i].Size(); room < 0 {
			return cut(s, len(s.MatchLabels), i)
		}
	}
	return s
}

// cut keeps so many labels and requirements.
func cut(s *recommender.LabelSelector, labels, requirements int) *recommender.LabelSelector {
	left := len(s.MatchLabels) - labels + len(s.MatchExpressions) - requirements
	mark := recommender.LabelRequirement{Key: fmt.Sprintf("... (%d more)", left), Operator: "Exists"}
	return &recommender.LabelSelector{
		MatchLabels:      s.MatchLabels[:labels],
		MatchExpressions: append(s.MatchExpressions[:requirements:requirements], mark),
	}
}
