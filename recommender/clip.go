package recommender

import (
	"fmt"
	"unicode/utf8"
)

// MaxStoredText is how many bytes are stored of one text, and of one selector: names,
// conditions' messages, errors. Whoever asks is answered in full; what is stored is for
// those who look later, and for decisions on which no text has a say.
const MaxStoredText = 4 << 10

// cutOff is the mark of what a text was cut to.
const cutOff = "... (%d bytes more)"

// clipStored cuts a text that is too long, between characters, and marks it.
func clipStored(s string) string {
	n := MaxStoredText - len(cutOff) - len("9223372036854775807")
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + fmt.Sprintf(cutOff, len(s)-n)
}

// clipSelector returns the selector, of one that is too long its first parts and, where
// a requirement would be, how many it leaves out.
func clipSelector(s *LabelSelector) *LabelSelector {
	if s.size() <= MaxStoredText {
		return s
	}
	room := MaxStoredText - 64 // for the mark
	for i := range s.MatchLabels {
		if room -= s.MatchLabels[i].size(); room < 0 {
			return s.cut(i, 0)
		}
	}
	for i := range s.MatchExpressions {
		if room -= s.MatchExpressions[i].size(); room < 0 {
			return s.cut(len(s.MatchLabels), i)
		}
	}
	return s
}

// The sizes are about what is stored.

func (s *LabelSelector) size() (bytes int) {
	for i := range s.MatchLabels {
		bytes += s.MatchLabels[i].size()
	}
	for i := range s.MatchExpressions {
		bytes += s.MatchExpressions[i].size()
	}
	return bytes
}

func (l *Label) size() int { return len(l.Key) + len(l.Value) + 4 }

func (r *LabelRequirement) size() int {
	n := len(r.Key) + len(r.Operator) + 6
	for _, v := range r.Values {
		n += len(v) + 2
	}
	return n
}

// cut keeps so many labels and requirements.
func (s *LabelSelector) cut(labels, requirements int) *LabelSelector {
	left := len(s.MatchLabels) - labels + len(s.MatchExpressions) - requirements
	mark := LabelRequirement{Key: fmt.Sprintf("... (%d more)", left), Operator: "Exists"}
	return &LabelSelector{
		MatchLabels:      s.MatchLabels[:labels],
		MatchExpressions: append(s.MatchExpressions[:requirements:requirements], mark),
	}
}
